//! The rows that UPDATE and DELETE change.

use std::sync::Arc;

use gnomon_engine::RowLock;
use gnomon_parser::ast::{RowFilter, TableReference};

use super::QueryBinder;
use crate::{
    Result,
    binder::scope::{Clause, Place, Scope, ScopeRelation},
    catalog::model::Table,
    executor::{TargetScan, plan::JoinKind},
    planner::{BoundTargets, FromItem, FromKind, JoinTree, plan_targets},
};

impl QueryBinder<'_, '_> {
    /// Plans which rows of `table` a statement changes: those that `filter` leaves, joined with `from`. The
    /// scope returned is that of [`Target::row`](crate::executor::Target), for SET and RETURNING.
    pub fn targets(
        &mut self,
        table: &Arc<Table>,
        alias: Option<&str>,
        from: &[TableReference],
        filter: Option<&RowFilter>,
        lock: RowLock,
    ) -> Result<(TargetScan, Scope<'static>)> {
        let outer = Scope::empty();
        let target = ScopeRelation::of_table(table, alias, 0).with_system_columns(table, table.columns.len());
        let item = FromItem {
            alias: target.name.clone(),
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
        let mut scope = Scope::empty();
        scope.push(target);
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
        let mut conditions = Vec::new();
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
