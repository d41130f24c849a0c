//! Names: which relations and columns an expression can refer to, at its own query level and at those around it.

mod candidates;
mod place;
mod whole_row;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    sync::Arc,
};

use crate::{
    Result, SqlError, SqlState,
    catalog::{
        model::{Oid, Table},
        row_address::{SystemColumn, is_system_column},
    },
    executor::{Expr, expr::ExprKind},
    planner::Numbers,
    types::Type,
};

pub use candidates::missing_result_column;
pub use place::{Calls, Clause, NamedWindow, Place};
pub use whole_row::WholeRow;

/// A column that can be named.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    /// Its name.
    pub name: String,
    /// Its value: a column, or of a full join with USING the first of two that is not NULL.
    pub expr: Expr,
    /// The table that it comes from, or 0.
    pub table: Oid,
    /// Its number in that table, from 1, or 0.
    pub attribute: i16,
    /// True if `*` does not stand for it; of a system column, if it must be named with its relation.
    pub is_hidden: bool,
}

/// A relation that can be named.
#[derive(Clone, Debug)]
pub struct ScopeRelation {
    /// Its schema, if it goes by its own name.
    pub schema: Option<String>,
    /// The name that it goes by.
    pub name: String,
    /// Its own name, if it goes by an alias.
    pub aliased: Option<String>,
    /// Its columns.
    pub columns: Vec<ScopeColumn>,
    /// The columns that it has beside those of `*`: system columns.
    pub system_columns: Vec<ScopeColumn>,
    /// The stored table that it is; none if it is something else.
    pub stored: Option<Arc<Table>>,
    /// Of the alias of a join, the relations that cannot be named because of it: for messages.
    pub joined: Option<Arc<[ScopeRelation]>>,
    /// Its row as one value.
    pub whole: WholeRow,
}

/// The names that the expressions of a query level can refer to.
#[derive(Debug, Default)]
pub struct Scope<'p> {
    /// The scope around it.
    parent: Option<&'p Scope<'p>>,
    /// The place of the query, if it is the outermost scope of one within an expression or FROM.
    around: Option<Place<'p>>,
    /// The number of scopes around it.
    depth: usize,
    /// Relations, in the order of FROM.
    pub relations: Vec<ScopeRelation>,
    /// Relations of the same FROM that cannot be named from here: for messages.
    pub beyond: Vec<&'p [ScopeRelation]>,
    /// Relations among these that names mean, but that may not be referred to from here.
    pub barred: Vec<Barred>,
    /// Columns that can be named without their relation, in the order of `*`.
    pub columns: Vec<ScopeColumn>,
    /// Values of the parent's row that this level uses: slot, and expression in the parent's terms.
    captures: RefCell<Vec<(usize, Expr)>>,
    /// True if it uses values of any level around it.
    correlated: Cell<bool>,
    /// True if a column or an aggregate of it was named since the aggregate around began.
    named: Cell<bool>,
}

/// A relation that LATERAL may not refer to.
#[derive(Clone, Debug)]
pub struct Barred {
    /// The name that it goes by.
    pub relation: String,
    /// True if it is the table that UPDATE or DELETE changes; else it is beside the side that an outer join keeps.
    pub is_target: bool,
}

impl Barred {
    fn error(&self) -> SqlError {
        let name = &self.relation;
        let message = format!("invalid reference to FROM-clause entry for table \"{name}\"");
        let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
        match self.is_target {
            true => error.hint(format!(
                "There is an entry for table \"{name}\", but it cannot be referenced from this part of the query."
            )),
            false => error.detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference."),
        }
    }
}

/// The column that a name was resolved to: in this level, or in one around it.
enum Found {
    Here(ScopeColumn),
    Outside(ScopeColumn),
}

