//! Workloads of registered procedures, in this process: calls that wait for their answers, one after another or several
//! at a time, or that come at a rate, whether those before are answered or not.
//!
//! Promises: what is measured began after the warm-up and ended before the stop; a latency runs from when the call was
//! due to its durable answer; a call that has to be given up for now counts as busy, and the client goes on with the
//! next; the first failure ends the run. After the run what the workload promises of its tables is
//! checked, and that all calls are stored that were answered, and no others; once more when the database was closed and
//! opened.

pub mod fields;
pub mod tpcc;
pub mod voter;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use gnomon_engine::{
    Database, Error, Execution, Options, Placement, Procedure, Reaction, TreeId, TreeOptions, TxnOptions,
    env::{Clock, SystemClock},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering},
        thread,
    },
};
use gnomon_program::Progress;
use serde::{Deserialize, Serialize, Serializer, de::DeserializeOwned, ser::SerializeStruct};

use crate::{
    drive::{LATENCY_US_MAX, Load, MEASURING, Measured, STOPPED, WARMING_UP, Window, sleep_unless_stopped},
    recovery::Method,
    report::{Invariant, KindReport, Recovered, Report},
    store::{Result, StoreError},
    workspace::directory_of,
};

/// How long to wait when it is full.
const BUSY_PAUSE: Duration = Duration::from_micros(100);
/// Between two looks at the clock, which take a fraction of a microsecond each.
const SPINS: u32 = 32;

/// A workload of procedures. Its fields are its own settings.
pub trait Calls: Serialize + DeserializeOwned + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its kinds of transactions: how people call them, and the name of the procedure.
    const KINDS: &'static [(&'static str, &'static str)];

    /// How many partitions its tables have.
    fn partitions(&self) -> u32;

    /// The procedures that a database of the workload is opened with.
    fn procedures(&self) -> Vec<Procedure>;

    /// Fills a new database. `cancel` ends it early, which then fails.
    fn load(&self, db: &Database, seed: u64, progress: &mut Progress, cancel: &AtomicBool) -> Result<()>;

    /// Returns a source of calls for each of so many clients.
    fn clients(&self, count: usize, seed: u64) -> Vec<Box<dyn CallSource>>;

    /// True if an error is an answer that the workload expects.
    fn is_refusal(error: &Error) -> bool;

    /// True if an answer is of a call that [`Calls::check`] is to find.
    fn is_stored(_answer: &[u8]) -> bool {
        true
    }

    /// Checks the database after so many calls of each kind that are to be found, if that is known.
    fn check(&self, db: &Database, committed: Option<&[u64]>) -> Result<Invariant>;
}

/// The calls of a client, one after another.
pub trait CallSource: Send {
    /// The next call: its kind (a place in [`Calls::KINDS`]) and parameters. `now` is in microseconds since 1970-01-01.
    fn next(&mut self, now: i64) -> (usize, Vec<u8>);
}

/// Makes the trees of a new database in this order, so that they have these numbers.
///
/// # Errors
/// Those of the database, and that it is not new.
pub(crate) fn make_trees(db: &Database, trees: impl IntoIterator<Item = (TreeId, Placement)>) -> Result<()> {
    let mut txn = db.begin(TxnOptions::default())?;
    for (expected, placement) in trees {
        if txn.create_tree_with(TreeOptions { placement, ..TreeOptions::default() })? != expected {
            return Err(StoreError::unexpected(
                "the database is not new: give another directory, or `--check` what an earlier run has left there",
            ));
        }
    }
    txn.commit()?;
    Ok(())
}

/// Takes so much of this thread's processor time, and does nothing else: for calls that are to be longer.
pub(crate) fn compute(time: Duration) {
    if time.is_zero() {
        return;
    }
    let clock = SystemClock::new();
    let end = clock.thread_time() + time;
    while clock.thread_time() < end {
        (0..SPINS).for_each(|_| std::hint::spin_loop());
    }
}

/// Serializes it by its name and how many executors it has.
fn serialize<S: Serializer>(execution: &Execution, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    let mut fields = serializer.serialize_struct("Execution", 2)?;
    fields.serialize_field("execution", execution.name())?;
    fields.serialize_field("executors", &execution.executors())?;
    fields.end()
}

