//! CREATE VIEW, and COMMENT.

use std::{ops::ControlFlow, sync::Arc};

use sqlparser::ast::{
    self, CreateTableOptions, CreateView, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart,
    Query, SetExpr, SqlOption, TableFactor, Visit, VisitMut, Visitor, VisitorMut, visit_relations,
};

use super::{Ddl, clauses, column::has_constraint, column_of, refuse_taken, storage::text};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Relation,
        model::{Oid, View},
    },
    context::{Name, query_of},
    functions::quote_ident,
    query::{Binder, Planned},
    session::parse::{fold, parse_query, query_text},
    settings::bool_word,
    sink::{Tag, tag},
    types::{ColumnType, Type},
};

/// The options of a view, each as `name=value`.
///
/// A view's query is planned apart from the query around it, and conditions from around are tested on its rows: every
/// view is the barrier that `security_barrier` asks for.
fn view_options(options: &CreateTableOptions, notices: &mut Vec<Notice>) -> Result<Vec<String>> {
    let options = match options {
        CreateTableOptions::None => return Ok(Vec::new()),
        CreateTableOptions::With(options) => options,
        _ => return Err(SqlError::unsupported("OPTIONS of a view")),
    };
    let invalid = |message| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut found: Vec<(String, String)> = Vec::with_capacity(options.len());
    for option in options {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(SqlError::unsupported(format!("the option {option} of a view")));
        };
        let (name, value) = (fold(key), text(value));
        if found.iter().any(|(known, _)| *known == name) {
            return Err(invalid(format!("parameter \"{name}\" specified more than once")));
        }
        match name.as_str() {
            "security_barrier" | "security_invoker" if bool_word(&value).is_none() => {
                return Err(invalid(format!("invalid value for boolean option \"{name}\": {value}")));
            }
            "security_barrier" => {}
            "security_invoker" => {
                notices.push(Notice::no_effect(
                    "security_invoker",
                    "there are no roles, and all may read everything",
                ));
            }
            "check_option" => return Err(SqlError::unsupported("WITH CHECK OPTION")),
            _ => return Err(invalid(format!("unrecognized parameter \"{name}\""))),
        }
        found.push((name, value));
    }
    Ok(found.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
}

pub(super) fn create_view(ddl: &mut Ddl<'_>, create: &CreateView) -> Result<Tag> {
    clauses::create_view(create)?;
    let options = view_options(&create.options, ddl.notices)?;
    ddl.begin("CREATE VIEW")?;
    let name = ddl.session.name(&create.name)?;
    let view = ddl.session.view();
    let schema = view.schema_for(&name)?;
    let old = match view.catalog.relation(&schema, &name.name) {
        Some(Relation::View(old)) if create.or_replace => Some(old),
        Some(_) if create.or_replace => {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a view", name.name),
            ));
        }
        _ => {
            refuse_taken(&view, &schema, &name.name)?;
            None
        }
    };
    // Names and stars mean what they mean now, wherever and whenever the view is used.
    let mut query = (*create.query).clone();
    write_out_tables(&mut query)?;
    refuse_columns_of_joins(&query)?;
    let planned = ddl
        .session
        .with_types(|types, view| Planned::bind_to_keep(Binder::new(view, types, &[]), &mut query))?;
    if !planned.params.is_empty() {
        return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"));
    }
    let given: Vec<String> = create.columns.iter().map(|column| fold(&column.name)).collect();
    if given.len() > planned.columns.len() {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "CREATE VIEW specifies more column names than columns",
        ));
    }
    let mut columns: Vec<(String, ColumnType)> = Vec::new();
    for (i, column) in planned.columns.iter().enumerate() {
        let ty = match column.ty.ty {
            Type::Unknown => ColumnType { ty: Type::Text, modifier: -1 },
            _ => column.ty,
        };
        let name = given.get(i).unwrap_or(&column.name).clone();
        if columns.iter().any(|(other, _)| *other == name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        columns.push((name, ty));
    }
    if let Some(old) = &old {
        let kept = old.columns.len() <= columns.len()
            && old.columns.iter().zip(&columns).all(|(old, new)| old == new);
        if !kept {
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                "cannot drop, rename or change columns of a view by replacing it",
            ));
        }
    }
    let oid = match &old {
        Some(old) => old.oid,
        None => ddl.session.shared.new_oid()?,
    };
    let made = View { oid, schema, name: name.name, columns, query: query_text(&query)?, options };
    if old.is_some() && views_using_query(ddl, &query)?.contains(&oid) {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("view \"{}\" cannot use itself", made.name),
        ));
    }
    ddl.change(|catalog| catalog.put_view(made))?;
    tag("CREATE VIEW")
}