impl<'p> Scope<'p> {
    /// A scope without names.
    pub fn empty() -> Scope<'static> {
        Scope::default()
    }

    /// A scope whose names hide those of `parent`.
    pub fn within(parent: &'p Scope<'p>) -> Scope<'p> {
        Scope { parent: Some(parent), depth: parent.depth + 1, ..Scope::default() }
    }

    /// The outermost scope of a query that stands at `place`.
    pub fn of_query(place: Place<'p>) -> Scope<'p> {
        Scope { around: Some(place), ..Scope::within(place.scope) }
    }

    /// The number of scopes around it.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The place of the query that it belongs to.
    pub fn around(&self) -> Option<Place<'p>> {
        self.around.or_else(|| self.parent?.around())
    }

    /// A value of the row of a scope around it, as a value of its own row.
    pub fn lift(&self, from: usize, value: Expr, numbers: &mut Numbers) -> Expr {
        let Some(parent) = self.parent.filter(|_| self.depth > from) else { return value };
        let value = parent.lift(from, value, numbers);
        self.correlated.set(true);
        self.capture(value, numbers)
    }

    /// Returns how many values it and the scopes around it take from further out, for [`Scope::forget_since`].
    pub fn mark(&self) -> Vec<(usize, bool)> {
        let mut marks = self.parent.map_or_else(Vec::new, Scope::mark);
        marks.push((self.captures.borrow().len(), self.correlated.get()));
        marks
    }

    /// Takes back that values were taken from further out since [`Scope::mark`].
    pub fn forget_since(&self, marks: &[(usize, bool)]) {
        let Some(((captures, correlated), outer)) = marks.split_last() else { return };
        self.captures.borrow_mut().truncate(*captures);
        self.correlated.set(*correlated);
        if let Some(parent) = self.parent {
            parent.forget_since(outer);
        }
    }

    /// Notes that an aggregate of the level is named.
    pub fn set_named(&self) {
        self.named.set(true);
    }

    /// Begins to note anew which levels, of it and those around it, are named; returns which were so far.
    pub fn take_named(&self) -> Vec<bool> {
        let mut named = self.parent.map_or_else(Vec::new, Scope::take_named);
        named.push(self.named.take());
        named
    }

    /// Adds what [`Scope::take_named`] returned.
    pub fn add_named(&self, named: &[bool]) {
        let Some((here, outer)) = named.split_last() else { return };
        self.named.set(self.named.get() || *here);
        if let Some(parent) = self.parent {
            parent.add_named(outer);
        }
    }

    /// The depth of the innermost level, of it and those around it, that is named.
    pub fn innermost_named(&self) -> Option<usize> {
        match self.named.get() {
            true => Some(self.depth),
            false => self.parent?.innermost_named(),
        }
    }

    /// Returns the numbers of all columns of this level that expressions can use.
    pub fn numbers(&self) -> BTreeSet<usize> {
        let mut numbers = BTreeSet::new();
        let of_relations = self.relations.iter().flat_map(|of| of.columns.iter().chain(&of.system_columns));
        for column in self.columns.iter().chain(of_relations) {
            column.expr.collect_columns(&mut numbers);
        }
        for witness in self.relations.iter().filter_map(ScopeRelation::witness) {
            witness.collect_columns(&mut numbers);
        }
        numbers
    }

    /// The scope of one table's row, whose column `i` is column `i` of the row: dropped columns are there but have no
    /// name.
    pub fn of_table(table: &Arc<Table>, alias: Option<&str>) -> Scope<'static> {
        let mut scope = Scope::empty();
        scope.push(ScopeRelation::of_table(table, alias, 0));
        scope
    }

    /// As [`Scope::of_table`], of rows that are stored: their keys are the columns behind the table's.
    pub fn of_stored_rows(table: &Arc<Table>, alias: Option<&str>) -> Scope<'static> {
        let mut scope = Scope::empty();
        scope.push(ScopeRelation::of_table(table, alias, 0).with_system_columns(table, table.columns.len()));
        scope
    }

    /// Adds a relation whose columns can be named with and without it.
    pub fn push(&mut self, relation: ScopeRelation) {
        self.columns.extend(relation.columns.iter().cloned());
        self.relations.push(relation);
    }

    /// Returns the values that this level takes from the one around it, and true if it depends on any level around it.
    pub fn into_captures(self) -> (Vec<(usize, Expr)>, bool) {
        (self.captures.into_inner(), self.correlated.get())
    }

    /// True if it depends on any level around it.
    pub fn is_correlated(&self) -> bool {
        self.correlated.get()
    }

    /// The column `name`, in this level or the next one around it that has it.
    pub fn column(&self, name: &str, numbers: &mut Numbers) -> Result<Option<ScopeColumn>> {
        let mut matching = self.columns.iter().filter(|column| column.name == name);
        let found = match (matching.next(), matching.next()) {
            (Some(column), None) => {
                self.refuse_barred_column(column)?;
                Some(Found::Here(column.clone()))
            }
            (Some(_), Some(_)) => {
                return Err(ambiguous_column(name));
            }
            (None, _) => match (self.system_column(name)?, self.parent) {
                (Some(column), _) => Some(Found::Here(column.clone())),
                (None, Some(parent)) => parent.column(name, numbers)?.map(Found::Outside),
                (None, None) => None,
            },
        };
        Ok(found.map(|found| self.reach(found, numbers)))
    }

    /// Fails if a column is one of a relation that may not be referred to.
    fn refuse_barred_column(&self, column: &ScopeColumn) -> Result<()> {
        let is_of =
            |relation: &ScopeRelation| relation.columns.iter().any(|own| own.expr.alike(&column.expr));
        let has_it = |barred: &&Barred| {
            self.relations.iter().any(|relation| relation.name == barred.relation && is_of(relation))
        };
        self.barred.iter().find(has_it).map_or(Ok(()), |barred| Err(barred.error()))
    }

    /// The system column of this name, of the only relation of this level that has it outside of joins.
    fn system_column(&self, name: &str) -> Result<Option<&ScopeColumn>> {
        let of_relations = self.relations.iter().filter_map(|relation| relation.system_column(name));
        let mut matching = of_relations.filter(|column| !column.is_hidden);
        match (matching.next(), matching.next()) {
            (Some(_), Some(_)) => Err(ambiguous_column(name)),
            (first, _) => Ok(first),
        }
    }

    /// True if PostgreSQL's rows of a relation here or around have system columns that can be named without it.
    pub fn has_system_columns(&self) -> bool {
        let is_hidden =
            |relation: &&ScopeRelation| relation.system_columns.iter().any(|column| column.is_hidden);
        let mut visible = self.relations.iter().filter(|relation| !is_hidden(relation));
        visible.any(ScopeRelation::has_system_columns) || self.parent.is_some_and(Scope::has_system_columns)
    }

    /// The column `relation.name`.
    pub fn qualified(
        &self,
        schema: Option<&str>,
        relation: &str,
        name: &str,
        numbers: &mut Numbers,
    ) -> Result<Option<ScopeColumn>> {
        let found = match self.relation(schema, relation)? {
            Some(found) => {
                let mut matching = found.columns.iter().filter(|column| column.name == name);
                let first = matching.next().or_else(|| found.system_column(name));
                match (first, matching.next()) {
                    (Some(column), None) => Found::Here(column.clone()),
                    (Some(_), Some(_)) => {
                        return Err(ambiguous_column(name));
                    }
                    (None, _) if is_system_column(name) && found.has_system_columns() => {
                        return Err(unsupported_column(name));
                    }
                    (None, _) => {
                        return Err(self.missing_column(Some(relation), name));
                    }
                }
            }
            None => match self.parent {
                Some(parent) => match parent.qualified(schema, relation, name, numbers)? {
                    Some(column) => Found::Outside(column),
                    None => return Ok(None),
                },
                None => return Ok(None),
            },
        };
        Ok(Some(self.reach(found, numbers)))
    }

    /// The relation of this name at this level.
    pub fn relation(&self, schema: Option<&str>, name: &str) -> Result<Option<&ScopeRelation>> {
        let mut matching = self.relations.iter().filter(|relation| {
            relation.name == name && (schema.is_none() || relation.schema.as_deref() == schema)
        });
        let first = matching.next();
        if matching.next().is_some() {
            return Err(SqlError::new(SqlState("42P09"), format!("table reference \"{name}\" is ambiguous")));
        }
        match self.barred.iter().find(|barred| first.is_some() && barred.relation == name) {
            Some(barred) => Err(barred.error()),
            None => Ok(first),
        }
    }

    /// The name by which an expression of this level means one of the level's columns, and no other.
    pub fn name_for<'n>(&'n self, column: &'n ScopeColumn) -> Option<Vec<&'n str>> {
        let is_unique = |columns: &[ScopeColumn], name: &str| {
            columns.iter().filter(|other| other.name == name).count() == 1
        };
        for relation in &self.relations {
            let Some(own) = relation.columns.iter().find(|other| other.expr.alike(&column.expr)) else {
                continue;
            };
            if !is_unique(&relation.columns, &own.name) {
                return None;
            }
            let namesakes = self.relations.iter().filter(|other| other.name == relation.name).count();
            let schema = if namesakes > 1 { Some(relation.schema.as_deref()?) } else { None };
            return Some(schema.into_iter().chain([&*relation.name, &*own.name]).collect());
        }
        // Of two columns that USING has made one.
        is_unique(&self.columns, &column.name).then(|| vec![&*column.name])
    }

    /// The name with its relation of the column that a name means, in this level or the next one around it that has it.
    pub fn full_name(&self, name: &str) -> Option<Vec<&str>> {
        if let Some(column) = self.columns.iter().find(|column| column.name == name) {
            return self.name_for(column);
        }
        let parts = self.parent?.full_name(name)?;
        let is_hidden = match parts[..] {
            [.., relation, _] => self.relations.iter().any(|other| other.name == relation),
            _ => false,
        };
        (!is_hidden).then_some(parts)
    }

    /// The columns of a relation here or around, as values of this level's row.
    pub fn whole_relation(
        &self,
        schema: Option<&str>,
        name: &str,
        numbers: &mut Numbers,
    ) -> Result<Option<Vec<ScopeColumn>>> {
        if let Some(relation) = self.relation(schema, name)? {
            self.named.set(true);
            return Ok(Some(relation.columns.clone()));
        }
        let Some(parent) = self.parent else { return Ok(None) };
        let columns = parent.whole_relation(schema, name, numbers)?;
        Ok(columns.map(|columns| {
            columns.into_iter().map(|column| self.reach(Found::Outside(column), numbers)).collect()
        }))
    }

    /// The row of a relation here or around as one value, of this level's row.
    pub fn whole_row(&self, schema: Option<&str>, name: &str, numbers: &mut Numbers) -> Result<Option<Expr>> {
        if let Some(relation) = self.relation(schema, name)? {
            self.named.set(true);
            return Ok(Some(relation.whole_row()));
        }
        let Some(parent) = self.parent else { return Ok(None) };
        let Some(row) = parent.whole_row(schema, name, numbers)? else { return Ok(None) };
        self.correlated.set(true);
        Ok(Some(match row.kind {
            // Its columns stay apart, for conditions that compare them.
            ExprKind::Row(columns) => {
                let columns = columns.into_iter().map(|column| self.capture(column, numbers)).collect();
                Expr { kind: ExprKind::Row(columns), ..row }
            }
            _ => self.capture(row, numbers),
        }))
    }

    /// Makes a slot of a column found around this level. The slot is set when this level's plan is opened.
    fn reach(&self, found: Found, numbers: &mut Numbers) -> ScopeColumn {
        let mut column = match found {
            Found::Here(column) => {
                self.named.set(true);
                return column;
            }
            Found::Outside(column) => column,
        };
        self.correlated.set(true);
        column.expr = self.capture(column.expr, numbers);
        column
    }

    fn capture(&self, expr: Expr, numbers: &mut Numbers) -> Expr {
        // A slot was set further out and stays set here.
        if matches!(expr.kind, ExprKind::Slot(_)) {
            return expr;
        }
        let mut captures = self.captures.borrow_mut();
        let slot = match captures.iter().find(|(_, captured)| captured.same(&expr)) {
            Some((slot, _)) => *slot,
            None => {
                let slot = numbers.next_slot();
                captures.push((slot, expr.clone()));
                slot
            }
        };
        Expr { kind: ExprKind::Slot(slot), ty: expr.ty }
    }
}