/// How a workload of procedures runs, whichever it is.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Threads that call.
    pub clients: usize,
    /// How many calls each has at a time. One that has so many waits until an eighth of them is answered.
    pub outstanding: usize,
    /// Calls a second of all, if they come at a rate.
    pub rate: Option<f64>,
    /// How long to run before measuring, in seconds.
    pub warm_up_seconds: f64,
    /// How long to measure, in seconds.
    pub measured_seconds: f64,
    /// How the database survives a crash.
    pub recovery: Method,
    /// How long commits wait for others before they are made durable together, in milliseconds.
    pub group_commit_ms: f64,
    /// How long the log may get before a checkpoint, in MiB.
    pub log_mib: u32,
    /// How procedures run.
    #[serde(flatten, serialize_with = "serialize")]
    pub execution: Execution,
    /// The buffer pool's size.
    pub pool_mib: usize,
    /// The database's directory; none takes a temporary one and removes it afterwards.
    pub dir: Option<PathBuf>,
}

impl Settings {
    /// Returns the options of a database for a workload's procedures.
    pub fn options(&self, procedures: Vec<Procedure>) -> Options {
        Options {
            recovery: Some(self.recovery.recovery()),
            commits: self.recovery.commits(),
            group_commit_interval: Duration::from_secs_f64(self.group_commit_ms / 1000.0),
            log_bytes_max: u64::from(self.log_mib) << 20,
            pool_bytes: self.pool_mib << 20,
            procedures,
            execution: self.execution,
            ..Options::default()
        }
    }
}

#[derive(Serialize)]
struct AllSettings<'a, W> {
    #[serde(flatten)]
    own: &'a W,
    #[serde(flatten)]
    common: &'a Settings,
}

/// The file beside a run's database that tells what it is of.
const KEPT: &str = "bench.json";

/// A run's description of its database, for a later check.
#[derive(Serialize, Deserialize)]
struct Kept<W> {
    workload: String,
    /// How the database recovers.
    recovery: String,
    /// True if the tables are filled.
    is_loaded: bool,
    settings: W,
}

impl<W: Calls> Kept<W> {
    fn write(directory: &Path, workload: &W, settings: &Settings, is_loaded: bool) -> Result<()> {
        let recovery = settings.recovery.name().to_owned();
        let kept = Kept { workload: W::NAME.to_owned(), recovery, is_loaded, settings: workload };
        let text = serde_json::to_string(&kept).expect("settings have string keys only") + "\n";
        #[expect(clippy::disallowed_methods, reason = "it is no part of the database")]
        std::fs::write(directory.join(KEPT), text).map_err(|error| StoreError::Failed(error.into()))
    }

    /// Reads the description that a run has left in a directory.
    fn read(directory: &Path) -> Result<Kept<W>> {
        let refuse = |why: &str| {
            let run = "run the benchmark on a new directory, and check that";
            Err(StoreError::unexpected(format!("{}: {why}: {run}", directory.display())))
        };
        let Ok(text) = std::fs::read_to_string(directory.join(KEPT)) else {
            return refuse("no run of a benchmark has left its settings there");
        };
        let kept = match serde_json::from_str::<Kept<serde_json::Value>>(&text) {
            Ok(kept) if kept.workload != W::NAME => {
                return refuse(&format!("what is there is of `bench {}`", kept.workload));
            }
            Ok(kept) if !kept.is_loaded => return refuse("the run ended while it filled its tables"),
            Ok(kept) => kept,
            Err(_) => return refuse("the settings of the run cannot be read"),
        };
        match serde_json::from_value(kept.settings) {
            Ok(settings) => Ok(Kept {
                workload: kept.workload,
                recovery: kept.recovery,
                is_loaded: kept.is_loaded,
                settings,
            }),
            Err(_) => refuse("the settings of the run are of another version"),
        }
    }
}

/// Loads a workload's tables, calls its procedures, and checks its tables. `cancel` ends it early, which then fails.
pub fn bench<W: Calls>(
    workload: &W,
    settings: &Settings,
    seed: u64,
    progress: &mut Progress,
    cancel: &Arc<AtomicBool>,
) -> Result<Report> {
    let (directory, _temporary) = directory_of(settings.dir.as_deref())?;
    let db = Database::open(&directory, settings.options(workload.procedures()))?;
    Kept::write(&directory, workload, settings, false)?;
    workload.load(&db, seed, progress, cancel)?;
    Kept::write(&directory, workload, settings, true)?;
    let Called { all, kinds, committed } = measure(workload, &db, settings, seed, cancel)?;
    let mut invariant = workload.check(&db, Some(&committed))?;
    db.close()?;
    drop(db);
    if invariant.holds {
        let db =
            Database::open(&directory, Options { create: false, ..settings.options(workload.procedures()) })?;
        invariant = workload.check(&db, Some(&committed))?;
        invariant.detail += if invariant.holds { ", also after reopening" } else { " after reopening" };
        db.close()?;
    }
    let all_settings = AllSettings { own: workload, common: settings };
    Ok(Report::new(W::NAME, "gnomon", &all_settings, seed, &all, invariant).with_kinds(kinds))
}

