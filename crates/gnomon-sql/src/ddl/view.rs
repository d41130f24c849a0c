//! CREATE VIEW.

use std::{collections::BTreeSet, ops::ControlFlow};

use gnomon_parser::{
    ast::{
        ColumnReference, CommonTable, CreateView, DefinitionItem, Distinct, Expr, Ident, Query, QueryBody,
        RelationName, RelationReference, Select, Statement, TableReference, Target, With,
    },
    visit::Visitor,
};

use super::{Ddl, clauses, fixed_names::fixed_query_text, refuse_taken, storage::read_options};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Catalog, Relation,
        model::{Oid, View},
        system::relations_of_query,
    },
    context::query_of,
    query::{Binder, Planned, into_clause},
    settings::bool_word,
    sink::{Tag, tag},
    types::{ColumnType, Type, format_type},
};

/// The options of a view, each as `name=value`.
///
/// A view's query is planned apart from the query around it, and conditions from around are tested on its rows: every
/// view is the barrier that `security_barrier` asks for.
fn view_options(options: &[DefinitionItem], notices: &mut Vec<Notice>) -> Result<Vec<String>> {
    let invalid = |message| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut found = Vec::with_capacity(options.len());
    for option in read_options(options)? {
        let (name, value) = (option.name, option.value);
        match &*name {
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
        found.push(format!("{name}={value}"));
    }
    Ok(found)
}

/// The query of CREATE RECURSIVE VIEW: all columns of a recursive query of the view's name.
fn recursive_query(create: &CreateView) -> Query {
    let name = &create.name.name;
    let table = CommonTable {
        // PostgreSQL tells errors about the query as a whole without a place.
        name: Ident::new(&name.name),
        columns: create.columns.clone(),
        is_materialized: None,
        statement: Box::new(Statement::Query(Box::new(create.query.clone()))),
        search: None,
        cycle: None,
    };
    let with = With { is_recursive: true, tables: vec![table], position: name.position };
    let targets = create.columns.iter().map(|column| Target {
        value: Expr::Column(ColumnReference {
            fields: vec![column.clone()],
            has_star: false,
            position: column.position,
        }),
        alias: None,
        position: column.position,
    });
    let from = RelationReference {
        name: RelationName { catalog: None, schema: None, name: name.clone() },
        is_only: false,
        alias: None,
        sample: None,
    };
    let select = Select {
        distinct: Distinct::No,
        targets: targets.collect(),
        into: None,
        from: vec![TableReference::Relation(Box::new(from))],
        filter: None,
        group_by: Vec::new(),
        is_group_distinct: false,
        having: None,
        windows: Vec::new(),
        position: name.position,
    };
    Query {
        with: Some(Box::new(with)),
        body: QueryBody::Select(Box::new(select)),
        order_by: Vec::new(),
        limit: None,
        locks: Vec::new(),
    }
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
    let mut query = match create.is_recursive {
        true => recursive_query(create),
        false => create.query.clone(),
    };
    if into_clause(&query.body).is_some() {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "views must not contain SELECT INTO"));
    }
    refuse_columns_of_joins(&query)?;
    let planned = ddl
        .session
        .with_types(|types, view| Planned::bind_to_keep(Binder::new(view, types, &[]), &mut query))?;
    if !planned.params.is_empty() {
        return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"));
    }
    if create.columns.len() > planned.columns.len() {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "CREATE VIEW specifies more column names than columns",
        ));
    }
    let mut columns: Vec<(String, ColumnType)> = Vec::new();
    for (i, column) in planned.columns.iter().enumerate() {
        let ty = match column.ty.ty {
            Type::Unknown => ColumnType { ty: Type::Text, modifier: -1 },
            Type::Record if !is_anonymous_row(&query, i) => {
                return Err(SqlError::unsupported("a view with a column of a row type"));
            }
            ty if ty.is_pseudo() => {
                let message = format!("column \"{}\" has pseudo-type {}", column.name, format_type(ty, None));
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
            }
            _ => column.ty,
        };
        let name = create.columns.get(i).map_or(column.name.as_str(), |given| &given.name).to_owned();
        if columns.iter().any(|(other, _)| *other == name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        columns.push((name, ty));
    }
    if let Some(old) = &old {
        check_replaced(&old.columns, &columns)?;
    }
    let oid = match &old {
        Some(old) => old.oid,
        None => ddl.session.shared.new_oid()?,
    };
    let text = ddl.session.with_types(|types, view| fixed_query_text(&mut query, types, view))?;
    let made = View { oid, schema, name: name.name, columns, query: text, options };
    if old.is_some() && views_using_query(&view.catalog, &query)?.contains(&oid) {
        return Err(SqlError::unsupported(format!("a view that uses itself (view \"{}\")", made.name)));
    }
    ddl.change(|catalog| catalog.put_view(made))?;
    tag("CREATE VIEW")
}