/// The views that a query uses, through other views too.
fn views_using_query(ddl: &Ddl<'_>, query: &Query) -> Result<Vec<Oid>> {
    let mut found: Vec<Arc<View>> = Vec::new();
    let mut pending = vec![query.clone()];
    while let Some(query) = pending.pop() {
        let mut next = Vec::new();
        let _: ControlFlow<()> = visit_relations(&query, |relation| {
            if let Some(Relation::View(view)) = relation_in_view(ddl, relation)
                && !found.iter().any(|known| known.oid == view.oid)
            {
                found.push(view.clone());
                next.push(view);
            }
            ControlFlow::Continue(())
        });
        for view in next {
            pending.push(*query_of(&view)?);
        }
    }
    Ok(found.iter().map(|view| view.oid).collect())
}

/// Returns the relation that a name in the query of a view stands for. These names are all qualified.
fn relation_in_view(ddl: &Ddl<'_>, name: &ObjectName) -> Option<Relation> {
    let name = Name::of(name, &ddl.session.database).ok()?;
    ddl.session.catalog().relation(name.schema.as_deref()?, &name.name)
}

/// The views whose queries name a relation, and a column if one is given.
pub(super) fn views_using(ddl: &Ddl<'_>, oid: Oid, column: Option<&str>) -> Result<Vec<Arc<View>>> {
    let catalog = ddl.session.catalog();
    let columns = catalog.table_by_oid(oid).into_iter().flat_map(|table| &table.columns);
    let place = columns
        .take_while(|known| known.dropped || Some(&*known.name) != column)
        .filter(|known| !known.dropped)
        .count();
    let mut found = Vec::new();
    for view in catalog.views() {
        let query = query_of(view)?;
        let names_relation = visit_relations(&query, |name| {
            let same = match relation_in_view(ddl, name) {
                Some(Relation::Table(table)) => table.oid == oid,
                Some(Relation::View(view)) => view.oid == oid,
                _ => false,
            };
            if same { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .is_break();
        let names_column = column.is_none_or(|name| query.visit(&mut NamesColumn { name, place }).is_break());
        if names_relation && names_column {
            found.push(view.clone());
        }
    }
    Ok(found)
}

pub(super) fn comment(ddl: &mut Ddl<'_>, kind: &str, name: &ObjectName, text: Option<&str>) -> Result<Tag> {
    ddl.begin("COMMENT")?;
    let key = match kind {
        // There is one database, and it has no row of its own to comment on.
        "database" | "role" => {
            let what = format!("COMMENT ON {}", kind.to_uppercase());
            ddl.notices.push(Notice::no_effect(&what, "there is one, and it has no row of its own"));
            None
        }
        "schema" => {
            let name = ddl.session.name(name)?;
            match ddl.session.view().schema_oid(&name.name) {
                Some(oid) => Some((oid, 0)),
                None => return Err(name.missing("schema")),
            }
        }
        "column" => {
            let mut table = name.clone();
            let Some(ObjectNamePart::Identifier(column)) = table.0.pop() else {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
            };
            if table.0.is_empty() {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
            }
            let table = ddl.session.view().table(&ddl.session.name(&table)?)?;
            let position = column_of(&table, &column)?;
            Some((table.oid, u32::try_from(position + 1).unwrap_or(u32::MAX)))
        }
        "constraint" => {
            let mut table = name.clone();
            let constraint = table.0.pop().and_then(|part| part.as_ident().map(fold)).unwrap_or_default();
            let table = ddl.session.view().table(&ddl.session.name(&table)?)?;
            let index =
                table.all_indexes().find(|index| index.name == constraint).map(|index| (index.oid, 0));
            if index.is_none() && !has_constraint(&table, &constraint) {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!(
                        "constraint {} for table {} does not exist",
                        quote_ident(&constraint),
                        quote_ident(&table.name)
                    ),
                ));
            }
            index
        }
        "table" | "index" | "sequence" | "view" => {
            let name = ddl.session.name(name)?;
            match ddl.session.view().find(&name) {
                Some(relation) if relation.kind() == kind => {
                    ddl.session.view().relation_oid(&name).map(|oid| (oid, 0))
                }
                Some(_) => {
                    return Err(SqlError::new(
                        SqlState::WRONG_OBJECT_TYPE,
                        format!("\"{}\" is not a {kind}", name.name),
                    ));
                }
                None => return Err(name.missing("relation")),
            }
        }
        other => return Err(SqlError::unsupported(format!("COMMENT ON {}", other.to_uppercase()))),
    };
    if let Some(key) = key {
        ddl.change(|catalog| catalog.put_comment(key, text))?;
    }
    tag("COMMENT")
}

/// Refuses a list of columns behind the alias of a join: a column that a table of the join gets would come between
/// them.
fn refuse_columns_of_joins(query: &Query) -> Result<()> {
    struct Find;
    impl Visitor for Find {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            break_if(matches!(
                factor,
                TableFactor::NestedJoin { alias: Some(alias), .. } if !alias.columns.is_empty()
            ))
        }
    }
    match query.visit(&mut Find) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            Err(SqlError::unsupported("a view of a join with an alias and a list of columns")
                .hint("Name the columns in a subquery: (SELECT ... FROM ...) AS alias (...)."))
        }
    }
}

