//! INSERT, with ON CONFLICT.

use std::{collections::HashSet, sync::Arc};

use gnomon_engine::{Isolation, RowLock};
use gnomon_parser::{
    Position,
    ast::{
        self, Access, ConflictTarget, IndexElement, IndexKey, OnConflict, Overriding, Query, QueryBody,
        SortDirection, Value,
    },
};

use super::{
    BoundCheck, Output, Returning, TableWriter, bind_assignments, bind_checks,
    blind::{BlindUpdate, Observing, Outcome},
    conflict::{AbsentKeys, Existing, find_existing},
    default_of, default_of_part, is_default, target_column,
    update::{apply, explain_lock, modify},
    write::columns_key,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Column, Constraint, Index, Oid, Table},
    context::View,
    database::Shared,
    query::{
        Assignee, AssigneeKind, Binder, Change, ChangeTarget, ExecContext, Expr, Measures, Scope, Spool,
        check_collation, check_operator_class, column_of_key, column_position,
        expr::Part,
        is_star, open, open_tables,
        plan::{self, Child, Cte, Node, NodeValue, Parts, Plan, explain_tables, text},
        position_of, query_item_position,
    },
    types::{ColumnType, Datum, Row, limit::row_bytes, rows},
};

/// A row with its located key.
type KeyedRow = (Vec<u8>, Row);

/// Bytes of memory that a key in a set takes beside its own.
const AFFECTED_BYTES: usize = 48;

/// The source of a value of the new row.
#[derive(Clone, Debug)]
enum Fill {
    /// A column of the source, of the column's type.
    Source(usize),
    /// An expression over the source's row.
    Expr(Expr),
    Null,
}

/// An INSERT, bound.
#[derive(Clone)]
pub(crate) struct InsertPlan {
    /// The tables of WITH.
    tables: Arc<[Cte]>,
    table: Arc<Table>,
    /// The name that the table goes by.
    alias: Box<str>,
    /// None for DEFAULT VALUES.
    source: Option<Plan>,
    /// True if the source reads the table that is inserted into.
    reads_target: bool,
    /// The types of the source's columns.
    source_types: Vec<ColumnType>,
    fills: Vec<Fill>,
    checks: Arc<[BoundCheck]>,
    conflict: Option<Conflict>,
    pub(crate) returning: Option<Returning>,
}

/// ON CONFLICT.
#[derive(Clone)]
struct Conflict {
    /// The indexes whose conflicts are handled, by identifier.
    arbiters: Vec<Oid>,
    /// None for DO NOTHING.
    update: Option<ConflictUpdate>,
}

/// DO UPDATE: expressions over the existing row followed by the proposed one.
#[derive(Clone)]
struct ConflictUpdate {
    assignments: Vec<(usize, Expr)>,
    condition: Option<Expr>,
    /// The blind update of the existing row, or the reason why the row must be seen.
    blind: Result<Arc<BlindUpdate>, Observing>,
}

