//! Procedures: transactions that a program registers by name, and that the log of commits can keep as a call of that name
//! with parameters. (N. Malviya, "Recovery algorithms for in-memory OLTP databases", MIT 2012, section 3.1 and chapter 6:
//! command logging under two-phase locking.)
//!
//! Promises: a call is a transaction under SERIALIZABLE, so it behaves as if calls ran one after another in the order of
//! their commits, and run so once more, in that order, they do the same. A deadlock runs it again. What it answers, an
//! error too, is told when all that it saw is durable.
//!
//! How:
//!
//! - *Deterministic.* A procedure gets its parameters and a [`Call`], through which alone it reads and writes; time and
//!   random numbers are for its parameters to give. An error that another run need not meet (a deadlock, a full disk)
//!   ends the call, whatever the procedure makes of it.
//! - *Checked.* The log keeps a checksum over what a call has written, in its order ([`Call`] counts), so a replay that
//!   does something else is found, and refused.
//! - *Run everywhere.* In a member of a cluster a call is ordered among the commits of all members, and each runs it in
//!   its place, when all before it is applied and nothing beside it: so it never conflicts ([`Database::run_replicated`]).
//! - *Known by their code.* The directory of trees has the number of each procedure and a hash of the text that it was
//!   registered with. Opening with another text writes a checkpoint, after which no call of the old one is in the log;
//!   where calls of the old one are to be replayed, opening is refused.
//!
//! Not here: the calls of a cluster's order (`ordered`), which calls are logged as such ([`Recovery`](super::Recovery)
//! and `commit.rs` decide), and replay (`log`).

use std::{collections::HashMap, fmt, time::Duration};

