//! LIKE in CREATE TABLE: the columns of a relation, and what INCLUDING says of it.

use std::sync::Arc;

use gnomon_parser::{
    Position,
    ast::{RelationName, TableLike},
};

use super::{
    Ddl,
    check::{names_row, with_bare_columns},
    column::sequence_name,
    constraint::{ConstraintSpec, add_constraint},
    index::{IndexKey, define_index},
    sequence::SequenceSpec,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        Relation,
        model::{Check, Column, Identity, Index, Oid, Table, derived_oid},
    },
    syntax::parse_expression,
};

/// The parts of a table that LIKE takes over beside its columns.
#[derive(Clone, Copy, Default)]
struct Included {
    comments: bool,
    constraints: bool,
    defaults: bool,
    identity: bool,
    indexes: bool,
}

impl Included {
    fn of(like: &TableLike) -> Included {
        let mut included = Included::default();
        for (is_included, word) in &like.options {
            let all = &*word.name == "all";
            let parts = [
                (&mut included.comments, "comments"),
                (&mut included.constraints, "constraints"),
                (&mut included.defaults, "defaults"),
                (&mut included.identity, "identity"),
                (&mut included.indexes, "indexes"),
            ];
            // No table has anything of the others: COMPRESSION, GENERATED, STATISTICS, STORAGE.
            for (part, _) in parts.into_iter().filter(|(_, name)| all || *name == &*word.name) {
                *part = *is_included;
            }
        }
        included
    }
}

/// A table that another one is like, whose constraints, indexes and comments follow when its columns are there.
pub(super) struct Model {
    table: Arc<Table>,
    included: Included,
    /// The identifiers of objects with comments, and of those that have them now.
    commented: Vec<(Oid, Oid)>,
}

/// Adds the columns of a LIKE to a table that is being defined. Returns the rest, if the source is a table.
pub(super) fn add_columns(ddl: &mut Ddl<'_>, table: &mut Table, like: &TableLike) -> Result<Option<Model>> {
    let included = Included::of(like);
    match source(ddl, &like.table)? {
        Relation::Table(source) => {
            for (_, column) in source.live_columns() {
                add_column(ddl, table, column, included)?;
            }
            Ok(Some(Model { table: source, included, commented: Vec::new() }))
        }
        Relation::View(view) => {
            for (name, ty) in &view.columns {
                let column = Column {
                    name: name.clone(),
                    ty: *ty,
                    collation: ty.ty.info().collation,
                    not_null: false,
                    default: None,
                    identity: None,
                    dropped: false,
                };
                add_column(ddl, table, &column, included)?;
            }
            Ok(None)
        }
        Relation::Sequence(_) | Relation::Index(..) => Ok(None),
    }
}

/// Returns the relation behind LIKE.
fn source(ddl: &Ddl<'_>, name: &RelationName) -> Result<Relation> {
    let position = name.position();
    let name = ddl.session.name(name)?;
    let Some(relation) = ddl.session.view().find(&name) else {
        if name.of_system().is_some() {
            return Err(SqlError::unsupported("LIKE of a table of the system").at(position));
        }
        return Err(ddl.session.view().missing(&name, "relation").at(position));
    };
    let kinds = match relation {
        Relation::Table(_) | Relation::View(_) => return Ok(relation),
        Relation::Sequence(_) => "sequences",
        Relation::Index(..) => "indexes",
    };
    let message = format!("relation \"{}\" is invalid in LIKE clause", name.name);
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
        .detail(format!("This operation is not supported for {kinds}."))
        .at(position))
}

