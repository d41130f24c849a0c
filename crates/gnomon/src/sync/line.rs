//! Keeping apart in memory what different processors change.

use std::ops::{Deref, DerefMut};

/// A value on cache lines of its own: who changes it does not slow down those who use what would lie beside it. Two
/// lines, since processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Line<T>(pub T);

impl<T> Deref for Line<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Line<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
