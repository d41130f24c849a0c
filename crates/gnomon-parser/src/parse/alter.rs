//! ALTER.

use super::{Parser, create, ddl, from, name, option, routine, session, unsupported};
use crate::{
    Statement,
    ast::{
        AlterAction, AlterColumn, AlterOwner, AlterSequence, AlterTable, Ident, ObjectKind, OwnedObject,
        RelationName, Rename, RenamedPart, SequenceOptionKind, SettingDefault, SettingName, SettingValue,
    },
    error::{Error, ErrorKind, Result},
    keyword::Keyword as K,
    lexer::Kind,
};

pub(super) fn alter(p: &mut Parser<'_, '_>) -> Result<Statement> {
    let position = p.expect(K::Alter)?.position();
    let kind = match p.keyword() {
        Some(K::Table) => ObjectKind::Table,
        Some(K::Index) => ObjectKind::Index,
        Some(K::Sequence) => ObjectKind::Sequence,
        Some(K::View) => ObjectKind::View,
        Some(K::Materialized) if p.is_at(1, K::View) => {
            p.bump();
            ObjectKind::MaterializedView
        }
        Some(K::Role | K::User | K::Database) if !p.is_at(1, K::Mapping) => {
            return setting_default(p, position);
        }
        Some(K::Schema | K::Procedure) => return alter_owner(p, position),
        Some(K::Cast | K::Access | K::Owned | K::Transform) => return p.fail(),
        _ => return unsupported::unsupported_object(p, "ALTER", position),
    };
    p.bump();
    if p.is(K::All) && p.is_at(1, K::In) && kind != ObjectKind::Sequence && kind != ObjectKind::View {
        return p.unsupported("ALTER ... ALL IN TABLESPACE", position);
    }
    let if_exists = option::if_exists(p);
    let relation = match kind {
        ObjectKind::Table => from::relation_expr(p)?,
        _ => crate::ast::RelationReference {
            name: p.relation_name()?,
            is_only: false,
            alias: None,
            sample: None,
        },
    };
    let (name, is_only) = (relation.name, relation.is_only);
    if p.take(K::Rename) {
        let part = renamed_part(p, kind)?;
        p.expect(K::To)?;
        let to = p.name()?;
        return Ok(Statement::Rename(Rename { kind, name, is_only, if_exists, part, to }));
    }
    if kind == ObjectKind::Sequence && begins_sequence_option(p) {
        let options = ddl::sequence_options(p)?;
        return Ok(Statement::AlterSequence(AlterSequence { name, if_exists, options }));
    }
    let at = p.position();
    let depends = p.is(K::Depends) || p.is(K::No) && p.is_at(1, K::Depends);
    if depends && matches!(kind, ObjectKind::Index | ObjectKind::MaterializedView) {
        return p.unsupported("DEPENDS ON EXTENSION", at);
    }
    let first = p.peek();
    let single = match p.keyword() {
        Some(K::Set) if p.is_at(1, K::Schema) && kind != ObjectKind::Index => {
            p.bump();
            p.bump();
            Some(AlterAction::SetSchema(p.name()?))
        }
        Some(K::Attach) if matches!(kind, ObjectKind::Table | ObjectKind::Index) => {
            p.bump();
            p.expect(K::Partition)?;
            let partition = p.relation_name()?;
            let bound = match kind {
                ObjectKind::Index => crate::ast::PartitionBound::Default(first.position()),
                _ => create::partition_bound(p)?,
            };
            Some(AlterAction::AttachPartition(partition, bound))
        }
        Some(K::Detach) if kind == ObjectKind::Table => {
            p.bump();
            p.expect(K::Partition)?;
            let partition = p.relation_name()?;
            let is_concurrent = p.take(K::Concurrently);
            let is_finalize = !is_concurrent && p.take(K::Finalize);
            Some(AlterAction::DetachPartition { name: partition, is_concurrent, is_finalize })
        }
        _ => None,
    };
    let actions = match single {
        Some(action) => vec![action],
        None => p.list(alter_action)?,
    };
    Ok(Statement::AlterTable(AlterTable { kind, name, is_only, if_exists, actions }))
}