impl InsertPlan {
    /// Binds an INSERT; `view` is the binder's catalog.
    pub(crate) fn bind(binder: &mut Binder<'_>, insert: &ast::Insert, view: &View) -> Result<InsertPlan> {
        let before = view.mark();
        let tables = binder.open_with(insert.with.as_deref())?;
        let after = view.mark();
        let alias = insert.alias.as_ref().map(|alias| &*alias.name);
        let of = binder.change_target(&insert.table, alias, Change::Insert)?;
        let table = of.table.clone();
        let positions = target_columns(&of, &insert.columns)?;
        let mut fills = Vec::with_capacity(table.columns.len());
        for column in &table.columns {
            fills.push(match default_of(column)? {
                Some(default) if !column.dropped => {
                    Fill::Expr(binder.assign(&default, &Scope::empty(), &column.name, column.ty)?)
                }
                _ => Fill::Null,
            });
        }
        let mut source = None;
        let mut reads_target = view.looked_up_between(before..after, table.oid);
        let mut source_types = Vec::new();
        if let Some(query) = &insert.source {
            let overriding = insert.overriding;
            let query = prepare_source(binder, query, &table, &positions, &insert.columns, overriding)?;
            let mut parts = bind_parts(binder, &table, &positions, &insert.columns)?;
            let targets = positions.iter().zip(&parts).map(|(position, part)| {
                let column = &table.columns[*position];
                let ty = part.as_ref().map_or(column.ty, |(_, ty)| *ty);
                let kind = if part.is_some() { AssigneeKind::Part } else { AssigneeKind::Column };
                Assignee { column: &column.name, ty, kind }
            });
            let targets: Vec<Assignee<'_>> = targets.collect();
            let mark = view.mark();
            let (plan, columns) = binder.query_for(&query.query, &targets)?;
            reads_target |= view.looked_up_since(mark, table.oid);
            source_types.extend(columns.iter().map(|column| column.ty));
            if insert.columns.is_empty() {
                of.refuse_values(columns.len())?;
            }
            check_width(insert, columns.len(), positions.len())?;
            for (i, (column, &position)) in columns.iter().zip(&positions).enumerate() {
                let target = &table.columns[position];
                let user = overriding == Some(Overriding::User) && target.identity.is_some();
                if user || query.defaults.contains(&i) {
                    continue;
                }
                if target.identity.is_some_and(|identity| identity.always) && overriding.is_none() {
                    return Err(not_default(&target.name));
                }
                let expr = Expr::column(i, column.name.as_str(), column.ty);
                if let Some((part, ty)) = parts[i].take() {
                    let value = binder.assigned_to_part(expr, &target.name, ty)?;
                    let first = positions.iter().position(|other| *other == position) == Some(i);
                    let array = match std::mem::replace(&mut fills[position], Fill::Null) {
                        Fill::Expr(array) if !first => array,
                        _ => Expr { ty: target.ty, ..Expr::constant(Datum::Null, target.ty.ty) },
                    };
                    fills[position] = Fill::Expr(part.assign(array, value));
                    continue;
                }
                let expr = binder
                    .assigned(expr, &target.name, target.ty)
                    .map_err(|error| error.at(column_position(&query.query.body, i)))?;
                fills[position] = match expr.as_column() {
                    Some(i) => Fill::Source(i),
                    None => Fill::Expr(expr),
                };
            }
            source = Some(plan);
        }
        let checks = bind_checks(binder, &table)?;
        let returns = !insert.returning.is_empty();
        let conflict = match &insert.on_conflict {
            None => None,
            Some(conflict) => Some(bind_conflict(binder, &of, conflict, &checks, returns)?),
        };
        let excluded = [of.excluded()];
        let mut scope = of.scope();
        if conflict.as_ref().is_some_and(|conflict| conflict.update.is_some()) {
            scope.beyond.push(&excluded);
        }
        let returning = Returning::bind(binder, &insert.returning, &scope)?;
        let tables = binder.close_with(tables);
        Ok(InsertPlan {
            tables,
            alias: alias.unwrap_or(&table.name).into(),
            table,
            source,
            reads_target,
            source_types,
            fills,
            checks,
            conflict,
            returning,
        })
    }

