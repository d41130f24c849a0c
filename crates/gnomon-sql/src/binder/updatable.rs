//! Changes of rows through views, by PostgreSQL's rules of the views that are automatically updatable.
//!
//! The rows of such a view are rows of one table, perhaps by another such view. The name of the view means the row of
//! the table: a column of the view is one of the table's, or an expression over its row, which can be read but not
//! assigned to. The conditions of the view hold for the rows that UPDATE and DELETE find; a row that INSERT or UPDATE
//! makes need not meet them, as without WITH CHECK OPTION.

use std::{ops::ControlFlow, sync::Arc};

use gnomon_parser::{
    ast::{
        Distinct, Expr as Syntax, FunctionCall, Ident, Query, QueryBody, RelationName, RelationReference,
        Select, TableReference,
    },
    visit::Visitor,
};

use super::{
    Binder,
    relations::Target,
    scope::{Clause, Place, Scope, ScopeColumn, ScopeRelation, WholeRow},
};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        model::{Table, View},
        row_address::is_system_column,
    },
    executor::{
        Expr,
        expr::{ExprKind, on_deep_stack},
    },
    functions::{is_aggregate, is_set_function},
    types::Datum,
};

/// The largest number of nodes of the expressions of a view over the row of its table.
const NODES_MAX: usize = 1 << 18;

/// A statement that changes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

impl Change {
    fn command(self) -> &'static str {
        match self {
            Change::Insert => "INSERT",
            Change::Update => "UPDATE",
            Change::Delete => "DELETE",
        }
    }

    /// Returns the error for a view that PostgreSQL does not change either.
    fn refused(self, view: &View, reason: &str) -> SqlError {
        let (verb, doing) = match self {
            Change::Insert => ("insert into", "inserting into"),
            Change::Update => ("update", "updating"),
            Change::Delete => ("delete from", "deleting from"),
        };
        let (state, command) = (SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, self.command());
        SqlError::new(state, format!("cannot {verb} view \"{}\"", view.name)).detail(reason).hint(format!(
            "To enable {doing} the view, provide an INSTEAD OF {command} trigger or an unconditional ON {command} DO \
             INSTEAD rule."
        ))
    }
}

/// The rows that a statement changes, by the name that it has for them: a table's, or those that a view shows of one.
pub struct ChangeTarget {
    /// The table.
    pub table: Arc<Table>,
    /// The meaning of the name; column `i` of the table has number `i`, and the key of the row follows.
    pub(super) relation: ScopeRelation,
    /// The conditions of the view.
    pub(super) conditions: Vec<Expr>,
    view: Option<Through>,
}

/// A view through which rows are changed.
struct Through {
    name: String,
    columns: Vec<(String, Assignable)>,
}

