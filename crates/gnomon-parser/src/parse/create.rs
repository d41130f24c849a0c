//! CREATE TABLE and CREATE TABLE AS, with columns and constraints.

use super::{Parser, cursor, ddl, name, option, routine, unsupported};
use crate::{
    Position, Statement,
    ast::{
        ColumnDefinition, Constraint, ConstraintAttributes, ConstraintKind, CreateTable, CreateTableAs,
        DefinitionItem, Exclude, ForeignKey, ForeignKeyAction, ForeignKeyMatch, Ident, IndexConstraint,
        OnCommit, OperatorName, PartitionBound, PartitionBy, Persistence, RelationName, TableElement,
        TableLike,
    },
    error::{Error, ErrorKind, Result},
    keyword::Keyword as K,
};

/// The clauses behind the elements of a table.
struct TableOptions {
    access_method: Option<Ident>,
    options: Vec<DefinitionItem>,
    on_commit: Option<OnCommit>,
    tablespace: Option<Ident>,
}

pub(super) fn create(p: &mut Parser<'_, '_>) -> Result<Statement> {
    let position = p.expect(K::Create)?.position();
    let or_replace = p.take_all(&[K::Or, K::Replace])?;
    if or_replace {
        return match p.keyword() {
            Some(K::Procedure) => routine::create_procedure(p, true),
            Some(
                K::Function
                | K::Aggregate
                | K::Rule
                | K::Trigger
                | K::Constraint
                | K::Language
                | K::Trusted
                | K::Procedural
                | K::Transform,
            ) => unsupported::unsupported_object(p, "CREATE", position),
            _ => {
                let persistence = persistence(p);
                ddl::create_view(p, true, persistence)
            }
        };
    }
    let persistence = persistence(p);
    match p.keyword() {
        Some(K::Table) => create_table(p, persistence),
        Some(K::View | K::Recursive) => ddl::create_view(p, false, persistence),
        Some(K::Sequence) => ddl::create_sequence(p, persistence),
        Some(K::Materialized) if persistence != Persistence::Temporary => {
            unsupported::unsupported_object(p, "CREATE", position)
        }
        _ if persistence != Persistence::Permanent => p.fail(),
        Some(K::Unique | K::Index) => ddl::create_index(p),
        Some(K::Schema) => ddl::create_schema(p),
        Some(K::Extension) => ddl::create_extension(p),
        Some(K::Procedure) => routine::create_procedure(p, false),
        Some(K::System | K::Owned | K::Routine | K::Large) => p.fail(),
        _ => unsupported::unsupported_object(p, "CREATE", position),
    }
}

fn persistence(p: &mut Parser<'_, '_>) -> Persistence {
    if matches!(p.keyword(), Some(K::Local | K::Global))
        && matches!(p.keyword_at(1), Some(K::Temporary | K::Temp))
    {
        p.bump();
    }
    if p.take(K::Temporary) || p.take(K::Temp) {
        Persistence::Temporary
    } else if p.take(K::Unlogged) {
        Persistence::Unlogged
    } else {
        Persistence::Permanent
    }
}

pub(super) fn create_table(p: &mut Parser<'_, '_>, persistence: Persistence) -> Result<Statement> {
    p.expect(K::Table)?;
    let if_not_exists = option::if_not_exists(p)?;
    let name = p.relation_name()?;
    let mut table = CreateTable {
        name,
        persistence,
        if_not_exists,
        elements: Vec::new(),
        inherits: Vec::new(),
        of_type: None,
        partition_of: None,
        partition_by: None,
        access_method: None,
        options: Vec::new(),
        on_commit: None,
        tablespace: None,
    };
    if p.take(K::Of) {
        table.of_type = Some(p.qualified_name()?);
        table.elements = typed_elements(p)?;
    } else if p.is(K::Partition) {
        p.bump();
        p.expect(K::Of)?;
        let parent = p.relation_name()?;
        table.elements = typed_elements(p)?;
        table.partition_of = Some((parent, partition_bound(p)?));
    } else if p.is_char('(') && !begins_column_names(p) {
        p.bump();
        if !p.is_char(')') {
            table.elements = p.list(table_element)?;
        }
        p.expect_char(')')?;
        if p.take(K::Inherits) {
            table.inherits = p.parens(Parser::relation_name)?;
        }
    } else {
        return create_table_as(p, table.name, persistence, if_not_exists);
    }
    if p.is(K::Partition) {
        table.partition_by = Some(partition_by(p)?);
    }
    let TableOptions { access_method, options, on_commit, tablespace } = table_options(p)?;
    let table = CreateTable { access_method, options, on_commit, tablespace, ..table };
    Ok(Statement::CreateTable(Box::new(table)))
}