impl ScopeRelation {
    /// A stored table whose column `i` has number `base + i`.
    pub fn of_table(table: &Arc<Table>, alias: Option<&str>, base: usize) -> ScopeRelation {
        let name = alias.unwrap_or(&table.name);
        let columns = table
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| !column.dropped)
            .map(|(position, column)| ScopeColumn {
                name: column.name.clone(),
                expr: Expr::column(base + position, format!("{name}.{}", column.name), column.ty),
                table: table.oid,
                attribute: i16::try_from(position + 1).unwrap_or(0),
                is_hidden: false,
            })
            .collect();
        ScopeRelation {
            schema: alias.is_none().then(|| table.schema.clone()),
            name: name.to_owned(),
            aliased: alias.map(|_| table.name.clone()),
            columns,
            system_columns: Vec::new(),
            stored: Some(table.clone()),
            joined: None,
            whole: WholeRow::told_by(base + table.columns.len()),
        }
    }

    /// This relation with the system columns of the stored table that it is; column `key` is the key of its rows.
    pub fn with_system_columns(mut self, table: &Arc<Table>, key: usize) -> ScopeRelation {
        let of_table = |column: SystemColumn| {
            let label = format!("{}.{}", self.name, column.name());
            let key = Box::new(Expr::column(key, label, Type::Bytea.into()));
            ScopeColumn {
                name: column.name().to_owned(),
                expr: Expr::new(ExprKind::System { column, table: table.clone(), key }, column.ty()),
                table: table.oid,
                attribute: column.attribute(),
                is_hidden: false,
            }
        };
        self.system_columns = table.system_columns().map(of_table).collect();
        self
    }

    /// Notes that it is joined to another one: its system columns must be named with it then.
    pub fn hide_system_columns(&mut self) {
        self.system_columns.iter_mut().for_each(|column| column.is_hidden = true);
    }

    fn system_column(&self, name: &str) -> Option<&ScopeColumn> {
        self.system_columns.iter().find(|column| column.name == name)
    }

    /// True if PostgreSQL's rows of it have system columns.
    fn has_system_columns(&self) -> bool {
        self.stored.is_some() || !self.system_columns.is_empty()
    }
}

/// The error for a name that several columns have.
fn ambiguous_column(name: &str) -> SqlError {
    SqlError::new(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{name}\" is ambiguous"))
}

/// The error for a system column that rows do not have.
pub fn unsupported_column(name: &str) -> SqlError {
    SqlError::unsupported(format!("the system column \"{name}\""))
        .hint("Tell rows apart by their primary key.")
}