fn add_column(ddl: &mut Ddl<'_>, table: &mut Table, source: &Column, included: Included) -> Result<()> {
    if table.column(&source.name).is_some() {
        let message = format!("column \"{}\" specified more than once", source.name);
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    let mut column = source.clone();
    column.identity = None;
    if !included.defaults {
        column.default = None;
    }
    if let Some(identity) = source.identity.filter(|_| included.identity) {
        let always = identity.always;
        column.identity =
            new_sequence(ddl, table, &column.name, identity)?.map(|sequence| Identity { always, sequence });
    }
    table.columns.push(column);
    Ok(())
}

/// Makes a sequence like that of an identity column.
fn new_sequence(ddl: &mut Ddl<'_>, table: &Table, column: &str, identity: Identity) -> Result<Option<Oid>> {
    let Some(source) = ddl.session.catalog().sequence_by_oid(identity.sequence).cloned() else {
        return Ok(None);
    };
    let spec = SequenceSpec::of(&source);
    let name = sequence_name(ddl, table, column, &spec)?;
    let oid = ddl.session.shared.new_oid()?;
    let made = spec.build(oid, &table.schema, &name, Some((table.oid, table.columns.len())))?;
    ddl.change(|catalog| catalog.put_sequence(made))?;
    Ok(Some(oid))
}

impl Model {
    /// Adds the constraints and indexes to a table that has its columns.
    pub(super) fn add_constraints(&mut self, ddl: &mut Ddl<'_>, table: &mut Table) -> Result<()> {
        let source = self.table.clone();
        if self.included.constraints {
            let mut checks: Vec<&Check> = source.checks.iter().collect();
            checks.sort_by(|a, b| a.name.cmp(&b.name));
            for check in checks {
                let expression = Box::new(with_bare_columns(&parse_expression(&check.expression)?, &source)?);
                if names_row(&expression) {
                    let detail = format!(
                        "Constraint \"{}\" contains a whole-row reference to table \"{}\".",
                        check.name, source.name
                    );
                    let message = "cannot convert whole-row table reference";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail));
                }
                let spec = ConstraintSpec::Check { name: Some(check.name.clone()), expression };
                add_constraint(ddl, table, &spec)?;
                self.commented.push((check.oid(source.oid), derived_oid(table.oid, &check.name)));
            }
        }
        if self.included.indexes {
            let primary = source.primary_key.iter().map(|index| (index, true));
            for (index, is_primary) in primary.chain(source.indexes.iter().map(|index| (index, false))) {
                let made = self.add_index(ddl, table, index, is_primary)?;
                self.commented.push((index.oid, made));
            }
        }
        Ok(())
    }

    /// Returns the identifier of the new index.
    fn add_index(
        &self,
        ddl: &mut Ddl<'_>,
        table: &mut Table,
        index: &Index,
        is_primary: bool,
    ) -> Result<Oid> {
        let keys = index.columns.iter().zip(&index.descending).zip(&index.nulls_first);
        let columns: Vec<IndexKey> = keys
            .map(|((&column, &descending), &nulls_first)| IndexKey {
                column: self.table.columns[column].name.clone(),
                descending,
                nulls_first,
            })
            .collect();
        if index.constraint || is_primary {
            let spec =
                ConstraintSpec::Key { name: None, primary: is_primary, columns, position: Position::NONE };
            add_constraint(ddl, table, &spec)?;
            let made = if is_primary { table.primary_key.as_ref() } else { table.indexes.last() };
            return Ok(made.map_or(0, |index| index.oid));
        }
        let made = define_index(ddl, table, None, &columns, index.unique, false, false)?;
        let oid = made.oid;
        table.indexes.push(made);
        Ok(oid)
    }

    /// Adds the comments to a table that is there.
    pub(super) fn add_comments(&self, ddl: &mut Ddl<'_>, table: &Table) -> Result<()> {
        if !self.included.comments {
            return Ok(());
        }
        let number = |position: usize| u32::try_from(position + 1).unwrap_or(0);
        let columns = self.table.live_columns().filter_map(|(from, column)| {
            let to = table.column(&column.name)?;
            Some(((self.table.oid, number(from)), (table.oid, number(to))))
        });
        let others = self.commented.iter().map(|(from, to)| ((*from, 0), (*to, 0)));
        let pairs: Vec<_> = columns.chain(others).collect();
        ddl.change(|catalog| {
            for (from, to) in pairs {
                if let Some(text) = catalog.comment(from).map(str::to_owned) {
                    catalog.put_comment(to, Some(&text));
                }
            }
        })
    }
}