/// True if bare names stand in the parenthesis that is next, as in CREATE TABLE AS.
fn begins_column_names(p: &mut Parser<'_, '_>) -> bool {
    p.is_name_at(1) && (p.is_char_at(2, ',') || p.is_char_at(2, ')'))
}

fn create_table_as(
    p: &mut Parser<'_, '_>,
    name: RelationName,
    persistence: Persistence,
    if_not_exists: bool,
) -> Result<Statement> {
    let columns = p.optional_names()?;
    let TableOptions { access_method, options, on_commit, tablespace } = table_options(p)?;
    p.expect(K::As)?;
    let source = match p.is(K::Execute) {
        true => cursor::execute(p)?,
        false => Statement::Query(Box::new(p.query()?)),
    };
    let mut with_data = true;
    if p.take(K::With) {
        with_data = !p.take(K::No);
        p.expect(K::Data)?;
    }
    Ok(Statement::CreateTableAs(Box::new(CreateTableAs {
        name,
        persistence,
        if_not_exists,
        columns,
        access_method,
        options,
        on_commit,
        tablespace,
        source,
        with_data,
        is_select_into: false,
    })))
}

fn table_options(p: &mut Parser<'_, '_>) -> Result<TableOptions> {
    let access_method = if p.take(K::Using) { Some(p.name()?) } else { None };
    let mut options = Vec::new();
    if p.take(K::With) {
        options = option::relation_options(p)?;
    } else {
        p.take_all(&[K::Without, K::Oids])?;
    }
    let mut on_commit = None;
    if p.take_all(&[K::On, K::Commit])? {
        on_commit = Some(if p.take(K::Drop) {
            OnCommit::Drop
        } else if p.take_all(&[K::Delete, K::Rows])? {
            OnCommit::DeleteRows
        } else {
            p.expect_all(&[K::Preserve, K::Rows])?;
            OnCommit::PreserveRows
        });
    }
    let tablespace = if p.take(K::Tablespace) { Some(p.name()?) } else { None };
    Ok(TableOptions { access_method, options, on_commit, tablespace })
}

/// The elements of a typed table or a partition: columns have no types.
fn typed_elements(p: &mut Parser<'_, '_>) -> Result<Vec<TableElement>> {
    if !p.is_char('(') {
        return Ok(Vec::new());
    }
    p.parens(|p| {
        if begins_constraint(p) {
            return Ok(TableElement::Constraint(Box::new(table_constraint(p)?)));
        }
        let name = p.name()?;
        p.take_all(&[K::With, K::Options])?;
        let mut column =
            ColumnDefinition { name, ty: None, compression: None, collation: None, constraints: Vec::new() };
        column_constraints(p, &mut column)?;
        Ok(TableElement::Column(Box::new(column)))
    })
}

fn begins_constraint(p: &mut Parser<'_, '_>) -> bool {
    match p.keyword() {
        Some(K::Constraint | K::Check | K::Unique | K::Primary | K::Foreign) => true,
        Some(K::Exclude) => p.is_char_at(1, '(') || p.is_at(1, K::Using),
        _ => false,
    }
}

fn table_element(p: &mut Parser<'_, '_>) -> Result<TableElement> {
    if begins_constraint(p) {
        return Ok(TableElement::Constraint(Box::new(table_constraint(p)?)));
    }
    if p.take(K::Like) {
        let table = p.relation_name()?;
        let mut options = Vec::new();
        while let Some(keyword @ (K::Including | K::Excluding)) = p.keyword() {
            p.bump();
            match p.keyword() {
                Some(
                    K::Comments
                    | K::Compression
                    | K::Constraints
                    | K::Defaults
                    | K::Identity
                    | K::Generated
                    | K::Indexes
                    | K::Statistics
                    | K::Storage
                    | K::All,
                ) => options.push((keyword == K::Including, p.any_word()?)),
                _ => return p.fail(),
            }
        }
        return Ok(TableElement::Like(TableLike { table, options }));
    }
    Ok(TableElement::Column(Box::new(column_definition(p)?)))
}

