//! Where the objects are: a database of objects with one of its strategies, or trees on shadow pages.
//!
//! Promises: every method runs the same accesses under the same locks of level 1: those of an operation are taken in
//! the order of the subobjects before it accesses the first, and kept until the transaction ends. (With one level there
//! are none.) What a transaction has read and changed is therefore serializable with each of them.

use std::{collections::HashMap, path::PathBuf};

use gnomon_engine::{
    Database, Direction, KeyRange, Options, PageSize, RowLock, Transaction, TreeLock, TxnOptions,
    env::Rng,
    sync::atomic::{AtomicBool, Ordering},
};
use gnomon_objects::{
    LogShape, ObjectDatabase, ObjectId, ObjectOptions, ObjectShape, ObjectTransaction, Operation, Reference,
};

use super::{
    Objects,
    choose::{Plan, Visit, choose_references},
    run::{Service, Tally},
};
use crate::{
    recovery::Recovery,
    store::{Result, StoreError, check_is_new, tree},
};

/// Bytes of a subobject, of which the first are its counter.
const SUBOBJECT_BYTES: usize = 16;
const COUNTER_BYTES: usize = 8;
/// The pages of every method, in bytes.
const PAGE_BYTES: usize = 2048;
/// Objects that are made in one transaction.
const CHUNK: usize = 10;
/// The trees on shadow pages: rows are subobjects, by the numbers of object and slot.
const SUBOBJECTS: usize = 0;
/// Rows are the references of an object, by its number.
const REFERENCES: usize = 1;

/// A subobject, by the number of its object and its slot.
pub type At = (u32, u32);

/// A database that was made and closed, and is measured by copies of it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its recovery method.
    pub method: Recovery,
    /// Its directory.
    pub path: PathBuf,
    /// The objects by their numbers, if they have identities of their own.
    ids: Vec<ObjectId>,
}

/// An open database.
pub struct Place {
    kind: Kind,
    method: Recovery,
    /// Operations of a transaction that run at once.
    parallel: usize,
}

enum Kind {
    Objects { database: ObjectDatabase, ids: Vec<ObjectId>, numbers: HashMap<ObjectId, u32> },
    Trees(Database),
}

/// How a database of objects is opened.
pub fn object_options(settings: &Objects) -> ObjectOptions {
    ObjectOptions {
        create: false,
        logs: LogShape {
            redo_files: settings.log_files as usize,
            shared: settings.shared_log,
            ..LogShape::default()
        },
        page_bytes_min: PAGE_BYTES,
        pool_bytes: pool_bytes(settings),
        victim: settings.victim.rule(),
        ..ObjectOptions::default()
    }
}

fn tree_options(method: Recovery, settings: &Objects) -> Options {
    Options {
        create: false,
        page_bytes_min: Some(PAGE_BYTES),
        pool_bytes: pool_bytes(settings),
        recovery: Some(method),
        ..Options::default()
    }
}

fn pool_bytes(settings: &Objects) -> usize {
    settings.pool_kib as usize * 1024
}

impl Loaded {
    /// Makes a database in a directory that holds none. `cancel` ends it early, which then fails.
    ///
    /// # Errors
    /// Those of the database.
    pub fn make(
        method: Recovery,
        settings: &Objects,
        options: ObjectOptions,
        path: PathBuf,
        seed: u64,
        cancel: &AtomicBool,
    ) -> Result<Loaded> {
        settings.check()?;
        let mut rng = Rng::from_seed(seed);
        let references: Vec<Vec<At>> =
            (0..settings.objects).map(|object| choose_references(settings, object, &mut rng)).collect();
        let ids = match method {
            Recovery::PageLog(strategy) => {
                let options = ObjectOptions { create: true, strategy, ..options };
                let database = ObjectDatabase::open(&path, options)?;
                check_is_new(database.durable_csn(), &path)?;
                make_objects(&database, settings, &references, cancel)?
            }
            Recovery::Shadow | Recovery::CommitLog(_) => {
                let options = Options { create: true, ..tree_options(method, settings) };
                let database = Database::open(&path, options)?;
                check_is_new(database.durable_csn(), &path)?;
                make_trees(&database, settings, &references, cancel)?;
                Vec::new()
            }
        };
        Ok(Loaded { method, path, ids })
    }

    /// A copy of it in another directory.
    pub fn copied_to(&self, path: PathBuf) -> Loaded {
        Loaded { path, ..self.clone() }
    }