/// Opens what an earlier run has left in the settings' directory, which may have been killed, and checks its tables. The
/// workload's settings and the recovery method are the run's. `progress` shows how much of a log is replayed.
pub fn check_left<W: Calls>(settings: &Settings, progress: &mut Progress) -> Result<Recovered> {
    let (directory, _temporary) = directory_of(settings.dir.as_deref())?;
    let Kept { settings: workload, recovery, .. } = Kept::<W>::read(&directory)?;
    let settings = Settings { recovery: Method::from_name(&recovery)?, ..settings.clone() };
    let clock = SystemClock::new();
    let options = Options { create: false, ..settings.options(workload.procedures()) };
    let db = Database::open_with(&directory, options, &mut |done, total| progress.set(done, total))?;
    let open_seconds = clock.now().as_secs_f64();
    let invariant = workload.check(&db, None)?;
    db.close()?;
    let all_settings = AllSettings { own: &workload, common: &settings };
    Ok(Recovered::new(W::NAME, &all_settings, open_seconds, invariant))
}

/// The answers to the calls of a run.
pub struct Called {
    /// The measurements of all.
    pub all: Measured,
    /// And of each kind.
    pub kinds: Vec<KindReport>,
    /// Of each kind, what [`Calls::check`] is to find: that of the warm-up and of after the measuring, too.
    pub committed: Vec<u64>,
}

/// Calls the procedures of an open database that has the workload's tables, until all calls are answered.
///
/// # Errors
/// Failures of the database or the disk, and that the run was canceled.
pub fn measure<W: Calls>(
    workload: &W,
    db: &Database,
    settings: &Settings,
    seed: u64,
    cancel: &Arc<AtomicBool>,
) -> Result<Called> {
    let load = Load {
        clients: settings.clients,
        warm_up: Duration::from_secs_f64(settings.warm_up_seconds),
        measured: Duration::from_secs_f64(settings.measured_seconds),
        seed,
        cancel: cancel.clone(),
    };
    let kinds = drive(workload, db, settings, &load)?;
    let stats = db.procedure_stats();
    let all = Measured::of_all(&kinds);
    let of_kind = |(measured, (name, procedure)): (&Measured, &(&str, &str))| {
        let stats = stats.iter().find(|stats| stats.name == *procedure);
        let log_bytes = stats
            .filter(|stats| stats.commits > 0 && settings.recovery.recovery().records().is_some())
            .map(|stats| stats.log_bytes as f64 / stats.commits as f64);
        KindReport { log_bytes, ..KindReport::new(name, measured) }
    };
    let committed = kinds.iter().map(|kind| kind.committed_in_all).collect();
    Ok(Called { all, kinds: kinds.iter().zip(W::KINDS).map(of_kind).collect(), committed })
}

/// The answers to one client's calls so far.
struct Answered {
    kinds: Vec<Measured>,
    failure: Option<StoreError>,
}

impl Answered {
    /// Ends the run. The first failure counts: later ones may be what it has led to.
    fn fail(&mut self, error: Error, phase: &AtomicU8) {
        self.failure.get_or_insert(error.into());
        phase.store(STOPPED, Ordering::Release);
    }
}

/// The state that all clients of a run share.
struct Run {
    clock: SystemClock,
    phase: AtomicU8,
}

/// A client's calls.
struct Answers {
    answered: Mutex<Answered>,
    window: Window,
}