/// ALTER SCHEMA and ALTER PROCEDURE, of which the tree has OWNER TO, and RENAME of the former.
fn alter_owner(p: &mut Parser<'_, '_>, position: crate::Position) -> Result<Statement> {
    let (object, what) = match p.bump().keyword() {
        Some(K::Schema) => (OwnedObject::Schema(p.name()?), "ALTER SCHEMA"),
        _ => (OwnedObject::Procedure(routine::routine_name(p)?), "ALTER PROCEDURE"),
    };
    if let OwnedObject::Schema(name) = &object
        && p.take_all(&[K::Rename, K::To])?
    {
        let name = RelationName { catalog: None, schema: None, name: name.clone() };
        let rename = Rename {
            kind: ObjectKind::Schema,
            name,
            is_only: false,
            if_exists: false,
            part: None,
            to: p.name()?,
        };
        return Ok(Statement::Rename(rename));
    }
    if !p.take_all(&[K::Owner, K::To])? {
        return p.unsupported(what, position);
    }
    let owner = name::role(p)?;
    Ok(Statement::AlterOwner(AlterOwner { object, owner }))
}

fn begins_sequence_option(p: &mut Parser<'_, '_>) -> bool {
    match p.keyword() {
        Some(K::No) => matches!(p.keyword_at(1), Some(K::Cycle | K::Maxvalue | K::Minvalue)),
        Some(
            K::As
            | K::Cache
            | K::Cycle
            | K::Increment
            | K::Logged
            | K::Unlogged
            | K::Maxvalue
            | K::Minvalue
            | K::Sequence
            | K::Start
            | K::Restart
            | K::Owned,
        ) => true,
        _ => false,
    }
}

/// The object of RENAME, but for the relation itself.
fn renamed_part(p: &mut Parser<'_, '_>, kind: ObjectKind) -> Result<Option<RenamedPart>> {
    if p.is(K::To) || matches!(kind, ObjectKind::Index | ObjectKind::Sequence) {
        return Ok(None);
    }
    if kind == ObjectKind::Table && p.take(K::Constraint) {
        return Ok(Some(RenamedPart::Constraint(p.name()?)));
    }
    p.take(K::Column);
    Ok(Some(RenamedPart::Column(p.name()?)))
}

/// An action of ALTER TABLE (alter_table_cmd).
fn alter_action(p: &mut Parser<'_, '_>) -> Result<AlterAction> {
    let position = p.position();
    let other = |words| Ok(AlterAction::Other { words, position });
    let Some(keyword) = p.keyword() else { return p.fail() };
    match keyword {
        K::Add => {
            p.bump();
            let begins_constraint = match p.keyword() {
                Some(K::Constraint | K::Check | K::Unique | K::Primary | K::Foreign) => true,
                Some(K::Exclude) => p.is_char_at(1, '(') || p.is_at(1, K::Using),
                _ => false,
            };
            if begins_constraint {
                return Ok(AlterAction::AddConstraint(Box::new(create::table_constraint(p)?)));
            }
            p.take(K::Column);
            let if_not_exists = option::if_not_exists(p)?;
            let column = Box::new(create::column_definition(p)?);
            Ok(AlterAction::AddColumn { if_not_exists, column })
        }
        K::Drop => {
            p.bump();
            if p.take(K::Constraint) {
                let if_exists = option::if_exists(p);
                let name = p.name()?;
                let is_cascade = option::cascade(p);
                return Ok(AlterAction::DropConstraint { name, if_exists, is_cascade });
            }
            p.take(K::Column);
            let if_exists = option::if_exists(p);
            let name = p.name()?;
            let is_cascade = option::cascade(p);
            Ok(AlterAction::DropColumn { name, if_exists, is_cascade })
        }
        K::Alter => {
            p.bump();
            if p.take(K::Constraint) {
                let name = p.name()?;
                let attributes = create::attributes_of(p, "FOREIGN KEY", true, false, false)?;
                return Ok(AlterAction::AlterConstraint { name, attributes });
            }
            p.take(K::Column);
            if p.peek().kind == Kind::Integer {
                let at = p.position();
                let number = p.integer()?;
                if !(1..=i32::from(i16::MAX)).contains(&number) {
                    let message = format!("column number must be in range from 1 to {}", i16::MAX);
                    return Err(Error::new(ErrorKind::InvalidParameter, message, at));
                }
                p.expect_all(&[K::Set, K::Statistics])?;
                name::signed_integer(p)?;
                return other("ALTER COLUMN ... SET STATISTICS");
            }
            let name = p.name()?;
            let action = alter_column(p)?;
            Ok(AlterAction::AlterColumn { name, action })
        }
        K::Validate => {
            p.bump();
            p.expect(K::Constraint)?;
            Ok(AlterAction::ValidateConstraint(p.name()?))
        }
        K::Set => {
            p.bump();
            match p.keyword() {
                Some(K::Without) => {
                    p.bump();
                    if p.take(K::Cluster) {
                        return Ok(AlterAction::ClusterOn(None));
                    }
                    p.expect(K::Oids)?;
                    other("SET WITHOUT OIDS")
                }
                Some(K::Logged) => {
                    p.bump();
                    other("SET LOGGED")
                }
                Some(K::Unlogged) => {
                    p.bump();
                    other("SET UNLOGGED")
                }
                Some(K::Access) => {
                    p.bump();
                    p.expect(K::Method)?;
                    p.name()?;
                    other("SET ACCESS METHOD")
                }
                Some(K::Tablespace) => {
                    p.bump();
                    p.name()?;
                    other("SET TABLESPACE")
                }
                _ => Ok(AlterAction::SetOptions(option::relation_options(p)?)),
            }
        }
        K::Reset => {
            p.bump();
            Ok(AlterAction::ResetOptions(option::relation_options(p)?))
        }
        K::Cluster => {
            p.bump();
            p.expect(K::On)?;
            Ok(AlterAction::ClusterOn(Some(p.name()?)))
        }
        K::Enable | K::Disable => enable(p, keyword, position),
        K::Inherit | K::No if keyword == K::Inherit || p.is_at(1, K::Inherit) => {
            let is_removed = p.take(K::No);
            p.bump();
            Ok(AlterAction::Inherit { parent: p.relation_name()?, is_removed })
        }
        K::Force | K::No => {
            p.take(K::No);
            p.expect_all(&[K::Force, K::Row, K::Level, K::Security])?;
            other("FORCE ROW LEVEL SECURITY")
        }
        K::Of => {
            p.bump();
            p.qualified_name()?;
            other("OF")
        }
        K::Not => {
            p.bump();
            p.expect(K::Of)?;
            other("NOT OF")
        }
        K::Owner => {
            p.bump();
            p.expect(K::To)?;
            Ok(AlterAction::OwnerTo(name::role(p)?))
        }
        K::Replica => {
            p.bump();
            p.expect(K::Identity)?;
            let kind = match p.keyword() {
                Some(K::Nothing | K::Full | K::Default) => p.any_word()?,
                _ => {
                    p.expect_all(&[K::Using, K::Index])?;
                    p.name()?
                }
            };
            Ok(AlterAction::ReplicaIdentity(kind))
        }
        K::Options => {
            p.bump();
            unsupported::skip_parens(p)?;
            other("OPTIONS")
        }
        _ => p.fail(),
    }
}

