//! Select lists: items, wildcards, and the names that output columns get.

use gnomon_parser::ast::{
    self, Access, ColumnReference, Ident, QualifiedName, QueryBody, SystemValueKind, Target,
};

use super::QueryBinder;
use crate::{
    Result, SqlError, SqlState,
    binder::{
        ResultColumn,
        expression::row,
        located::at_expr,
        scope::{Place, ScopeColumn},
        syntax::{dotted, relation_name, relation_of},
        typing::Typing,
    },
    catalog::model::Oid,
    executor::Expr,
};

/// An item of a select list, bound.
pub struct SelectItem {
    pub expr: Expr,
    pub name: String,
    pub table: Oid,
    pub attribute: i16,
}

impl QueryBinder<'_, '_> {
    /// Binds the items of a select list or of RETURNING.
    pub fn select_list(&mut self, targets: &[Target], place: Place<'_>) -> Result<Vec<SelectItem>> {
        let mut out = Vec::with_capacity(targets.len());
        for target in targets {
            match &target.value {
                // PostgreSQL passes over the alias of a star.
                ast::Expr::Column(column) if column.has_star => {
                    let columns =
                        self.star(target, column, place).map_err(|error| error.at(column.position))?;
                    out.extend(columns.into_iter().map(SelectItem::of_column));
                }
                ast::Expr::Indirection(parts) if matches!(parts.path.last(), Some(Access::Star)) => {
                    let columns = match row::star_of(&mut self.expressions(), parts, place)? {
                        Some(star) => self.star(target, &star, place),
                        None => row::row_columns(&mut self.expressions(), parts, place),
                    };
                    let columns = columns.map_err(|error| error.at(target.position))?;
                    out.extend(columns.into_iter().map(SelectItem::of_column));
                }
                value => {
                    let name = match &target.alias {
                        Some(alias) => alias.name.to_string(),
                        None => figure_name(value),
                    };
                    let (table, attribute) =
                        self.origin(value, place).map_err(|error| at_expr(error, value))?;
                    let expr = self.expressions().bind(value, place)?;
                    out.push(SelectItem { expr, name, table, attribute });
                }
            }
        }
        Ok(out)
    }

    /// The columns that `*` or `relation.*` stands for.
    fn star(
        &mut self,
        target: &Target,
        star: &ColumnReference,
        place: Place<'_>,
    ) -> Result<Vec<ScopeColumn>> {
        if star.fields.is_empty() {
            if place.scope.relations.is_empty() {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "SELECT * with no tables specified is not valid",
                ));
            }
            let columns = shown(place.scope.columns.clone());
            self.statement.note_columns(&columns);
            if let Some(expansions) = &mut self.statement.expansions {
                expansions.star(target, &columns, place.scope);
            }
            return Ok(columns);
        }
        let name = QualifiedName(star.fields.clone());
        if star.fields.len() > 3 {
            let message = format!("improper qualified name (too many dotted names): {}.*", dotted(&name));
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let (schema, relation) = relation_name(&relation_of(&name)?, self.statement.database)?;
        let columns = place
            .scope
            .whole_relation(schema.as_deref(), &relation, &mut self.statement.numbers)?
            .ok_or_else(|| place.scope.missing_relation(&relation))?;
        let columns = shown(columns);
        self.statement.note_columns(&columns);
        if let Some(expansions) = &mut self.statement.expansions {
            match place.scope.relation(schema.as_deref(), &relation)? {
                Some(_) => expansions.star(target, &columns, place.scope),
                None => {
                    let name: Vec<&str> = schema.as_deref().into_iter().chain([&*relation]).collect();
                    expansions.outer_star(target, &name, &columns);
                }
            }
        }
        Ok(columns)
    }

    /// The table and column number that an expression names, or zeroes.
    fn origin(&mut self, expr: &ast::Expr, place: Place<'_>) -> Result<(u32, i16)> {
        let ast::Expr::Column(reference) = expr else { return Ok((0, 0)) };
        let numbers = &mut self.statement.numbers;
        let column = match &reference.fields[..] {
            [name] => place.scope.column(&name.name, numbers)?,
            [relation, column] => place.scope.qualified(None, &relation.name, &column.name, numbers)?,
            _ => None,
        };
        Ok(column.map_or((0, 0), |column| (column.table, column.attribute)))
    }
}

