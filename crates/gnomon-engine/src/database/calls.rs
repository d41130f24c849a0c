//! Calls of procedures.

use std::time::Duration;

use super::Database;
use crate::{
    Result,
    procedure::{Procedure, ProcedureStats, call_serially, start_call},
    sync::{Arc, Condvar, Mutex},
    txn::Transaction,
};

/// A function that does in a transaction what parameters say, and gives it back; see [`Procedure::replayed`].
pub type Replayer = Box<dyn FnMut(&Database, Transaction, &[u8]) -> Result<Transaction>>;

impl Procedure {
    /// Makes a procedure whose calls are transactions that the layer above the engine runs
    /// ([`Transaction::log_as_call`]). When a log with such calls is to be replayed, `replayer` makes a function that
    /// does the same in a transaction that it is given, and gives it back; the function lives as long as the replay.
    /// The database cannot begin transactions of its own meanwhile.
    pub fn replayed(
        name: &str,
        code: &str,
        replayer: impl Fn() -> Replayer + Send + Sync + 'static,
    ) -> Procedure {
        Procedure::of_replayed(name, code, move || {
            let mut replay = replayer();
            Box::new(move |handle, txn, params| replay(&Database(handle.clone()), txn, params))
        })
    }
}

impl Database {
    /// Calls a procedure ([`Options::procedures`](crate::Options::procedures)) in a transaction of its own, and
    /// returns its answer when that is durable, or as [`Options::commits`](crate::Options::commits) says.
    ///
    /// # Errors
    /// [`Error::NoSuchProcedure`](crate::Error::NoSuchProcedure), the procedure's own, and those of a transaction; a
    /// deadlock runs it again. Where procedures run [serially](crate::Execution::Serial),
    /// [`Error::Busy`](crate::Error::Busy) if too many calls wait. In a member of a cluster
    /// [`Error::Apart`](crate::Error::Apart) if it has not run; while the log is away a call that may be in it waits,
    /// until [`Error::Unresolved`](crate::Error::Unresolved) if the member stops.
    pub fn call(&self, procedure: &str, params: &[u8]) -> Result<Vec<u8>> {
        let parts = self.parts();
        let registered = parts.procedures.get(procedure, params)?;
        let Some(executors) = &parts.executors else {
            let (answer, ticket) = start_call(&self.0, registered, &*parts.clock, params)?;
            return ticket.acknowledge().and(answer);
        };
        let answered = Arc::new((Mutex::new(None), Condvar::new()));
        let told = answered.clone();
        let done = move |answer| {
            *told.0.lock() = Some(answer);
            told.1.notify_one();
        };
        call_serially(executors, registered, params, Box::new(done))?;
        let mut answer = answered.0.lock();
        loop {
            if let Some(answer) = answer.take() {
                return answer;
            }
            answered.1.wait(&mut answer);
        }
    }

    /// As [`Database::call`], but returns at once where procedures run serially, and when the transaction is ordered
    /// where not. `done` is called with the answer when it is durable, on a thread of the engine's or on this one; it
    /// must not block.
    ///
    /// # Errors
    /// [`Error::NoSuchProcedure`](crate::Error::NoSuchProcedure), [`Error::BadOption`](crate::Error::BadOption) of
    /// parameters that are too long, [`Error::Busy`](crate::Error::Busy), [`Error::Closed`](crate::Error::Closed);
    /// `done` is not called then. It gets all others.
    pub fn call_then(
        &self,
        procedure: &str,
        params: &[u8],
        done: impl FnOnce(Result<Vec<u8>>) + Send + 'static,
    ) -> Result<()> {
        let parts = self.parts();
        let registered = parts.procedures.get(procedure, params)?;
        if let Some(executors) = &parts.executors {
            return call_serially(executors, registered, params, Box::new(done));
        }
        match start_call(&self.0, registered, &*parts.clock, params) {
            Ok((answer, ticket)) => ticket.acknowledge_then(move |durable| done(durable.and(answer))),
            Err(error) => done(Err(error)),
        }
        Ok(())
    }

    /// Returns statistics of the calls of each procedure since the database was opened, sorted by name.
    pub fn procedure_stats(&self) -> Vec<ProcedureStats> {
        self.parts().procedures.stats()
    }
}

impl Transaction {
    /// Logs this transaction as a call of a procedure, if the log is of the kind that keeps calls: what
    /// [`Procedure::replayed`] does with these parameters must be what this transaction has done since it began. It
    /// is logged by value nevertheless if it has made or dropped trees, is larger than memory, or has been told to
    /// ([`Transaction::log_by_value`]). `run_time` is its processor time, about, for a log that keeps what is
    /// cheaper. The log has a checksum of the keys that it has written by now.
    ///
    /// # Errors
    /// [`Error::NoSuchProcedure`](crate::Error::NoSuchProcedure); [`Error::BadOption`](crate::Error::BadOption) if the
    /// transaction is not SERIALIZABLE.
    pub fn log_as_call(&mut self, procedure: &str, params: &[u8], run_time: Duration) -> Result<()> {
        let database = Database(self.handle().clone());
        database.parts().procedures.log_as_call(self, procedure, params, run_time)
    }
}
