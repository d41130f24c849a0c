//! The rows that UPDATE and DELETE change.

use gnomon_engine::RowLock;
use gnomon_parser::ast::{RowFilter, TableReference};

use super::QueryBinder;
use crate::{
    Result,
    binder::{
        ChangeTarget,
        scope::{Clause, Place, Scope},
    },
    executor::{TargetScan, plan::JoinKind},
    planner::{BoundTargets, FromItem, FromKind, JoinTree, plan_targets},
};

impl QueryBinder<'_, '_> {
    /// Plans which rows a statement changes: those of `of` that `filter` leaves, joined with `from`. The
    /// scope returned is that of [`Target::row`](crate::executor::Target), for SET and RETURNING.
    pub fn targets(
        &mut self,
        of: &ChangeTarget,
        from: &[TableReference],
        filter: Option<&RowFilter>,
        lock: RowLock,
    ) -> Result<(TargetScan, Scope<'static>)> {
        let outer = Scope::empty();
        let ChangeTarget { table, relation, .. } = of;
        let item = FromItem {
            // Rows of a view are the table's to EXPLAIN.
            alias: if of.is_view() { table.name.clone() } else { relation.name.clone() },
            kind: match filter {
                Some(RowFilter::CurrentOf(cursor)) => {
                    FromKind::Current(table.clone(), (&*cursor.name).into())
                }
                _ => FromKind::Table(table.clone()),
            },
            base: 0,
            width: table.columns.len() + 1,
            params: Vec::new(),
        };
        let mut scope = of.scope();
        let mut tree = JoinTree::Item(Box::new(item));
        let mut width = table.columns.len() + 1;
        if !from.is_empty() {
            let (others, other_scope, next) = self.bind_from_after(from, &outer, &scope, width)?;
            scope.relations.extend(other_scope.relations);
            scope.columns.extend(other_scope.columns);
            width = next;
            if let Some(others) = others {
                tree = JoinTree::Join {
                    kind: JoinKind::Inner,
                    left: Box::new(tree),
                    right: Box::new(others),
                    condition: Vec::new(),
                };
            }
        }
        let mut conditions = of.conditions.clone();
        if let Some(RowFilter::Where(condition)) = filter {
            self.expressions()
                .bind_condition(condition, Place::new(&scope, Clause::Where))?
                .split_and(&mut conditions);
        }
        let needed = (0..table.columns.len()).chain(scope.numbers()).collect();
        let targets = BoundTargets { table: table.clone(), from: tree, width, conditions, needed, lock };
        let environment = self.statement.typing.context.environment;
        Ok((plan_targets(targets, &mut self.statement.numbers, environment)?, scope))
    }
}