/// ENABLE and DISABLE of triggers, rules and row security.
fn enable(p: &mut Parser<'_, '_>, keyword: K, position: crate::Position) -> Result<AlterAction> {
    p.bump();
    let words = match p.keyword() {
        Some(K::Row) => {
            p.expect_all(&[K::Row, K::Level, K::Security])?;
            match keyword {
                K::Enable => "ENABLE ROW LEVEL SECURITY",
                _ => "DISABLE ROW LEVEL SECURITY",
            }
        }
        _ => {
            let only = keyword == K::Enable && (p.take(K::Always) || p.take(K::Replica));
            let is_rule = p.take(K::Rule);
            if !is_rule {
                p.expect(K::Trigger)?;
            }
            if !is_rule && !only && matches!(p.keyword(), Some(K::All | K::User)) {
                p.bump();
                return Ok(AlterAction::AllTriggers { is_enabled: keyword == K::Enable });
            }
            p.name()?;
            match (keyword, is_rule) {
                (K::Enable, true) => "ENABLE RULE",
                (K::Enable, false) => "ENABLE TRIGGER",
                (_, true) => "DISABLE RULE",
                (_, false) => "DISABLE TRIGGER",
            }
        }
    };
    Ok(AlterAction::Other { words, position })
}

fn alter_column(p: &mut Parser<'_, '_>) -> Result<AlterColumn> {
    let position = p.position();
    let other = |words| Ok(AlterColumn::Other { words, position });
    match p.keyword() {
        Some(K::Add) => {
            p.bump();
            p.expect(K::Generated)?;
            let is_always = create::generated_when(p)?;
            p.expect_all(&[K::As, K::Identity])?;
            let options = ddl::sequence_options_in_parens(p)?;
            Ok(AlterColumn::AddIdentity { is_always, options })
        }
        Some(K::Drop) => {
            p.bump();
            match p.keyword() {
                Some(K::Default) => {
                    p.bump();
                    Ok(AlterColumn::DropDefault)
                }
                Some(K::Not) => {
                    p.bump();
                    p.expect(K::Null)?;
                    Ok(AlterColumn::DropNotNull)
                }
                Some(K::Expression) => {
                    p.bump();
                    option::if_exists(p);
                    other("ALTER COLUMN ... DROP EXPRESSION")
                }
                _ => {
                    p.expect(K::Identity)?;
                    Ok(AlterColumn::DropIdentity { if_exists: option::if_exists(p) })
                }
            }
        }
        Some(K::Type) => alter_type(p),
        Some(K::Set) if p.is_at(1, K::Data) => {
            p.bump();
            p.bump();
            alter_type(p)
        }
        Some(K::Set) => match p.keyword_at(1) {
            Some(K::Default) => {
                p.bump();
                p.bump();
                Ok(AlterColumn::SetDefault(p.expr()?))
            }
            Some(K::Not) => {
                p.bump();
                p.bump();
                p.expect(K::Null)?;
                Ok(AlterColumn::SetNotNull)
            }
            Some(K::Statistics) => {
                p.bump();
                p.bump();
                name::signed_integer(p)?;
                other("ALTER COLUMN ... SET STATISTICS")
            }
            Some(K::Storage) => {
                p.bump();
                p.bump();
                p.name()?;
                other("ALTER COLUMN ... SET STORAGE")
            }
            Some(K::Compression) => {
                p.bump();
                p.bump();
                if !p.take(K::Default) {
                    p.name()?;
                }
                other("ALTER COLUMN ... SET COMPRESSION")
            }
            _ if p.is_char_at(1, '(') => {
                p.bump();
                option::relation_options(p)?;
                other("ALTER COLUMN ... SET (...)")
            }
            _ => alter_identity(p),
        },
        Some(K::Reset) => {
            p.bump();
            option::relation_options(p)?;
            other("ALTER COLUMN ... RESET (...)")
        }
        Some(K::Options) => {
            p.bump();
            unsupported::skip_parens(p)?;
            other("ALTER COLUMN ... OPTIONS")
        }
        _ => alter_identity(p),
    }
}

