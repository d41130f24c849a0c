//! Errors of names that are not there, with the names that may have been meant, by PostgreSQL's rules.

use std::iter::successors;

use super::{Scope, ScopeRelation};
use crate::{SqlError, SqlState};

/// The greatest number of changes between a name and one that may have been meant.
const DISTANCE_MAX: usize = 3;

/// The columns that may have been meant, the nearest so far.
struct Candidates<'s> {
    distance: usize,
    /// Relations and columns, two at most: more are none.
    nearest: Vec<(&'s str, &'s str)>,
}

impl<'s> Candidates<'s> {
    /// Compares a column; `penalty` is the distance of its relation's name.
    fn consider(&mut self, relation: &'s str, column: &'s str, wanted: &str, penalty: usize) {
        if penalty > self.distance {
            return;
        }
        let distance = distance(column, wanted);
        // More than half of another name is no misspelling.
        if distance > wanted.len() / 2 {
            return;
        }
        let distance = distance + penalty;
        if distance < self.distance {
            self.distance = distance;
            self.nearest = vec![(relation, column)];
        } else if distance == self.distance {
            match self.nearest.len() {
                2 => {
                    self.nearest.clear();
                    // A column as near as these is one of too many.
                    self.distance = distance.saturating_sub(1);
                }
                1 => self.nearest.push((relation, column)),
                _ if distance <= DISTANCE_MAX => self.nearest.push((relation, column)),
                _ => {}
            }
        }
    }

    fn hint(&self) -> Option<String> {
        let quoted = |(relation, column): &(&str, &str)| format!("the column \"{relation}.{column}\"");
        match &self.nearest[..] {
            [] => None,
            named => {
                let named: Vec<String> = named.iter().map(quoted).collect();
                Some(format!("Perhaps you meant to reference {}.", named.join(" or ")))
            }
        }
    }
}

impl ScopeRelation {
    /// The relation, with true if it can be named; in place of the alias of a join, the relations of the join.
    fn members(&self, can_be_named: bool) -> Vec<(&ScopeRelation, bool)> {
        match &self.joined {
            None => vec![(self, can_be_named)],
            Some(joined) => joined.iter().flat_map(|relation| relation.members(false)).collect(),
        }
    }
}

impl<'p> Scope<'p> {
    /// The relations of this level and of those around it, from the inside: those that can be named from here, and those
    /// that stand in the same FROM and cannot, each with true if it can.
    fn all_relations(&self) -> impl Iterator<Item = (&ScopeRelation, bool)> {
        let levels = successors(Some(self), |scope| scope.parent);
        levels.flat_map(|scope| {
            let beyond = scope.beyond.iter().copied().flatten().flat_map(|relation| relation.members(false));
            beyond.chain(scope.relations.iter().flat_map(|relation| relation.members(true)))
        })
    }

    /// The error for a column that no relation has, or that the one of this name has not.
    pub fn missing_column(&self, relation: Option<&str>, name: &str) -> SqlError {
        let message = match relation {
            Some(relation) => format!("column {relation}.{name} does not exist"),
            None => format!("column \"{name}\" does not exist"),
        };
        let error = SqlError::new(SqlState::UNDEFINED_COLUMN, message);
        match self.column_hint(relation, name) {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    fn column_hint(&self, relation: Option<&str>, name: &str) -> Option<String> {
        let mut candidates = Candidates { distance: DISTANCE_MAX + 1, nearest: Vec::new() };
        for (candidate, _) in self.all_relations() {
            let penalty = relation.map_or(0, |relation| distance(relation, &candidate.name));
            if penalty == 0 && candidate.columns.iter().any(|column| column.name == name) {
                return Some(not_from_here(name, &candidate.name));
            }
            for column in &candidate.columns {
                candidates.consider(&candidate.name, &column.name, name, penalty);
            }
        }
        candidates.hint()
    }

    /// The error for a relation that no level has.
    pub fn missing_relation(&self, name: &str) -> SqlError {
        let found = self
            .all_relations()
            .find(|(relation, _)| relation.aliased.as_deref() == Some(name) || relation.name == name);
        let Some((relation, can_be_named)) = found else {
            let message = format!("missing FROM-clause entry for table \"{name}\"");
            return SqlError::new(SqlState::UNDEFINED_TABLE, message);
        };
        let message = format!("invalid reference to FROM-clause entry for table \"{name}\"");
        SqlError::new(SqlState::UNDEFINED_TABLE, message).hint(match can_be_named && relation.name != name {
            true => format!("Perhaps you meant to reference the table alias \"{}\".", relation.name),
            false => format!(
                "There is an entry for table \"{}\", but it cannot be referenced from this part of the query.",
                relation.name
            ),
        })
    }
}

/// The error for a column that is none of the result of a set operation, whose arms have these columns.
pub fn missing_result_column(arms: &[Vec<String>], name: &str) -> SqlError {
    let error = SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"));
    let named: Vec<(String, &Vec<String>)> =
        (1..).zip(arms).map(|(number, columns)| (format!("*SELECT* {number}"), columns)).collect();
    if let Some((arm, _)) = named.iter().find(|(_, columns)| columns.iter().any(|column| column == name)) {
        return error.hint(not_from_here(name, arm));
    }
    let mut candidates = Candidates { distance: DISTANCE_MAX + 1, nearest: Vec::new() };
    for (arm, columns) in &named {
        columns.iter().for_each(|column| candidates.consider(arm, column, name, 0));
    }
    match candidates.hint() {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

fn not_from_here(column: &str, relation: &str) -> String {
    format!(
        "There is a column named \"{column}\" in table \"{relation}\", but it cannot be referenced from this part \
         of the query."
    )
}

/// The number of characters to be inserted, deleted or replaced to make one name the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}
