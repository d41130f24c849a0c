//! Views, defaults and checks as PostgreSQL would print them: the layer above does, which can bind what the catalog keeps.

use super::{Object, System};
use crate::{
    catalog::model::{Check, Column, Oid, Parameter, Table, View},
    types::ColumnType,
};

/// A text of the catalog that is to be shown.
#[derive(Clone, Copy)]
pub enum Kept<'a> {
    /// The query of a view.
    View(&'a View),
    /// An expression over the columns of a table.
    Expression {
        /// The table's identifier; 0 for no columns.
        table: Oid,
        /// The expression.
        text: &'a str,
        /// The type of the column that it is assigned to.
        target: Option<ColumnType>,
    },
}

/// The form of shown texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// True if only those parentheses are printed that are needed.
    pub is_pretty: bool,
    /// The length that lines of a list may have before the next item begins a new one; none for any.
    pub wrap: Option<usize>,
}

impl Style {
    /// All parentheses, and each item of a list on a line of its own.
    pub const FULL: Style = Style { is_pretty: false, wrap: Some(0) };
    /// Few parentheses, and each item of a list on a line of its own.
    pub const PRETTY: Style = Style { is_pretty: true, wrap: Some(0) };

    /// Returns the style that a function's argument asks for.
    pub fn of(is_pretty: bool) -> Style {
        if is_pretty { Style::PRETTY } else { Style::FULL }
    }
}

impl System<'_> {
    /// The query of a view, with its semicolon; as it is kept, if it does not fit the catalog.
    pub(super) fn view_text(&self, view: &View, style: Style) -> String {
        let shown = self.state.shown(Kept::View(view), style);
        shown.unwrap_or_else(|_| format!(" {};", view.query.trim_end_matches(';')))
    }

    /// The rule of a view, as the statement that would make it.
    pub(super) fn rule_text(&self, view: &View, is_pretty: bool) -> String {
        let query = self.view_text(view, Style::of(is_pretty));
        let relation = super::quote(&view.name);
        let name = match is_pretty && self.is_visible(view.oid) == Some(true) {
            true => relation,
            false => format!("{}.{relation}", super::quote(&view.schema)),
        };
        format!("CREATE RULE \"_RETURN\" AS\n    ON SELECT TO {name} DO INSTEAD {query}")
    }

    /// The condition of a CHECK constraint.
    pub(super) fn check_text(&self, table: &Table, check: &Check, is_pretty: bool) -> String {
        self.expression_text(table.oid, &check.expression, None, is_pretty)
    }

    /// The default of a column.
    pub(super) fn default_text(&self, table: Oid, column: &Column) -> Option<String> {
        let default = column.default.as_deref()?;
        Some(self.expression_text(table, default, Some(column.ty), false))
    }

    /// The default of a procedure's parameter.
    pub(super) fn parameter_default(&self, parameter: &Parameter) -> Option<String> {
        let default = parameter.default.as_deref()?;
        Some(self.expression_text(0, default, Some(parameter.ty), false))
    }

    /// An expression over the columns of a table, or over none if its identifier is 0; as it is, if it does not fit the
    /// catalog.
    pub(super) fn expression_text(
        &self,
        table: Oid,
        text: &str,
        target: Option<ColumnType>,
        is_pretty: bool,
    ) -> String {
        let kept = Kept::Expression { table, text, target };
        self.state.shown(kept, Style::of(is_pretty)).unwrap_or_else(|_| text.to_owned())
    }
}

/// The bits of pg_relation_is_updatable.
pub(super) const UPDATES: i32 = 4;
pub(super) const INSERTS: i32 = 8;
pub(super) const DELETES: i32 = 16;

impl System<'_> {
    /// The changes that rows of a relation can undergo, as bits.
    pub(super) fn changes(&self, object: &Object<'_>) -> i32 {
        match object {
            Object::Table(_) => UPDATES | INSERTS | DELETES,
            Object::View(view) => match self.state.updatable_columns(view) {
                Some(columns) if columns.contains(&true) => UPDATES | INSERTS | DELETES,
                Some(_) => DELETES,
                None => 0,
            },
            Object::Index(..) | Object::Sequence(_) => 0,
        }
    }

    /// The columns of a relation that can be changed, as flags.
    pub(super) fn changed_columns(&self, object: &Object<'_>) -> Vec<bool> {
        match object {
            Object::Table(table) => vec![true; table.columns.len()],
            Object::View(view) => self.state.updatable_columns(view).unwrap_or_default(),
            Object::Index(..) | Object::Sequence(_) => Vec::new(),
        }
    }
}
