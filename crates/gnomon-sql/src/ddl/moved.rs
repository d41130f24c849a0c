//! New names and schemas of relations, new names of their columns. The stored queries of views follow.
//!
//! Where a name stands for one thing throughout a query, it is replaced wherever it stands, as PostgreSQL shows such a
//! view. Otherwise the relation gets an alias, by which the rest of the query goes on; for a column there is no such way
//! that would hold when the relation gets another column of the former name.

use std::{ops::ControlFlow, sync::Arc};

use gnomon_engine::TreeLock;
use gnomon_parser::{
    ast::{
        Access, Alias, ColumnReference, Expr, Ident, JoinCondition, Query, RelationName, RelationReference,
        Select, TableReference, Target,
    },
    visit::{Visitor, VisitorMut},
};

use super::{Ddl, check::with_bare_columns, partition::refuse_partition};
use crate::{
    Result, SqlError,
    catalog::{
        Relation,
        model::{Oid, View},
    },
    context::query_of,
    functions::quote_ident,
    query::Binder,
    syntax::{
        expression_text, may_name_relations, parse_expression, query_text, relation_string,
        set_relation_string,
    },
};

/// A schema and a name in it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) schema: String,
    pub(super) name: String,
}

impl Place {
    pub(super) fn of(relation: &Relation) -> Place {
        let (schema, name) = match relation {
            Relation::Table(table) => (&table.schema, &table.name),
            Relation::View(view) => (&view.schema, &view.name),
            Relation::Sequence(sequence) => (&sequence.schema, &sequence.name),
            Relation::Index(table, oid) => {
                (&table.schema, table.index(*oid).map_or(&table.name, |index| &index.name))
            }
        };
        Place { schema: schema.clone(), name: name.clone() }
    }

    fn is(&self, name: &RelationName) -> bool {
        name.schema.as_ref().is_some_and(|schema| *schema.name == *self.schema)
            && *name.name.name == *self.name
    }

    /// Returns the text that stands for it in strings of stored expressions.
    pub(super) fn quoted(&self) -> String {
        format!("{}.{}", quote_ident(&self.schema), quote_ident(&self.name))
    }
}

/// A relation that gets another name or schema.
pub(super) struct Move {
    pub(super) relation: Relation,
    pub(super) to: Place,
}

impl Move {
    /// Returns the string that stands for the relation in stored expressions before it is moved.
    fn literal(&self) -> String {
        format!("'{}'", Place::of(&self.relation).quoted().replace('\'', "''"))
    }
}

/// Moves relations. Their names are free.
pub(super) fn move_relations(ddl: &mut Ddl<'_>, moves: &[Move]) -> Result<()> {
    let following = queries_that_follow(ddl, |query| {
        let used = moves.iter().filter(|of| follow_move(query, &Place::of(&of.relation), &of.to));
        if used.count() > 0 { Followed::Yes } else { Followed::No }
    })?;
    for of in moves {
        move_relation(ddl, of)?;
    }
    follow_in_expressions(ddl, moves)?;
    put_queries(ddl, following)
}

fn move_relation(ddl: &mut Ddl<'_>, of: &Move) -> Result<()> {
    let Place { schema, name } = of.to.clone();
    match &of.relation {
        Relation::Table(table) => {
            refuse_partition(table, "renaming")?;
            ddl.lock_table(table, TreeLock::Exclusive)?;
            let mut changed = (**table).clone();
            for check in &mut changed.checks {
                // Older texts have names of the table in other places too.
                let bare = with_bare_columns(&parse_expression(&check.expression)?, table)?;
                check.expression = expression_text(&bare)?;
                *check = check.of_table(&table.name, &name);
            }
            (changed.schema, changed.name) = (schema, name);
            ddl.change(|catalog| catalog.put_table(changed)).map(drop)
        }
        Relation::View(view) => {
            let changed = View { schema, name, ..(**view).clone() };
            ddl.change(|catalog| catalog.put_view(changed)).map(drop)
        }
        Relation::Sequence(sequence) => {
            ddl.lock_sequence(sequence.oid, TreeLock::Exclusive)?;
            let mut changed = (**sequence).clone();
            (changed.schema, changed.name) = (schema, name);
            ddl.change(|catalog| catalog.put_sequence(changed)).map(drop)
        }
        // Their schema is that of their tables.
        Relation::Index(table, oid) => {
            let mut changed = match ddl.session.catalog().table_by_oid(table.oid) {
                Some(table) => (**table).clone(),
                None => return Ok(()),
            };
            let indexes = changed.primary_key.iter_mut().chain(&mut changed.indexes);
            indexes.filter(|index| index.oid == *oid).for_each(|index| index.name.clone_from(&name));
            ddl.change(|catalog| catalog.put_table(changed)).map(drop)
        }
    }
}