pub(super) fn column_definition(p: &mut Parser<'_, '_>) -> Result<ColumnDefinition> {
    let name = p.name()?;
    let ty = Some(p.type_name()?);
    let compression = if p.take(K::Compression) {
        Some(if p.is(K::Default) { p.any_word()? } else { p.name()? })
    } else {
        None
    };
    if p.is(K::Options) {
        let position = p.bump().position();
        p.refuse("OPTIONS of a column", position);
        unsupported::skip_parens(p)?;
    }
    let mut column = ColumnDefinition { name, ty, compression, collation: None, constraints: Vec::new() };
    column_constraints(p, &mut column)?;
    Ok(column)
}

fn column_constraints(p: &mut Parser<'_, '_>, column: &mut ColumnDefinition) -> Result<()> {
    loop {
        let position = p.position();
        if p.take(K::Collate) {
            let collation = p.qualified_name()?;
            if column.collation.replace(collation).is_some() {
                return Err(Error::syntax("multiple COLLATE clauses not allowed", position));
            }
            continue;
        }
        if begins_attribute(p) {
            let mut attributes = ConstraintAttributes::default();
            attribute(p, &mut attributes)?;
            let Some(last) = column.constraints.last_mut() else {
                let what = match attributes.is_initially_deferred {
                    Some(true) => "INITIALLY DEFERRED",
                    Some(false) => "INITIALLY IMMEDIATE",
                    None if attributes.is_deferrable == Some(false) => "NOT DEFERRABLE",
                    None => "DEFERRABLE",
                };
                return Err(Error::syntax(format!("misplaced {what} clause"), position));
            };
            let of = &mut last.attributes;
            of.is_deferrable = of.is_deferrable.or(attributes.is_deferrable);
            of.is_initially_deferred = of.is_initially_deferred.or(attributes.is_initially_deferred);
            of.position.get_or_insert(position);
            continue;
        }
        let name = if p.take(K::Constraint) { Some(p.name()?) } else { None };
        let Some((kind, attributes)) = column_constraint(p)? else {
            return if name.is_some() { p.fail() } else { Ok(()) };
        };
        column.constraints.push(Constraint { name, kind, attributes, position });
    }
}

fn column_constraint(p: &mut Parser<'_, '_>) -> Result<Option<(ConstraintKind, ConstraintAttributes)>> {
    let mut attributes = ConstraintAttributes::default();
    let kind = match p.keyword() {
        Some(K::Not) => {
            p.bump();
            p.expect(K::Null)?;
            ConstraintKind::NotNull
        }
        Some(K::Null) => {
            p.bump();
            ConstraintKind::Null
        }
        Some(K::Unique) => {
            p.bump();
            let is_nulls_not_distinct = ddl::nulls_not_distinct(p)?;
            let (options, tablespace) = index_definition(p)?;
            ConstraintKind::Unique(IndexConstraint {
                is_nulls_not_distinct,
                options,
                tablespace,
                ..IndexConstraint::default()
            })
        }
        Some(K::Primary) => {
            p.bump();
            p.expect(K::Key)?;
            let (options, tablespace) = index_definition(p)?;
            ConstraintKind::PrimaryKey(IndexConstraint { options, tablespace, ..IndexConstraint::default() })
        }
        Some(K::Check) => {
            p.bump();
            p.expect_char('(')?;
            let expr = p.nested(Parser::expr)?;
            p.expect_char(')')?;
            attributes.is_no_inherit = p.take_all(&[K::No, K::Inherit])?;
            ConstraintKind::Check(expr)
        }
        Some(K::Default) => {
            p.bump();
            ConstraintKind::Default(p.simple_expr()?)
        }
        Some(K::Generated) => {
            p.bump();
            let at = p.position();
            let is_always = generated_when(p)?;
            p.expect(K::As)?;
            if p.take(K::Identity) {
                let options = ddl::sequence_options_in_parens(p)?;
                ConstraintKind::Identity { is_always, options }
            } else {
                p.expect_char('(')?;
                let expr = p.nested(Parser::expr)?;
                p.expect_char(')')?;
                p.expect(K::Stored)?;
                if !is_always {
                    let message = "for a generated column, GENERATED ALWAYS must be specified";
                    return Err(Error::syntax(message, at));
                }
                ConstraintKind::Generated(expr)
            }
        }
        Some(K::References) => ConstraintKind::ForeignKey(references(p, Vec::new())?),
        _ => return Ok(None),
    };
    Ok(Some((kind, attributes)))
}