/// The position of a column that is assigned to in the table; of a column that cannot be, its view, its name in that
/// and why.
type Assignable = Result<usize, (String, String, &'static str)>;

impl ChangeTarget {
    fn of_table(table: Arc<Table>, alias: Option<&str>) -> ChangeTarget {
        let relation =
            ScopeRelation::of_table(&table, alias, 0).with_system_columns(&table, table.columns.len());
        ChangeTarget { table, relation, conditions: Vec::new(), view: None }
    }

    /// Returns the name of the table or view.
    pub fn name(&self) -> &str {
        self.view.as_ref().map_or(&self.table.name, |view| &view.name)
    }

    /// True if it is a view.
    pub fn is_view(&self) -> bool {
        self.view.is_some()
    }

    /// Returns the scope of a row of it.
    pub fn scope(&self) -> Scope<'static> {
        let mut scope = Scope::empty();
        scope.push(self.relation.clone());
        scope
    }

    /// Returns the scope of ON CONFLICT DO UPDATE: the existing row, then the proposed one as `excluded`, which must be
    /// named, then the key of the existing one.
    pub fn conflict_scope(&self) -> Scope<'static> {
        let width = self.table.columns.len();
        let mut existing = self.relation.clone();
        for column in existing.columns.iter_mut().chain(&mut existing.system_columns) {
            column.expr.map_columns(&|number| if number == width { 2 * width } else { number });
        }
        let mut scope = Scope::empty();
        scope.push(existing);
        scope.relations.push(ScopeRelation { stored: None, ..self.excluded() });
        scope
    }

    /// Returns the proposed row of an INSERT, behind the existing one.
    pub fn excluded(&self) -> ScopeRelation {
        let width = self.table.columns.len();
        if self.view.is_none() {
            return ScopeRelation::of_table(&self.table, Some("excluded"), width);
        }
        let mut excluded =
            ScopeRelation { schema: None, name: "excluded".to_owned(), ..self.relation.clone() };
        for column in &mut excluded.columns {
            // A proposed row has no address.
            column.expr.replace(&mut |expr| {
                let is_system = matches!(expr.kind, ExprKind::System { .. });
                is_system.then(|| Expr::constant(Datum::Null, expr.ty.ty))
            });
            column.expr.map_columns(&|number| number + width);
        }
        excluded
    }

    /// Returns the position in the table of the column of a name; none if there is none.
    ///
    /// # Errors
    /// 0A000 for a column of a view that is none of the table's.
    pub fn column(&self, name: &str, change: Change) -> Result<Option<usize>> {
        let Some(view) = &self.view else { return Ok(self.table.column(name)) };
        let column = view.columns.iter().find(|(known, _)| known == name);
        column.map(|(_, column)| assignable(column, change)).transpose()
    }

    /// Returns the positions in the table of the columns that an INSERT without a list is of: of a view, as far as they
    /// can be assigned to.
    pub fn columns(&self) -> Vec<usize> {
        let columns = self.assignables().into_iter();
        columns.map_while(|(_, column)| column.ok()).collect()
    }

    /// Fails if an INSERT without a list has values for columns of a view that cannot be assigned to, or not together.
    pub fn refuse_values(&self, given: usize) -> Result<()> {
        let columns = || self.view.iter().flat_map(|view| &view.columns).take(given);
        // Those of views beneath come after its own.
        let own = columns().find(|(_, column)| matches!(column, Err((view, ..)) if view == self.name()));
        let mut positions = Vec::new();
        for (_, column) in own.into_iter().chain(columns()) {
            let position = assignable(column, Change::Insert)?;
            if positions.contains(&position) {
                return Err(self.assigned_twice(position));
            }
            positions.push(position);
        }
        Ok(())
    }

    /// Returns the error of two values for a column of the table, as PostgreSQL has it for views.
    pub fn assigned_twice(&self, position: usize) -> SqlError {
        let column = &self.table.columns[position].name;
        let message = format!("multiple assignments to same column \"{column}\"");
        SqlError::new(SqlState::SYNTAX_ERROR, message)
    }

    /// The columns of it, each with how it is assigned to.
    fn assignables(&self) -> Vec<(String, Assignable)> {
        match &self.view {
            Some(view) => view.columns.clone(),
            None => self.table.live_columns().map(|(at, column)| (column.name.clone(), Ok(at))).collect(),
        }
    }
}

fn assignable(column: &Assignable, change: Change) -> Result<usize> {
    column.clone().map_err(|(view, column, detail)| {
        let verb = if change == Change::Insert { "insert into" } else { "update" };
        let message = format!("cannot {verb} column \"{column}\" of view \"{view}\"");
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail)
    })
}