/// Lets the strings of defaults and CHECKs that stand for moved relations follow.
fn follow_in_expressions(ddl: &mut Ddl<'_>, moves: &[Move]) -> Result<()> {
    let catalog = ddl.session.catalog();
    let stale = |text: &str| may_name_relations(text) && moves.iter().any(|of| text.contains(&of.literal()));
    for table in catalog.tables() {
        let defaults = table.columns.iter().filter_map(|column| column.default.as_deref());
        if !defaults.chain(table.checks.iter().map(|check| &*check.expression)).any(stale) {
            continue;
        }
        ddl.lock_table(table, TreeLock::Exclusive)?;
        let Some(table) = ddl.session.catalog().table_by_oid(table.oid).cloned() else { continue };
        let mut changed = (*table).clone();
        let defaults = changed.columns.iter_mut().filter_map(|column| column.default.as_mut());
        let checks = changed.checks.iter_mut().map(|check| &mut check.expression);
        for text in defaults.chain(checks).filter(|text| stale(text)) {
            *text = with_moved_strings(text, moves)?;
        }
        ddl.change(|catalog| catalog.put_table(changed))?;
    }
    for procedure in catalog.procedures() {
        let mut changed = (**procedure).clone();
        let defaults = changed.parameters.iter_mut().filter_map(|parameter| parameter.default.as_mut());
        let mut is_changed = false;
        for text in defaults.filter(|text| stale(text)) {
            *text = with_moved_strings(text, moves)?;
            is_changed = true;
        }
        if is_changed {
            ddl.change(|catalog| catalog.put_procedure(changed))?;
        }
    }
    Ok(())
}

/// Returns a stored expression whose strings stand for moved relations by their new names.
fn with_moved_strings(text: &str, moves: &[Move]) -> Result<String> {
    struct Replace<'m>(&'m [Move]);
    impl VisitorMut for Replace<'_> {
        type Break = ();
        fn visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            for of in self.0 {
                if replace_string(expr, &Place::of(&of.relation), &of.to) {
                    break;
                }
            }
            self.walk_expr(expr)
        }
    }
    let mut expr = parse_expression(text)?;
    let _: ControlFlow<()> = Replace(moves).visit_expr(&mut expr);
    expression_text(&expr)
}

/// Replaces a string that stands for a relation; returns true if that was done.
fn replace_string(expr: &mut Expr, from: &Place, to: &Place) -> bool {
    let is_meant = relation_string(expr).is_some_and(|string| string == from.quoted());
    if is_meant {
        set_relation_string(expr, to.quoted());
    }
    is_meant
}

/// A column that gets another name.
pub(super) struct RenamedColumn<'n> {
    /// The table or view.
    pub(super) of: Place,
    pub(super) from: &'n str,
    /// The number of columns before it.
    pub(super) at: usize,
    pub(super) to: &'n str,
}

/// The queries of views that follow the new name of a column, to be put when it has that.
pub(super) fn queries_with_column(ddl: &Ddl<'_>, renamed: &RenamedColumn<'_>) -> Result<Vec<(Oid, Query)>> {
    queries_that_follow(ddl, |query| follow_column(query, renamed))
}

/// The outcome of letting a query follow a new name.
enum Followed {
    /// It does not use what has the name.
    No,
    Yes,
    /// The name stands for several things in it.
    Cannot,
}

fn refused(view: &View) -> SqlError {
    SqlError::unsupported(format!("renaming what view {} uses", view.name))
}

/// The queries of views that `follow` has changed.
fn queries_that_follow(
    ddl: &Ddl<'_>,
    mut follow: impl FnMut(&mut Query) -> Followed,
) -> Result<Vec<(Oid, Query)>> {
    let mut following = Vec::new();
    for view in ddl.session.catalog().views() {
        let mut query = query_of(view)?;
        match follow(&mut query) {
            Followed::No => {}
            Followed::Yes => following.push((view.oid, query)),
            Followed::Cannot => return Err(refused(view)),
        }
    }
    Ok(following)
}

