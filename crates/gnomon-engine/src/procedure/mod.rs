//! Procedures: transactions that a program registers by name, and that the log of commits can keep as a call of that
//! name with parameters. (N. Malviya, "Recovery algorithms for in-memory OLTP databases", MIT 2012, section 3.1 and
//! chapter 6: command logging under two-phase locking.)
//!
//! Promises: a call is a transaction under SERIALIZABLE, so it behaves as if calls ran one after another in the order
//! of their commits, and run so once more, in that order, they do the same. A deadlock runs it again. What it answers,
//! an error too, is told when all that it saw is durable.
//!
//! How:
//!
//! - *Deterministic.* A procedure gets its parameters and a [`Call`], through which alone it reads and writes; time and
//!   random numbers are for its parameters to give. An error that another run need not meet (a deadlock, a full disk)
//!   ends the call, whatever the procedure makes of it.
//! - *Checked.* The log keeps a checksum over what a call has written, in its order ([`Call`] counts), so a replay that
//!   does something else is found, and refused.
//! - *Run everywhere.* In a member of a cluster a call is ordered among the commits of all members, and each runs it in
//!   its place, when all before it is applied and nothing beside it: so it never conflicts
//!   ([`Database::run_replicated`](crate::Database::run_replicated)).
//! - *Known by their code.* The directory of trees has the number of each procedure and a hash of the text that it was
//!   registered with. Opening with another text writes a checkpoint, after which no call of the old one is in the log;
//!   where calls of the old one are to be replayed, opening is refused.
//!
//! Not here: the calls of a cluster's order (`ordered`), which calls are logged as such (the recovery method decides),
//! and replay (`recovery`).

mod call;
mod declared;
mod ordered;
mod rerun;
mod serial;

use std::{collections::HashMap, fmt, time::Duration};

pub use call::Call;
pub use declared::AccessSet;
pub(crate) use ordered::run_call;
pub(crate) use rerun::Rerun;
pub use serial::Execution;
pub(crate) use serial::{Executors, call as call_serially};

use crate::{
    Error, Result,
    access::{StoredProcedure, directory_damage},
    env::Clock,
    recovery::{ACCESSES_MAX, CallCounts, Command},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    txn::{Handle, Isolation, Partitions, Ticket, Transaction, TxnOptions},
};
use declared::Declared;

/// The longest name of a procedure, in bytes.
const NAME_BYTES_MAX: usize = 63;
/// The longest parameters of a call, in bytes.
const PARAMS_BYTES_MAX: usize = 1 << 20;
/// Procedures have numbers below this.
const NUMBERS_MAX: u32 = 1 << 20;
/// Of so many runs one is measured, where that is asked for.
const MEASURED_EVERY: u32 = 16;
/// A call that is so often in vain ends with the error that it met.
pub(crate) const RUNS_MAX: u32 = 1000;

use call::Run;

/// A function that does in a transaction of a database what parameters say, and gives it back.
pub(crate) type RunReplayed = Box<dyn FnMut(&Arc<Handle>, Transaction, &[u8]) -> Result<Transaction>>;
type MakeReplayed = dyn Fn() -> RunReplayed + Send + Sync;

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

#[derive(Clone)]
enum Body {
    Run(Arc<Run>),
    Replay(Arc<MakeReplayed>),
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