pub(super) fn generated_when(p: &mut Parser<'_, '_>) -> Result<bool> {
    if p.take(K::Always) {
        return Ok(true);
    }
    p.expect_all(&[K::By, K::Default])?;
    Ok(false)
}

/// WITH and USING INDEX TABLESPACE of a constraint.
fn index_definition(p: &mut Parser<'_, '_>) -> Result<(Vec<DefinitionItem>, Option<Ident>)> {
    let options = if p.take(K::With) { option::relation_options(p)? } else { Vec::new() };
    let mut tablespace = None;
    if p.take_all(&[K::Using, K::Index, K::Tablespace])? {
        tablespace = Some(p.name()?);
    }
    Ok((options, tablespace))
}

fn references(p: &mut Parser<'_, '_>, columns: Vec<Ident>) -> Result<ForeignKey> {
    p.expect(K::References)?;
    let table = p.relation_name()?;
    let references = p.optional_names()?;
    let mut key = ForeignKey {
        columns,
        table,
        references,
        matching: ForeignKeyMatch::Simple,
        on_update: ForeignKeyAction::NoAction,
        on_delete: ForeignKeyAction::NoAction,
        on_delete_columns: Vec::new(),
    };
    if p.is(K::Match) {
        let position = p.bump().position();
        key.matching = match p.keyword() {
            Some(K::Full) => ForeignKeyMatch::Full,
            Some(K::Simple) => ForeignKeyMatch::Simple,
            Some(K::Partial) => {
                let message = "MATCH PARTIAL not yet implemented";
                return Err(Error::new(ErrorKind::Unsupported, message, position));
            }
            _ => return p.fail(),
        };
        p.bump();
    }
    let (mut has_update, mut has_delete) = (false, false);
    while p.is(K::On) {
        match p.keyword_at(1) {
            Some(K::Update) if !has_update => {
                has_update = true;
                let position = p.bump().position();
                p.bump();
                let (action, columns) = key_action(p)?;
                if !columns.is_empty() {
                    let what = if action == ForeignKeyAction::SetNull { "NULL" } else { "DEFAULT" };
                    let message =
                        format!("a column list with SET {what} is only supported for ON DELETE actions");
                    return Err(Error::new(ErrorKind::Unsupported, message, position));
                }
                key.on_update = action;
            }
            Some(K::Delete) if !has_delete => {
                has_delete = true;
                p.bump();
                p.bump();
                (key.on_delete, key.on_delete_columns) = key_action(p)?;
            }
            _ => {
                p.bump();
                return p.fail();
            }
        }
    }
    Ok(key)
}

fn key_action(p: &mut Parser<'_, '_>) -> Result<(ForeignKeyAction, Vec<Ident>)> {
    let action = match p.keyword() {
        Some(K::No) => {
            p.bump();
            p.expect(K::Action)?;
            return Ok((ForeignKeyAction::NoAction, Vec::new()));
        }
        Some(K::Restrict) => ForeignKeyAction::Restrict,
        Some(K::Cascade) => ForeignKeyAction::Cascade,
        Some(K::Set) => {
            p.bump();
            let action = match p.take(K::Null) {
                true => ForeignKeyAction::SetNull,
                false => {
                    p.expect(K::Default)?;
                    ForeignKeyAction::SetDefault
                }
            };
            return Ok((action, p.optional_names()?));
        }
        _ => return p.fail(),
    };
    p.bump();
    Ok((action, Vec::new()))
}

