//! SEARCH and CYCLE of recursive queries.
//!
//! Each is columns more: a row's place in the order of the search, and the path of rows that led to it with a mark
//! whether the path has come back to one. The recursive term reads them from the row that it extends, though `*` does
//! not show them there; a projection above each term makes them for its own rows.

use std::{collections::HashSet, sync::Arc};

use gnomon_parser::{
    Position,
    ast::{self, CommonTable, Cycle, Ident, QueryBody, Search},
};

use super::{
    QueryBinder,
    output::SelectItem,
    recursion::{RecursiveParts, item_of},
};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        ResultColumn,
        relations::Carried,
        scope::{Clause, Place, Scope},
    },
    executor::{
        Expr,
        expr::ExprKind,
        plan::{self, Plan},
    },
    planner::JoinTree,
    types::{ColumnType, Datum, Scalar, Type},
};

/// The columns that SEARCH and CYCLE add to those of a query.
pub struct Paths<'c> {
    search: Option<(&'c Search, Vec<usize>)>,
    cycle: Option<(&'c Cycle, Vec<usize>, CycleMarks)>,
}

/// The marks of rows whose path is a cycle, and of others.
pub struct CycleMarks {
    value: Expr,
    default: Expr,
}

impl<'c> Paths<'c> {
    /// Those of a query; [`Paths::find`] finds what they are made from.
    ///
    /// # Errors
    /// 42601 and 0A000 for terms that do not go with the clauses.
    pub fn of(
        table: &'c CommonTable,
        parts: &RecursiveParts<'_>,
        marks: Option<CycleMarks>,
    ) -> Result<Paths<'c>> {
        let (search, cycle) = (table.search.as_deref(), table.cycle.as_deref());
        if search.is_some() || cycle.is_some() {
            check_terms(parts)?;
        }
        Ok(Paths {
            search: search.map(|search| (search, Vec::new())),
            cycle: cycle.zip(marks).map(|(cycle, marks)| (cycle, Vec::new(), marks)),
        })
    }

    /// Finds the columns that the clauses name among those of the query.
    ///
    /// # Errors
    /// 42601 and 42701 for names that are not there, or are taken.
    pub fn find(&mut self, columns: &[ResultColumn]) -> Result<()> {
        if let Some((search, found)) = &mut self.search {
            *found = positions("search", &search.columns, columns, search.position)?;
            refuse_used("search sequence", &search.sequence, columns, search.position)?;
        }
        if let Some((cycle, found, _)) = &mut self.cycle {
            *found = positions("cycle", &cycle.columns, columns, cycle.position)?;
            refuse_used("cycle mark", &cycle.mark, columns, cycle.position)?;
            refuse_used("cycle path", &cycle.path, columns, cycle.position)?;
            let both = ["cycle mark column name", "cycle path column name"];
            refuse_same(both, [&cycle.mark, &cycle.path], cycle.position)?;
        }
        if let (Some((search, _)), Some((cycle, ..))) = (&self.search, &self.cycle) {
            let sequence = "search sequence column name";
            let names = [&search.sequence, &cycle.mark];
            refuse_same([sequence, "cycle mark column name"], names, search.position)?;
            let names = [&search.sequence, &cycle.path];
            refuse_same([sequence, "cycle path column name"], names, search.position)?;
        }
        Ok(())
    }

    /// The columns, in the order in which they follow the query's own.
    pub fn columns(&self) -> Vec<ResultColumn> {
        let column = |name: &Ident, ty: ColumnType| ResultColumn {
            name: name.name.to_string(),
            ty,
            table: 0,
            attribute: 0,
        };
        let rows = Type::Array(Scalar::Record);
        let mut columns = Vec::new();
        if let Some((search, _)) = &self.search {
            let ty = if search.is_breadth_first { Type::Record } else { rows };
            columns.push(column(&search.sequence, ty.into()));
        }
        if let Some((cycle, _, marks)) = &self.cycle {
            columns.push(column(&cycle.mark, marks.value.ty));
            columns.push(column(&cycle.path, rows.into()));
        }
        columns
    }
}

