//! Calls of a log that are run once more.

use std::collections::HashMap;

use super::{Body, Procedure, Procedures, RunReplayed, call::run, declared::Declared};
use crate::{
    Error, Reaction, Result,
    recovery::{CallAccess, Calls, RunAlone},
    sync::Arc,
    txn::{Handle, Partitions, Transaction},
    write_set::WriteSet,
};

/// The procedures of a database whose log is replayed.
pub(crate) struct Rerun<'a> {
    handle: &'a Arc<Handle>,
    procedures: &'a Procedures,
}

impl<'a> Rerun<'a> {
    /// Makes one for a database that nothing else uses yet.
    pub fn new(handle: &'a Arc<Handle>, procedures: &'a Procedures) -> Rerun<'a> {
        Rerun { handle, procedures }
    }

    fn get(&self, number: u32) -> Result<&Procedure> {
        self.procedures.of_log(number)?.ok_or_else(|| Error::NoSuchProcedure(number.to_string().into()))
    }
}

impl Calls for Rerun<'_> {
    fn check(&self, procedure: u32) -> Result<bool> {
        Ok(self.procedures.of_log(procedure)?.is_some())
    }

    fn accesses(&self, procedure: u32, params: &[u8]) -> Option<Vec<CallAccess>> {
        match self.get(procedure).ok()?.declared(params) {
            Declared::Nothing | Declared::Partitions(Partitions::All) => None,
            Declared::Partitions(Partitions::One(partition)) => Some(vec![CallAccess::Partition(partition)]),
            Declared::Partitions(Partitions::Several(partitions)) => {
                Some(partitions.into_iter().map(CallAccess::Partition).collect())
            }
            Declared::Accesses(set) => Some(set.into_call_accesses()),
        }
    }

    fn run(&self, procedure: u32, digest: u32, params: &[u8]) -> Result<WriteSet> {
        self.get(procedure)?.run_again(self.handle, digest, params)
    }

    fn alone(&self) -> Box<RunAlone<'_>> {
        let mut replayed: HashMap<Arc<str>, RunReplayed> = HashMap::new();
        Box::new(move |number, digest, params| {
            let procedure = self.get(number)?;
            let Body::Replay(make) = &procedure.body else {
                return procedure.run_again(self.handle, digest, params);
            };
            let run = replayed.entry(procedure.name.clone()).or_insert_with(|| make());
            let txn = Transaction::alone(self.handle.clone(), None);
            let with_digest = |txn: Transaction| {
                let digest = txn.accesses().1.keys_digest();
                (txn, digest)
            };
            procedure.same(run(self.handle, txn, params).map(with_digest), digest)
        })
    }
}

impl Procedure {
    /// Runs a call of the log again, while no other call uses what it uses. Returns what it writes.
    ///
    /// # Errors
    /// [`Error::ProcedureDiverged`], and what can fail besides.
    fn run_again(&self, handle: &Arc<Handle>, digest: u32, params: &[u8]) -> Result<WriteSet> {
        let Body::Run(code) = &self.body else { return Err(Error::NoSuchProcedure((*self.name).into())) };
        let mut txn = Transaction::alone(handle.clone(), None);
        let again = run(&**code, &mut txn, &Declared::Nothing, params);
        self.same(again.map(|done| (txn, done.digest)), digest)
    }

    /// Returns the writes of a call that has run again, or an error if they differ from those before.
    fn same(&self, again: Result<(Transaction, u32)>, digest: u32) -> Result<WriteSet> {
        let diverged = |detail| Error::ProcedureDiverged { name: self.name.clone(), detail };
        match again {
            Ok((txn, now)) if now == digest => Ok(txn.into_writes()),
            Ok(_) => Err(diverged("it wrote something else".into())),
            // The program that replays lacks what the one that ran had.
            Err(error @ Error::NoSuchOperation { .. }) => Err(error),
            Err(error) if error.reaction() == Reaction::FixInput => Err(diverged(error.to_string().into())),
            Err(error) => Err(error),
        }
    }
}
