//! Locks.

/// Why a waiting or scanning transaction was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptReason {
    /// Somebody asked for it.
    Cancel,
    /// Its time ran out.
    Timeout,
    /// The database is closing.
    Shutdown,
}

/// Ends a transaction's waits and scans from another thread. Shared by whoever runs the transaction and whoever
/// may interrupt it; stays raised until it is cleared.
#[derive(Debug, Default)]
pub struct Interrupt {
    raised: crate::sync::Mutex<Option<InterruptReason>>,
}

impl Interrupt {
    /// Raises it: the transaction's present wait, or its next wait or scan step, ends with `Error::Interrupted`.
    pub fn raise(&self, reason: InterruptReason) {
        *self.raised.lock() = Some(reason);
    }
    /// Lowers it, before the next statement.
    pub fn clear(&self) {
        *self.raised.lock() = None;
    }
    /// Fails if it is raised.
    pub fn check(&self) -> crate::Result<()> {
        match *self.raised.lock() {
            Some(reason) => Err(crate::Error::Interrupted(reason)),
            None => Ok(()),
        }
    }
}
