//! Select lists: items, wildcards, and the names that output columns get.

use sqlparser::ast::{self, SelectItemQualifiedWildcardKind, SetExpr};

use super::QueryBinder;
use crate::{
    Result, SqlError, SqlState,
    binder::{
        ResultColumn,
        located::{at_expr, at_name},
        scope::{Place, ScopeColumn},
        syntax::{name_of, relation_name, trim_function, unnested},
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
    pub fn select_list(&mut self, items: &[ast::SelectItem], place: Place<'_>) -> Result<Vec<SelectItem>> {
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            match item {
                ast::SelectItem::UnnamedExpr(expr) => {
                    let name = figure_name(expr);
                    out.push(self.select_item(expr, name, place)?);
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    out.push(self.select_item(expr, name_of(alias), place)?);
                }
                ast::SelectItem::Wildcard(options) => {
                    plain_wildcard(options)?;
                    if place.scope.relations.is_empty() {
                        return Err(SqlError::new(
                            SqlState::SYNTAX_ERROR,
                            "SELECT * with no tables specified is not valid",
                        ));
                    }
                    let columns = &place.scope.columns;
                    if let Some(expansions) = &mut self.statement.expansions {
                        expansions.star(item, columns, place.scope);
                    }
                    out.extend(columns.iter().cloned().map(SelectItem::of_column));
                }
                ast::SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    options,
                ) => {
                    plain_wildcard(options)?;
                    let (schema, relation) = relation_name(name, self.statement.database)?;
                    let columns = place
                        .scope
                        .whole_relation(schema.as_deref(), &relation, &mut self.statement.numbers)?
                        .ok_or_else(|| at_name(place.scope.missing_relation(&relation), name))?;
                    if let Some(expansions) = &mut self.statement.expansions {
                        match place.scope.relation(schema.as_deref(), &relation)? {
                            Some(_) => expansions.star(item, &columns, place.scope),
                            None => {
                                let name: Vec<&str> =
                                    schema.as_deref().into_iter().chain([&*relation]).collect();
                                expansions.outer_star(item, &name, &columns);
                            }
                        }
                    }
                    out.extend(columns.into_iter().map(SelectItem::of_column));
                }
                other => return Err(SqlError::unsupported(format!("the select item {other}"))),
            }
        }
        Ok(out)
    }

    fn select_item(&mut self, expr: &ast::Expr, name: String, place: Place<'_>) -> Result<SelectItem> {
        let (table, attribute) = self.origin(expr, place).map_err(|error| at_expr(error, expr))?;
        Ok(SelectItem { expr: self.expressions().bind(expr, place)?, name, table, attribute })
    }
    /// The table and column number that an expression names, or zeroes.
    fn origin(&mut self, expr: &ast::Expr, place: Place<'_>) -> Result<(u32, i16)> {
        let numbers = &mut self.statement.numbers;
        let column = match unnested(expr) {
            ast::Expr::Identifier(ident) => place.scope.column(&name_of(ident), numbers)?,
            ast::Expr::CompoundIdentifier(idents) => match &idents[..] {
                [relation, column] => {
                    place.scope.qualified(None, &name_of(relation), &name_of(column), numbers)?
                }
                _ => None,
            },
            _ => None,
        };
        Ok(column.map_or((0, 0), |column| (column.table, column.attribute)))
    }
}

impl SelectItem {
    /// A column that a star stands for.
    pub fn of_column(column: ScopeColumn) -> SelectItem {
        let ScopeColumn { name, expr, table, attribute } = column;
        SelectItem { expr, name, table, attribute }
    }

    /// Gives it a type, if it has none; returns its expression.
    pub fn settled(&mut self, typing: &mut Typing<'_>) -> Result<Expr> {
        let expr = std::mem::replace(&mut self.expr, Expr::bool(true));
        self.expr = typing.known(expr)?;
        Ok(self.expr.clone())
    }
}

fn plain_wildcard(options: &ast::WildcardAdditionalOptions) -> Result<()> {
    let plain = options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none();
    if plain { Ok(()) } else { Err(SqlError::unsupported("an option of *")) }
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
fn figure_name(expr: &ast::Expr) -> String {
    figured(expr).0.unwrap_or_else(|| "?column?".to_owned())
}

/// The name, and whether it is a good one (of a column or a function) rather than a type's.
fn figured(expr: &ast::Expr) -> (Option<String>, bool) {
    use ast::Expr as E;
    let good = |name: &str| (Some(name.to_owned()), true);
    match expr {
        E::Identifier(ident) => (Some(name_of(ident)), true),
        E::CompoundIdentifier(idents) => (idents.last().map(name_of), true),
        E::Nested(inner) => figured(inner),
        E::Collate { expr, .. } => figured(expr),
        E::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(field)) => Some(name_of(field)),
                _ => None,
            });
            field.map_or_else(|| figured(root), |field| (Some(field), true))
        }
        E::Function(function) => match function.name.0.last().and_then(|part| part.as_ident()) {
            Some(ident) => (Some(name_of(ident)), true),
            None => (None, false),
        },
        E::Cast { expr, data_type, .. } => match figured(expr) {
            (name, true) => (name, true),
            _ => (type_figure(data_type), false),
        },
        E::TypedString(ast::TypedString { data_type, .. }) => (type_figure(data_type), false),
        E::Interval(_) => (Some("interval".to_owned()), false),
        E::Case { else_result, .. } => match else_result.as_deref().map(figured) {
            Some((name, true)) => (name, true),
            _ => (Some("case".to_owned()), false),
        },
        E::Array(_) => good("array"),
        E::Tuple(_) => good("row"),
        E::Exists { negated: false, .. } => good("exists"),
        E::Subquery(query) => match &*query.body {
            SetExpr::Select(select) => match select.projection.first() {
                Some(ast::SelectItem::UnnamedExpr(expr)) => figured(expr),
                Some(ast::SelectItem::ExprWithAlias { alias, .. }) => (Some(name_of(alias)), true),
                _ => (None, false),
            },
            SetExpr::Values(_) => good("column1"),
            _ => (None, false),
        },
        E::Value(value) if matches!(value.value, ast::Value::Boolean(_)) => (Some("bool".to_owned()), false),
        E::Extract { .. } => good("extract"),
        E::Position { .. } => good("position"),
        E::Substring { .. } => good("substring"),
        E::Trim { trim_where, .. } => good(trim_function(trim_where.as_ref())),
        E::Overlay { .. } => good("overlay"),
        E::Ceil { .. } => good("ceil"),
        E::Floor { .. } => good("floor"),
        E::AtTimeZone { .. } => good("timezone"),
        _ => (None, false),
    }
}

/// The internal name of a type; of an array, that of its elements.
fn type_figure(data_type: &ast::DataType) -> Option<String> {
    if let ast::DataType::Array(
        ast::ArrayElemTypeDef::SquareBracket(element, _) | ast::ArrayElemTypeDef::AngleBracket(element),
    ) = data_type
    {
        return type_figure(element);
    }
    crate::types::column_type(data_type).ok().map(|column| column.ty.info().typname.to_owned())
}
