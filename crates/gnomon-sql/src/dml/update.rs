//! UPDATE and DELETE.

use std::sync::Arc;

use gnomon_engine::RowLock;
use gnomon_parser::ast::{self, RelationReference, RowFilter};

use super::{
    BoundCheck, Output, Returning, TableWriter, bind_assignments, bind_checks,
    blind::{BlindUpdate, Observing, Outcome},
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::Table,
    context::View,
    database::Shared,
    query::{
        Binder, Change, ChangeTarget, ExecContext, Expr, Measures, Spool, Target, TargetScan, open_tables,
        plan::{Cte, Node, NodeValue, Parts, explain_tables, on, relation, text},
    },
    types::{Datum, Row, limit::row_bytes},
};

/// An UPDATE, bound.
#[derive(Clone)]
pub(crate) struct UpdatePlan {
    /// The tables of WITH.
    tables: Arc<[Cte]>,
    table: Arc<Table>,
    /// The name that the table goes by.
    alias: Box<str>,
    targets: Arc<TargetScan>,
    assignments: Vec<(usize, Expr)>,
    /// True if an assignment reads the table, so that all are computed before the first is made.
    reads_target: bool,
    checks: Arc<[BoundCheck]>,
    blind: Result<Arc<BlindUpdate>, Observing>,
    pub(crate) returning: Option<Returning>,
}

/// A DELETE, bound.
#[derive(Clone)]
pub(crate) struct DeletePlan {
    /// The tables of WITH.
    tables: Arc<[Cte]>,
    table: Arc<Table>,
    /// The name that the table goes by.
    alias: Box<str>,
    targets: Arc<TargetScan>,
    reads_target: bool,
    pub(crate) returning: Option<Returning>,
}

/// A row or entries that take their places once all rows have left theirs.
pub(super) struct Pending {
    key: Vec<u8>,
    row: Row,
    /// The indexes that get an entry; none if the row itself is inserted with all of them.
    indexes: Option<Vec<usize>>,
}

impl Pending {
    /// Its bytes: how many indexes (65535 for none), these, the key's length, the key, the stored row. Little-endian.
    fn encode(&self, writer: &TableWriter) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let count = self.indexes.as_ref().map_or(u16::MAX, |indexes| indexes.len() as u16);
        bytes.extend(count.to_le_bytes());
        for index in self.indexes.iter().flatten() {
            bytes.extend((*index as u16).to_le_bytes());
        }
        bytes.extend((self.key.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.key);
        bytes.extend(writer.encode(&self.row)?);
        Ok(bytes)
    }

    fn decode(bytes: &[u8], writer: &TableWriter) -> Result<Pending> {
        let damaged = || SqlError::new(SqlState::DATA_CORRUPTED, "what a statement kept is damaged");
        let mut rest = bytes;
        let mut number = || {
            let (number, after) = rest.split_first_chunk().ok_or_else(damaged)?;
            rest = after;
            Ok::<_, SqlError>(u16::from_le_bytes(*number))
        };
        let indexes = match number()? {
            u16::MAX => None,
            count => Some((0..count).map(|_| Ok(usize::from(number()?))).collect::<Result<_>>()?),
        };
        let (key, row) = {
            let length = usize::from(number()?);
            rest.split_at_checked(length).ok_or_else(damaged)?
        };
        Ok(Pending { key: key.to_vec(), row: writer.decode(row)?, indexes })
    }

    pub(super) fn insert(self, writer: &TableWriter, ctx: &mut ExecContext<'_>) -> Result<()> {
        match self.indexes {
            None => writer.insert_at(ctx.txn, ctx.types, &self.key, &self.row),
            Some(indexes) => {
                for i in indexes {
                    let index = &writer.table.indexes[i];
                    writer.insert_entry(ctx.txn, ctx.types, index, &self.row, &self.key)?;
                }
                Ok(())
            }
        }
    }
}