impl Binder<'_> {
    /// Finds the rows that a change is of.
    pub fn change_target(
        &mut self,
        name: &RelationName,
        alias: Option<&str>,
        change: Change,
    ) -> Result<ChangeTarget> {
        match self.relations.target(name)? {
            Target::Table(table) => Ok(ChangeTarget::of_table(table, alias)),
            Target::View(view) => {
                // Names of the statement mean nothing within the view.
                let ctes = std::mem::take(&mut self.relations.ctes);
                let through = self.through(&view, alias, change)?;
                self.relations.ctes = ctes;
                Ok(through)
            }
        }
    }

    /// Returns, if rows can be changed through a view, of which of its columns.
    pub fn updatable_columns(&mut self, view: &View) -> Option<Vec<bool>> {
        let through = self.through(view, None, Change::Delete).ok()?;
        Some(through.view?.columns.iter().map(|(_, column)| column.is_ok()).collect())
    }

    /// The rows that a view shows of a table.
    fn through(&mut self, view: &View, alias: Option<&str>, change: Change) -> Result<ChangeTarget> {
        self.statement.add_view()?;
        let query = self.relations.catalog.view_query(view)?;
        let select = plain_select(&query).map_err(|reason| change.refused(view, reason))?;
        let [TableReference::Relation(from)] = &select.from[..] else {
            return Err(change.refused(view, NO_SINGLE_TABLE));
        };
        if select.targets.iter().any(|target| has_query(&target.value)) {
            return Err(SqlError::unsupported("a change through a view with a subquery as a column"));
        }
        let mut base = match self.relations.base_of_view(&from.name)? {
            Some(Target::Table(table)) => ChangeTarget::of_table(table, range(from)),
            Some(Target::View(inner)) => {
                self.statement.enter_query()?;
                let base = on_deep_stack(|| self.through(&inner, range(from), change))?;
                self.statement.leave_query();
                base
            }
            None => return Err(change.refused(view, NO_SINGLE_TABLE)),
        };
        if from.sample.is_some() {
            return Err(change.refused(view, "Views containing TABLESAMPLE are not automatically updatable."));
        }
        check_size(select, &base)?;
        let mut known = base.assignables();
        for (column, (known, alias)) in
            base.relation.columns.iter_mut().zip(known.iter_mut().zip(aliases(from)))
        {
            alias.name.as_ref().clone_into(&mut column.name);
            known.0.clone_from(&column.name);
        }
        let scope = base.scope();
        let items = self.queries().select_list(&select.targets, Place::new(&scope, Clause::Returning))?;
        if items.len() != view.columns.len() || select.targets.len() != items.len() {
            return Err(view.damaged("It has another number of columns than the view."));
        }
        let (mut shown, mut columns, mut has_column) = (Vec::new(), Vec::new(), false);
        for (position, ((name, _), (item, target))) in
            view.columns.iter().zip(items.into_iter().zip(&select.targets)).enumerate()
        {
            shown.push(ScopeColumn {
                name: name.clone(),
                expr: self.statement.typing.known(item.expr)?,
                table: view.oid,
                attribute: i16::try_from(position + 1).unwrap_or(0),
                is_hidden: false,
            });
            let assigned = assigned_column(&target.value, &known);
            has_column |= assigned.is_ok();
            let refused = |detail| Err((view.name.clone(), name.clone(), detail));
            columns.push((name.clone(), assigned.unwrap_or_else(refused)));
        }
        if change != Change::Delete && !has_column {
            let reason = "Views that have no updatable columns are not automatically updatable.";
            return Err(change.refused(view, reason));
        }
        if let Some(filter) = &select.filter {
            self.expressions()
                .bind_condition(filter, Place::new(&scope, Clause::Where))?
                .split_and(&mut base.conditions);
        }
        base.relation = ScopeRelation {
            schema: alias.is_none().then(|| view.schema.clone()),
            name: alias.unwrap_or(&view.name).to_owned(),
            aliased: alias.map(|_| view.name.clone()),
            columns: shown,
            system_columns: Vec::new(),
            stored: None,
            joined: None,
            whole: WholeRow::of_join(),
        };
        base.view = Some(Through { name: view.name.clone(), columns });
        Ok(base)
    }
}

/// Fails if the expressions of a view would be too large over the columns of `base`, which stand in them: each level of
/// views may double them.
fn check_size(select: &Select, base: &ChangeTarget) -> Result<()> {
    struct Columns(usize);
    impl Visitor for Columns {
        type Break = ();
        fn visit_expr(&mut self, expr: &Syntax) -> ControlFlow<()> {
            self.0 += usize::from(matches!(expr, Syntax::Column(_)));
            self.walk_expr(expr)
        }
    }
    let mut columns = Columns(0);
    let _: ControlFlow<()> = columns.visit_select(select);
    let largest = base.relation.columns.iter().map(|column| nodes(&column.expr)).max().unwrap_or(1);
    if columns.0.saturating_mul(largest) > NODES_MAX {
        let message = "the expressions of the views that the statement changes rows through are too large";
        return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
    }
    Ok(())
}

