//! Replay: from the root that a crash left to the state after the last record.
//!
//! Records are gathered into one write set for as long as that is small, later writes of a key in the place of earlier
//! ones, and operations behind each other; then that is patched in the order of trees and keys, as one page
//! transaction, which takes the CSNs of all of them. So a key that many commits have changed is changed once, and
//! leaves are visited in order. Nobody reads meanwhile, so there are no versions and no locks.
//!
//! A call runs once more, alone, when all before it is patched: it reads what it read before, since calls are
//! serializable in the order of commits.
//!
//! A crash in the middle finds what it would have found before: roots written meanwhile have whole commits, and replay
//! begins anew after the last of them.

use super::{
    super::{
        commit::{create, in_parts, pages_changed},
        database::{Handle, Inner},
        prepared::{PART_BYTES, pages_of_entry},
        procedure::Rerun,
        writes::WriteSet,
    },
    damaged,
    record::{self, Found},
};
use crate::{
    Csn, Error, Result,
    access::Change,
    page::{PageCounts, PageSize},
    store::{
        GroupCommit,
        shadow::{PageTxn, Purpose, ShadowStore},
    },
    sync::Arc,
    wal::{Log, Record},
};

/// So much is gathered at most: each key may need some pages of its own.
const KEYS_MAX: usize = 4096;
const BYTES_MAX: usize = 1 << 20;

/// Replays what `open` visits. `root`: the last commit that the root has.
pub(super) fn replay(
    handle: &Arc<Handle>,
    store: &Arc<ShadowStore>,
    root: Csn,
    open: impl FnOnce(&mut dyn FnMut(Record<'_>) -> Result<()>) -> Result<Log>,
) -> Result<Log> {
    let inner = &handle.inner;
    let rerun = Rerun::new(handle);
    let mut replay = Replay { inner, store, rerun, last: root, gathered: WriteSet::default() };
    let log = open(&mut |record| replay.record(&record))?;
    replay.patch(&Found::Writes)?;
    inner.timeline.begin_at(store.last_csn());
    Ok(log)
}

struct Replay<'a> {
    inner: &'a Arc<Inner>,
    store: &'a Arc<ShadowStore>,
    rerun: Rerun<'a>,
    /// The commit of the last record.
    last: Csn,
    gathered: WriteSet,
}

impl Replay<'_> {
    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        let broken = |what: &str| damaged(format!("the record at {}: {what}", record.lsn));
        let csn = record::csn(record.payload).map_err(broken)?;
        if csn <= self.last {
            return Ok(());
        }
        let next = Csn(self.last.0 + 1);
        if csn != next {
            return Err(broken(&format!("it is of commit {csn}, and there is none of commit {next}")));
        }
        let bind = |family: &str, name: &str| self.inner.operations.get(family, name).cloned();
        let found = record::decode(record.payload, &bind, &mut self.gathered)?.map_err(broken)?;
        if let Found::Call { procedure, digest, params } = found {
            self.patch(&Found::Writes)?;
            let writes = self.rerun.call(procedure, digest, params)?;
            self.gathered = writes.ok_or_else(|| broken("it is of a procedure that there never was"))?;
            self.last = csn;
            return self.patch(&Found::Writes);
        }
        self.last = csn;
        match found {
            // It was forced behind the root that has it.
            Found::InRoot => Err(broken("no root has what it stands for")),
            Found::Writes if self.gathered.keys() < KEYS_MAX && self.gathered.bytes() < BYTES_MAX => Ok(()),
            found => self.patch(&found),
        }
    }

    /// Changes the pages to what they were after the last record, and what that has done beside its writes.
    fn patch(&mut self, beside: &Found<'_>) -> Result<()> {
        if self.last <= self.store.last_csn() {
            return Ok(());
        }
        let writes = std::mem::take(&mut self.gathered);
        let mut pages = match self.begin(&writes, beside) {
            Err(Error::DiskFull) => {
                // What was replaced so far is free then.
                self.store.flush()?;
                self.begin(&writes, beside)?
            }
            pages => pages?,
        };
        pages.replay_to(self.last);
        pages.note_changed(writes.changed_bytes());
        let directory = &self.inner.directory;
        for (id, writes) in writes.into_trees() {
            match (writes.created, writes.dropped) {
                (true, true) => {}
                (true, false) => create(self.inner, &pages, self.last, id, writes)?,
                (false, true) => {
                    directory.drop_tree(&pages, id, &self.inner.tree(id)?.tree)?;
                    self.inner.forget_tree(id);
                }
                (false, false) => {
                    let tree = self.inner.tree(id)?.tree;
                    for (key, write) in writes.keys {
                        let mut done = Ok(());
                        tree.update(&pages, &key, &mut |there| match write.value(there) {
                            Ok(Some(value)) => Change::Put(value.into_owned().into()),
                            Ok(None) => Change::Delete,
                            Err(error) => {
                                done = Err(error);
                                there.map_or(Change::Delete, |there| Change::Put(there.to_vec().into()))
                            }
                        })?;
                        done?;
                    }
                }
            }
        }
        match beside {
            Found::InRoot | Found::Writes | Found::Call { .. } => Ok(()),
            Found::Entry { gid, entry } => {
                (0..).zip(entry.chunks(PART_BYTES)).try_for_each(|(part, bytes)| {
                    directory.set_prepared(&pages, gid, part, Some(bytes)).map(drop)
                })
            }
            Found::End { gid, parts } => directory.remove_prepared(&pages, gid, *parts),
        }
    }

    fn begin(&self, writes: &WriteSet, beside: &Found<'_>) -> Result<PageTxn<'_>> {
        in_parts(|part_max| {
            let changed = pages_changed(self.inner, writes, part_max)? + pages_beside(beside, part_max)?;
            let mut pages = self.store.begin_for(Purpose::Free, changed)?;
            pages.set_part_size_max(part_max);
            Ok(pages)
        })
    }
}

/// At most so many pages change by what a record does beside its writes.
fn pages_beside(beside: &Found<'_>, part_max: PageSize) -> Result<PageCounts> {
    Ok(match beside {
        Found::InRoot | Found::Writes | Found::Call { .. } => PageCounts::default(),
        Found::Entry { entry, .. } => pages_of_entry(entry.len() as u64, part_max)?.1,
        Found::End { parts, .. } => pages_of_entry(u64::from(*parts) * PART_BYTES as u64, part_max)?.2,
    })
}
