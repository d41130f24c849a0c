//! The shapes of rows without a named type: the names and types of the fields of a function's result.
//!
//! As in PostgreSQL, the modifier of [`Type::Record`] is the number of a shape that was met before. Shapes are those of
//! functions, so there are few of them.

use gnomon_engine::sync::{Arc, Mutex};

use super::{ColumnType, Type, TypeMod};

/// A field: its name and type.
pub type Field = (&'static str, Type);

static SHAPES: Mutex<Vec<Arc<[Field]>>> = Mutex::new(Vec::new());

/// The type of rows of this shape.
pub fn record_of(fields: &[Field]) -> ColumnType {
    let mut shapes = SHAPES.lock();
    let number = shapes.iter().position(|shape| **shape == *fields).unwrap_or_else(|| {
        shapes.push(fields.into());
        shapes.len() - 1
    });
    ColumnType { ty: Type::Record, modifier: TypeMod::try_from(number).unwrap_or(-1) }
}

/// The fields of a type of rows, if they are known.
pub fn fields_of(ty: ColumnType) -> Option<Arc<[Field]>> {
    let number = usize::try_from(ty.modifier).ok().filter(|_| ty.ty == Type::Record)?;
    SHAPES.lock().get(number).cloned()
}
