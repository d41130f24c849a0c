//! INSERT, UPDATE and DELETE, which may stand in WITH.

use std::fmt::{self, Display, Formatter};

use super::{Clause, List, commas};
use crate::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, IndexElement, IndexKey, Insert, OnConflict,
    Overriding, RowFilter, SortDirection, Target, Update,
};

fn returning(targets: &[Target], f: &mut Formatter<'_>) -> fmt::Result {
    match targets.is_empty() {
        true => Ok(()),
        false => write!(f, " RETURNING {}", commas(targets)),
    }
}

impl Display for Insert {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(with) = &self.with {
            write!(f, "{with} ")?;
        }
        write!(f, "INSERT INTO {}{}", self.table, Clause(" AS ", self.alias.as_ref()))?;
        if !self.columns.is_empty() {
            write!(f, " ({})", commas(&self.columns))?;
        }
        f.write_str(match self.overriding {
            None => "",
            Some(Overriding::System) => " OVERRIDING SYSTEM VALUE",
            Some(Overriding::User) => " OVERRIDING USER VALUE",
        })?;
        match &self.source {
            Some(query) => write!(f, " {query}")?,
            None => f.write_str(" DEFAULT VALUES")?,
        }
        if let Some(conflict) = &self.on_conflict {
            conflict.fmt(f)?;
        }
        returning(&self.returning, f)
    }
}

impl Display for OnConflict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(" ON CONFLICT")?;
        match &self.target {
            None => {}
            Some(ConflictTarget::Constraint(name)) => write!(f, " ON CONSTRAINT {name}")?,
            Some(ConflictTarget::Index { elements, filter, .. }) => {
                write!(f, " ({}){}", commas(elements), Clause(" WHERE ", filter.as_ref()))?;
            }
        }
        match &self.update {
            None => f.write_str(" DO NOTHING"),
            Some(update) => {
                write!(f, " DO UPDATE SET {}", commas(&update.assignments))?;
                Clause(" WHERE ", update.filter.as_ref()).fmt(f)
            }
        }
    }
}

impl Display for IndexElement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.key {
            IndexKey::Column(name) => name.fmt(f)?,
            IndexKey::Expr(expr) => write!(f, "({expr})")?,
        }
        Clause(" COLLATE ", self.collation.as_ref()).fmt(f)?;
        Clause(" ", self.operator_class.as_ref()).fmt(f)?;
        f.write_str(match self.direction {
            SortDirection::Ascending => " ASC",
            SortDirection::Descending => " DESC",
            _ => "",
        })?;
        f.write_str(match self.is_nulls_first {
            Some(true) => " NULLS FIRST",
            Some(false) => " NULLS LAST",
            None => "",
        })
    }
}

impl Display for AssignmentTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.column, List(&self.path, ""))
    }
}

impl Display for Assignment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Assignment::One(target, value) => write!(f, "{target} = {value}"),
            Assignment::Row { targets, value, .. } => write!(f, "({}) = {value}", commas(targets)),
        }
    }
}

impl Display for RowFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            RowFilter::Where(condition) => write!(f, " WHERE {condition}"),
            RowFilter::CurrentOf(cursor) => write!(f, " WHERE CURRENT OF {cursor}"),
        }
    }
}

impl Display for Update {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(with) = &self.with {
            write!(f, "{with} ")?;
        }
        write!(f, "UPDATE {} SET {}", self.table, commas(&self.assignments))?;
        if !self.from.is_empty() {
            write!(f, " FROM {}", commas(&self.from))?;
        }
        self.filter.iter().try_for_each(|filter| filter.fmt(f))?;
        returning(&self.returning, f)
    }
}

impl Display for Delete {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(with) = &self.with {
            write!(f, "{with} ")?;
        }
        write!(f, "DELETE FROM {}", self.table)?;
        if !self.using.is_empty() {
            write!(f, " USING {}", commas(&self.using))?;
        }
        self.filter.iter().try_for_each(|filter| filter.fmt(f))?;
        returning(&self.returning, f)
    }
}
