//! Snapshots: states of a store that stay readable while others commit ([`pin`]), and the pages of a transaction that
//! no other sees before its commit ([`private`]).

pub mod pin;
pub mod private;

use self::pin::{Held, PinnedRoot, Pins};
use super::{allocator::Allocator, mirror::Mirror, page_table::PageTable};
use crate::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

/// The pinned states of a store.
pub struct Snapshots {
    mirror: Arc<Mirror>,
    table: Arc<PageTable>,
    allocator: Arc<Allocator>,
    /// A batch is published under this mutex.
    pub pins: Mutex<Pins>,
    /// Number of transactions that have private pages, on any disk.
    private_views: AtomicU64,
}

impl Snapshots {
    pub fn new(mirror: Arc<Mirror>, table: Arc<PageTable>, allocator: Arc<Allocator>) -> Snapshots {
        Snapshots { mirror, table, allocator, pins: Mutex::default(), private_views: AtomicU64::new(0) }
    }

    /// Pins the newest durable state.
    pub fn pin(self: &Arc<Self>) -> PinnedRoot {
        PinnedRoot::new(self)
    }

    /// True if a state is pinned.
    pub fn is_pinned(&self) -> bool {
        self.pins.lock().is_pinned()
    }

    /// True if a pinned state or a transaction's own pages may name places that the page table does not.
    pub fn name_places(&self) -> bool {
        self.is_pinned() || self.private_views.load(Ordering::Acquire) > 0
    }

    /// Returns the number of physical pages that are in use for pinned states only.
    pub fn held_pages(&self) -> u64 {
        let pages = |held: &Held| {
            held.page.place.copies().count() as u64 * self.allocator.physical_pages(held.page.size)
        };
        self.pins.lock().held.iter().map(pages).sum()
    }
}