    /// Its parts, for a search through its constants.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let filled = self.fills.iter().filter_map(|fill| match fill {
            Fill::Expr(expr) => Some(expr),
            Fill::Source(_) | Fill::Null => None,
        });
        let update = self.conflict.iter().filter_map(|conflict| conflict.update.as_ref());
        let set = update
            .flat_map(|update| update.assignments.iter().map(|(_, value)| value).chain(&update.condition));
        let exprs = filled.chain(Returning::exprs(self.returning.as_ref())).chain(set).collect();
        Parts { tables: &self.tables, exprs, plans: self.source.iter().collect() }
    }

    /// The table that is inserted into.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the nodes that EXPLAIN shows; with how a row that is updated is locked, if there is a choice.
    pub(crate) fn explain(&self, semantic_locks: bool, measures: &Measures) -> Node {
        let mut node = modify("Insert", &self.table, &self.alias);
        node.children = explain_tables(&self.tables, measures);
        let source = self.source.as_ref().map(|source| plan::explain(source, measures));
        node.children.extend(source.map(|source| Child::input("Outer", source)));
        if let Some(conflict) = &self.conflict {
            self.explain_conflict(conflict, semantic_locks, &mut node);
        }
        node
    }

    fn explain_conflict(&self, conflict: &Conflict, semantic_locks: bool, node: &mut Node) {
        let resolution = if conflict.update.is_some() { "UPDATE" } else { "NOTHING" };
        node.objects.push(text("Conflict Resolution", resolution));
        let arbiters = self.table.all_indexes().filter(|index| conflict.arbiters.contains(&index.oid));
        let arbiters: Vec<String> = arbiters.map(|index| index.name.clone()).collect();
        if !arbiters.is_empty() {
            node.objects.push(("Conflict Arbiter Indexes", NodeValue::List(arbiters)));
        }
        node.closing
            .extend(conflict.update.as_ref().map(|update| explain_lock(&update.blind, semantic_locks)));
    }

    /// Inserts the rows; returns how many rows were inserted or updated.
    pub(crate) fn run(
        &self,
        shared: &Shared,
        ctx: &mut ExecContext<'_>,
        output: &mut dyn Output,
    ) -> Result<u64> {
        open_tables(&self.tables, ctx);
        let writer = TableWriter::new(shared, ctx.txn, self.table.clone(), self.checks.clone())?;
        let mut run = Run { plan: self, writer, affected: HashSet::new(), count: 0 };
        let Some(source) = &self.source else {
            run.row(ctx, Vec::new(), output)?;
            return Ok(run.count);
        };
        let mut source_rows = open(source, &ctx.measures);
        if self.reads_target {
            let types = &self.source_types;
            let is_stored = types.iter().all(|column| rows::can_store(column.ty));
            let (mut all, mut kept) = (Spool::default(), Vec::new());
            while let Some(row) = source_rows.next(ctx)? {
                if is_stored {
                    all.push(ctx.txn, rows::encode(&row, types)?)?;
                } else {
                    ctx.reserve(row_bytes(&row))?;
                    kept.push(row);
                }
            }
            let mut all = all.read(ctx.txn)?;
            while let Some(bytes) = all.next(ctx.txn)? {
                run.row(ctx, rows::decode(&bytes, types)?, output)?;
            }
            for row in kept {
                run.row(ctx, row, output)?;
            }
        } else {
            while let Some(row) = source_rows.next(ctx)? {
                run.row(ctx, row, output)?;
            }
        }
        Ok(run.count)
    }
}

/// An INSERT under way.
struct Run<'a> {
    plan: &'a InsertPlan,
    writer: TableWriter,
    /// Keys of rows that this statement inserted or updated, which ON CONFLICT may not update again.
    affected: HashSet<Vec<u8>>,
    count: u64,
}

