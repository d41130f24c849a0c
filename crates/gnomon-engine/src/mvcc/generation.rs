//! Trees whose pages were replaced as a whole, by commits of large transactions, and the pages that a reader uses.
//!
//! Such a commit has no versions of single keys. Instead the state of the store from before it is pinned. A reader at
//! an older snapshot reads the tree there, with the versions that there were then; a reader at a younger one reads
//! the new pages. All trees of a commit change for a snapshot at once, since the commit has one CSN.
//!
//! A reader takes no lock for that. It looks at how many replacements there were, reads pages and then versions, and
//! looks again: if there was another one meanwhile, it may have read pages of before and of after, and reads anew. A
//! commit counts its replacement before it replaces pages.

use super::ReadAt;
use crate::{
    Csn, PageId, Result,
    failpoint::Failpoint,
    page::Page,
    store::{PageRead, PinnedRoot, PrivatePages, Store},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// The end of versions that have none: no version is newer.
pub(crate) const NO_END: Csn = Csn(u64::MAX);

/// The states of a tree from before its pages were replaced.
#[derive(Default)]
pub(crate) struct Generations {
    /// Number of replacements.
    count: AtomicU64,
    /// The last commit that replaced the pages.
    last: AtomicU64,
    /// The commits that some snapshot in use is older than, in their order, each with the state before it.
    before: Mutex<Vec<(Csn, Arc<PinnedRoot>)>>,
}

impl Generations {
    /// Returns the last commit that replaced the tree's pages; zero if there is none.
    pub fn last(&self) -> Csn {
        Csn(self.last.load(Ordering::Acquire))
    }

    /// Notes that a commit is about to replace the tree's pages, and what was there before.
    pub fn begin(&self, csn: Csn, before: Arc<PinnedRoot>) {
        self.before.lock().push((csn, before));
        self.last.store(csn.0, Ordering::Release);
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// Forgets the state before a commit, since every snapshot is as new as the commit. Returns the state to be
    /// dropped.
    pub fn end(&self, csn: Csn) -> Option<Arc<PinnedRoot>> {
        let mut before = self.before.lock();
        let at = before.iter().position(|(of, _)| *of == csn)?;
        Some(before.remove(at).1)
    }

    /// Returns the state that a snapshot reads, and the commit that ended it; none if that is the newest.
    fn at(&self, snapshot: Csn) -> Option<(Csn, Arc<PinnedRoot>)> {
        if self.last() <= snapshot {
            return None;
        }
        self.before.lock().iter().find(|(csn, _)| *csn > snapshot).cloned()
    }

    /// Reads pages, and then versions, by `read`, which is given the pages and the commit from which on versions do not
    /// count. It may be called more than once.
    pub fn read<T>(
        &self,
        store: &Store,
        at: ReadAt,
        read: impl Fn(&Pages<'_>, Csn) -> Result<T>,
    ) -> Result<T> {
        loop {
            let count = self.count.load(Ordering::Acquire);
            if let ReadAt::Snapshot(snapshot) = at
                && let Some((end, state)) = self.at(snapshot)
            {
                return read(&Pages::Pinned(&state), end);
            }
            store.failpoints().linger(Failpoint::ReplacedUnseen);
            let result = read(&Pages::Store(store), NO_END);
            let was_replaced = self.count.load(Ordering::Acquire) != count;
            if !was_replaced || store.failpoints().is_on(Failpoint::ReplacedUnseen) {
                return result;
            }
        }
    }
}

/// The source of a tree's pages for a reader.
pub(crate) enum Pages<'a> {
    /// The newest applied ones.
    Store(&'a Store),
    /// Those of a large transaction, by itself.
    Private(&'a PrivatePages),
    /// Those from before a large transaction.
    Pinned(&'a PinnedRoot),
}

/// A page, latched or not.
pub(crate) enum PagesGuard {
    Store(<Store as PageRead>::ReadGuard),
    Private(<PrivatePages as PageRead>::ReadGuard),
    Pinned(<PinnedRoot as PageRead>::ReadGuard),
}

impl std::ops::Deref for PagesGuard {
    type Target = Page;
    fn deref(&self) -> &Page {
        match self {
            PagesGuard::Store(guard) => guard,
            PagesGuard::Private(guard) => guard,
            PagesGuard::Pinned(guard) => guard,
        }
    }
}

impl PageRead for Pages<'_> {
    type ReadGuard = PagesGuard;

    fn read(&self, id: PageId) -> Result<PagesGuard> {
        Ok(match self {
            Pages::Store(pages) => PagesGuard::Store(pages.read(id)?),
            Pages::Private(pages) => PagesGuard::Private(PageRead::read(*pages, id)?),
            Pages::Pinned(pages) => PagesGuard::Pinned(pages.read(id)?),
        })
    }

    fn restructured(&self) -> Option<u64> {
        match self {
            Pages::Store(pages) => pages.restructured(),
            Pages::Private(_) | Pages::Pinned(_) => None,
        }
    }

    fn read_again(&self, id: PageId, restructured: u64) -> Option<PagesGuard> {
        match self {
            Pages::Store(pages) => pages.read_again(id, restructured).map(PagesGuard::Store),
            Pages::Private(_) | Pages::Pinned(_) => None,
        }
    }
}