/// Number of nodes of an expression.
fn nodes(expr: &Expr) -> usize {
    let mut count = 1;
    expr.children(&mut |child| count += nodes(child));
    count
}

/// The alias of a relation.
fn range(reference: &RelationReference) -> Option<&str> {
    reference.alias.as_ref().map(|alias| &*alias.name.name)
}

/// The names that an alias gives to columns.
fn aliases(reference: &RelationReference) -> &[Ident] {
    reference.alias.as_ref().map_or(&[], |alias| &alias.columns)
}

/// Returns how the column of the relation beneath is assigned to that an item of a view's select list is; an error
/// says why it is none.
fn assigned_column(value: &Syntax, known: &[(String, Assignable)]) -> Result<Assignable, &'static str> {
    let Syntax::Column(column) = value else {
        return Err("View columns that are not columns of their base relation are not updatable.");
    };
    let name = column.fields.last().map_or("", |name| &*name.name);
    match known.iter().find(|(known, _)| !column.has_star && known == name) {
        Some((_, column)) => Ok(column.clone()),
        None if is_system_column(name) => Err("View columns that refer to system columns are not updatable."),
        None => Err("View columns that return whole-row references are not updatable."),
    }
}

const NO_SINGLE_TABLE: &str =
    "Views that do not select from a single table or view are not automatically updatable.";

/// Returns the SELECT of a query without clauses by which a row would not be one of a table; else the clause.
fn plain_select(query: &Query) -> Result<&Select, &'static str> {
    let select = match &query.body {
        QueryBody::Query(inner) if query.with.is_none() && query.limit.is_none() => {
            return plain_select(inner);
        }
        QueryBody::Select(select) => Some(select),
        QueryBody::Values(_) | QueryBody::Query(_) => None,
        QueryBody::SetOperations(_) => {
            return Err("Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.");
        }
    };
    let has = |clause: bool, reason| if clause { Err(reason) } else { Ok(()) };
    if let Some(select) = select {
        let is_distinct = !matches!(select.distinct, Distinct::No);
        has(is_distinct, "Views containing DISTINCT are not automatically updatable.")?;
        has(!select.group_by.is_empty(), "Views containing GROUP BY are not automatically updatable.")?;
        has(select.having.is_some(), "Views containing HAVING are not automatically updatable.")?;
    }
    has(query.with.is_some(), "Views containing WITH are not automatically updatable.")?;
    has(query.limit.is_some(), "Views containing LIMIT or OFFSET are not automatically updatable.")?;
    let select = select.ok_or(NO_SINGLE_TABLE)?;
    let mut calls = Calls::default();
    let sorted = query.order_by.iter().map(|item| &item.value);
    for expr in select.targets.iter().map(|target| &target.value).chain(sorted) {
        // It never breaks off.
        let _: ControlFlow<()> = calls.visit_expr(expr);
    }
    has(calls.aggregates, "Views that return aggregate functions are not automatically updatable.")?;
    has(calls.windows, "Views that return window functions are not automatically updatable.")?;
    has(calls.sets, "Views that return set-returning functions are not automatically updatable.")?;
    Ok(select)
}

/// True if an expression has a query in it.
fn has_query(expr: &Syntax) -> bool {
    let mut calls = Calls::default();
    // It never breaks off.
    let _: ControlFlow<()> = calls.visit_expr(expr);
    calls.queries
}

/// The kinds of functions that a query calls at its own level.
#[derive(Default)]
struct Calls {
    queries: bool,
    aggregates: bool,
    windows: bool,
    sets: bool,
}

impl Calls {
    fn add(&mut self, call: &FunctionCall) {
        let name = call.name.0.last().map_or("", |name| &*name.name);
        match call.over {
            Some(_) => self.windows = true,
            None => self.aggregates |= is_aggregate(name),
        }
        self.sets |= is_set_function(name);
    }
}

impl Visitor for Calls {
    type Break = ();

    /// Passes by, since a query within has calls of its own.
    fn visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries = true;
        ControlFlow::Continue(())
    }

    fn visit_expr(&mut self, expr: &Syntax) -> ControlFlow<()> {
        if let Syntax::Function(call) = expr {
            self.add(call);
        }
        self.walk_expr(expr)
    }
}