impl Run<'_> {
    fn row(&mut self, ctx: &mut ExecContext<'_>, mut source: Row, output: &mut dyn Output) -> Result<()> {
        let mut row = Vec::with_capacity(self.plan.fills.len());
        for fill in &self.plan.fills {
            row.push(match fill {
                Fill::Expr(expr) => expr.eval(&source, ctx)?,
                Fill::Null | Fill::Source(_) => Datum::Null,
            });
        }
        for (value, fill) in row.iter_mut().zip(&self.plan.fills) {
            if let Fill::Source(i) = fill
                && let Some(given) = source.get_mut(*i)
            {
                *value = std::mem::replace(given, Datum::Null);
            }
        }
        self.writer.check(ctx, &row)?;
        let stored = match &self.plan.conflict {
            None => {
                let key = self.writer.insert(ctx.txn, ctx.types, &row)?;
                self.writer.accesses(ctx, &key)?.inserted += 1;
                Some((key, row))
            }
            Some(conflict) => self.insert_or(ctx, conflict, row)?,
        };
        if let Some((key, mut row)) = stored {
            self.count += 1;
            ctx.row_done();
            if let Some(returning) = &self.plan.returning {
                row.push(Datum::Bytea(key.into()));
                let row = returning.row(ctx, &row)?;
                output.row(row, ctx)?;
            }
        }
        Ok(())
    }

    /// Inserts a row unless it conflicts in one of the arbiters. Returns the row that was inserted or updated, and
    /// its key.
    fn insert_or(
        &mut self,
        ctx: &mut ExecContext<'_>,
        conflict: &Conflict,
        row: Row,
    ) -> Result<Option<KeyedRow>> {
        let table = self.plan.table.clone();
        if let (Some(update), Some(primary)) = (&conflict.update, &table.primary_key)
            && let (Ok(blind), true) = (&update.blind, ctx.semantic_locks)
            // Serializable would keep a missing row missing also for other transactions that want to insert it.
            && ctx.txn.options().isolation != Isolation::Serializable
        {
            let key = table.place_of(&row)?.locate(columns_key(primary, &row));
            let mut both = vec![Datum::Null; table.columns.len()];
            both.extend(row.iter().cloned());
            let outcome = match self.affected.contains(&key) {
                true => Outcome::ToBeSeen,
                false => blind.run(ctx, &table, &key, &both)?,
            };
            match outcome {
                Outcome::Updated => {
                    ctx.reserve(key.len() + AFFECTED_BYTES)?;
                    self.affected.insert(key.clone());
                    return Ok(Some((key, row)));
                }
                // A row whose condition is not met is locked all the same.
                Outcome::Absent | Outcome::NotMet | Outcome::ToBeSeen => {}
            }
        }
        loop {
            let mut absent = AbsentKeys::default();
            let is_updated = conflict.update.is_some();
            let Some(existing) =
                find_existing(ctx, &table, &conflict.arbiters, is_updated, &row, &mut absent)?
            else {
                break;
            };
            let updated = match &conflict.update {
                Some(update) => self.update(ctx, update, &existing, &row)?,
                None => Some(None),
            };
            match updated {
                Some(Some(row)) => return Ok(Some(row)),
                Some(None) => {
                    absent.give_back(ctx);
                    return Ok(None);
                }
                // It has gone meanwhile.
                None => absent.give_back(ctx),
            }
        }
        let key = self.writer.insert(ctx.txn, ctx.types, &row)?;
        self.writer.accesses(ctx, &key)?.inserted += 1;
        if conflict.update.is_some() {
            ctx.reserve(key.len() + AFFECTED_BYTES)?;
            self.affected.insert(key.clone());
        }
        Ok(Some((key, row)))
    }

    /// Updates a row that exists; none if it does not any more. Some none is a row that does not meet the condition: it
    /// stays locked, as in PostgreSQL.
    fn update(
        &mut self,
        ctx: &mut ExecContext<'_>,
        update: &ConflictUpdate,
        existing: &Existing<'_>,
        proposed: &[Datum],
    ) -> Result<Option<Option<KeyedRow>>> {
        let key = &existing.key;
        if self.affected.contains(key) {
            return Err(SqlError::new(
                SqlState::CARDINALITY_VIOLATION,
                "ON CONFLICT DO UPDATE command cannot affect row a second time",
            )
            .hint(
                "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
            ));
        }
        let table = &self.plan.table;
        let (place, stored) = table.split(key)?;
        let tree = table.tree_at(place)?;
        let (bytes, lock) = ctx.txn.lock_key(tree, stored, RowLock::NoKeyUpdate)?;
        let old = bytes.map(|bytes| self.writer.decode(&bytes)).transpose()?;
        let Some(old) = old.filter(|old| existing.is_of(old)) else {
            ctx.txn.give_back(tree, stored, lock);
            return Ok(None);
        };
        let mut both = old.clone();
        both.extend(proposed.iter().cloned());
        both.push(Datum::Bytea(key[..].into()));
        if let Some(condition) = &update.condition
            && !condition.is_true(&both, ctx)?
        {
            return Ok(Some(None));
        }
        let mut new = old.clone();
        for (position, expr) in &update.assignments {
            new[*position] = expr.eval(&both, ctx)?;
        }
        self.writer.check(ctx, &new)?;
        let mut pending = Vec::new();
        let new_key = apply(&self.writer, ctx, key, &old, &new, &mut pending)?;
        self.writer.accesses(ctx, key)?.updated += 1;
        for entry in pending {
            entry.insert(&self.writer, ctx)?;
        }
        self.affected.insert(new_key.clone());
        Ok(Some(Some((new_key, new))))
    }
}