    /// Opens it.
    ///
    /// # Errors
    /// Those of the database.
    pub fn open(&self, settings: &Objects, options: ObjectOptions) -> Result<Place> {
        let kind = match self.method {
            Recovery::PageLog(_) => {
                let ids = self.ids.clone();
                let numbers = ids.iter().zip(0..).map(|(id, number)| (*id, number)).collect();
                Kind::Objects { database: ObjectDatabase::open(&self.path, options)?, ids, numbers }
            }
            Recovery::Shadow | Recovery::CommitLog(_) => {
                Kind::Trees(Database::open(&self.path, tree_options(self.method, settings))?)
            }
        };
        Ok(Place { kind, method: self.method, parallel: settings.parallel as usize })
    }
}

fn check_canceled(cancel: &AtomicBool) -> Result<()> {
    match cancel.load(Ordering::Acquire) {
        true => Err(StoreError::unexpected("canceled")),
        false => Ok(()),
    }
}

fn make_objects(
    database: &ObjectDatabase,
    settings: &Objects,
    references: &[Vec<At>],
    cancel: &AtomicBool,
) -> Result<Vec<ObjectId>> {
    let shape: ObjectShape = PageSize::from_bytes(PAGE_BYTES)
        .ok_or_else(|| StoreError::unexpected("there are no pages of that size"))?
        .into();
    let own = vec![&[0; SUBOBJECT_BYTES][..]; settings.subobjects as usize];
    let mut ids = Vec::with_capacity(settings.objects as usize);
    while ids.len() < settings.objects as usize {
        check_canceled(cancel)?;
        let mut txn = database.begin()?;
        for _ in 0..CHUNK.min(settings.objects as usize - ids.len()) {
            ids.push(txn.create(shape, &own, &[])?);
        }
        txn.commit()?;
    }
    // References lead to objects that must be there first.
    for (chunk, references) in ids.chunks(CHUNK).zip(references.chunks(CHUNK)) {
        check_canceled(cancel)?;
        let mut txn = database.begin()?;
        for (object, references) in chunk.iter().zip(references) {
            let foreign: Vec<Reference> = references
                .iter()
                .map(|(other, slot)| Reference { object: ids[*other as usize], slot: *slot })
                .collect();
            txn.operate(|operation| operation.set_foreign(*object, &foreign))?;
        }
        txn.commit()?;
    }
    database.close()?;
    Ok(ids)
}

fn make_trees(
    database: &Database,
    settings: &Objects,
    references: &[Vec<At>],
    cancel: &AtomicBool,
) -> Result<()> {
    let mut txn = database.begin(TxnOptions::default())?;
    for table in [SUBOBJECTS, REFERENCES] {
        if txn.create_tree()? != tree(table) {
            return Err(StoreError::unexpected("a new database does not number its trees from 1"));
        }
    }
    txn.commit()?;
    for (chunk, references) in (0..settings.objects).step_by(CHUNK).zip(references.chunks(CHUNK)) {
        check_canceled(cancel)?;
        let mut txn = database.begin(TxnOptions::default())?;
        txn.lock_tree(tree(SUBOBJECTS), TreeLock::Exclusive)?;
        for (object, references) in (chunk..).zip(references) {
            for slot in 0..settings.subobjects {
                txn.put(tree(SUBOBJECTS), &key((object, slot)), &[0; SUBOBJECT_BYTES])?;
            }
            let row: Vec<u8> = references.iter().flat_map(|at| key(*at)).collect();
            txn.put(tree(REFERENCES), &object.to_be_bytes(), &row)?;
        }
        txn.commit()?;
    }
    Ok(database.close()?)
}

fn key((object, slot): At) -> [u8; 8] {
    (u64::from(object) << 32 | u64::from(slot)).to_be_bytes()
}

fn references_of(row: &[u8]) -> Vec<At> {
    let halves: Vec<u32> = row.as_chunks::<4>().0.iter().map(|number| u32::from_be_bytes(*number)).collect();
    halves.as_chunks::<2>().0.iter().map(|[object, slot]| (*object, *slot)).collect()
}

/// The counter of a subobject that must be there.
fn counter(value: Option<&[u8]>, at: At) -> Result<u64> {
    let counter = value.filter(|value| value.len() == SUBOBJECT_BYTES).and_then(<[u8]>::first_chunk);
    counter
        .map(|bytes: &[u8; COUNTER_BYTES]| u64::from_le_bytes(*bytes))
        .ok_or_else(|| StoreError::unexpected(format!("subobject {} of object {} is not whole", at.1, at.0)))
}