impl SelectItem {
    /// A column that a star stands for.
    pub fn of_column(column: ScopeColumn) -> SelectItem {
        let ScopeColumn { name, expr, table, attribute, .. } = column;
        SelectItem { expr, name, table, attribute }
    }

    /// Gives it a type, if it has none; returns its expression.
    pub fn settled(&mut self, typing: &mut Typing<'_>) -> Result<Expr> {
        let expr = std::mem::replace(&mut self.expr, Expr::bool(true));
        self.expr = typing.known(expr)?;
        Ok(self.expr.clone())
    }
}

/// The columns that `*` stands for.
fn shown(mut columns: Vec<ScopeColumn>) -> Vec<ScopeColumn> {
    columns.retain(|column| !column.is_hidden);
    columns
}

/// The name, if an expression is one name without dots.
pub fn plain_name(expr: &ast::Expr) -> Option<&Ident> {
    match expr {
        ast::Expr::Column(ColumnReference { fields, has_star: false, .. }) => match &fields[..] {
            [name] => Some(name),
            _ => None,
        },
        _ => None,
    }
}

pub fn output_columns(items: Vec<SelectItem>) -> (Vec<ResultColumn>, Vec<Expr>) {
    items
        .into_iter()
        .map(|item| {
            let column = ResultColumn {
                name: item.name,
                ty: item.expr.ty,
                table: item.table,
                attribute: item.attribute,
            };
            (column, item.expr)
        })
        .unzip()
}

/// The name that an unnamed output column gets, as PostgreSQL makes it up.
pub fn figure_name(expr: &ast::Expr) -> String {
    figured(expr).0.unwrap_or("?column?").to_owned()
}

/// The name; and true if it is a good one (of a column or a function) rather than a type's.
fn figured(expr: &ast::Expr) -> (Option<&str>, bool) {
    use ast::Expr as E;
    let good = |name| (Some(name), true);
    match expr {
        // A star behind a relation leaves its name.
        E::Column(column) => (column.fields.last().map(|field| &*field.name), true),
        E::Indirection(parts) => {
            let field = parts.path.iter().rev().find_map(|access| match access {
                Access::Field(field) => Some(&*field.name),
                _ => None,
            });
            field.map_or_else(|| figured(&parts.base), good)
        }
        E::Collate(collate) => figured(&collate.operand),
        E::Function(call) => good(&*call.name.last().name),
        E::Cast(cast) => match figured(&cast.operand) {
            (name, true) => (name, true),
            _ => (Some(&*cast.ty.name.last().name), false),
        },
        E::Case(case) => match case.otherwise.as_ref().map(figured) {
            Some((name, true)) => (name, true),
            _ => (Some("case"), false),
        },
        E::Subquery(subquery) => (first_name(&subquery.query.body), true),
        E::SystemValue(value) => good(system_value(value.kind)),
        E::Array(_) | E::ArraySubquery(_) => good("array"),
        E::Row(_) => good("row"),
        E::Exists(_) => good("exists"),
        E::Coalesce(_) => good("coalesce"),
        E::Greatest(_) => good("greatest"),
        E::Least(_) => good("least"),
        E::NullIf(_) => good("nullif"),
        E::Grouping(_) => good("grouping"),
        _ => (None, false),
    }
}

/// The name of the first column of a query, as far as the query itself tells it.
fn first_name(body: &QueryBody) -> Option<&str> {
    let mut body = body;
    loop {
        body = match body {
            QueryBody::Select(select) => {
                let target = select.targets.first()?;
                return match &target.alias {
                    Some(alias) => Some(&alias.name),
                    None => figured(&target.value).0,
                };
            }
            QueryBody::Values(_) => return Some("column1"),
            QueryBody::SetOperations(chain) => &chain.first,
            QueryBody::Query(query) => &query.body,
        }
    }
}

fn system_value(kind: SystemValueKind) -> &'static str {
    use SystemValueKind as S;
    match kind {
        S::CurrentDate => "current_date",
        S::CurrentTime => "current_time",
        S::CurrentTimestamp => "current_timestamp",
        S::LocalTime => "localtime",
        S::LocalTimestamp => "localtimestamp",
        S::CurrentRole => "current_role",
        S::CurrentUser => "current_user",
        S::SessionUser => "session_user",
        S::User => "user",
        S::CurrentCatalog => "current_catalog",
        S::CurrentSchema => "current_schema",
    }
}
