//! From a tree back to text, in one normal form: what is printed has the same tree.
//!
//! Names are in quotes where they must be, operands in parentheses unless they are whole by themselves, and types and
//! calls have the standard's words.

mod change;
mod expr;
mod name;
mod query;

use std::fmt::{self, Display, Formatter};

/// Prints items between separators.
struct List<'a, T>(&'a [T], &'a str);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, item) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(self.1)?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

fn commas<T>(items: &[T]) -> List<'_, T> {
    List(items, ", ")
}

/// Prints a string in quotes.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.replace('\'', "''"))
    }
}

/// Prints a clause if there is something in it.
struct Clause<'a, T>(&'static str, Option<&'a T>);

impl<T: Display> Display for Clause<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(item) => write!(f, "{}{item}", self.0),
            None => Ok(()),
        }
    }
}