/// A subobject with one more in its counter.
fn counted(mut value: Vec<u8>) -> Option<Vec<u8>> {
    let counter: &mut [u8; COUNTER_BYTES] = value.first_chunk_mut()?;
    *counter = u64::from_le_bytes(*counter).wrapping_add(1).to_le_bytes();
    Some(value)
}

/// Subobjects that are accessed, and whether each is changed.
pub type Accesses = Vec<(At, bool)>;

/// Returns the accesses of an operation: own subobjects, then those that some of the references lead to.
pub fn accesses_of(visit: &Visit, references: &[At]) -> Accesses {
    let own = visit.own.iter().map(|(slot, updates)| ((visit.object, *slot), *updates));
    let foreign = visit.foreign.iter().map(|(number, updates)| (references[*number as usize], *updates));
    own.chain(foreign).collect()
}

/// The locks of accesses: each subobject once, in their order, and whether exclusively.
pub fn locks_of(accesses: &Accesses) -> Accesses {
    let mut locks = accesses.clone();
    // Of two on the same subobject the exclusive one comes first.
    locks.sort_unstable_by_key(|(at, updates)| (*at, !updates));
    locks.dedup_by_key(|(at, _)| *at);
    locks
}

impl Place {
    /// The recovery method.
    pub fn method(&self) -> Recovery {
        self.method
    }

    /// The database, if it is one of objects.
    pub fn objects(&self) -> Option<&ObjectDatabase> {
        match &self.kind {
            Kind::Objects { database, .. } => Some(database),
            Kind::Trees(_) => None,
        }
    }

    /// The database, if it is one of trees.
    pub(super) fn trees(&self) -> Option<&Database> {
        match &self.kind {
            Kind::Objects { .. } => None,
            Kind::Trees(database) => Some(database),
        }
    }

    /// Runs a transaction once, until it is durable. `changed` gets what it changes, whether or not it commits.
    ///
    /// # Errors
    /// [`StoreError::Retry`] after a deadlock, and when `stopped`: nothing of it has happened.
    pub(super) fn attempt(
        &self,
        plan: &Plan,
        service: &Service,
        stopped: impl Fn() -> bool,
        changed: &mut Vec<At>,
    ) -> Result<()> {
        changed.clear();
        match &self.kind {
            Kind::Objects { database, ids, numbers } => {
                let mut visitor = ObjectVisitor { txn: database.begin()?, ids, numbers };
                visit_all(&mut visitor, plan, self.parallel, service, stopped, changed)?;
                visitor.txn.commit()?;
            }
            Kind::Trees(database) => {
                let mut txn = database.begin(TxnOptions::default())?;
                visit_all(&mut txn, plan, 1, service, stopped, changed)?;
                txn.commit()?;
            }
        }
        Ok(())
    }

    /// Compares every subobject with what committed transactions added to it; tells of the first that differs.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) fn compare(&self, settings: &Objects, tally: &Tally) -> Result<Option<String>> {
        let mut broken = None;
        let mut compare = |at: At, counter: u64| {
            let added = tally.of(at);
            if added != counter && broken.is_none() {
                broken = Some(format!(
                    "to subobject {} of object {} was added {added}, it has {counter}",
                    at.1, at.0
                ));
            }
        };
        match &self.kind {
            Kind::Objects { database, ids, .. } => {
                let mut txn = database.begin()?;
                for (number, object) in (0..).zip(ids) {
                    let values = txn.operate(|operation| {
                        operation.lock_object(*object, false)?;
                        (0..settings.subobjects)
                            .map(|slot| operation.read(Reference { object: *object, slot }))
                            .collect::<gnomon_engine::Result<Vec<_>>>()
                    })?;
                    for (slot, value) in (0..).zip(values) {
                        compare((number, slot), counter(value.as_deref(), (number, slot))?);
                    }
                }
            }
            Kind::Trees(database) => {
                let mut txn = database.begin(TxnOptions { read_only: true, ..TxnOptions::default() })?;
                let mut rows = txn.scan(tree(SUBOBJECTS), KeyRange::all(), Direction::Forward)?;
                for number in 0..settings.objects {
                    for slot in 0..settings.subobjects {
                        let at = (number, slot);
                        let row = rows.next(&mut txn)?.filter(|row| row.0 == key(at));
                        compare(at, counter(row.as_ref().map(|row| row.1.as_ref()), at)?);
                    }
                }
            }
        }
        Ok(broken)
    }

    /// Closes the database.
    ///
    /// # Errors
    /// Those of the database.
    pub fn close(self) -> Result<()> {
        match self.kind {
            Kind::Objects { database, .. } => database.close()?,
            Kind::Trees(database) => database.close()?,
        }
        Ok(())
    }
}

