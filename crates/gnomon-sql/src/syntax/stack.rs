//! The stack for work on a statement, by how deep it nests.

/// How many levels the parser lets a statement nest, chains of operators included.
const NESTING_MAX: usize = 2250;
/// Statements nested deeper than this run on a stack of their own.
const NESTING_ON_STACK: usize = 40;
/// Stack for one level of nesting, in bytes: binder, planner and executor, unoptimised.
const LEVEL_STACK_BYTES: usize = 48 << 10;

/// Runs `f` with stack enough for a statement of this nesting.
pub(crate) fn on_fit_stack<R>(nesting: usize, f: impl FnOnce() -> R) -> R {
    if nesting <= NESTING_ON_STACK { f() } else { stacker::grow(nesting * LEVEL_STACK_BYTES, f) }
}

/// Runs `f` with stack enough for any statement: for work on what the catalog keeps, which is not measured again.
pub(crate) fn on_deepest_stack<R>(f: impl FnOnce() -> R) -> R {
    on_fit_stack(NESTING_MAX, f)
}