/// A constraint of a table (TableConstraint).
pub(super) fn table_constraint(p: &mut Parser<'_, '_>) -> Result<Constraint> {
    let position = p.position();
    let name = if p.take(K::Constraint) { Some(p.name()?) } else { None };
    let kind = match p.keyword() {
        Some(K::Check) => {
            p.bump();
            p.expect_char('(')?;
            let expr = p.nested(Parser::expr)?;
            p.expect_char(')')?;
            ConstraintKind::Check(expr)
        }
        Some(K::Unique) => {
            p.bump();
            let is_nulls_not_distinct = ddl::nulls_not_distinct(p)?;
            let index = index_constraint(p)?;
            ConstraintKind::Unique(IndexConstraint { is_nulls_not_distinct, ..index })
        }
        Some(K::Primary) => {
            p.bump();
            p.expect(K::Key)?;
            ConstraintKind::PrimaryKey(index_constraint(p)?)
        }
        Some(K::Foreign) => {
            p.bump();
            p.expect(K::Key)?;
            let columns = p.parens(Parser::name)?;
            ConstraintKind::ForeignKey(references(p, columns)?)
        }
        Some(K::Exclude) => ConstraintKind::Exclude(exclude(p)?),
        _ => return p.fail(),
    };
    let attributes = constraint_attributes(p, &kind)?;
    Ok(Constraint { name, kind, attributes, position })
}

fn index_constraint(p: &mut Parser<'_, '_>) -> Result<IndexConstraint> {
    if p.is(K::Using) {
        p.expect_all(&[K::Using, K::Index])?;
        return Ok(IndexConstraint { using_index: Some(p.name()?), ..IndexConstraint::default() });
    }
    let columns = p.parens(Parser::name)?;
    let include = if p.take(K::Include) { p.parens(Parser::name)? } else { Vec::new() };
    let (options, tablespace) = index_definition(p)?;
    Ok(IndexConstraint { columns, include, options, tablespace, ..IndexConstraint::default() })
}

fn exclude(p: &mut Parser<'_, '_>) -> Result<Exclude> {
    p.expect(K::Exclude)?;
    let access_method = if p.take(K::Using) { Some(p.name()?) } else { None };
    let elements = p.parens(|p| {
        let element = ddl::index_element(p)?;
        p.expect(K::With)?;
        let operator: OperatorName = match p.is(K::Operator) {
            true => name::operator_call(p)?,
            false => name::any_operator(p)?,
        };
        Ok((element, operator))
    })?;
    let include = if p.take(K::Include) { p.parens(Parser::name)? } else { Vec::new() };
    let (options, tablespace) = index_definition(p)?;
    let mut filter = None;
    if p.take(K::Where) {
        p.expect_char('(')?;
        filter = Some(p.nested(Parser::expr)?);
        p.expect_char(')')?;
    }
    Ok(Exclude { access_method, elements, include, options, tablespace, filter })
}

fn begins_attribute(p: &mut Parser<'_, '_>) -> bool {
    match p.keyword() {
        Some(K::Deferrable | K::Initially) => true,
        Some(K::Not) => matches!(p.keyword_at(1), Some(K::Deferrable)),
        _ => false,
    }
}

/// DEFERRABLE, INITIALLY DEFERRED, and their opposites.
fn attribute(p: &mut Parser<'_, '_>, attributes: &mut ConstraintAttributes) -> Result<()> {
    let position = p.position();
    let conflict = || Error::syntax("conflicting constraint properties", position);
    let must_defer = || Error::syntax("constraint declared INITIALLY DEFERRED must be DEFERRABLE", position);
    if p.take(K::Initially) {
        let is_deferred = p.take(K::Deferred);
        if !is_deferred {
            p.expect(K::Immediate)?;
        }
        if is_deferred && attributes.is_deferrable == Some(false) {
            return Err(must_defer());
        }
        if attributes.is_initially_deferred.replace(is_deferred).is_some_and(|was| was != is_deferred) {
            return Err(conflict());
        }
    } else {
        let is_deferrable = !p.take(K::Not);
        p.expect(K::Deferrable)?;
        if !is_deferrable && attributes.is_initially_deferred == Some(true) {
            return Err(must_defer());
        }
        if attributes.is_deferrable.replace(is_deferrable).is_some_and(|was| was != is_deferrable) {
            return Err(conflict());
        }
    }
    attributes.position.get_or_insert(position);
    Ok(())
}