fn alter_type(p: &mut Parser<'_, '_>) -> Result<AlterColumn> {
    p.expect(K::Type)?;
    let ty = p.type_name()?;
    let collation = if p.take(K::Collate) { Some(p.qualified_name()?) } else { None };
    let using = if p.take(K::Using) { Some(p.expr()?) } else { None };
    Ok(AlterColumn::Type { ty, collation, using })
}

/// RESTART, SET GENERATED, and SET options of the sequence of an identity column.
fn alter_identity(p: &mut Parser<'_, '_>) -> Result<AlterColumn> {
    let (mut is_always, mut options) = (None, Vec::new());
    loop {
        match p.keyword() {
            Some(K::Restart) => options.extend(ddl::sequence_option(p)?),
            Some(K::Set) => {
                p.bump();
                if p.take(K::Generated) {
                    is_always = Some(create::generated_when(p)?);
                    continue;
                }
                match ddl::sequence_option(p)? {
                    Some(option) => {
                        let at = option.position;
                        let may_be_set = !matches!(
                            option.kind,
                            SequenceOptionKind::As(_)
                                | SequenceOptionKind::OwnedBy(_)
                                | SequenceOptionKind::Restart(_)
                        );
                        if !may_be_set {
                            let message = "sequence option not supported here";
                            return Err(Error::syntax(message, at));
                        }
                        options.push(option);
                    }
                    None => return p.fail(),
                }
            }
            _ if is_always.is_none() && options.is_empty() => return p.fail(),
            _ => return Ok(AlterColumn::SetIdentity { is_always, options }),
        }
    }
}

/// ALTER ROLE, USER or DATABASE: SET and RESET, or what has no tree.
fn setting_default(p: &mut Parser<'_, '_>, position: crate::Position) -> Result<Statement> {
    let is_database = p.is(K::Database);
    let kind = p.bump();
    let name: Option<Ident> = match !is_database && p.take(K::All) {
        true => None,
        false if is_database => Some(p.name()?),
        false => Some(name::role(p)?),
    };
    let mut database = None;
    if !is_database && p.take_all(&[K::In, K::Database])? {
        database = Some(p.name()?);
    }
    let is_tablespace = is_database && p.is_at(1, K::Tablespace) && !p.is_at(2, K::To);
    let (setting, value): (SettingName, Option<SettingValue>) = match p.keyword() {
        Some(K::Reset) => (session::reset_setting(p)?, None),
        Some(K::Set) if !is_tablespace => {
            p.bump();
            if p.is(K::Transaction) {
                p.refuse("SET TRANSACTION of a role or database", position);
            }
            let (setting, value) = session::setting(p)?;
            (SettingName::One(setting), Some(value))
        }
        _ => {
            let kind = kind.keyword().map_or("", K::text).to_ascii_uppercase();
            return p.unsupported(format!("ALTER {kind}"), position);
        }
    };
    Ok(Statement::SettingDefault(SettingDefault { is_database, name, database, setting, value }))
}