/// Runs the clients. Returns what was measured of each kind.
fn drive<W: Calls>(workload: &W, db: &Database, settings: &Settings, load: &Load) -> Result<Vec<Measured>> {
    let run = Arc::new(Run { clock: SystemClock::new(), phase: AtomicU8::new(WARMING_UP) });
    // What comes at a rate waits for nothing.
    let outstanding = if settings.rate.is_some() { usize::MAX } else { settings.outstanding };
    let sources = workload.clients(load.clients, load.seed);
    let answers: Vec<Arc<Answers>> = sources
        .iter()
        .map(|_| {
            let kinds = W::KINDS.iter().map(|_| Measured::nothing()).collect();
            let answered = Mutex::new(Answered { kinds, failure: None });
            Arc::new(Answers { answered, window: Window::new(outstanding) })
        })
        .collect();
    let seconds = thread::scope(|scope| {
        let threads: Vec<_> = (0_u32..)
            .zip(sources)
            .zip(&answers)
            .map(|((number, source), answers)| {
                let client = Client { db, settings, number, run: run.clone(), answers };
                scope.spawn(move || client.run::<W>(source))
            })
            .collect();
        sleep_unless_stopped(load.warm_up, &run.phase, &load.cancel);
        let began = run.clock.now();
        // Unless a call has failed meanwhile.
        let _ = run.phase.compare_exchange(WARMING_UP, MEASURING, Ordering::AcqRel, Ordering::Acquire);
        sleep_unless_stopped(load.measured, &run.phase, &load.cancel);
        run.phase.store(STOPPED, Ordering::Release);
        let seconds = (run.clock.now() - began).as_secs_f64();
        threads.into_iter().for_each(|thread| {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        });
        seconds
    });
    if load.cancel.load(Ordering::Acquire) {
        return Err(StoreError::unexpected("canceled"));
    }
    let mut kinds: Vec<Measured> = W::KINDS.iter().map(|_| Measured::nothing()).collect();
    for answers in answers {
        let mut answered = answers.answered.lock();
        if let Some(failure) = answered.failure.take() {
            return Err(failure);
        }
        for (kind, one) in kinds.iter_mut().zip(&answered.kinds) {
            kind.seconds = seconds;
            kind.add(one);
        }
    }
    Ok(kinds)
}

/// A thread that calls.
struct Client<'a> {
    db: &'a Database,
    settings: &'a Settings,
    number: u32,
    run: Arc<Run>,
    answers: &'a Arc<Answers>,
}

