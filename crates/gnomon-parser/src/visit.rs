//! Walks through trees.
//!
//! A visitor has a method for each kind of node that walks are about. Left as it is, it walks through what is within the
//! node; one that is overridden calls the `walk` method of its node where the walk is to go on, or not at all. Names of
//! types, and the constants in them, are not visited.

use std::ops::ControlFlow;

use crate::{
    ast::{
        Access, Assignment, AssignmentTarget, CommonTable, ConflictTarget, Distinct, Expr, FrameBound,
        GroupingElement, InSet, IndexKey, JoinCondition, OnConflict, Over, QuantifiedOperand, Query,
        QueryBody, RelationName, RelationReference, RowFilter, Select, SortBy, Statement, TableReference,
        Target, WindowDefinition, With,
    },
    parse::{STACK_RED_ZONE, STACK_STEP},
};

fn on_deep_stack<R>(walk: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(STACK_RED_ZONE, STACK_STEP, walk)
}

macro_rules! visitor {
    ($(#[$doc:meta])* $name:ident $(, $mut:tt)?) => {
        $(#[$doc])*
        #[allow(missing_docs, reason = "named as what they visit, or walk through")]
        pub trait $name {
            /// The value that a walk can end with before all is visited.
            type Break;

            fn visit_query(&mut self, query: &$($mut)? Query) -> ControlFlow<Self::Break> {
                self.walk_query(query)
            }

            fn visit_select(&mut self, select: &$($mut)? Select) -> ControlFlow<Self::Break> {
                self.walk_select(select)
            }

            fn visit_table(&mut self, table: &$($mut)? TableReference) -> ControlFlow<Self::Break> {
                self.walk_table(table)
            }

            /// Visits the name of a relation that is read or changed.
            fn visit_relation(&mut self, _: &$($mut)? RelationName) -> ControlFlow<Self::Break> {
                ControlFlow::Continue(())
            }

            fn visit_expr(&mut self, expr: &$($mut)? Expr) -> ControlFlow<Self::Break> {
                self.walk_expr(expr)
            }

            /// Walks through a query or a change, as WITH has them. Walks end at other statements.
            fn walk_statement(&mut self, statement: &$($mut)? Statement) -> ControlFlow<Self::Break> {
                match statement {
                    Statement::Query(query) => self.visit_query(query)?,
                    Statement::Insert(insert) => {
                        if let Some(with) = &$($mut)? insert.with {
                            self.walk_with(with)?;
                        }
                        self.visit_relation(&$($mut)? insert.table)?;
                        for target in &$($mut)? insert.columns {
                            self.walk_path(&$($mut)? target.path)?;
                        }
                        if let Some(source) = &$($mut)? insert.source {
                            self.visit_query(source)?;
                        }
                        if let Some(conflict) = &$($mut)? insert.on_conflict {
                            self.walk_conflict(conflict)?;
                        }
                        self.walk_targets(&$($mut)? insert.returning)?;
                    }
                    Statement::Update(update) => {
                        if let Some(with) = &$($mut)? update.with {
                            self.walk_with(with)?;
                        }
                        self.walk_relation(&$($mut)? update.table)?;
                        self.walk_assignments(&$($mut)? update.assignments)?;
                        for table in &$($mut)? update.from {
                            self.visit_table(table)?;
                        }
                        if let Some(RowFilter::Where(filter)) = &$($mut)? update.filter {
                            self.visit_expr(filter)?;
                        }
                        self.walk_targets(&$($mut)? update.returning)?;
                    }
                    Statement::Delete(delete) => {
                        if let Some(with) = &$($mut)? delete.with {
                            self.walk_with(with)?;
                        }
                        self.walk_relation(&$($mut)? delete.table)?;
                        for table in &$($mut)? delete.using {
                            self.visit_table(table)?;
                        }
                        if let Some(RowFilter::Where(filter)) = &$($mut)? delete.filter {
                            self.visit_expr(filter)?;
                        }
                        self.walk_targets(&$($mut)? delete.returning)?;
                    }
                    _ => {}
                }
                ControlFlow::Continue(())
            }

            fn walk_conflict(&mut self, conflict: &$($mut)? OnConflict) -> ControlFlow<Self::Break> {
                if let Some(ConflictTarget::Index { elements, filter, .. }) = &$($mut)? conflict.target {
                    for element in elements {
                        if let IndexKey::Expr(expr) = &$($mut)? element.key {
                            self.visit_expr(expr)?;
                        }
                    }
                    self.walk_optional(filter)?;
                }
                if let Some(update) = &$($mut)? conflict.update {
                    self.walk_assignments(&$($mut)? update.assignments)?;
                    self.walk_optional(&$($mut)? update.filter)?;
                }
                ControlFlow::Continue(())
            }

            fn walk_assignments(&mut self, items: &$($mut)? [Assignment]) -> ControlFlow<Self::Break> {
                for item in items {
                    match item {
                        Assignment::One(AssignmentTarget { path, .. }, value) => {
                            self.walk_path(path)?;
                            self.visit_expr(value)?;
                        }
                        Assignment::Row { targets, value, .. } => {
                            for target in targets {
                                self.walk_path(&$($mut)? target.path)?;
                            }
                            self.visit_expr(value)?;
                        }
                    }
                }
                ControlFlow::Continue(())
            }

            fn walk_query(&mut self, query: &$($mut)? Query) -> ControlFlow<Self::Break> {
                on_deep_stack(|| {
                    if let Some(with) = &$($mut)? query.with {
                        self.walk_with(with)?;
                    }
                    self.walk_body(&$($mut)? query.body)?;
                    self.walk_order(&$($mut)? query.order_by)?;
                    if let Some(limit) = &$($mut)? query.limit {
                        self.walk_optional(&$($mut)? limit.count)?;
                        self.walk_optional(&$($mut)? limit.offset)?;
                    }
                    ControlFlow::Continue(())
                })
            }

            fn walk_with(&mut self, with: &$($mut)? With) -> ControlFlow<Self::Break> {
                for CommonTable { statement, cycle, .. } in &$($mut)? with.tables {
                    self.walk_statement(statement)?;
                    if let Some(cycle) = cycle
                        && let Some((value, default)) = &$($mut)? cycle.values
                    {
                        self.visit_expr(value)?;
                        self.visit_expr(default)?;
                    }
                }
                ControlFlow::Continue(())
            }

            fn walk_body(&mut self, body: &$($mut)? QueryBody) -> ControlFlow<Self::Break> {
                on_deep_stack(|| match body {
                    QueryBody::Select(select) => self.visit_select(select),
                    QueryBody::Query(query) => self.visit_query(query),
                    QueryBody::SetOperations(operations) => {
                        self.walk_body(&$($mut)? operations.first)?;
                        for operation in &$($mut)? operations.rest {
                            self.walk_body(&$($mut)? operation.right)?;
                        }
                        ControlFlow::Continue(())
                    }
                    QueryBody::Values(values) => {
                        for row in &$($mut)? values.rows {
                            self.walk_exprs(row)?;
                        }
                        ControlFlow::Continue(())
                    }
                })
            }

            fn walk_select(&mut self, select: &$($mut)? Select) -> ControlFlow<Self::Break> {
                if let Distinct::On(exprs) = &$($mut)? select.distinct {
                    self.walk_exprs(exprs)?;
                }
                self.walk_targets(&$($mut)? select.targets)?;
                for table in &$($mut)? select.from {
                    self.visit_table(table)?;
                }
                self.walk_optional(&$($mut)? select.filter)?;
                for element in &$($mut)? select.group_by {
                    self.walk_grouping(element)?;
                }
                self.walk_optional(&$($mut)? select.having)?;
                for window in &$($mut)? select.windows {
                    self.walk_window(window)?;
                }
                ControlFlow::Continue(())
            }

            fn walk_targets(&mut self, targets: &$($mut)? [Target]) -> ControlFlow<Self::Break> {
                for target in targets {
                    self.visit_expr(&$($mut)? target.value)?;
                }
                ControlFlow::Continue(())
            }

            fn walk_grouping(&mut self, element: &$($mut)? GroupingElement) -> ControlFlow<Self::Break> {
                match element {
                    GroupingElement::Expr(expr) => self.visit_expr(expr),
                    GroupingElement::Empty(_) => ControlFlow::Continue(()),
                    GroupingElement::Rollup(exprs, _) | GroupingElement::Cube(exprs, _) => {
                        self.walk_exprs(exprs)
                    }
                    GroupingElement::Sets(elements, _) => on_deep_stack(|| {
                        for element in elements {
                            self.walk_grouping(element)?;
                        }
                        ControlFlow::Continue(())
                    }),
                }
            }

            fn walk_window(&mut self, window: &$($mut)? WindowDefinition) -> ControlFlow<Self::Break> {
                self.walk_exprs(&$($mut)? window.partition_by)?;
                self.walk_order(&$($mut)? window.order_by)?;
                if let Some(frame) = &$($mut)? window.frame {
                    if let FrameBound::Preceding(expr) | FrameBound::Following(expr) = &$($mut)? frame.start {
                        self.visit_expr(expr)?;
                    }
                    if let FrameBound::Preceding(expr) | FrameBound::Following(expr) = &$($mut)? frame.end {
                        self.visit_expr(expr)?;
                    }
                }
                ControlFlow::Continue(())
            }

            fn walk_order(&mut self, items: &$($mut)? [SortBy]) -> ControlFlow<Self::Break> {
                for item in items {
                    self.visit_expr(&$($mut)? item.value)?;
                }
                ControlFlow::Continue(())
            }

            fn walk_table(&mut self, table: &$($mut)? TableReference) -> ControlFlow<Self::Break> {
                on_deep_stack(|| match table {
                    TableReference::Relation(relation) => self.walk_relation(relation),
                    TableReference::Function(function) => {
                        for (call, _) in &$($mut)? function.functions {
                            self.visit_expr(call)?;
                        }
                        ControlFlow::Continue(())
                    }
                    TableReference::Subquery(subquery) => self.visit_query(&$($mut)? subquery.query),
                    TableReference::Join(join) => {
                        self.visit_table(&$($mut)? join.left)?;
                        self.visit_table(&$($mut)? join.right)?;
                        match &$($mut)? join.condition {
                            JoinCondition::On(condition) => self.visit_expr(condition),
                            JoinCondition::None | JoinCondition::Natural | JoinCondition::Using(..) => {
                                ControlFlow::Continue(())
                            }
                        }
                    }
                })
            }

            fn walk_relation(&mut self, relation: &$($mut)? RelationReference) -> ControlFlow<Self::Break> {
                self.visit_relation(&$($mut)? relation.name)?;
                if let Some(sample) = &$($mut)? relation.sample {
                    self.walk_exprs(&$($mut)? sample.arguments)?;
                    self.walk_optional(&$($mut)? sample.repeatable)?;
                }
                ControlFlow::Continue(())
            }

            fn walk_exprs(&mut self, exprs: &$($mut)? [Expr]) -> ControlFlow<Self::Break> {
                for expr in exprs {
                    self.visit_expr(expr)?;
                }
                ControlFlow::Continue(())
            }

            fn walk_optional(&mut self, expr: &$($mut)? Option<Expr>) -> ControlFlow<Self::Break> {
                match expr {
                    Some(expr) => self.visit_expr(expr),
                    None => ControlFlow::Continue(()),
                }
            }

            fn walk_path(&mut self, path: &$($mut)? [Access]) -> ControlFlow<Self::Break> {
                for access in path {
                    match access {
                        Access::Field(_) | Access::Star => {}
                        Access::Subscript(expr) => self.visit_expr(expr)?,
                        Access::Slice(low, high) => {
                            self.walk_optional(low)?;
                            self.walk_optional(high)?;
                        }
                    }
                }
                ControlFlow::Continue(())
            }

            fn walk_expr(&mut self, expr: &$($mut)? Expr) -> ControlFlow<Self::Break> {
                on_deep_stack(|| {
                    match expr {
                        Expr::Column(_)
                        | Expr::Constant(_)
                        | Expr::Parameter(_)
                        | Expr::Default(_)
                        | Expr::SystemValue(_) => {}
                        Expr::Indirection(indirection) => {
                            self.visit_expr(&$($mut)? indirection.base)?;
                            self.walk_path(&$($mut)? indirection.path)?;
                        }
                        Expr::Operation(operation) => {
                            self.walk_optional(&$($mut)? operation.left)?;
                            self.visit_expr(&$($mut)? operation.right)?;
                        }
                        Expr::Quantified(quantified) => {
                            self.visit_expr(&$($mut)? quantified.left)?;
                            match &$($mut)? quantified.right {
                                QuantifiedOperand::Query(query) => self.visit_query(query)?,
                                QuantifiedOperand::Array(array) => self.visit_expr(array)?,
                            }
                        }
                        Expr::And(chain) | Expr::Or(chain) => self.walk_exprs(&$($mut)? chain.operands)?,
                        Expr::Not(not) => self.visit_expr(&$($mut)? not.operand)?,
                        Expr::IsNull(test) => self.visit_expr(&$($mut)? test.operand)?,
                        Expr::IsBoolean(test) => self.visit_expr(&$($mut)? test.operand)?,
                        Expr::IsDistinct(test) => {
                            self.visit_expr(&$($mut)? test.left)?;
                            self.visit_expr(&$($mut)? test.right)?;
                        }
                        Expr::In(test) => {
                            self.visit_expr(&$($mut)? test.operand)?;
                            match &$($mut)? test.set {
                                InSet::List(list) => self.walk_exprs(list)?,
                                InSet::Query(query) => self.visit_query(query)?,
                            }
                        }
                        Expr::Like(like) => {
                            self.visit_expr(&$($mut)? like.operand)?;
                            self.visit_expr(&$($mut)? like.pattern)?;
                            self.walk_optional(&$($mut)? like.escape)?;
                        }
                        Expr::Between(between) => {
                            self.visit_expr(&$($mut)? between.operand)?;
                            self.visit_expr(&$($mut)? between.low)?;
                            self.visit_expr(&$($mut)? between.high)?;
                        }
                        Expr::Cast(cast) => self.visit_expr(&$($mut)? cast.operand)?,
                        Expr::Collate(collate) => self.visit_expr(&$($mut)? collate.operand)?,
                        Expr::Case(case) => {
                            self.walk_optional(&$($mut)? case.operand)?;
                            for (condition, result) in &$($mut)? case.branches {
                                self.visit_expr(condition)?;
                                self.visit_expr(result)?;
                            }
                            self.walk_optional(&$($mut)? case.otherwise)?;
                        }
                        Expr::Row(row) => self.walk_exprs(&$($mut)? row.fields)?,
                        Expr::Array(array) => self.walk_exprs(&$($mut)? array.elements)?,
                        Expr::Subquery(subquery)
                        | Expr::Exists(subquery)
                        | Expr::ArraySubquery(subquery) => self.visit_query(&$($mut)? subquery.query)?,
                        Expr::Function(call) => {
                            for argument in &$($mut)? call.arguments {
                                self.visit_expr(&$($mut)? argument.value)?;
                            }
                            self.walk_order(&$($mut)? call.order_by)?;
                            self.walk_optional(&$($mut)? call.filter)?;
                            if let Some(Over::Window(window)) = &$($mut)? call.over {
                                self.walk_window(window)?;
                            }
                        }
                        Expr::Coalesce(list)
                        | Expr::Greatest(list)
                        | Expr::Least(list)
                        | Expr::Grouping(list) => self.walk_exprs(&$($mut)? list.operands)?,
                        Expr::NullIf(call) => {
                            self.visit_expr(&$($mut)? call.left)?;
                            self.visit_expr(&$($mut)? call.right)?;
                        }
                    }
                    ControlFlow::Continue(())
                })
            }
        }
    };
}

visitor! {
    /// Reads trees.
    Visitor
}

visitor! {
    /// Changes trees.
    VisitorMut, mut
}
