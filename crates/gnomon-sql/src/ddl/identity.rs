//! Identity columns in ALTER TABLE.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use gnomon_parser::ast::SequenceOption;

use super::{
    Ddl, clauses,
    column::sequence_name,
    sequence::{SequenceSpec, change_sequence},
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::model::{Identity, Oid, Sequence, Table},
    types::ColumnType,
};

fn message(table: &Table, position: usize, what: &str) -> String {
    format!("column \"{}\" of relation \"{}\" {what}", table.columns[position].name, table.name)
}

fn refused(table: &Table, position: usize, what: &str) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message(table, position, what))
}

/// Returns the sequence of an identity column.
fn sequence_of(ddl: &Ddl<'_>, identity: Identity) -> Result<Arc<Sequence>> {
    ddl.session.catalog().sequence_by_oid(identity.sequence).cloned().ok_or_else(|| {
        SqlError::new(SqlState::DATA_CORRUPTED, "the sequence of an identity column is missing")
    })
}

/// ADD GENERATED ... AS IDENTITY.
pub(super) fn add_identity(
    ddl: &mut Ddl<'_>,
    table: &mut Table,
    position: usize,
    always: bool,
    options: &[SequenceOption],
) -> Result<()> {
    let column = table.columns[position].clone();
    clauses::sequence_cache(options, ddl.notices);
    let spec = SequenceSpec::of_identity(column.ty, options)?;
    if !column.not_null {
        return Err(refused(table, position, "must be declared NOT NULL before identity can be added"));
    }
    if column.identity.is_some() {
        return Err(refused(table, position, "is already an identity column"));
    }
    if column.default.is_some() {
        return Err(refused(table, position, "already has a default value"));
    }
    let name = sequence_name(ddl, table, &column.name, &spec)?;
    let oid = ddl.session.shared.new_oid()?;
    let sequence = spec.build(oid, &table.schema, &name, Some((table.oid, position)))?;
    table.columns[position].identity = Some(Identity { always, sequence: oid });
    ddl.change(|catalog| catalog.put_sequence(sequence)).map(drop)
}

/// SET GENERATED, and SET of options of the sequence.
pub(super) fn set_identity(
    ddl: &mut Ddl<'_>,
    table: &mut Table,
    position: usize,
    always: Option<bool>,
    options: &[SequenceOption],
) -> Result<()> {
    let Some(identity) = table.columns[position].identity else {
        return Err(refused(table, position, "is not an identity column"));
    };
    if !options.is_empty() {
        clauses::sequence_cache(options, ddl.notices);
        let sequence = sequence_of(ddl, identity)?;
        change_sequence(ddl, &sequence, |spec| spec.apply_all(options))?;
    }
    table.columns[position].identity =
        Some(Identity { always: always.unwrap_or(identity.always), ..identity });
    Ok(())
}

/// Gives the sequence of an identity column the new type of the column.
pub(super) fn set_identity_type(ddl: &mut Ddl<'_>, identity: Identity, ty: ColumnType) -> Result<()> {
    let sequence = sequence_of(ddl, identity)?;
    change_sequence(ddl, &sequence, |spec| spec.set_type(ty, "identity column"))
}

/// DROP IDENTITY.
pub(super) fn drop_identity(
    ddl: &mut Ddl<'_>,
    table: &mut Table,
    position: usize,
    if_exists: bool,
) -> Result<()> {
    let what = "is not an identity column";
    match table.columns[position].identity.take() {
        Some(identity) => remove_sequence(ddl, identity.sequence),
        None if if_exists => {
            let message = message(table, position, &format!("{what}, skipping"));
            ddl.notices.push(Notice::note(SqlState::SUCCESSFUL_COMPLETION, message));
            Ok(())
        }
        None => Err(refused(table, position, what)),
    }
}

fn remove_sequence(ddl: &mut Ddl<'_>, sequence: Oid) -> Result<()> {
    ddl.lock_sequence(sequence, TreeLock::Exclusive)?;
    ddl.change(|catalog| catalog.remove_sequence(sequence)).map(drop)
}