/// Keeps the new queries of views, each of which is bound before.
pub(super) fn put_queries(ddl: &mut Ddl<'_>, following: Vec<(Oid, Query)>) -> Result<()> {
    for (oid, query) in following {
        let found = ddl.session.catalog().view_by_oid(oid).cloned();
        let Some(view): Option<Arc<View>> = found else { continue };
        let bound = ddl
            .session
            .with_types(|types, catalog| Binder::new(catalog, types, &[]).analyse_query(&query).map(drop));
        if let Err(error) = bound {
            return Err(refused(&view).detail(error.to_string()));
        }
        let changed = View { query: query_text(&query)?, ..(*view).clone() };
        ddl.change(|catalog| catalog.put_view(changed))?;
    }
    Ok(())
}

/// The names by which a query refers to a relation and to others.
struct Ranges<'n> {
    of: &'n Place,
    /// The names by which it refers to the relation.
    own: Vec<Box<str>>,
    /// True if the relation stands there under its own name.
    is_bare: bool,
    /// True if the relation stands there at all.
    is_used: bool,
    others: Vec<Box<str>>,
    /// Names without a relation in front.
    single: Vec<Box<str>>,
    /// Columns of USING.
    merged: Vec<Box<str>>,
    /// The longest list of columns behind an alias of the relation.
    listed: usize,
}

impl<'n> Ranges<'n> {
    fn in_query(query: &Query, of: &'n Place) -> Ranges<'n> {
        let mut ranges = Ranges {
            of,
            own: Vec::new(),
            is_bare: false,
            is_used: false,
            others: Vec::new(),
            single: Vec::new(),
            merged: Vec::new(),
            listed: 0,
        };
        let _: ControlFlow<()> = ranges.visit_query(query);
        ranges
    }

    fn add_relation(&mut self, relation: &RelationReference) {
        let RelationReference { name, alias, .. } = relation;
        let range = alias.as_ref().map_or(&name.name, |alias| &alias.name).name.clone();
        if !self.of.is(name) {
            return self.others.push(range);
        }
        self.is_used = true;
        self.is_bare |= alias.is_none();
        self.listed = self.listed.max(alias.as_ref().map_or(0, |alias| alias.columns.len()));
        self.own.push(range);
    }

    /// True if a name of another relation, or one that stands alone, is this one.
    fn is_taken(&self, name: &str) -> bool {
        self.others.iter().chain(&self.single).any(|other| **other == *name)
    }
}

impl Visitor for Ranges<'_> {
    type Break = ();

    fn visit_table(&mut self, table: &TableReference) -> ControlFlow<()> {
        match table {
            TableReference::Relation(relation) => self.add_relation(relation),
            TableReference::Join(join) => {
                self.others.extend(join.alias.iter().map(|alias| alias.name.name.clone()));
                if let JoinCondition::Using(columns, alias) = &join.condition {
                    self.merged.extend(columns.iter().map(|column| column.name.clone()));
                    self.others.extend(alias.iter().map(|alias| alias.name.clone()));
                }
            }
            TableReference::Function(function) => {
                self.others.extend(function.alias.iter().map(|alias| alias.name.name.clone()));
            }
            TableReference::Subquery(subquery) => self.others.push(subquery.alias.name.name.clone()),
        }
        self.walk_table(table)
    }

    fn visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Column(ColumnReference { fields, has_star: false, .. }) = expr
            && let [name] = &fields[..]
        {
            self.single.push(name.name.clone());
        }
        self.walk_expr(expr)
    }
}

/// Lets a query follow a relation to another name or schema. Returns true if it uses the relation.
fn follow_move(query: &mut Query, from: &Place, to: &Place) -> bool {
    let ranges = Ranges::in_query(query, from);
    let by_alias = ranges.is_taken(&from.name)
        || ranges.is_taken(&to.name)
        || (from.name != to.name && ranges.own.iter().any(|name| **name == *to.name))
        || (ranges.is_bare && ranges.own.iter().any(|name| **name != *from.name));
    let is_used = ranges.is_used;
    let mut replace = ReplaceRelation { from, to, by_alias, is_changed: false };
    let _: ControlFlow<()> = replace.visit_query(query);
    is_used || replace.is_changed
}

