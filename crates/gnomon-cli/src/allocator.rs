//! The program's memory allocator: jemalloc.
//!
//! Each transaction allocates and frees some hundred small pieces, many of them on another thread: what it was answered,
//! what is forgotten when its commit is durable.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;