/// Writes the new version of a row, except for what must wait. Returns its key.
pub(super) fn apply(
    writer: &TableWriter,
    ctx: &mut ExecContext<'_>,
    key: &[u8],
    old: &[crate::types::Datum],
    new: &[crate::types::Datum],
    pending: &mut Vec<Pending>,
) -> Result<Vec<u8>> {
    let new_key = writer.key_after_update(key, new)?;
    if new_key == key {
        let changed = writer.replace(ctx.txn, key, old, new)?;
        if !changed.is_empty() {
            pending.push(Pending { key: new_key.clone(), row: new.to_vec(), indexes: Some(changed) });
        }
    } else {
        writer.delete(ctx.txn, key, old)?;
        ctx.cursors.row_left(ctx.statement, &writer.table, key, Some(&new_key))?;
        pending.push(Pending { key: new_key.clone(), row: new.to_vec(), indexes: None });
    }
    Ok(new_key)
}

/// The target of an UPDATE or DELETE, and its alias.
fn target<'t>(
    binder: &mut Binder<'_>,
    reference: &'t RelationReference,
    filter: Option<&RowFilter>,
    change: Change,
) -> Result<(ChangeTarget, Option<&'t str>)> {
    let RelationReference { name, is_only, alias, sample } = reference;
    if let Some(sample) = sample {
        return Err(SqlError::unsupported("TABLESAMPLE").at(sample.position));
    }
    let alias = alias.as_ref().map(|alias| &*alias.name.name);
    let of = binder.change_target(name, alias, change)?;
    if of.is_view() && matches!(filter, Some(RowFilter::CurrentOf(_))) {
        let message = "WHERE CURRENT OF on a view is not implemented";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    if *is_only && of.table.partitioning.is_some() {
        return Err(SqlError::unsupported("ONLY of a partitioned table").at(name.position()));
    }
    Ok((of, alias))
}

impl UpdatePlan {
    /// Binds an UPDATE; `view` is the binder's catalog.
    pub(crate) fn bind(binder: &mut Binder<'_>, update: &ast::Update, view: &View) -> Result<UpdatePlan> {
        let before = view.mark();
        let tables = binder.open_with(update.with.as_deref())?;
        let after = view.mark();
        let (of, alias) = target(binder, &update.table, update.filter.as_ref(), Change::Update)?;
        let table = of.table.clone();
        // Rows of WITH may be asked for while the change is under way.
        let reads_before = view.looked_up_between(before..after, table.oid);
        let (targets, scope) =
            binder.targets(&of, &update.from, update.filter.as_ref(), RowLock::NoKeyUpdate)?;
        let mark = view.mark();
        let returning = Returning::bind(binder, &update.returning, &scope)?;
        let assignments = bind_assignments(binder, &of, &update.assignments, &scope)?;
        let reads_target = reads_before || view.looked_up_since(mark, table.oid);
        let checks = bind_checks(binder, &table)?;
        let blind = match (targets.beside_key(), &returning) {
            (None, _) => Err(Observing("rows are not found by their primary key alone".into())),
            (Some(_), Some(_)) => Err(Observing("RETURNING sees the row".into())),
            (Some(conditions), None) => {
                BlindUpdate::plan(&table, &assignments, conditions, &checks).map(Arc::new)
            }
        };
        let targets = Arc::new(targets);
        let tables = binder.close_with(tables);
        let alias = alias.unwrap_or(&table.name).into();
        Ok(UpdatePlan { tables, table, alias, targets, assignments, reads_target, checks, blind, returning })
    }

    /// Its parts, for a search through its constants.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let set = self.assignments.iter().map(|(_, value)| value);
        let exprs = set.chain(Returning::exprs(self.returning.as_ref())).collect();
        self.targets.parts(&self.tables, exprs)
    }

    /// The table that is updated.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the nodes that EXPLAIN shows; with how its row is locked, if there is a choice.
    pub(crate) fn explain(&self, semantic_locks: bool, measures: &Measures) -> Node {
        let mut node = explain("Update", (&self.table, &self.alias), &self.tables, &self.targets, measures);
        node.closing.push(explain_lock(&self.blind, semantic_locks));
        node
    }

    /// Updates the rows; returns how many.
    pub(crate) fn run(
        &self,
        shared: &Shared,
        ctx: &mut ExecContext<'_>,
        output: &mut dyn Output,
    ) -> Result<u64> {
        open_tables(&self.tables, ctx);
        if let (Ok(blind), true) = (&self.blind, ctx.semantic_locks) {
            let Some(key) = self.targets.key(ctx)? else { return Ok(0) };
            let began = ctx.measures.now();
            match blind.run(ctx, &self.table, &key, &[])? {
                Outcome::Updated => {
                    self.targets.note_run(true, began, ctx);
                    ctx.row_done();
                    return Ok(1);
                }
                Outcome::Absent | Outcome::NotMet => {
                    self.targets.note_run(false, began, ctx);
                    return Ok(0);
                }
                Outcome::ToBeSeen => {}
            }
        }
        let writer = TableWriter::new(shared, ctx.txn, self.table.clone(), self.checks.clone())?;
        let mut targets = self.targets.open();
        let mut computed = Vec::new();
        let mut pending = Spool::default();
        let mut count = 0;
        let width = self.table.columns.len();
        let mut write = |ctx: &mut ExecContext<'_>, computed: &mut Vec<(Target, Row, Option<Row>)>| {
            for (target, new, returned) in computed.drain(..) {
                let mut entries = Vec::new();
                apply(&writer, ctx, &target.key, &target.row[..width], &new, &mut entries)?;
                writer.accesses(ctx, &target.key)?.updated += 1;
                for entry in entries {
                    pending.push(ctx.txn, entry.encode(&writer)?)?;
                }
                ctx.row_done();
                if let Some(row) = returned {
                    output.row(row, ctx)?;
                }
            }
            Ok::<_, SqlError>(())
        };
        while let Some(target) = targets.next(ctx)? {
            let mut new = target.row[..width].to_vec();
            for (position, expr) in &self.assignments {
                new[*position] = expr.eval(&target.row, ctx)?;
            }
            writer.check(ctx, &new)?;
            let returned = match &self.returning {
                None => None,
                Some(returning) => {
                    let mut row = new.clone();
                    row.extend_from_slice(&target.row[width..]);
                    row[width] = Datum::Bytea(writer.key_after_update(&target.key, &new)?.into());
                    Some(returning.row(ctx, &row)?)
                }
            };
            count += 1;
            // An update that reads the table itself must not see its own writes: all rows are computed first.
            if self.reads_target {
                let returned = returned.as_ref().map_or(0, |row| row_bytes(row));
                ctx.reserve(target.key.len() + row_bytes(&target.row) + row_bytes(&new) + returned)?;
            }
            computed.push((target, new, returned));
            if !self.reads_target {
                write(ctx, &mut computed)?;
            }
        }
        write(ctx, &mut computed)?;
        let mut pending = pending.read(ctx.txn)?;
        while let Some(entry) = pending.next(ctx.txn)? {
            Pending::decode(&entry, &writer)?.insert(&writer, ctx)?;
        }
        Ok(count)
    }
}

