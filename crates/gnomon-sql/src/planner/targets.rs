//! The rows that UPDATE and DELETE change: how they are found.

use std::{collections::BTreeSet, sync::Arc};

use gnomon_engine::RowLock;

use super::{
    JoinTree, Numbers,
    conditions::factored,
    from::{Wishes, plan_from},
};
use crate::{
    Result,
    catalog::model::Table,
    executor::{
        Expr, Find, TargetScan,
        plan::{Access, Plan, Project},
    },
    types::{Datum, Environment, Type},
};

/// Which rows of a table a statement changes, bound.
pub struct BoundTargets {
    /// The table.
    pub table: Arc<Table>,
    /// The table, which takes the first numbers, joined with what FROM or USING names.
    pub from: JoinTree,
    /// How many numbers the columns of all take.
    pub width: usize,
    /// The conditions on the joined row.
    pub conditions: Vec<Expr>,
    /// The numbers of columns that SET and RETURNING can name, of a join.
    pub needed: BTreeSet<usize>,
    /// The lock that a row is to have.
    pub lock: RowLock,
}

/// Plans how the rows are found.
pub fn plan_targets(
    targets: BoundTargets,
    numbers: &mut Numbers,
    environment: &dyn Environment,
) -> Result<TargetScan> {
    let BoundTargets { table, from, width, needed, conditions, lock } = targets;
    let conditions = factored(conditions);
    let is_alone = matches!(from, JoinTree::Item(_));
    let all = Expr::and(conditions.clone());
    // A subquery that reads the table would see what the statement has changed when it is tested again.
    let once = all.is_volatile() || all.reads(table.oid);
    let reads_key = all.columns().contains(&table.columns.len());
    let needed: BTreeSet<usize> = match is_alone {
        true if once => all.columns(),
        true => BTreeSet::new(),
        false => needed,
    };
    let condition = (!conditions.is_empty()).then_some(all);
    let wishes = Wishes { needed, order: &[], limited: false, keys: vec![0] };
    let planned = plan_from(from, conditions, &wishes, numbers, environment)?;
    let find = match planned.plan {
        Plan::TableScan(scan) if is_alone => match &scan.access {
            // A condition on the row's address needs the row as the statement finds it.
            Access::Key(access) if access.is_whole_key() && !reads_key => {
                Find::Key(access.clone(), Plan::TableScan(scan.clone()))
            }
            _ => Find::Scan(Plan::TableScan(scan)),
        },
        plan => {
            let column = |number: usize| match planned.layout.iter().position(|other| *other == number) {
                Some(position) => Expr::column(position, "?column?", Type::Unknown.into()),
                None => Expr::constant(Datum::Null, Type::Unknown),
            };
            let columns = (0..width).map(column).collect();
            Find::Join(Plan::Project(Arc::new(Project { input: plan, columns })))
        }
    };
    Ok(TargetScan::new(table, lock, find, condition, once))
}
