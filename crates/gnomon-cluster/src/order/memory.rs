//! The ordered log within a process: for clusters whose members are threads, and for tests.
//!
//! A [`Ledger`] behind a mutex, which all handles share. Each handle is of one member, as each process is that has its
//! log in etcd; a member whose handle is dropped counts as one that was not heard of.

use std::time::Duration;

use gnomon_engine::sync::{Arc, Condvar, Mutex, Weak};

use super::{Appended, BTreeMap, Batch, Ledger, LogError, Member, MemberInfo, OrderedLog, Refused};

/// Maximum number of batches that are given out at once.
const BATCHES_MAX: usize = 1000;

#[derive(Default)]
struct State {
    ledger: Ledger,
    /// The handles of the members: one that is dropped counts as a silent member.
    handles: BTreeMap<Member, Weak<()>>,
}

impl State {
    fn is_alive(&self, member: Member) -> bool {
        self.handles.get(&member).is_some_and(|handle| handle.strong_count() > 0)
    }

    fn is_of(&self, member: Member, handle: &Arc<()>) -> bool {
        self.handles.get(&member).is_some_and(|own| own.as_ptr() == Arc::as_ptr(handle))
    }

    fn gone(&mut self, member: Member) {
        self.handles.remove(&member);
        self.ledger.gone(member);
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something was appended.
    appended: Condvar,
}

/// A handle of an ordered log in this process. A clone is the handle of another member.
#[derive(Default)]
pub struct MemoryLog {
    shared: Arc<Shared>,
    handle: Arc<()>,
}

impl Clone for MemoryLog {
    fn clone(&self) -> MemoryLog {
        MemoryLog { shared: self.shared.clone(), handle: Arc::default() }
    }
}

impl OrderedLog for MemoryLog {
    fn data(&self, claimed: Option<u64>) -> Result<Option<u64>, LogError> {
        Ok(self.shared.state.lock().ledger.data(claimed))
    }

    fn join(&self, name: &str, address: &str) -> Result<Member, LogError> {
        let mut state = self.shared.state.lock();
        let former = state.ledger.members().find(|info| info.name == name).map(|info| info.member);
        if let Some(former) = former.filter(|former| !state.is_alive(*former)) {
            state.gone(former);
            self.shared.appended.notify_all();
        }
        let member = state.ledger.join(name, address)?;
        state.handles.insert(member, Arc::downgrade(&self.handle));
        Ok(member)
    }

    fn reached_at(&self, member: Member, address: &str) -> Result<(), LogError> {
        let mut state = self.shared.state.lock();
        match state.is_of(member, &self.handle) {
            true => Ok(state.ledger.reached_at(member, address)?),
            false => Err(Refused::Fenced.into()),
        }
    }

    fn append(&self, member: Member, batch: &Batch) -> Result<u64, LogError> {
        let mut state = self.shared.state.lock();
        if !state.is_of(member, &self.handle) {
            return Err(Refused::Fenced.into());
        }
        let revision = state.ledger.append(member, batch.sequence, batch.entries.clone())?;
        self.shared.appended.notify_all();
        Ok(revision)
    }

    fn after(&self, revision: u64, wait: Duration) -> Result<Vec<Appended>, LogError> {
        let mut state = self.shared.state.lock();
        let batches = state.ledger.after(revision, BATCHES_MAX)?;
        if !batches.is_empty() {
            return Ok(batches);
        }
        self.shared.appended.wait_for(&mut state, wait);
        Ok(state.ledger.after(revision, BATCHES_MAX)?)
    }

    fn newest(&self) -> Result<u64, LogError> {
        Ok(self.shared.state.lock().ledger.newest())
    }

    fn members(&self) -> Result<Vec<MemberInfo>, LogError> {
        let state = self.shared.state.lock();
        Ok(state
            .ledger
            .members()
            .map(|info| MemberInfo { is_alive: state.is_alive(info.member), ..info })
            .collect())
    }

    fn gone(&self, member: Member) -> Result<(), LogError> {
        let mut state = self.shared.state.lock();
        if state.is_of(member, &self.handle) || !state.is_alive(member) {
            state.gone(member);
            self.shared.appended.notify_all();
        }
        Ok(())
    }

    fn keep_after(&self, member: Member, revision: u64) -> Result<(), LogError> {
        let mut state = self.shared.state.lock();
        match state.is_of(member, &self.handle) {
            true => Ok(state.ledger.keep_after(member, revision)?),
            false => Err(Refused::Fenced.into()),
        }
    }

    fn kept_after(&self) -> Result<BTreeMap<String, u64>, LogError> {
        Ok(self.shared.state.lock().ledger.kept_after().clone())
    }

    fn keep_nothing(&self, name: &str) -> Result<bool, LogError> {
        Ok(self.shared.state.lock().ledger.keep_nothing(name))
    }

    fn trim(&self, upto: u64) -> Result<(), LogError> {
        self.shared.state.lock().ledger.trim(upto);
        Ok(())
    }
}

#[cfg(test)]
impl MemoryLog {
    /// Says that a member is gone, as if it had not been heard of.
    pub(crate) fn fence(&self, member: Member) {
        self.shared.state.lock().gone(member);
        self.shared.appended.notify_all();
    }

    /// Writes into the log what is of no member.
    pub(crate) fn put_foreign(&self, what: &str) {
        let foreign = super::Foreign { what: what.to_owned(), bytes: what.len() };
        self.shared.state.lock().ledger.push_foreign(foreign);
        self.shared.appended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::conformance::conforms;

    #[test]
    fn it_is_an_ordered_log() {
        let log = MemoryLog::default();
        conforms(|| log.clone());
    }
}