/// The columns that values are given for.
fn target_columns(of: &ChangeTarget, listed: &[ast::AssignmentTarget]) -> Result<Vec<usize>> {
    if listed.is_empty() {
        return Ok(of.columns());
    }
    let mut positions = Vec::with_capacity(listed.len());
    for target in listed {
        let position = target_column(of, target, Change::Insert)?;
        let mut earlier = listed.iter().zip(&positions).filter(|(_, other)| **other == position);
        if let Some((other, _)) = earlier.find(|(other, _)| target.path.is_empty() || other.path.is_empty()) {
            if other.column.name != target.column.name {
                return Err(of.assigned_twice(position));
            }
            let message = format!("column \"{}\" specified more than once", target.column.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message).at(target.column.position));
        }
        positions.push(position);
    }
    Ok(positions)
}

/// Binds the parts of columns that values are given for, each with the type of its values.
fn bind_parts(
    binder: &mut Binder<'_>,
    table: &Table,
    positions: &[usize],
    listed: &[ast::AssignmentTarget],
) -> Result<Vec<Option<(Part, ColumnType)>>> {
    let mut parts = Vec::with_capacity(positions.len());
    for (number, position) in positions.iter().enumerate() {
        parts.push(match listed.get(number) {
            Some(target) if !target.path.is_empty() => {
                Some(binder.part(target, table.columns[*position].ty, &Scope::empty())?)
            }
            _ => None,
        });
    }
    Ok(parts)
}

/// Fails if the source of an INSERT has more columns than there are targets, or fewer than it names.
fn check_width(insert: &ast::Insert, given: usize, expected: usize) -> Result<()> {
    let (message, position) = if given > expected {
        let body = insert.source.as_ref().map(|query| &query.body);
        let position = body.map_or(Position::NONE, |body| query_item_position(body, expected));
        ("INSERT has more expressions than target columns", position)
    } else if let Some(target) = insert.columns.get(given) {
        ("INSERT has more target columns than expressions", target.column.position)
    } else {
        return Ok(());
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position))
}

fn not_default(column: &str) -> SqlError {
    SqlError::new(SqlState("428C9"), format!("cannot insert a non-DEFAULT value into column \"{column}\""))
        .detail(format!("Column \"{column}\" is an identity column defined as GENERATED ALWAYS."))
        .hint("Use OVERRIDING SYSTEM VALUE to override.")
}

/// The source of an INSERT, with DEFAULT replaced by what it stands for.
struct Source {
    query: Query,
    /// Columns whose values are all DEFAULT.
    defaults: Vec<usize>,
}

/// Writes the fields out that a row's star in VALUES stands for: what is behind it belongs to other columns than it
/// seems.
fn spread_stars(binder: &mut Binder<'_>, row: Vec<ast::Expr>) -> Result<Vec<ast::Expr>> {
    let mut spread = Vec::with_capacity(row.len());
    for value in row {
        let parts = match &value {
            ast::Expr::Indirection(parts) if is_star(&value) => parts,
            _ => {
                spread.push(value);
                continue;
            }
        };
        let position = position_of(&value);
        let fields = binder.star_fields(parts).map_err(|error| error.at(position))?;
        let (_, before) = parts.path.split_last().unwrap_or((&Access::Star, &[]));
        spread.extend(fields.into_iter().map(|name| {
            let mut field = ast::Indirection { base: parts.base.clone(), path: before.to_vec() };
            field.path.push(Access::Field(ast::Ident { name: name.into(), position }));
            ast::Expr::Indirection(Box::new(field))
        }));
    }
    Ok(spread)
}

