//! The memory allocator of all programs, so that figures of one are those of the others.

/// mimalloc, without huge pages. Each transaction allocates and frees some hundred small pieces, many of them on another
/// thread: what it was answered, what is forgotten when its commit is durable.
pub use mimalloc::MiMalloc as Allocator;