impl QueryBinder<'_, '_> {
    /// Binds the marks of CYCLE.
    pub(super) fn cycle_marks(&mut self, cycle: &Cycle, level: &Scope<'_>) -> Result<CycleMarks> {
        let Some((value, default)) = &cycle.values else {
            return Ok(CycleMarks { value: Expr::bool(true), default: Expr::bool(false) });
        };
        let written = [value, default];
        let mut expressions = self.expressions();
        let mut bound = Vec::with_capacity(written.len());
        for expr in written {
            bound.push(expressions.bind(expr, Place::new(level, Clause::Cycle))?);
        }
        let ty = expressions.common_type(&bound, "CYCLE", |at| written.get(at).copied())?;
        let mut bound = self.statement.typing.all_to(bound, ty, "CYCLE")?.into_iter();
        match (bound.next(), bound.next()) {
            (Some(value), Some(default)) => Ok(CycleMarks { value, default }),
            _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "CYCLE without its marks")),
        }
    }

    /// Adds the columns of rows of the first term.
    pub(super) fn first_paths(
        &mut self,
        paths: &Paths<'_>,
        columns: &[ResultColumn],
        plan: Plan,
    ) -> Result<Plan> {
        let mut out = all_of(columns);
        if let Some((search, positions)) = &paths.search {
            out.push(match search.is_breadth_first {
                true => {
                    let depth = Expr::constant(Datum::Int8(0), Type::Int8);
                    self.row_of(columns, positions, Some(depth))?
                }
                false => self.path_of(columns, positions)?,
            });
        }
        if let Some((_, positions, marks)) = &paths.cycle {
            out.push(marks.default.clone());
            out.push(self.path_of(columns, positions)?);
        }
        Ok(projected(plan, out, columns.len()))
    }

    /// Adds the columns of rows of the recursive term, which has those of the rows that it extends. What follows a
    /// cycle is left out.
    pub(super) fn next_paths(
        &mut self,
        paths: &Paths<'_>,
        columns: &[ResultColumn],
        mut plan: Plan,
    ) -> Result<Plan> {
        let mut carried = all_of(&[columns, &paths.columns()].concat()).into_iter().skip(columns.len());
        let mut out = all_of(columns);
        if let Some((search, positions)) = &paths.search
            && let Some(before) = carried.next()
        {
            out.push(match search.is_breadth_first {
                true => {
                    let record = Box::new(before);
                    let depth = Expr::new(ExprKind::Field { record, index: 0 }, Type::Int8);
                    let one = Expr::constant(Datum::Int8(1), Type::Int8);
                    let depth = self.statement.typing.operator("+", vec![depth, one])?;
                    self.row_of(columns, positions, Some(depth))?
                }
                false => self.longer_path(before, columns, positions)?,
            });
        }
        if let Some((_, positions, marks)) = &paths.cycle
            && let (Some(mark), Some(path)) = (carried.next(), carried.next())
        {
            let goes_on = self.statement.typing.operator("<>", vec![mark, marks.value.clone()])?;
            plan = plan.filtered(goes_on);
            let row = self.row_of(columns, positions, None)?;
            let is_cycle = self.expressions().any_all_array(row, "=", path.clone(), false)?;
            let kind = ExprKind::Case {
                arms: vec![(is_cycle, marks.value.clone())],
                otherwise: Box::new(marks.default.clone()),
            };
            out.push(Expr { kind, ty: marks.value.ty });
            out.push(self.longer_path(path, columns, positions)?);
        }
        Ok(projected(plan, out, columns.len()))
    }

    /// The row of some columns, perhaps behind a value.
    fn row_of(&mut self, columns: &[ResultColumn], positions: &[usize], first: Option<Expr>) -> Result<Expr> {
        let all = all_of(columns);
        let chosen = positions.iter().map(|position| all[*position].clone());
        self.statement.typing.row(first.into_iter().chain(chosen).collect())
    }

    /// A path of one row.
    fn path_of(&mut self, columns: &[ResultColumn], positions: &[usize]) -> Result<Expr> {
        let row = self.row_of(columns, positions, None)?;
        self.statement.typing.array_of(vec![row], Type::Record, "ARRAY")
    }

    fn longer_path(&mut self, path: Expr, columns: &[ResultColumn], positions: &[usize]) -> Result<Expr> {
        let step = self.path_of(columns, positions)?;
        self.statement.typing.operator("||", vec![path, step])
    }
}