    /// Makes a procedure whose calls are run again by what `make` makes for a replay.
    pub(crate) fn of_replayed(
        name: &str,
        code: &str,
        make: impl Fn() -> RunReplayed + Send + Sync + 'static,
    ) -> Procedure {
        Procedure { name: name.into(), code: hash(code), body: Body::Replay(Arc::new(make)), declare: None }
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
    fn declared(&self, params: &[u8]) -> Declared {
        match &self.declare {
            None => Declared::Nothing,
            Some(Declare::Partitions(route)) => Declared::Partitions(route(params)),
            Some(Declare::Accesses(accesses)) => match accesses(params) {
                set if set.len() > ACCESSES_MAX => Declared::Nothing,
                set => Declared::Accesses(set),
            },
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
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

/// The procedures of an open database, and those that its log may have calls of.
pub(crate) struct Procedures {
    by_name: HashMap<Arc<str>, Arc<KnownProcedure>>,
    /// Those that the directory has, by number; with what was registered under the name, if it has the same code.
    stored: HashMap<u32, (Arc<str>, Known)>,
    /// Procedures that the directory does not have yet, or has with other code.
    unstored: Vec<StoredProcedure>,
}

pub(crate) struct KnownProcedure {
    number: u32,
    procedure: Procedure,
    runs: AtomicU32,
    /// Processor time that a run takes, about, in nanoseconds; zero if none was measured.
    run_ns: AtomicU64,
    counts: Arc<CallCounts>,
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
    /// Runs it in a transaction, which the log may keep as this call. Where the log keeps what is cheaper, it is
    /// measured now and then.
    fn run(&self, txn: &mut Transaction, clock: &dyn Clock, params: &[u8]) -> Result<Vec<u8>> {
        let Body::Run(code) = &self.procedure.body else {
            return Err(Error::NoSuchProcedure((*self.procedure.name).into()));
        };
        let measured = txn.handle().inner.properties.measures_calls
            && self.runs.fetch_add(1, Ordering::Relaxed).is_multiple_of(MEASURED_EVERY);
        let began = measured.then(|| clock.thread_time());
        let declared = self.procedure.declared(params);
        let call::Done { answer, digest, is_within } = call::run(&**code, txn, &declared, params)?;
        if let Some(began) = began {
            let ns = clock.thread_time().saturating_sub(began).as_nanos() as u64;
            let before = self.run_ns.load(Ordering::Relaxed);
            let now = if before == 0 { ns } else { before - before / 4 + ns / 4 };
            self.run_ns.store(now, Ordering::Relaxed);
        }
        let run_time = Duration::from_nanos(self.run_ns.load(Ordering::Relaxed));
        txn.set_command(self.command(digest, is_within, params, run_time));
        Ok(answer)
    }

    fn command(&self, digest: u32, is_within: bool, params: &[u8], run_time: Duration) -> Command {
        let params = params.into();
        Command { procedure: self.number, digest, is_within, params, run_time, counts: self.counts.clone() }
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
                counts: Arc::default(),
            };
            let registered = Arc::new(registered);
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
        Ok(Procedures { stored: stored.collect(), by_name, unstored })
    }

    /// Returns the procedures that the directory is to have before any of them is called.
    pub fn unstored(&self) -> &[StoredProcedure] {
        &self.unstored
    }

    /// Returns the procedure of a name, for a call with these parameters.
    ///
    /// # Errors
    /// [`Error::NoSuchProcedure`]; [`Error::BadOption`] of parameters that are too long.
    pub fn get(&self, name: &str, params: &[u8]) -> Result<&Arc<KnownProcedure>> {
        if params.len() > PARAMS_BYTES_MAX {
            return Err(Error::BadOption(format!(
                "the parameters of '{name}' take {} bytes, and may take {PARAMS_BYTES_MAX}",
                params.len()
            )));
        }
        self.find(name)
    }

    fn find(&self, name: &str) -> Result<&Arc<KnownProcedure>> {
        self.by_name.get(name).ok_or_else(|| Error::NoSuchProcedure(name.into()))
    }

    /// Returns statistics of the calls of each procedure, sorted by name.
    pub fn stats(&self) -> Vec<ProcedureStats> {
        let stats = |registered: &Arc<KnownProcedure>| {
            let (commits, log_bytes) = registered.counts.get();
            ProcedureStats { name: registered.procedure.name.to_string(), commits, log_bytes }
        };
        let mut all: Vec<ProcedureStats> = self.by_name.values().map(stats).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Makes a transaction be logged as a call: see [`Transaction::log_as_call`].
    pub fn log_as_call(
        &self,
        txn: &mut Transaction,
        procedure: &str,
        params: &[u8],
        run_time: Duration,
    ) -> Result<()> {
        if txn.options().isolation != Isolation::Serializable {
            return Err(Error::BadOption("only a serializable transaction can be logged as a call".into()));
        }
        let procedure = self.find(procedure)?;
        if params.len() > PARAMS_BYTES_MAX {
            txn.log_by_value();
        }
        let digest = txn.accesses().1.keys_digest();
        txn.set_command(procedure.command(digest, false, params, run_time));
        Ok(())
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

/// Runs a call under locks, or in a cluster in the order of all members. The ticket is of its commit, or of what a
/// refusal has seen.
pub(crate) fn start_call(
    handle: &Arc<Handle>,
    registered: &KnownProcedure,
    clock: &dyn Clock,
    params: &[u8],
) -> Result<(Result<Vec<u8>>, Ticket)> {
    if let Some(replicator) = handle.inner.replicator() {
        return ordered::order_call(handle, &**replicator, registered, params);
    }
    let mut runs = 0;
    loop {
        runs += 1;
        let options = TxnOptions { isolation: Isolation::Serializable, ..TxnOptions::default() };
        let mut txn = Transaction::begin(handle.clone(), options)?;
        let error = match registered.run(&mut txn, clock, params) {
            Ok(answer) => return Ok((Ok(answer), txn.order()?)),
            Err(error) => error,
        };
        let seen = txn.seen();
        drop(txn);
        if !matches!(error, Error::Deadlock | Error::Serialization(_)) || runs == RUNS_MAX {
            // The error tells of what it saw.
            return Ok((Err(error), Ticket::new(handle.clone(), seen)));
        }
    }
}
