//! Prepared transactions, by their identifiers.

use super::Database;
use crate::{
    Csn, Result,
    txn::{PreparedInfo, PreparedTransaction, claim_prepared, list_prepared},
};

impl Database {
    /// Returns the prepared transactions, in the order of their identifiers. One that is missing has ended durably.
    pub fn prepared(&self) -> Result<Vec<PreparedInfo>> {
        let (infos, ended) = list_prepared(&self.0.inner.prepared);
        self.wait_durable(ended)?;
        Ok(infos)
    }

    /// Returns how many transactions may be prepared at a time
    /// ([`Options::prepared_max`](crate::Options::prepared_max)).
    pub fn prepared_max(&self) -> usize {
        self.0.inner.prepared.max
    }

    /// Takes a prepared transaction, to look at it and to end it. No other caller can have it meanwhile.
    ///
    /// # Errors
    /// [`Error::NoSuchGid`](crate::Error::NoSuchGid); [`Error::GidBusy`](crate::Error::GidBusy) if another caller has
    /// it.
    pub fn claim_prepared(&self, gid: &str) -> Result<PreparedTransaction> {
        claim_prepared(&self.0, gid)
    }

    /// Commits a prepared transaction, and returns when that is durable.
    ///
    /// # Errors
    /// As [`Database::claim_prepared`] and [`PreparedTransaction::commit`].
    pub fn commit_prepared(&self, gid: &str) -> Result<Csn> {
        self.claim_prepared(gid)?.commit()
    }

    /// Undoes a prepared transaction, and returns when that is durable.
    ///
    /// # Errors
    /// As [`Database::claim_prepared`] and [`PreparedTransaction::rollback`].
    pub fn rollback_prepared(&self, gid: &str) -> Result<Csn> {
        self.claim_prepared(gid)?.rollback()
    }
}
