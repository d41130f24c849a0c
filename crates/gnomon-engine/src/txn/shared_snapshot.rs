//! The snapshot of a transaction, kept for others that read the same state.

use std::fmt;

use super::shared::Handle;
use crate::{Csn, sync::Arc};

/// The snapshot of a transaction ([`Transaction::share_snapshot`](crate::Transaction::share_snapshot)), which others may
/// begin with ([`TxnOptions::snapshot`](crate::TxnOptions::snapshot)). Clones are handles of the same one; the versions
/// that it needs are kept until the last is dropped.
#[derive(Clone)]
pub struct SharedSnapshot(Arc<Held>);

struct Held {
    handle: Arc<Handle>,
    csn: Csn,
}

impl SharedSnapshot {
    /// Keeps a snapshot that a transaction has.
    pub(super) fn of(handle: Arc<Handle>, csn: Csn) -> SharedSnapshot {
        let csn = handle.inner.timeline.take_snapshot(|| csn);
        SharedSnapshot(Arc::new(Held { handle, csn }))
    }

    /// Returns the newest commit that it has.
    pub fn csn(&self) -> Csn {
        self.0.csn
    }
}

impl fmt::Debug for SharedSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedSnapshot").field(&self.0.csn).finish()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let inner = &self.handle.inner;
        if inner.timeline.release_snapshot(self.csn) {
            inner.prune();
        }
    }
}