struct ReplaceRelation<'n> {
    from: &'n Place,
    to: &'n Place,
    by_alias: bool,
    is_changed: bool,
}

impl VisitorMut for ReplaceRelation<'_> {
    type Break = ();

    fn visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for name in query.locks.iter_mut().flat_map(|lock| &mut lock.tables) {
            if !self.by_alias && *name.name.name == *self.from.name {
                name.name.name = self.to.name.as_str().into();
            }
        }
        self.walk_query(query)
    }

    fn visit_table(&mut self, table: &mut TableReference) -> ControlFlow<()> {
        if let TableReference::Relation(relation) = table
            && self.from.is(&relation.name)
        {
            relation.name.schema = Some(Ident::new(&self.to.schema));
            relation.name.name = Ident::new(&self.to.name);
            if relation.alias.is_none() && self.by_alias {
                relation.alias = Some(Alias { name: Ident::new(&self.from.name), columns: Vec::new() });
            }
        }
        self.walk_table(table)
    }

    fn visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Column(column) = expr {
            self.replace_in(column);
        }
        self.is_changed |= replace_string(expr, self.from, self.to);
        self.walk_expr(expr)
    }
}

impl ReplaceRelation<'_> {
    /// Replaces the relation in front of a column.
    fn replace_in(&self, column: &mut ColumnReference) {
        let qualifiers = column.fields.len() - usize::from(!column.has_star && !column.fields.is_empty());
        let Some(at) = qualifiers.checked_sub(1).filter(|at| *column.fields[*at].name == *self.from.name)
        else {
            return;
        };
        let schema = at.checked_sub(1);
        if schema.is_some_and(|schema| *column.fields[schema].name != *self.from.schema) {
            return;
        }
        if self.by_alias {
            column.fields.drain(..at);
            return;
        }
        column.fields[at].name = self.to.name.as_str().into();
        if let Some(schema) = schema {
            column.fields[schema].name = self.to.schema.as_str().into();
        }
    }
}

/// Lets a query follow a column of a relation to another name.
fn follow_column(query: &mut Query, renamed: &RenamedColumn<'_>) -> Followed {
    let RenamedColumn { of, from, at, to } = renamed;
    let ranges = Ranges::in_query(query, of);
    if !ranges.is_used {
        return Followed::No;
    }
    // A list behind the only alias names the column.
    if ranges.listed > *at {
        return if ranges.own.len() == 1 { Followed::No } else { Followed::Cannot };
    }
    let is_shared = ranges.own.iter().any(|own| ranges.others.contains(own));
    let mut alone = ranges.single.iter().chain(&ranges.merged);
    if is_shared || alone.any(|name| **name == **from || **name == **to) {
        return Followed::Cannot;
    }
    let mut replace = ReplaceColumn { own: ranges.own, from, to };
    let _: ControlFlow<()> = replace.visit_query(query);
    Followed::Yes
}

/// Replaces a column of the ranges that are the relation's own.
struct ReplaceColumn<'n> {
    own: Vec<Box<str>>,
    from: &'n str,
    to: &'n str,
}

impl ReplaceColumn<'_> {
    fn is_meant(&self, column: &ColumnReference) -> bool {
        let [.., relation, name] = &column.fields[..] else { return false };
        !column.has_star && *name.name == *self.from && self.own.contains(&relation.name)
    }

    /// Lets a column of a result keep its name.
    fn keep_name(&self, target: &mut Target) {
        if target.alias.is_none()
            && let Expr::Column(column) = &target.value
            && self.is_meant(column)
        {
            target.alias = Some(Ident::new(self.from));
        }
    }
}

impl VisitorMut for ReplaceColumn<'_> {
    type Break = ();

    fn visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        select.targets.iter_mut().for_each(|target| self.keep_name(target));
        self.walk_select(select)
    }

    fn visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Column(column) if self.is_meant(column) => {
                if let Some(name) = column.fields.last_mut() {
                    name.name = self.to.into();
                }
            }
            Expr::Indirection(parts) => {
                if let (Expr::Column(row), [Access::Field(field), ..]) = (&parts.base, &mut parts.path[..])
                    && *field.name == *self.from
                    && let [name] = &row.fields[..]
                    && self.own.contains(&name.name)
                {
                    field.name = self.to.into();
                }
            }
            _ => {}
        }
        self.walk_expr(expr)
    }
}
