//! The program's memory allocator: mimalloc.
//!
//! Each transaction allocates and frees some hundred small pieces, many of them on another thread: its answers, and the
//! versions that are removed when its commit is durable.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