/// The columns of SEARCH and CYCLE that a recursive term takes from the row that it extends.
///
/// # Errors
/// 0A000 if FROM does not have the query itself.
pub fn carried_items(
    from: Option<&JoinTree>,
    Carried { name, table, columns }: Carried,
) -> Result<Vec<SelectItem>> {
    let Some(item) = from.and_then(|from| item_of(from, &[table])) else {
        let message = format!(
            "with a SEARCH or CYCLE clause, the recursive reference to WITH query \"{name}\" must be at the top level of its right-hand SELECT"
        );
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    };
    // The last number is that of no column of the query.
    let first = item.base + item.width.saturating_sub(columns.len() + 1);
    let items = columns.into_iter().zip(first..).map(|(column, at)| SelectItem {
        expr: Expr::column(at, column.name.clone(), column.ty),
        name: column.name,
        table: 0,
        attribute: 0,
    });
    Ok(items.collect())
}

fn all_of(columns: &[ResultColumn]) -> Vec<Expr> {
    columns.iter().enumerate().map(|(at, column)| Expr::column(at, column.name.clone(), column.ty)).collect()
}

/// A plan with these columns, unless they are its own.
fn projected(input: Plan, columns: Vec<Expr>, own: usize) -> Plan {
    match columns.len() == own {
        true => input,
        false => Plan::Project(Arc::new(plan::Project { input, columns })),
    }
}

/// Refuses terms that are set operations.
fn check_terms(parts: &RecursiveParts<'_>) -> Result<()> {
    let refused = |state, side: &str| {
        let message = format!("with a SEARCH or CYCLE clause, the {side} side of the UNION must be a SELECT");
        Err(SqlError::new(state, message))
    };
    if !parts.operations.is_empty() || is_set_operation(parts.first) {
        return refused(SqlState::FEATURE_NOT_SUPPORTED, "left");
    }
    match is_set_operation(parts.second) {
        true => refused(SqlState::SYNTAX_ERROR, "right"),
        false => Ok(()),
    }
}

fn is_set_operation(body: &QueryBody) -> bool {
    match body {
        QueryBody::SetOperations(_) => true,
        QueryBody::Query(query) => {
            let ast::Query { with, body, order_by, limit, locks } = &**query;
            let is_plain = with.is_none() && order_by.is_empty() && limit.is_none() && locks.is_empty();
            is_plain && is_set_operation(body)
        }
        QueryBody::Select(_) | QueryBody::Values(_) => false,
    }
}

/// The positions of the columns that a clause names.
fn positions(
    kind: &str,
    names: &[Ident],
    columns: &[ResultColumn],
    position: Position,
) -> Result<Vec<usize>> {
    let mut seen = HashSet::new();
    let mut positions = Vec::with_capacity(names.len());
    for name in names {
        let Some(found) = columns.iter().position(|column| *column.name == *name.name) else {
            let message = format!("{kind} column \"{}\" not in WITH query column list", name.name);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position));
        };
        if !seen.insert(&name.name) {
            let message = format!("{kind} column \"{}\" specified more than once", name.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message).at(position));
        }
        positions.push(found);
    }
    Ok(positions)
}

fn refuse_used(kind: &str, name: &Ident, columns: &[ResultColumn], position: Position) -> Result<()> {
    match columns.iter().any(|column| *column.name == *name.name) {
        true => {
            let message =
                format!("{kind} column name \"{}\" already used in WITH query column list", name.name);
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position))
        }
        false => Ok(()),
    }
}

fn refuse_same(kinds: [&str; 2], [first, second]: [&Ident; 2], position: Position) -> Result<()> {
    match first.name == second.name {
        true => {
            let message = format!("{} and {} are the same", kinds[0], kinds[1]);
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position))
        }
        false => Ok(()),
    }
}