/// The attributes behind a constraint of a table (ConstraintAttributeSpec).
fn constraint_attributes(p: &mut Parser<'_, '_>, kind: &ConstraintKind) -> Result<ConstraintAttributes> {
    match kind {
        ConstraintKind::Check(_) => attributes_of(p, "CHECK", false, true, true),
        ConstraintKind::Unique(_) => attributes_of(p, "UNIQUE", true, false, false),
        ConstraintKind::PrimaryKey(_) => attributes_of(p, "PRIMARY KEY", true, false, false),
        ConstraintKind::Exclude(_) => attributes_of(p, "EXCLUDE", true, false, false),
        _ => attributes_of(p, "FOREIGN KEY", true, true, false),
    }
}

/// The attributes of a kind of constraint that not all of them apply to.
pub(super) fn attributes_of(
    p: &mut Parser<'_, '_>,
    what: &str,
    may_defer: bool,
    may_be_invalid: bool,
    may_not_inherit: bool,
) -> Result<ConstraintAttributes> {
    let attributes = any_attributes(p)?;
    let defers = attributes.is_deferrable == Some(true) || attributes.is_initially_deferred == Some(true);
    let mark = if defers && !may_defer {
        "DEFERRABLE"
    } else if attributes.is_not_valid && !may_be_invalid {
        "NOT VALID"
    } else if attributes.is_no_inherit && !may_not_inherit {
        "NO INHERIT"
    } else {
        return Ok(attributes);
    };
    let message = format!("{what} constraints cannot be marked {mark}");
    Err(Error::new(ErrorKind::Unsupported, message, Position::NONE))
}

fn any_attributes(p: &mut Parser<'_, '_>) -> Result<ConstraintAttributes> {
    let mut attributes = ConstraintAttributes::default();
    loop {
        let position = p.position();
        if begins_attribute(p) {
            attribute(p, &mut attributes)?;
        } else if p.take_all(&[K::Not, K::Valid])? {
            attributes.is_not_valid = true;
            attributes.position.get_or_insert(position);
        } else if p.take_all(&[K::No, K::Inherit])? {
            attributes.is_no_inherit = true;
            attributes.position.get_or_insert(position);
        } else {
            return Ok(attributes);
        }
    }
}

fn partition_by(p: &mut Parser<'_, '_>) -> Result<PartitionBy> {
    let position = p.expect(K::Partition)?.position();
    p.expect(K::By)?;
    let strategy = p.name()?;
    let elements = p.parens(ddl::partition_element)?;
    Ok(PartitionBy { strategy, elements, position })
}

/// FOR VALUES, or DEFAULT (PartitionBoundSpec).
pub(super) fn partition_bound(p: &mut Parser<'_, '_>) -> Result<PartitionBound> {
    let position = p.position();
    if p.take(K::Default) {
        return Ok(PartitionBound::Default(position));
    }
    p.expect_all(&[K::For, K::Values])?;
    let position = p.position();
    if p.take(K::In) {
        return Ok(PartitionBound::List(p.parens(Parser::expr)?, position));
    }
    if p.take(K::From) {
        let from = p.parens(Parser::expr)?;
        p.expect(K::To)?;
        return Ok(PartitionBound::Range { from, to: p.parens(Parser::expr)?, position });
    }
    p.expect(K::With)?;
    let (mut modulus, mut remainder) = (None, None);
    let items = p.parens(|p| Ok((p.non_reserved_word()?, p.integer()?)))?;
    let error = |message: String, at: Position| Err(Error::syntax(message, at));
    for (word, number) in items {
        let of = match &*word.name {
            "modulus" => &mut modulus,
            "remainder" => &mut remainder,
            other => {
                let message = format!("unrecognized hash partition bound specification \"{other}\"");
                return error(message, word.position);
            }
        };
        if of.replace(number).is_some() {
            let message = format!("{} for hash partition provided more than once", word.name);
            return Err(Error::new(ErrorKind::DuplicateObject, message, word.position));
        }
    }
    match (modulus, remainder) {
        (Some(modulus), Some(remainder)) => Ok(PartitionBound::Hash { modulus, remainder, position }),
        (None, _) => error("modulus for hash partition must be specified".into(), Position::NONE),
        (_, None) => error("remainder for hash partition must be specified".into(), Position::NONE),
    }
}
