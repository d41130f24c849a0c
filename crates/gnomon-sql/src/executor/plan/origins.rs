//! The stored rows that the rows of a query come from, for WHERE CURRENT OF.
//!
//! The plan of a cursor returns keys behind the columns of each row: of the rows that it has locked, or if it locks none,
//! of the row that a scan has passed on. As in PostgreSQL, without locks a key is passed on through conditions,
//! select lists, LIMIT and UNION ALL, and lost in joins, sorts and groups.

use std::sync::Arc;

use super::{Filter, Limit, Plan, Project, TableScan, With};
use crate::{
    catalog::model::Table,
    executor::Expr,
    types::{Datum, Type},
};

/// The tables that the rows of a cursor come from.
#[derive(Debug, Default)]
pub struct Origins {
    /// For each column behind those of the query, the table whose key it is. It is NULL in rows of other tables.
    pub tables: Vec<Arc<Table>>,
    /// True if these are the tables that the query locks.
    pub are_locked: bool,
}

/// A plan with keys behind its columns, and the tables that these are of.
pub fn keyed(plan: &Plan) -> (Plan, Origins) {
    let mut origins = Origins { tables: Vec::new(), are_locked: plan.locks_rows() };
    let plan = with_keys(plan, &mut origins).unwrap_or_else(|| plan.clone());
    (plan, origins)
}

/// A plan with keys behind its columns; none if it passes no row of a table on.
fn with_keys(plan: &Plan, origins: &mut Origins) -> Option<Plan> {
    let first = origins.tables.len();
    Some(match plan {
        Plan::TableScan(_) if origins.are_locked => return None,
        Plan::TableScan(scan) => {
            origins.tables.push(scan.table.clone());
            match scan.with_key {
                true => repeating(plan, [scan.columns.len()])?,
                false => Plan::TableScan(Arc::new(TableScan { with_key: true, ..TableScan::clone(scan) })),
            }
        }
        Plan::LockRows(node) => {
            origins.tables.extend(node.tables.iter().map(|locked| locked.table.clone()));
            repeating(plan, node.tables.iter().map(|locked| locked.key))?
        }
        Plan::Project(node) => {
            let width = node.input.width()?;
            let input = with_keys(&node.input, origins)?;
            let keys = (width..).take(origins.tables.len() - first).map(key);
            let columns = node.columns.iter().cloned().chain(keys).collect();
            Plan::Project(Arc::new(Project { input, columns }))
        }
        Plan::Filter(node) => {
            let input = with_keys(&node.input, origins)?;
            Plan::Filter(Arc::new(Filter { input, condition: node.condition.clone() }))
        }
        Plan::Limit(node) => Plan::Limit(Arc::new(Limit {
            input: with_keys(&node.input, origins)?,
            limit: node.limit.clone(),
            offset: node.offset.clone(),
            ties: node.ties.clone(),
        })),
        Plan::With(node) => {
            let body = with_keys(&node.body, origins)?;
            Plan::With(Arc::new(With { tables: node.tables.clone(), body }))
        }
        Plan::Append(arms) => append(arms, plan.width()?, origins),
        _ => return None,
    })
}

/// The arms of UNION ALL, each with keys of its own and NULL in place of the others'.
fn append(arms: &[Plan], width: usize, origins: &mut Origins) -> Plan {
    let base = origins.tables.len();
    let mut keyed = Vec::with_capacity(arms.len());
    for arm in arms {
        let first = origins.tables.len();
        let plan = with_keys(arm, origins).unwrap_or_else(|| arm.clone());
        keyed.push((plan, first..origins.tables.len()));
    }
    let all = base..origins.tables.len();
    let arm = |(input, own): (Plan, std::ops::Range<usize>)| {
        let of_table = |number: usize| match own.contains(&number) {
            true => key(width + number - own.start),
            false => Expr::constant(Datum::Null, Type::Bytea),
        };
        let columns = (0..width).map(column).chain(all.clone().map(of_table)).collect();
        Plan::Project(Arc::new(Project { input, columns }))
    };
    Plan::Append(Arc::new(keyed.into_iter().map(arm).collect()))
}

/// A plan with some of its columns once more behind all of them.
fn repeating(plan: &Plan, keys: impl IntoIterator<Item = usize>) -> Option<Plan> {
    let columns = (0..plan.width()?).map(column).chain(keys.into_iter().map(key)).collect();
    Some(Plan::Project(Arc::new(Project { input: plan.clone(), columns })))
}

fn column(position: usize) -> Expr {
    Expr::column(position, "?column?", Type::Unknown.into())
}

fn key(position: usize) -> Expr {
    Expr::column(position, "?column?", Type::Bytea.into())
}
