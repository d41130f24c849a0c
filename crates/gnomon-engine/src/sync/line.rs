//! Keeps values that different processors change apart in memory.

use std::ops::{Deref, DerefMut};

/// A value on cache lines of its own: a change of it does not slow down threads that use values beside it. It takes two
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