/// A transaction that visits objects.
trait Visitor {
    /// Where the references of an object lead to.
    fn references(&mut self, object: u32) -> Result<Vec<At>>;
    /// Operations, at once if there are several: each takes its locks, then accesses subobjects, and each access is
    /// served.
    fn operate(&mut self, operations: &[Access], service: &Service) -> Result<()>;
}

/// An operation's access to a subobject.
struct Access {
    locks: Accesses,
    accesses: Accesses,
}

fn visit_all(
    visitor: &mut impl Visitor,
    plan: &Plan,
    parallel: usize,
    service: &Service,
    stopped: impl Fn() -> bool,
    changed: &mut Vec<At>,
) -> Result<()> {
    for visits in plan.visits.chunks(parallel) {
        if stopped() {
            return Err(StoreError::Retry);
        }
        let mut operations = Vec::with_capacity(visits.len());
        for visit in visits {
            // Known before, so that the operation can lock them before it has pages.
            let references = match visit.foreign.is_empty() {
                true => Vec::new(),
                false => visitor.references(visit.object)?,
            };
            let accesses = accesses_of(visit, &references);
            changed.extend(accesses.iter().filter(|(_, updates)| *updates).map(|(at, _)| *at));
            operations.push(Access { locks: locks_of(&accesses), accesses });
        }
        visitor.operate(&operations, service)?;
    }
    Ok(())
}

/// A transaction on a database of objects.
struct ObjectVisitor<'a> {
    txn: ObjectTransaction,
    ids: &'a [ObjectId],
    numbers: &'a HashMap<ObjectId, u32>,
}

impl Visitor for ObjectVisitor<'_> {
    fn references(&mut self, object: u32) -> Result<Vec<At>> {
        let id = self.ids[object as usize];
        let references: Vec<Reference> =
            self.txn.operate(|operation| Ok(operation.header(id)?.foreign().collect()))?;
        let at = |reference: Reference| Some((*self.numbers.get(&reference.object)?, reference.slot));
        let all: Option<Vec<At>> = references.into_iter().map(at).collect();
        all.ok_or_else(|| StoreError::unexpected(format!("a reference of object {object} leads nowhere")))
    }

    fn operate(&mut self, operations: &[Access], service: &Service) -> Result<()> {
        let ids = self.ids;
        let reference = |&((object, slot), updates): &(At, bool)| {
            (Reference { object: ids[object as usize], slot }, updates)
        };
        let mut bodies = operations.iter().map(|Access { locks, accesses }| {
            let locks: Vec<(Reference, bool)> = locks.iter().map(reference).collect();
            move |operation: &mut Operation<'_>| {
                operation.lock(&locks)?;
                accesses.iter().map(reference).try_for_each(|(at, updates)| {
                    access(operation, at, updates)?;
                    service.serve();
                    Ok(())
                })
            }
        });
        match operations.len() {
            1 => bodies.try_for_each(|body| self.txn.operate(body))?,
            _ => drop(self.txn.operate_in_parallel(bodies)?),
        }
        Ok(())
    }
}

/// Reads a subobject, and changes it if it is to.
fn access(operation: &mut Operation<'_>, at: Reference, updates: bool) -> gnomon_engine::Result<()> {
    let value = operation.read(at)?;
    if updates {
        let value = value.and_then(counted);
        operation.update(at, value.as_deref())?;
    }
    Ok(())
}

/// A transaction on shadow pages.
impl Visitor for Transaction {
    fn references(&mut self, object: u32) -> Result<Vec<At>> {
        self.start_statement()?;
        let row = self.get_locked(tree(REFERENCES), &object.to_be_bytes(), RowLock::Share)?;
        Ok(references_of(&row.unwrap_or_default()))
    }

    fn operate(&mut self, operations: &[Access], service: &Service) -> Result<()> {
        for Access { locks, accesses } in operations {
            self.start_statement()?;
            for (at, exclusively) in locks {
                lock_row(self, *at, *exclusively)?;
            }
            for (at, updates) in accesses {
                let value = lock_row(self, *at, *updates)?;
                if *updates {
                    let value = value.and_then(counted).unwrap_or_default();
                    self.put(tree(SUBOBJECTS), &key(*at), &value)?;
                }
                service.serve();
            }
        }
        Ok(())
    }
}

fn lock_row(txn: &mut Transaction, at: At, exclusively: bool) -> Result<Option<Vec<u8>>> {
    let lock = if exclusively { RowLock::Exclusive } else { RowLock::Share };
    Ok(txn.get_locked(tree(SUBOBJECTS), &key(at), lock)?)
}