fn prepare_source(
    binder: &mut Binder<'_>,
    query: &Query,
    table: &Table,
    positions: &[usize],
    listed: &[ast::AssignmentTarget],
    overriding: Option<Overriding>,
) -> Result<Source> {
    let mut query = query.clone();
    let mut defaults = Vec::new();
    if let QueryBody::Values(values) = &mut query.body {
        let is_always = |column: &Column| column.identity.is_some_and(|identity| identity.always);
        let mut columns = positions.iter().filter_map(|i| table.columns.get(*i));
        if values.rows.iter().flatten().any(is_default) || columns.any(is_always) {
            for row in &mut values.rows {
                *row = spread_stars(binder, std::mem::take(row))?;
            }
        }
        let width = values.rows.first().map_or(0, Vec::len);
        defaults = (0..width)
            .filter(|&i| values.rows.iter().all(|row| row.get(i).is_some_and(is_default)))
            .collect();
        let null = || ast::Expr::Constant(ast::Constant { value: Value::Null, position: Position::NONE });
        for row in &mut values.rows {
            for (i, value) in row.iter_mut().enumerate() {
                let Some(column) = positions.get(i).and_then(|i| table.columns.get(*i)) else {
                    // The row is too long, which is found when it is bound.
                    if is_default(value) {
                        *value = null();
                    }
                    continue;
                };
                if !is_default(value) {
                    if overriding.is_none() && column.identity.is_some_and(|identity| identity.always) {
                        return Err(not_default(&column.name));
                    }
                    continue;
                }
                if listed.get(i).is_some_and(|target| !target.path.is_empty()) {
                    return Err(default_of_part(value));
                }
                // A column of nothing else is filled as one that is not listed; so is one whose values do not count.
                let is_overridden = overriding == Some(Overriding::User) && column.identity.is_some();
                *value = match defaults.contains(&i) || is_overridden {
                    true => null(),
                    false => default_of(column)?.unwrap_or_else(null),
                };
            }
        }
    }
    Ok(Source { query, defaults })
}

/// The unique indexes in which ON CONFLICT looks for conflicts.
fn bind_arbiters(binder: &mut Binder<'_>, of: &ChangeTarget, conflict: &OnConflict) -> Result<Vec<Oid>> {
    let table = &of.table;
    let unique = || table.all_indexes().filter(|index| index.unique);
    match &conflict.target {
        None => Ok(unique().map(|index| index.oid).collect()),
        Some(ConflictTarget::Index { elements, filter, position }) => {
            let mut wanted = Vec::new();
            for element in elements {
                // Of a name that is missing, the proposed row is a candidate where there is one.
                let scope = match conflict.update {
                    Some(_) => of.conflict_scope(),
                    None => of.scope(),
                };
                wanted.push(conflict_column(of, &scope, element, *position)?);
            }
            if let Some(filter) = filter {
                // It chooses among partial indexes, and serves for whole ones as well: no index is partial.
                binder.condition(filter, &of.scope(), false)?;
            }
            wanted.sort_unstable();
            wanted.dedup();
            let same = |index: &&Index| {
                let mut columns = index.columns.clone();
                columns.sort_unstable();
                columns == wanted
            };
            Ok(unique().filter(same).map(|index| index.oid).collect())
        }
        Some(ConflictTarget::Constraint(name)) => {
            // A view has no constraints.
            let constraint = table.constraint(&name.name).filter(|_| !of.is_view());
            match constraint.and_then(Constraint::index) {
                Some(index) => Ok(vec![index.oid]),
                None => Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("constraint \"{}\" for table \"{}\" does not exist", name.name, of.name()),
                )),
            }
        }
    }
}