/// Writes `TABLE name` as the SELECT that it is short for.
fn write_out_tables(query: &mut Query) -> Result<()> {
    struct WriteOut;
    impl VisitorMut for WriteOut {
        type Break = SqlError;
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
            let mut bodies = vec![&mut *query.body];
            while let Some(body) = bodies.pop() {
                match body {
                    SetExpr::SetOperation { left, right, .. } => bodies.extend([&mut **left, &mut **right]),
                    SetExpr::Table(table) => {
                        match parse_query(&format!("SELECT * FROM {}", name_in(table))) {
                            Ok(select) => *body = *select.body,
                            Err(error) => return ControlFlow::Break(error),
                        }
                    }
                    _ => {}
                }
            }
            ControlFlow::Continue(())
        }
    }
    match query.visit(&mut WriteOut) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The name in a command `TABLE name`.
fn name_in(table: &ast::Table) -> String {
    let parts = table.schema_name.iter().chain(&table.table_name);
    parts.map(|name| quote_ident(&name.to_lowercase())).collect::<Vec<_>>().join(".")
}

/// Breaks off where a query names a column, of whatever table.
struct NamesColumn<'n> {
    name: &'n str,
    /// The number of columns before it in its table.
    place: usize,
}

impl NamesColumn<'_> {
    fn in_joins(&self, item: &ast::TableWithJoins) -> bool {
        item.joins.iter().any(|join| match &join.join_operator {
            JoinOperator::Join(JoinConstraint::Using(names))
            | JoinOperator::Inner(JoinConstraint::Using(names))
            | JoinOperator::Left(JoinConstraint::Using(names))
            | JoinOperator::LeftOuter(JoinConstraint::Using(names))
            | JoinOperator::Right(JoinConstraint::Using(names))
            | JoinOperator::RightOuter(JoinConstraint::Using(names))
            | JoinOperator::FullOuter(JoinConstraint::Using(names)) => names
                .iter()
                .any(|name| name.0.iter().any(|part| part.as_ident().is_some_and(|ident| self.is(ident)))),
            _ => false,
        })
    }

    fn is(&self, ident: &Ident) -> bool {
        fold(ident) == self.name
    }
}

fn break_if(found: bool) -> ControlFlow<()> {
    if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

impl Visitor for NamesColumn<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &ast::Select) -> ControlFlow<()> {
        // A `*` that could not be written out stands for every column there was.
        let is_wildcard = |item: &ast::SelectItem| {
            matches!(item, ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..))
        };
        break_if(
            select.projection.iter().any(is_wildcard) || select.from.iter().any(|item| self.in_joins(item)),
        )
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => break_if(self.in_joins(table_with_joins)),
            // A list renames the columns of a table by their places.
            TableFactor::Table { alias: Some(alias), .. } => break_if(alias.columns.len() > self.place),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        break_if(match expr {
            ast::Expr::Identifier(ident) => self.is(ident),
            ast::Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|ident| self.is(ident)),
            _ => false,
        })
    }
}