impl Client<'_> {
    fn run<W: Calls>(&self, mut source: Box<dyn CallSource>) {
        // The time between two calls of this client, if they come at a rate.
        let pause = self.settings.rate.map(|rate| self.settings.clients as f64 / rate);
        let began = self.run.clock.now();
        let mut calls = 0_u64;
        while self.run.phase.load(Ordering::Acquire) != STOPPED {
            let due = pause.map(|pause| {
                let share = f64::from(self.number) / self.settings.clients as f64;
                began + Duration::from_secs_f64(pause * (calls as f64 + share))
            });
            let early = due.map_or(Duration::ZERO, |due| due.saturating_sub(self.run.clock.now()));
            if !early.is_zero() {
                // So that a stop is not waited for.
                thread::sleep(early.min(Duration::from_millis(20)));
                continue;
            }
            calls += 1;
            let now = self.run.clock.unix_time().as_micros() as i64;
            let (kind, params) = source.next(now);
            self.answers.window.wait_for_place();
            self.call::<W>(kind, &params, due.unwrap_or_else(|| self.run.clock.now()));
        }
        self.answers.window.wait_until_empty();
    }

    fn call<W: Calls>(&self, kind: usize, params: &[u8], due: Duration) {
        let (run, answers) = (self.run.clone(), self.answers.clone());
        let was_measuring = run.phase.load(Ordering::Acquire) == MEASURING;
        let done = move |answer: gnomon_engine::Result<Vec<u8>>| {
            let taken = run.clock.now().saturating_sub(due);
            let is_measured = was_measuring && run.phase.load(Ordering::Acquire) == MEASURING;
            let mut answered = answers.answered.lock();
            let measured = &mut answered.kinds[kind];
            match answer {
                Ok(answer) => {
                    measured.committed_in_all += u64::from(W::is_stored(&answer));
                    if is_measured {
                        measured.committed += 1;
                        let latency_us = u64::try_from(taken.as_micros()).unwrap_or(LATENCY_US_MAX);
                        measured.latency_us.saturating_record(latency_us);
                    }
                }
                Err(error) if error.reaction() == Reaction::Retry => measured.busy += u64::from(is_measured),
                Err(error) if W::is_refusal(&error) => measured.refused += u64::from(is_measured),
                Err(error) => answered.fail(error, &run.phase),
            }
            drop(answered);
            answers.window.give_back();
        };
        self.answers.window.take();
        let procedure = W::KINDS[kind].1;
        if self.settings.outstanding == 1 && self.settings.rate.is_none() {
            // A client that waits makes its commit durable itself.
            done(self.db.call(procedure, params));
        } else if let Err(error) = self.db.call_then(procedure, params, done) {
            self.answers.window.give_back();
            match error {
                Error::Busy => {
                    self.answers.answered.lock().kinds[kind].busy += u64::from(was_measuring);
                    thread::sleep(BUSY_PAUSE);
                }
                error => self.answers.answered.lock().fail(error, &self.run.phase),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gnomon_engine::sync::atomic::AtomicU64;

    use super::*;
    use crate::{procedure::voter::Voter, recovery::COMMAND_LOG};

    fn settings(execution: Execution, outstanding: usize, rate: Option<f64>) -> Settings {
        Settings {
            clients: 2,
            outstanding,
            rate,
            warm_up_seconds: 0.05,
            measured_seconds: 0.1,
            recovery: Method::Of(COMMAND_LOG),
            group_commit_ms: 0.0,
            log_mib: 64,
            execution,
            pool_mib: 16,
            dir: None,
        }
    }

    /// A workload whose calls cannot be run now.
    #[derive(Clone, Default, Serialize, Deserialize)]
    struct Hopeless {
        #[serde(skip)]
        calls: Arc<AtomicU64>,
    }

    impl CallSource for Hopeless {
        fn next(&mut self, _: i64) -> (usize, Vec<u8>) {
            (0, Vec::new())
        }
    }

    impl Calls for Hopeless {
        const NAME: &'static str = "hopeless";
        const KINDS: &'static [(&'static str, &'static str)] = &[("call", "hopeless.call")];

        fn partitions(&self) -> u32 {
            1
        }

        fn procedures(&self) -> Vec<Procedure> {
            let calls = self.calls.clone();
            vec![Procedure::new("hopeless.call", "1", move |_, _| {
                calls.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(100));
                Err(Error::Busy)
            })]
        }

        fn load(&self, _: &Database, _: u64, _: &mut Progress, _: &AtomicBool) -> Result<()> {
            Ok(())
        }

        fn clients(&self, count: usize, _: u64) -> Vec<Box<dyn CallSource>> {
            (0..count).map(|_| Box::new(self.clone()) as Box<dyn CallSource>).collect()
        }

        fn is_refusal(_: &Error) -> bool {
            false
        }

        fn check(&self, _: &Database, _: Option<&[u64]>) -> Result<Invariant> {
            unreachable!("nothing is stored")
        }
    }

    #[test]
    fn calls_that_are_given_up_count_as_busy_while_it_is_measured() {
        let (hopeless, settings) = (Hopeless::default(), settings(Execution::Locked, 1, None));
        let db = Database::in_memory(settings.options(hopeless.procedures())).unwrap();
        let all = measure(&hopeless, &db, &settings, 1, &Arc::default()).unwrap().all;
        assert_eq!((all.committed, all.aborted, all.refused), (0, 0, 0));
        let calls = hopeless.calls.load(Ordering::Relaxed);
        assert!(0 < all.busy && all.busy < calls, "{} of {calls}", all.busy);
    }

    #[test]
    fn executions_are_told_by_their_names_and_executors() {
        for (execution, name, executors) in
            [(Execution::Locked, "locked", 0), (Execution::serial(3), "serial", 3)]
        {
            assert_eq!(
                Execution::from_name(name).unwrap().with_executors(3).ok(),
                (executors > 0).then_some(execution)
            );
            let json = serde_json::to_value(settings(execution, 1, None)).unwrap();
            assert_eq!((&json["execution"], &json["executors"]), (&name.into(), &executors.into()));
        }
        assert!(Execution::from_name("parallel").is_err());
    }

    #[test]
    fn the_first_failure_is_told() {
        let (mut answered, phase) = (Answered { kinds: Vec::new(), failure: None }, AtomicU8::new(MEASURING));
        answered.fail(Error::procedure("first"), &phase);
        answered.fail(Error::Closed, &phase);
        assert!(answered.failure.unwrap().to_string().contains("first"));
        assert_eq!(phase.into_inner(), STOPPED);
    }

    #[test]
    fn what_was_answered_is_stored_and_one_more_would_be_missed() {
        let voter = Voter::new(2);
        for (execution, outstanding, rate) in [
            (Execution::serial(2), 1, None),
            (Execution::serial(2), 50, None),
            (Execution::serial(2), 1, Some(2000.0)),
            (Execution::Locked, 1, None),
            (Execution::Locked, 5, None),
        ] {
            let settings = settings(execution, outstanding, rate);
            let db = Database::in_memory(settings.options(voter.procedures())).unwrap();
            crate::procedure::voter::load(&db, &voter).unwrap();
            let called = measure(&voter, &db, &settings, 1, &Arc::default()).unwrap();
            let [stored] = called.committed[..] else { panic!("{:?}", called.committed) };
            assert!(0 < called.all.committed && called.all.committed < stored, "the warm-up is stored, too");
            let found = voter.check(&db, Some(&[stored])).unwrap();
            assert!(found.holds, "{found:?}");
            let found = voter.check(&db, Some(&[stored + 1])).unwrap();
            assert!(
                !found.holds && found.detail.contains(&format!("instead of {}", stored + 1)),
                "{found:?}"
            );
        }
    }
}