/// The column that an item of ON CONFLICT is; `target` is the place of the list.
fn conflict_column(
    of: &ChangeTarget,
    scope: &Scope<'_>,
    element: &IndexElement,
    target: Position,
) -> Result<usize> {
    let refused = |what: &str| {
        let message = format!("{what} is not allowed in ON CONFLICT clause");
        Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message).at(target))
    };
    if element.direction != SortDirection::Default {
        return refused("ASC/DESC");
    }
    if element.is_nulls_first.is_some() {
        return refused("NULLS FIRST/LAST");
    }
    if !element.operator_class_options.is_empty() {
        return Err(SqlError::unsupported("an option of an operator class").at(element.position));
    }
    let Some(column) = column_of_key(&element.key) else {
        return Err(SqlError::unsupported("an expression in ON CONFLICT").at(element.position));
    };
    let position = match &element.key {
        IndexKey::Column(_) => target,
        IndexKey::Expr(_) => column.position,
    };
    let found = match of.column(&column.name, Change::Insert) {
        Ok(Some(found)) => found,
        Ok(None) => return Err(scope.missing_column(None, &column.name).at(position)),
        // An expression over the row of the table, which no index has.
        Err(_) => return Err(unmatched()),
    };
    let table = &of.table;
    // Rows that are equal by one of these are equal by all, so all indexes of the columns are meant.
    let ty = table.columns[found].ty.ty;
    if let Some(collation) = &element.collation {
        check_collation(collation, Some(ty), collation.position())?;
    }
    if let Some(class) = &element.operator_class {
        check_operator_class(class, None)?;
        check_operator_class(class, Some(ty)).map_err(|_| unmatched())?;
    }
    Ok(found)
}

fn bind_conflict(
    binder: &mut Binder<'_>,
    of: &ChangeTarget,
    conflict: &OnConflict,
    checks: &[BoundCheck],
    returns: bool,
) -> Result<Conflict> {
    let table = &of.table;
    if let (Some(_), None) = (&conflict.update, &conflict.target) {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "ON CONFLICT DO UPDATE requires inference specification or constraint name",
        )
        .hint("For example, ON CONFLICT (column_name).")
        .at(conflict.position));
    }
    let arbiters = bind_arbiters(binder, of, conflict)?;
    let Some(update) = &conflict.update else {
        refuse_unmatched(conflict, &arbiters)?;
        return Ok(Conflict { arbiters, update: None });
    };
    let scope = of.conflict_scope();
    let assignments = bind_assignments(binder, of, &update.assignments, &scope)?;
    let condition = update.filter.as_ref().map(|expr| binder.condition(expr, &scope, false)).transpose()?;
    refuse_unmatched(conflict, &arbiters)?;
    let by_key = table.primary_key.as_ref().is_some_and(|key| arbiters == [key.oid]);
    let mut conditions = Vec::new();
    condition.clone().into_iter().for_each(|condition: Expr| condition.split_and(&mut conditions));
    let blind = match (by_key, returns) {
        (false, _) => Err(Observing("conflicts are not in the primary key alone".into())),
        (true, true) => Err(Observing("RETURNING sees the row".into())),
        (true, false) => BlindUpdate::plan(table, &assignments, conditions, checks).map(Arc::new),
    };
    Ok(Conflict { arbiters, update: Some(ConflictUpdate { assignments, condition, blind }) })
}

/// Fails if ON CONFLICT lists columns that no unique index has.
fn refuse_unmatched(conflict: &OnConflict, arbiters: &[Oid]) -> Result<()> {
    match conflict.target {
        Some(ConflictTarget::Index { .. }) if arbiters.is_empty() => Err(unmatched()),
        _ => Ok(()),
    }
}

fn unmatched() -> SqlError {
    let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
}