use super::{
    apply::Applied,
    commit::Ticket,
    cursor::Cursor,
    database::{Database, Handle},
    declared::{ACCESSES_MAX, AccessSet, Declared},
    range::{Direction, KeyRange},
    recovery::Records,
    savepoint::Savepoint,
    serial,
    strength::RowLock,
    transaction::{Isolation, Transaction, TxnOptions},
    tree::{StoredProcedure, directory_damage},
    writes::WriteSet,
};
use crate::{
    Error, Reaction, Result, TreeId, op,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

mod ordered;

/// The longest name of a procedure, in bytes.
const NAME_BYTES_MAX: usize = 63;
/// The longest parameters of a call, in bytes.
const PARAMS_BYTES_MAX: usize = 1 << 20;
/// Procedures have numbers below this.
const NUMBERS_MAX: u32 = 1 << 20;
/// Of so many runs one is measured, where that is asked for.
const MEASURED_EVERY: u32 = 16;
/// A call that is so often in vain ends with the error that it met.
pub(super) const RUNS_MAX: u32 = 1000;

type Run = dyn Fn(&mut Call<'_>, &[u8]) -> Result<Vec<u8>> + Send + Sync;
type MakeReplayer = dyn Fn() -> Replayer + Send + Sync;

/// A function that does in a transaction what parameters say, and gives it back; see [`Procedure::replayed`].
pub type Replayer = Box<dyn FnMut(&Database, Transaction, &[u8]) -> Result<Transaction>>;

/// A transaction that is known by its name: see [`Options::procedures`](crate::Options::procedures).
#[derive(Clone)]
pub struct Procedure {
    name: Arc<str>,
    code: u64,
    body: Body,
    declare: Option<Declare>,
}

/// A function of a call's parameters.
type Of<T> = dyn Fn(&[u8]) -> T + Send + Sync;

/// The partitions or the accesses that a call declares.
#[derive(Clone)]
enum Declare {
    Partitions(Arc<Of<Partitions>>),
    Accesses(Arc<Of<AccessSet>>),
}

/// The partitions whose trees a call uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// One.
    One(u32),
    /// Some.
    Several(Vec<u32>),
    /// All of them.
    All,
}

impl Partitions {
    /// Returns those that are named. A partition may be named more than once.
    pub fn of(partitions: impl IntoIterator<Item = u32>) -> Partitions {
        let mut partitions = partitions.into_iter();
        let Some(first) = partitions.next() else { return Partitions::Several(Vec::new()) };
        match partitions.find(|other| *other != first) {
            None => Partitions::One(first),
            Some(other) => Partitions::Several([first, other].into_iter().chain(partitions).collect()),
        }
    }
}

#[derive(Clone)]
enum Body {
    Run(Arc<Run>),
    Replay(Arc<MakeReplayer>),
}

impl Procedure {
    /// Makes a procedure that [`Database::call`](crate::Database::call) can call. `code` is the text of what it does,
    /// or a version of it, of any length: whatever changes with it (`include_str!` of its file will do). A log that
    /// has calls of another code is not replayed.
    ///
    /// `run` gets the parameters as they were given, and what it returns is the answer. It must do the same whenever it
    /// is given the same parameters and finds the same database: no clock, no randomness, nothing but the [`Call`].
    ///
    /// ```
    /// use gnomon_engine::{Database, Error, Options, Procedure, op::number};
    /// # fn main() -> gnomon_engine::Result<()> {
    /// let add = Procedure::new("add", "1", |call, params| {
    ///     let tree = gnomon_engine::TreeId(1);
    ///     let by = i64::from_le_bytes(params.try_into().map_err(|_| Error::procedure("8 bytes, please"))?);
    ///     let sum = call.get_for_update(tree, b"sum")?.map_or(0, |sum| i64::from_le_bytes(sum.try_into().unwrap()));
    ///     call.put(tree, b"sum", &(sum + by).to_le_bytes())?;
    ///     Ok((sum + by).to_le_bytes().to_vec())
    /// });
    /// let db = Database::in_memory(Options { procedures: vec![add], ..Options::default() })?;
    /// let mut txn = db.begin(Default::default())?;
    /// txn.create_tree()?;
    /// txn.commit()?;
    /// db.call("add", &5_i64.to_le_bytes())?;
    /// assert_eq!(db.call("add", &6_i64.to_le_bytes())?, 11_i64.to_le_bytes());
    /// assert!(db.call("add", b"").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(
        name: &str,
        code: &str,
        run: impl Fn(&mut Call<'_>, &[u8]) -> Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Procedure {
        Procedure { name: name.into(), code: hash(code), body: Body::Run(Arc::new(run)), declare: None }
    }

    /// Makes a procedure whose calls are transactions that the layer above the engine runs
    /// ([`Transaction::log_as_call`]). When a log with such calls is to be replayed, `replayer` makes a function that
    /// does the same in a transaction that it is given, and gives it back; the function lives as long as the replay.
    /// The database cannot begin transactions of its own meanwhile.
    pub fn replayed(
        name: &str,
        code: &str,
        replayer: impl Fn() -> Replayer + Send + Sync + 'static,
    ) -> Procedure {
        Procedure {
            name: name.into(),
            code: hash(code),
            body: Body::Replay(Arc::new(replayer)),
            declare: None,
        }
    }

    /// Declares the partitions that its calls run in, by their parameters, where procedures run
    /// [serially](crate::Execution::Serial). They use no others; without this, a call has all of them. However they
    /// run, replay runs calls in different partitions beside each other, and one that has used others alone. `route`
    /// is part of the procedure's code: it must tell the same for the same parameters.
    #[must_use]
    pub fn with_partitions(self, route: impl Fn(&[u8]) -> Partitions + Send + Sync + 'static) -> Procedure {
        Procedure { declare: Some(Declare::Partitions(Arc::new(route))), ..self }
    }

    /// Declares the keys and trees that its calls use, by their parameters, in the place of partitions. Replay runs
    /// calls that use different ones beside each other. A call that has used something else, or declares more than a
    /// thousand, is replayed alone. `accesses` is part of the procedure's code: it must declare the same for the same
    /// parameters.
    #[must_use]
    pub fn with_accesses(self, accesses: impl Fn(&[u8]) -> AccessSet + Send + Sync + 'static) -> Procedure {
        Procedure { declare: Some(Declare::Accesses(Arc::new(accesses))), ..self }
    }

    /// Returns the partitions or the access set that a call declares.
    pub(super) fn declared(&self, params: &[u8]) -> Declared {
        match &self.declare {
            None => Declared::Nothing,
            Some(Declare::Partitions(route)) => Declared::Partitions(route(params)),
            Some(Declare::Accesses(accesses)) => match accesses(params) {
                set if set.accesses().len() > ACCESSES_MAX => Declared::Nothing,
                set => Declared::Accesses(set),
            },
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A call that has run.
struct Done {
    answer: Vec<u8>,
    /// The checksum of what it did.
    digest: u32,
    /// True if it has used only what it declares.
    is_within: bool,
}

/// Runs a procedure in a transaction.
fn run(run: &Run, txn: &mut Transaction, declared: &Declared, params: &[u8]) -> Result<Done> {
    let mut call = Call { txn, declared, is_within: true, digest: 0, failed: None, is_ordered: false };
    let answer = run(&mut call, params);
    let is_within = call.is_within();
    match call.failed {
        Some(error) => Err(error),
        None => answer.map(|answer| Done { answer, digest: call.digest, is_within }),
    }
}

impl fmt::Debug for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Procedure").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Tells two texts of code apart (FNV-1a).
fn hash(code: &str) -> u64 {
    code.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The call that stands for a transaction in the log of commits, in the place of its writes.
pub(super) struct Command {
    /// The procedure's number.
    pub procedure: u32,
    /// The checksum of what it has written.
    pub digest: u32,
    /// True if it has used only what it declares.
    pub is_within: bool,
    pub params: Box<[u8]>,
    /// Processor time that a run takes, about.
    pub run_time: Duration,
}

/// The procedures of an open database, and those that its log may have calls of.
pub(super) struct Procedures {
    by_name: HashMap<Arc<str>, Arc<KnownProcedure>>,
    /// The same, at their numbers.
    by_number: Vec<Option<Arc<KnownProcedure>>>,
    /// Those that the directory has, by number; with what was registered under the name, if it has the same code.
    stored: HashMap<u32, (Arc<str>, Known)>,
    /// Procedures that the directory does not have yet, or has with other code.
    unstored: Vec<StoredProcedure>,
}

pub(super) struct KnownProcedure {
    number: u32,
    procedure: Procedure,
    runs: AtomicU32,
    /// Processor time that a run takes, about, in nanoseconds; zero if none was measured.
    run_ns: AtomicU64,
    commits: AtomicU64,
    log_bytes: AtomicU64,
}

/// Statistics of the calls of a procedure since the database was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcedureStats {
    /// Its name.
    pub name: String,
    /// Calls that have committed something.
    pub commits: u64,
    /// The bytes of their records in the log of commits, without what blocks take beside.
    pub log_bytes: u64,
}

impl KnownProcedure {
    /// Runs it in a transaction, which the log may keep as this call. Where the log keeps what is cheaper, it is measured
    /// now and then.
    pub fn run(&self, txn: &mut Transaction, params: &[u8]) -> Result<Vec<u8>> {
        let Body::Run(code) = &self.procedure.body else {
            return Err(Error::NoSuchProcedure((*self.procedure.name).into()));
        };
        let inner = txn.inner().clone();
        let measured = inner.recovery.records() == Some(Records::Cheaper)
            && self.runs.fetch_add(1, Ordering::Relaxed).is_multiple_of(MEASURED_EVERY);
        let began = measured.then(|| inner.clock.thread_time());
        let declared = self.procedure.declared(params);
        let Done { answer, digest, is_within } = run(&**code, txn, &declared, params)?;
        if let Some(began) = began {
            let ns = inner.clock.thread_time().saturating_sub(began).as_nanos() as u64;
            let before = self.run_ns.load(Ordering::Relaxed);
            let now = if before == 0 { ns } else { before - before / 4 + ns / 4 };
            self.run_ns.store(now, Ordering::Relaxed);
        }
        let run_time = Duration::from_nanos(self.run_ns.load(Ordering::Relaxed));
        txn.command =
            Some(Command { procedure: self.number, digest, is_within, params: params.into(), run_time });
        Ok(answer)
    }

    /// Returns the partitions of a call.
    pub fn partitions(&self, params: &[u8]) -> Partitions {
        match self.procedure.declared(params) {
            Declared::Partitions(partitions) => partitions,
            Declared::Nothing | Declared::Accesses(_) => Partitions::All,
        }
    }
}

enum Known {
    No,
    WithOtherCode,
    Yes(Procedure),
}

impl Procedures {
    /// Numbers the procedures that are registered, beside those that the directory has.
    ///
    /// # Errors
    /// [`Error::BadOption`] of names that are too long, or used twice.
    pub fn new(registered: &[Procedure], stored: Vec<StoredProcedure>) -> Result<Procedures> {
        let mut next = stored.iter().map(|stored| stored.number.saturating_add(1)).max().unwrap_or(0);
        if next > NUMBERS_MAX {
            return Err(directory_damage(format!("a procedure has the number {}", next - 1)));
        }
        let mut by_name: HashMap<Arc<str>, Arc<KnownProcedure>> = HashMap::new();
        let mut by_number: Vec<Option<Arc<KnownProcedure>>> = Vec::new();
        let mut unstored = Vec::new();
        for procedure in registered {
            let name = procedure.name.clone();
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return Err(Error::BadOption(format!(
                    "a procedure is named '{name}': a name has from 1 to {NAME_BYTES_MAX} bytes"
                )));
            }
            let known = stored.iter().find(|stored| *stored.name == *name);
            let number = known.map_or(next, |known| known.number);
            next = next.max(number + 1);
            if known.is_none_or(|known| known.code != procedure.code) {
                unstored.push(StoredProcedure { number, name: name.to_string(), code: procedure.code });
            }
            let registered = KnownProcedure {
                number,
                procedure: procedure.clone(),
                runs: AtomicU32::new(0),
                run_ns: AtomicU64::new(0),
                commits: AtomicU64::new(0),
                log_bytes: AtomicU64::new(0),
            };
            let registered = Arc::new(registered);
            let at = number as usize;
            by_number.resize(by_number.len().max(at + 1), None);
            by_number[at] = Some(registered.clone());
            if by_name.insert(name.clone(), registered).is_some() {
                return Err(Error::BadOption(format!("two procedures are named '{name}'")));
            }
        }
        let stored = stored.into_iter().map(|stored| {
            let known = match by_name.get(&*stored.name) {
                None => Known::No,
                Some(registered) if registered.procedure.code != stored.code => Known::WithOtherCode,
                Some(registered) => Known::Yes(registered.procedure.clone()),
            };
            (stored.number, (stored.name.into(), known))
        });
        Ok(Procedures { stored: stored.collect(), by_name, by_number, unstored })
    }

    /// Notes that a call commits, with so many bytes of the log.
    pub fn note_commit(&self, number: u32, log_bytes: usize) {
        if let Some(Some(registered)) = self.by_number.get(number as usize) {
            registered.commits.fetch_add(1, Ordering::Relaxed);
            registered.log_bytes.fetch_add(log_bytes as u64, Ordering::Relaxed);
        }
    }

    /// Returns the procedures that the directory is to have before any of them is called.
    pub fn unstored(&self) -> &[StoredProcedure] {
        &self.unstored
    }

    fn get(&self, name: &str) -> Result<&Arc<KnownProcedure>> {
        self.by_name.get(name).ok_or_else(|| Error::NoSuchProcedure(name.into()))
    }

    /// Returns the one that the log names by a number; none if there never was one.
    ///
    /// # Errors
    /// [`Error::ProcedureUnknown`], [`Error::ProcedureChanged`].
    pub fn of_log(&self, number: u32) -> Result<Option<&Procedure>> {
        match self.stored.get(&number) {
            None => Ok(None),
            Some((name, Known::No)) => Err(Error::ProcedureUnknown(name.clone())),
            Some((name, Known::WithOtherCode)) => Err(Error::ProcedureChanged(name.clone())),
            Some((_, Known::Yes(procedure))) => Ok(Some(procedure)),
        }
    }
}

/// Runs the calls of a log once more.
pub(super) struct Rerun<'a> {
    handle: &'a Arc<Handle>,
    replayers: HashMap<Arc<str>, Replayer>,
}

impl<'a> Rerun<'a> {
    /// Makes one for a database that nothing else uses yet.
    pub fn new(handle: &'a Arc<Handle>) -> Rerun<'a> {
        Rerun { handle, replayers: HashMap::new() }
    }

    /// Runs a call of a procedure, alone. Returns what it writes.
    ///
    /// # Errors
    /// [`Error::ProcedureDiverged`], and what can fail besides.
    pub fn call(&mut self, procedure: &Procedure, digest: u32, params: &[u8]) -> Result<WriteSet> {
        let Body::Replay(make) = &procedure.body else {
            return procedure.run_again(self.handle, digest, params);
        };
        let replayer = self.replayers.entry(procedure.name.clone()).or_insert_with(|| make());
        let txn = Transaction::alone(self.handle.clone());
        let again = replayer(&Database(self.handle.clone()), txn, params);
        let with_digest = |txn: Transaction| {
            let digest = txn.writes.keys_digest();
            (txn, digest)
        };
        procedure.same(again.map(with_digest), digest)
    }
}

impl Procedure {
    /// Runs a call of the log again, while no other call uses what it uses. Returns what it writes.
    ///
    /// # Errors
    /// [`Error::ProcedureDiverged`], and what can fail besides.
    pub(super) fn run_again(&self, handle: &Arc<Handle>, digest: u32, params: &[u8]) -> Result<WriteSet> {
        let Body::Run(code) = &self.body else { return Err(Error::NoSuchProcedure((*self.name).into())) };
        let mut txn = Transaction::alone(handle.clone());
        let again = run(&**code, &mut txn, &Declared::Nothing, params);
        self.same(again.map(|done| (txn, done.digest)), digest)
    }

    /// Returns the writes of a call that has run again, or an error if they differ from those before.
    fn same(&self, again: Result<(Transaction, u32)>, digest: u32) -> Result<WriteSet> {
        let diverged = |detail| Error::ProcedureDiverged { name: self.name.clone(), detail };
        match again {
            Ok((mut txn, now)) if now == digest => Ok(std::mem::take(&mut txn.writes)),
            Ok(_) => Err(diverged("it wrote something else".into())),
            // The program that replays lacks what the one that ran had.
            Err(error @ Error::NoSuchOperation { .. }) => Err(error),
            Err(error) if error.reaction() == Reaction::FixInput => Err(diverged(error.to_string().into())),
            Err(error) => Err(error),
        }
    }
}

impl Database {
    /// Calls a procedure ([`Options::procedures`](crate::Options::procedures)) in a transaction of its own, and
    /// returns its answer when that is durable, or as [`Options::commits`](crate::Options::commits) says.
    ///
    /// # Errors
    /// [`Error::NoSuchProcedure`], the procedure's own, and those of a transaction; a deadlock runs it again. Where
    /// procedures run [serially](crate::Execution::Serial), [`Error::Busy`] if too many calls wait. In a member of a cluster
    /// [`Error::Apart`] if it has not run; while the log is away a call that may be in it waits, until [`Error::Unresolved`]
    /// if the member stops.
    pub fn call(&self, procedure: &str, params: &[u8]) -> Result<Vec<u8>> {
        let Some(executors) = &self.0.executors else {
            let (answer, ticket) = self.start_call(self.get_procedure(procedure, params)?, params)?;
            return ticket.acknowledge().and(answer);
        };
        let registered = self.get_procedure(procedure, params)?;
        let answered = Arc::new((Mutex::new(None), Condvar::new()));
        let told = answered.clone();
        let done = move |answer| {
            *told.0.lock() = Some(answer);
            told.1.notify_one();
        };
        serial::call(executors, registered, params, Box::new(done))?;
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
    /// [`Error::NoSuchProcedure`], [`Error::BadOption`] of parameters that are too long, [`Error::Busy`],
    /// [`Error::Closed`]; `done` is not called then. It gets all others.
    pub fn call_then(
        &self,
        procedure: &str,
        params: &[u8],
        done: impl FnOnce(Result<Vec<u8>>) + Send + 'static,
    ) -> Result<()> {
        let registered = self.get_procedure(procedure, params)?;
        if let Some(executors) = &self.0.executors {
            return serial::call(executors, registered, params, Box::new(done));
        }
        match self.start_call(registered, params) {
            Ok((answer, ticket)) => ticket.acknowledge_then(move |durable| done(durable.and(answer))),
            Err(error) => done(Err(error)),
        }
        Ok(())
    }

    /// Returns statistics of the calls of each procedure since the database was opened, sorted by name.
    pub fn procedure_stats(&self) -> Vec<ProcedureStats> {
        let stats = |registered: &Arc<KnownProcedure>| ProcedureStats {
            name: registered.procedure.name.to_string(),
            commits: registered.commits.load(Ordering::Relaxed),
            log_bytes: registered.log_bytes.load(Ordering::Relaxed),
        };
        let mut all: Vec<ProcedureStats> = self.0.inner.procedures.by_name.values().map(stats).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    pub(super) fn get_procedure(&self, name: &str, params: &[u8]) -> Result<&Arc<KnownProcedure>> {
        if params.len() > PARAMS_BYTES_MAX {
            return Err(Error::BadOption(format!(
                "the parameters of '{name}' take {} bytes, and may take {PARAMS_BYTES_MAX}",
                params.len()
            )));
        }
        self.0.inner.procedures.get(name)
    }

    /// Runs a call under locks, or in a cluster in the order of all members. The ticket is of its commit, or of what a
    /// refusal has seen.
    pub(super) fn start_call(
        &self,
        registered: &KnownProcedure,
        params: &[u8],
    ) -> Result<(Result<Vec<u8>>, Ticket)> {
        if let Some(replicator) = self.0.inner.replicator() {
            return self.order_call(&**replicator, registered, params);
        }
        let mut runs = 0;
        loop {
            runs += 1;
            let mut txn =
                self.begin(TxnOptions { isolation: Isolation::Serializable, ..TxnOptions::default() })?;
            let error = match registered.run(&mut txn, params) {
                Ok(answer) => return Ok((Ok(answer), txn.finish()?)),
                Err(error) => error,
            };
            let seen = txn.seen();
            drop(txn);
            if !matches!(error, Error::Deadlock | Error::Serialization(_)) || runs == RUNS_MAX {
                // The error tells of what it saw.
                return Ok((Err(error), Ticket::new(self.0.clone(), seen)));
            }
        }
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
    /// [`Error::NoSuchProcedure`]; [`Error::BadOption`] if the transaction is not SERIALIZABLE.
    pub fn log_as_call(&mut self, procedure: &str, params: &[u8], run_time: Duration) -> Result<()> {
        if self.options.isolation != Isolation::Serializable {
            return Err(Error::BadOption("only a serializable transaction can be logged as a call".into()));
        }
        let procedure = self.inner().procedures.get(procedure)?.number;
        if params.len() > PARAMS_BYTES_MAX {
            self.log_by_value();
        }
        self.command = Some(Command {
            procedure,
            digest: self.writes.keys_digest(),
            is_within: false,
            params: params.into(),
            run_time,
        });
        Ok(())
    }

    /// Logs this transaction by its writes, even if a call could stand for it: it depends on something that another
    /// run would not find.
    pub fn log_by_value(&mut self) {
        self.by_value = true;
    }
}

/// A call of a procedure that is under way: what it reads and writes. See [`Transaction`] for what each method does.
pub struct Call<'a> {
    txn: &'a mut Transaction,
    declared: &'a Declared,
    /// True if it has used only what it declares so far, as far as that is seen at once.
    is_within: bool,
    /// The checksum of all that it was asked to write, and what came of it.
    digest: u32,
    /// An error that the next run need not meet: the call has failed, whatever it returns.
    failed: Option<Error>,
    /// True if it runs in the order of all members of a cluster.
    is_ordered: bool,
}

impl Call<'_> {
    /// Passes a result on. An error ends the call if it depends on more than the database and the parameters: on
    /// where the call runs, on a tree whose number is not locked, or on what the program has.
    fn keep<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && (error.reaction() != Reaction::FixInput
                || matches!(
                    error,
                    Error::NotRouted(_) | Error::NoSuchTree(_) | Error::NoSuchOperation { .. }
                ))
        {
            self.failed.get_or_insert_with(|| error.clone());
        }
        result
    }

    /// Notes that it uses a key, or a whole tree.
    fn uses(&mut self, tree: TreeId, key: Option<&[u8]>) {
        self.is_within = self.is_within && self.declared.allows_read(tree, key);
    }

    /// True if it has used only what it declares.
    fn is_within(&self) -> bool {
        self.is_within && self.declared.has(&self.txn.used, &self.txn.writes)
    }

    /// Adds something to the checksum that was done to a key.
    fn count(&mut self, what: u8, tree: TreeId, key: &[u8], with: &[u8]) {
        let mut head = [what; 13];
        head[1..9].copy_from_slice(&tree.0.to_le_bytes());
        head[9..].copy_from_slice(&(key.len() as u32).to_le_bytes());
        self.digest = [&head, key, with].into_iter().fold(self.digest, crc32c::crc32c_append);
    }

    /// Tells that keys of a tree are about to be used, as [`Transaction::prefetch`].
    pub fn prefetch(&mut self, tree: TreeId, keys: &[impl AsRef<[u8]>]) -> Result<()> {
        // It learns nothing but that the tree is there.
        let fetched = self.txn.prefetch(tree, keys);
        self.keep(fetched)
    }

    /// Returns the value of a key.
    pub fn get(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.uses(tree, Some(key));
        let got = self.txn.get(tree, key);
        self.keep(got)
    }

    /// Returns the value of a key that is to be written: as [`Call::get`], without the deadlock of two transactions
    /// that have read it and then want to write it.
    pub fn get_for_update(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.uses(tree, Some(key));
        let got = self.txn.get_locked(tree, key, RowLock::Update);
        self.keep(got)
    }

    /// Writes a key that must be absent ([`Error::KeyExists`]).
    pub fn insert(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        self.uses(tree, Some(key));
        let inserted = self.txn.insert(tree, key, value);
        self.count(if inserted.is_ok() { 0 } else { 1 }, tree, key, value);
        self.keep(inserted)
    }

    /// Writes a key, present or not.
    pub fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        self.count(2, tree, key, value);
        let put = self.txn.put(tree, key, value);
        self.keep(put)
    }

    /// Deletes a key; false if it was absent.
    pub fn delete(&mut self, tree: TreeId, key: &[u8]) -> Result<bool> {
        self.uses(tree, Some(key));
        let deleted = self.txn.delete(tree, key);
        self.count(3 + u8::from(matches!(deleted, Ok(true))), tree, key, &[]);
        self.keep(deleted)
    }

    /// Applies an operation to the value of a key, which it does not see.
    pub fn apply(&mut self, tree: TreeId, key: &[u8], call: &op::Call) -> Result<Applied> {
        self.uses(tree, Some(key));
        let applied = self.txn.apply(tree, key, call);
        let came = match applied {
            Ok(Applied::Done) => 5,
            Ok(Applied::Absent) => 6,
            Ok(Applied::Refused(_)) => 7,
            Err(_) => 8,
        };
        self.count(came, tree, key, &call.args);
        for name in [call.family, call.operation] {
            self.digest = crc32c::crc32c_append(self.digest, name.as_bytes());
        }
        self.keep(applied)
    }

    /// Begins a scan of a tree; its entries come by [`Call::next`].
    pub fn scan(&mut self, tree: TreeId, range: KeyRange, direction: Direction) -> Result<Cursor> {
        self.uses(tree, None);
        let cursor = self.txn.scan(tree, range, direction);
        self.keep(cursor)
    }

    /// Returns the next entry of a scan, a key with its value; none at its end.
    pub fn next(&mut self, cursor: &mut Cursor) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let next = cursor.next(self.txn);
        self.keep(next)
    }

    /// Sets a point to go back to.
    pub fn savepoint(&mut self) -> Savepoint {
        self.txn.savepoint()
    }

    /// Undoes what was written since a savepoint, which stays.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        // What it has read may still guide it.
        self.is_within = self.is_within();
        let gone = self.txn.rollback_to(savepoint);
        self.count(9, TreeId(0), &[], &savepoint.0.to_le_bytes());
        self.keep(gone)
    }

    /// Makes a tree. The call is logged by value then.
    ///
    /// # Errors
    /// An error if it runs at all members of a cluster, which do not give trees the same numbers.
    pub fn create_tree(&mut self, options: super::TreeOptions) -> Result<TreeId> {
        if self.is_ordered {
            let error = Error::procedure(
                "a procedure that all members of a cluster run makes no trees: do that in a transaction",
            );
            self.failed.get_or_insert_with(|| error.clone());
            return Err(error);
        }
        // Another run would not give it the same number.
        self.txn.log_by_value();
        let created = self.txn.create_tree_with(options);
        self.keep(created)
    }
}