impl DeletePlan {
    /// Binds a DELETE; `view` is the binder's catalog.
    pub(crate) fn bind(binder: &mut Binder<'_>, delete: &ast::Delete, view: &View) -> Result<DeletePlan> {
        let before = view.mark();
        let tables = binder.open_with(delete.with.as_deref())?;
        let after = view.mark();
        let (of, alias) = target(binder, &delete.table, delete.filter.as_ref(), Change::Delete)?;
        let table = of.table.clone();
        // Rows of WITH may be asked for while the change is under way.
        let reads_before = view.looked_up_between(before..after, table.oid);
        let (targets, scope) =
            binder.targets(&of, &delete.using, delete.filter.as_ref(), RowLock::Exclusive)?;
        let mark = view.mark();
        let returning = Returning::bind(binder, &delete.returning, &scope)?;
        let reads_target = reads_before || view.looked_up_since(mark, table.oid);
        let tables = binder.close_with(tables);
        let alias = alias.unwrap_or(&table.name).into();
        Ok(DeletePlan { tables, table, alias, targets: Arc::new(targets), reads_target, returning })
    }

    /// Its parts, for a search through its constants.
    pub(crate) fn parts(&self) -> Parts<'_> {
        self.targets.parts(&self.tables, Returning::exprs(self.returning.as_ref()).collect())
    }

    /// The table that is deleted from.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the nodes that EXPLAIN shows.
    pub(crate) fn explain(&self, measures: &Measures) -> Node {
        explain("Delete", (&self.table, &self.alias), &self.tables, &self.targets, measures)
    }

    /// Deletes the rows; returns how many.
    pub(crate) fn run(
        &self,
        shared: &Shared,
        ctx: &mut ExecContext<'_>,
        output: &mut dyn Output,
    ) -> Result<u64> {
        open_tables(&self.tables, ctx);
        let writer = TableWriter::new(shared, ctx.txn, self.table.clone(), Arc::from([]))?;
        let width = self.table.columns.len();
        let mut targets = self.targets.open();
        let mut computed = Vec::new();
        let mut count = 0;
        let mut write = |ctx: &mut ExecContext<'_>, computed: &mut Vec<(Target, Option<Row>)>| {
            for (target, returned) in computed.drain(..) {
                writer.delete(ctx.txn, &target.key, &target.row[..width])?;
                ctx.cursors.row_left(ctx.statement, &self.table, &target.key, None)?;
                writer.accesses(ctx, &target.key)?.deleted += 1;
                ctx.row_done();
                if let Some(row) = returned {
                    output.row(row, ctx)?;
                }
            }
            Ok::<_, SqlError>(())
        };
        while let Some(target) = targets.next(ctx)? {
            let returned = match &self.returning {
                None => None,
                Some(returning) => Some(returning.row(ctx, &target.row)?),
            };
            count += 1;
            if self.reads_target {
                let returned = returned.as_ref().map_or(0, |row| row_bytes(row));
                ctx.reserve(target.key.len() + row_bytes(&target.row) + returned)?;
            }
            computed.push((target, returned));
            if !self.reads_target {
                write(ctx, &mut computed)?;
            }
        }
        write(ctx, &mut computed)?;
        Ok(count)
    }
}

fn explain(
    operation: &str,
    (table, alias): (&Table, &str),
    tables: &[Cte],
    targets: &TargetScan,
    measures: &Measures,
) -> Node {
    let mut node = modify(operation, table, alias);
    node.children = explain_tables(tables, measures);
    node.children.extend(targets.explain(measures));
    node
}

/// A node that writes rows of a table, without those beneath it.
pub(super) fn modify(operation: &str, table: &Table, alias: &str) -> Node {
    Node {
        title: on(&format!("{operation} on"), &table.name, alias),
        kind: "ModifyTable",
        manner: vec![text("Operation", operation)],
        objects: relation(&table.name, alias),
        ..Node::default()
    }
}

/// Returns how rows are locked, and why, for EXPLAIN.
pub(super) fn explain_lock(
    blind: &Result<Arc<BlindUpdate>, Observing>,
    semantic_locks: bool,
) -> (&'static str, NodeValue) {
    let lock = match blind {
        _ if !semantic_locks => "exclusive (gnomon.semantic_locks is off)".into(),
        Ok(blind) => format!("update ({blind})"),
        Err(seen) => format!("exclusive ({seen})"),
    };
    ("Row Lock", NodeValue::Text(lock))
}