/// True if an item of the select list is a row of no named type: a constructed one, or one of a subquery in FROM.
fn is_anonymous_row(query: &Query, item: usize) -> bool {
    struct Find<'n>(&'n str);
    impl Visitor for Find<'_> {
        type Break = ();
        fn visit_table(&mut self, table: &TableReference) -> ControlFlow<()> {
            match table {
                TableReference::Subquery(subquery) => {
                    if *subquery.alias.name.name == *self.0 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                }
                table => self.walk_table(table),
            }
        }
    }
    let QueryBody::Select(select) = &query.body else { return false };
    match select.targets.get(item).map(|target| &target.value) {
        Some(Expr::Row(_)) => true,
        Some(Expr::Column(column)) => {
            let name = column.fields.last().map_or("", |name| &*name.name);
            select.from.iter().any(|table| Find(name).visit_table(table).is_break())
        }
        _ => false,
    }
}

/// Fails unless a view that is replaced keeps its columns.
fn check_replaced(old: &[(String, ColumnType)], new: &[(String, ColumnType)]) -> Result<()> {
    let invalid = |message| SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message);
    if new.len() < old.len() {
        return Err(invalid("cannot drop columns from view".to_owned()));
    }
    for ((name, ty), (new_name, new_ty)) in old.iter().zip(new) {
        if name != new_name {
            let message = format!("cannot change name of view column \"{name}\" to \"{new_name}\"");
            let hint = "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.";
            return Err(invalid(message).hint(hint));
        }
        if ty != new_ty {
            let text = |ty: &ColumnType| format_type(ty.ty, Some(ty.modifier));
            return Err(invalid(format!(
                "cannot change data type of view column \"{name}\" from {} to {}",
                text(ty),
                text(new_ty)
            )));
        }
    }
    Ok(())
}

/// The views that a query uses, through other views too.
fn views_using_query(catalog: &Catalog, query: &Query) -> Result<BTreeSet<Oid>> {
    let mut found = BTreeSet::new();
    let mut pending = relations_of_query(catalog, query);
    while let Some(oid) = pending.pop_first() {
        if let Some(view) = catalog.view_by_oid(oid)
            && found.insert(oid)
        {
            pending.extend(relations_of_query(catalog, &query_of(view)?));
        }
    }
    Ok(found)
}

/// Refuses a list of columns behind the alias of a join: a column that a table of the join gets would come between
/// them.
fn refuse_columns_of_joins(query: &Query) -> Result<()> {
    struct Find;
    impl Visitor for Find {
        type Break = ();
        fn visit_table(&mut self, table: &TableReference) -> ControlFlow<()> {
            if let TableReference::Join(join) = table
                && join.alias.as_ref().is_some_and(|alias| !alias.columns.is_empty())
            {
                return ControlFlow::Break(());
            }
            self.walk_table(table)
        }
    }
    match Find.visit_query(query) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            Err(SqlError::unsupported("a view of a join with an alias and a list of columns")
                .hint("Name the columns in a subquery: (SELECT ... FROM ...) AS alias (...)."))
        }
    }
}
