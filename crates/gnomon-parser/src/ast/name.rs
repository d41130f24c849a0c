//! Names, and names of types.

use std::fmt;

use super::Expr;
use crate::Position;

/// A name: folded unless it was quoted, and at most 63 bytes long.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Ident {
    pub name: Box<str>,
    pub position: Position,
}

impl Ident {
    /// Returns the name `name`, which stands nowhere.
    pub fn new(name: &str) -> Ident {
        Ident { name: name.into(), position: Position::NONE }
    }
}

impl fmt::Debug for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?}", self.name, self.position)
    }
}

/// A name with what qualifies it, from left to right; never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct QualifiedName(pub Vec<Ident>);

impl QualifiedName {
    /// Returns the place of its first part.
    pub fn position(&self) -> Position {
        self.0.first().map_or(Position::NONE, |first| first.position)
    }

    /// Returns its last part.
    pub fn last(&self) -> &Ident {
        self.0.last().expect("a name has a part")
    }

    /// Returns the name in the system's schema.
    pub fn system(name: &str, position: Position) -> QualifiedName {
        let part = |name: &str| Ident { name: name.into(), position };
        QualifiedName(vec![part("pg_catalog"), part(name)])
    }
}

impl fmt::Debug for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.0.iter().enumerate() {
            write!(f, "{}{:?}", if at > 0 { "." } else { "" }, part.name)?;
        }
        write!(f, "{:?}", self.position())
    }
}

/// The name of a table, view, index or sequence.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct RelationName {
    pub catalog: Option<Ident>,
    pub schema: Option<Ident>,
    pub name: Ident,
}

impl RelationName {
    /// Returns the place of its first part.
    pub fn position(&self) -> Position {
        self.catalog.as_ref().or(self.schema.as_ref()).unwrap_or(&self.name).position
    }
}

impl fmt::Debug for RelationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.catalog, &self.schema].into_iter().flatten() {
            write!(f, "{:?}.", part.name)?;
        }
        write!(f, "{:?}{:?}", self.name.name, self.position())
    }
}

/// The name of a type.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeName {
    /// The name; the standard's words are names of the system's schema.
    pub name: QualifiedName,
    /// The modifiers. Of an interval, the mask of its fields as PostgreSQL has it, and its precision.
    pub modifiers: Vec<Expr>,
    /// One for each dimension, with the length if it is given.
    pub bounds: Vec<Option<i32>>,
    /// SETOF.
    pub is_set: bool,
    /// `%TYPE`: the type of the column that the name is of.
    pub is_reference: bool,
    /// Where it begins.
    pub position: Position,
}

impl TypeName {
    /// Returns the type of this name in the system's schema.
    pub fn system(name: &str, position: Position) -> TypeName {
        TypeName {
            name: QualifiedName::system(name, position),
            modifiers: Vec::new(),
            bounds: Vec::new(),
            is_set: false,
            is_reference: false,
            position,
        }
    }
}

/// An operator: its schema, if `OPERATOR(schema.+)` gives one, and its characters.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct OperatorName {
    pub schema: Vec<Ident>,
    pub symbol: Box<str>,
    pub position: Position,
}

impl fmt::Debug for OperatorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.schema {
            write!(f, "{:?}.", part.name)?;
        }
        write!(f, "{}{:?}", self.symbol, self.position)
    }
}
