//! `gnomon compare`: transactions of one's own under every recovery method, with and without semantic locks.
//!
//! - `script`: scripts in the form of pgbench; `expression`, `value`, `random`: what they compute;
//! - `client`: a session that runs a script again and again; `plain`: SQL that is run once;
//! - `pgbench`: the tables of pgbench, and what its scripts keep true;
//! - `crash`: a disk that stops;
//! - `report`: what is told of the figures.
//!
//! Each variant starts with a copy of a database that was made once for its recovery method. Its clients are threads,
//! each with a session in this process, that run the script in a closed loop. When the time is over and the last
//! transactions have ended, the disk is stopped, which is the crash, and what is measured then is opening.
//!
//! Promises: all variants have the same durability (but `none`, which has none), the same rows to begin with and the
//! same random numbers; in each round they come in a random order, so that a slow minute meets now one, now another. After
//! recovery no commit is missing, and what pgbench's scripts keep true is true; otherwise the comparison fails.

use std::{path::PathBuf, time::Duration};

use gnomon_engine::{
    Csn, Database, Interrupt, InterruptReason, Options,
    disk::FileDisk,
    env::{Clock, Rng, SystemClock, processors},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        thread,
    },
};
use gnomon_program::Progress;
use gnomon_sql::session::{self, Session, SessionOptions, SqlDatabase};

use crate::{
    drive::{Load, Measured, drive_kinds},
    isolation::Isolation,
    recovery::{ADAPTIVE_LOG, COMMAND_LOG, Method, Recovery},
    report::Latency,
    result::{Report, text::figure},
    store::{Result, StoreError},
    workspace::Workspace,
};

mod client;
mod crash;
mod expression;
mod pgbench;
mod plain;
mod random;
mod report;
mod script;
mod value;

use client::ScriptClient;
use crash::{CrashDisk, Stop};
use pgbench::Sums;
use report::Figures;
pub use script::Script;

/// How long what can be canceled goes without a look whether it is.
const STEP: Duration = Duration::from_millis(20);
const MIB: f64 = 1024.0 * 1024.0;

/// The subject of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The transactions.
    pub script: Script,
    /// The name and the SQL of what makes the tables; none makes those of pgbench, if the script uses them.
    pub init: Option<(String, String)>,
    /// Branches of pgbench's tables, and what the variable `scale` is.
    pub scale: u32,
    /// Clients, a thread each.
    pub clients: usize,
    /// How long each variant runs before it is measured, in seconds.
    pub warm_up_seconds: f64,
    /// How long each variant is measured, in seconds.
    pub measured_seconds: f64,
    /// How often each variant is measured; medians count.
    pub rounds: u64,
    /// Recovery methods; none are all whose transactions differ.
    pub methods: Option<Vec<Method>>,
    /// Semantic locks on or off; none are both, if that makes a difference.
    pub semantic_locks: Option<Vec<bool>>,
    /// How transactions are isolated that do not say so themselves.
    pub isolation: Isolation,
    /// The buffer pool's size.
    pub pool_mib: usize,
    /// Where random numbers begin.
    pub seed: u64,
    /// True if it is short, to see that it works.
    pub quick: bool,
    /// Where the databases are made (and removed); none takes the system's temporary directory.
    pub dir: Option<PathBuf>,
}

/// How a database is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant {
    method: Method,
    semantic_locks: bool,
}

impl Variant {
    fn is_durable(self) -> bool {
        self.method != Method::None
    }

    fn has_log(self) -> bool {
        !matches!(self.method.recovery(), Recovery::Shadow)
    }

    fn locks(self) -> &'static str {
        report::switch(self.semantic_locks)
    }
}

/// All that can be compared, in the order in which it is shown.
fn all_methods() -> Vec<Method> {
    [Method::None].into_iter().chain(Recovery::ALL.map(Method::Of)).collect()
}

impl Comparison {
    /// Measures all variants. `cancel` ends it early, which then fails.
    ///
    /// # Errors
    /// Those of the script with its line, failures of the database or the disk, and what a crash has taken.
    pub fn run(&self, progress: Progress, cancel: &Arc<AtomicBool>) -> Result<Report> {
        self.check_settings()?;
        let mut workspace = Workspace::new(progress, cancel, self.seed, self.dir.as_deref())?;
        let (variants, mut notes) = self.variants();
        let mut runs = Runs {
            comparison: self,
            made: Vec::new(),
            sums: self.makes_pgbench().then(|| Sums::kept_by(&self.script)).flatten(),
            checked: None,
            changed: None,
        };
        let total = variants.len() as u64 * self.rounds;
        let seconds = total as f64 * (self.warm_up_seconds + self.measured_seconds);
        workspace.progress.note(&format!(
            "{} variants, rounds: {}; {} s, and what loading and recovery take",
            variants.len(),
            self.rounds,
            figure(seconds)
        ));
        let mut figures: Vec<Vec<Figures>> = vec![Vec::new(); variants.len()];
        for round in 0..self.rounds {
            let mut order: Vec<usize> = (0..variants.len()).collect();
            Rng::from_seed(self.seed.wrapping_add(round)).shuffle(&mut order);
            for (done, number) in order.into_iter().enumerate() {
                let variant = variants[number];
                let measured = runs.measure(variant, round, &mut workspace)?;
                workspace.progress.note(&format!(
                    "{}, semantic locks {}: {} transactions/s, opened in {} ms after a crash",
                    variant.method.name(),
                    variant.locks(),
                    figure(measured.tps),
                    figure(measured.recovery_ms)
                ));
                figures[number].push(measured);
                workspace.progress.set(round * variants.len() as u64 + done as u64 + 1, total);
            }
        }
        notes.extend(self.notes(&runs));
        Ok(report::of(self, variants.into_iter().zip(figures).collect(), notes, &workspace))
    }

    /// Refuses a script that sets what is compared, or what all variants must have alike.
    fn check_settings(&self) -> Result<()> {
        for statement in self.script.statements() {
            let words = statement.words(4);
            let names = ["synchronous_commit", "semantic_locks"];
            let set = names.iter().find(|name| words.iter().any(|word| word == *name));
            if let (Some("set" | "reset"), Some(name)) = (words.first().map(String::as_str), set) {
                return Err(StoreError::unexpected(format!(
                    "{}: {name} is not to be set there: all variants have the same durability, and --semantic-locks says \
                     which locks they have",
                    self.script.name
                )));
            }
        }
        if self.makes_pgbench() && self.script.defined().any(|(name, _)| name == "scale") {
            return Err(StoreError::unexpected(
                "-D scale is not to be set where pgbench's tables are made: --scale says how large they are",
            ));
        }
        Ok(())
    }

    fn makes_pgbench(&self) -> bool {
        self.init.is_none() && pgbench::is_used_by(&self.script)
    }

    /// Returns the variants that are compared, and a reason for each that is left out.
    fn variants(&self) -> (Vec<Variant>, Vec<String>) {
        let (mut methods, mut left_out) = (self.methods.clone().unwrap_or_else(all_methods), Vec::new());
        let first_words: Vec<_> = self.script.statements().flat_map(|statement| statement.words(1)).collect();
        let has = |word: &str| first_words.iter().any(|first| first == word);
        let calls = has("call") && self.isolation == Isolation::Serializable;
        if self.methods.is_none() && !calls {
            methods.retain(|method| ![COMMAND_LOG, ADAPTIVE_LOG].map(Method::Of).contains(method));
            left_out.push(format!(
                "left out: {} and {}, which log these transactions as value-log does: they differ in CALLs that are \
                 serializable transactions by themselves (--isolation serializable)",
                COMMAND_LOG.name(),
                ADAPTIVE_LOG.name()
            ));
        }
        let locks = match &self.semantic_locks {
            Some(locks) => locks.clone(),
            None if ["update", "insert", "with", "call"].iter().any(|word| has(word)) => vec![true, false],
            None => {
                left_out.push(
                    "left out: semantic locks off, since no statement of the script could share a row's lock"
                        .into(),
                );
                vec![true]
            }
        };
        let variant = |method| locks.iter().map(move |&semantic_locks| Variant { method, semantic_locks });
        let mut variants: Vec<Variant> = Vec::new();
        for variant in methods.into_iter().flat_map(variant) {
            if !variants.contains(&variant) {
                variants.push(variant);
            }
        }
        (variants, left_out)
    }

    /// Returns remarks without which the figures may be misread.
    fn notes(&self, runs: &Runs<'_>) -> Vec<String> {
        let mut notes = vec![
            format!(
                "clients are threads with a session each in this process, on {} processors that they share with the \
                 database: there is no wire and no server between",
                processors()
            ),
            "every commit is durable when it is acknowledged, but with none, where a crash takes what was committed \
             since the database was opened"
                .into(),
            "a crash stops the disk when the last transactions have ended, so there is nothing to be undone; files were \
             written a moment before, so they are read from the system's cache"
                .into(),
            "a transaction is one run of the script; one that fails with SQLSTATE 40001 or 40P01 is run again, and its \
             latency is that of all its tries"
                .into(),
        ];
        if self.script.statements().any(|statement| {
            statement.words(1).first().is_some_and(|word| ["rollback", "abort"].contains(&word.as_str()))
        }) {
            notes.push("transactions that the script rolls back count as those that it commits".into());
        }
        if self.rounds < report::ROUNDS_SOME as u64 {
            notes.push(
                "with fewer than three rounds, what differs by a third may be chance: --rounds 3 tells more"
                    .into(),
            );
        }
        if runs.changed == Some(false) {
            notes.push(
                "no transaction changed anything: if the script is to, its statements found no rows, or rolled back"
                    .into(),
            );
        }
        notes.push(match &runs.checked {
            Some(sums) => format!("after each recovery the sums agreed, at last {sums}"),
            None => {
                "after each recovery no commit was missing; what the script keeps true is not known".into()
            }
        });
        notes
    }
}

/// Runs something in sessions, whose statements end when the measurement is canceled.
fn until_canceled<T>(
    workspace: &Workspace,
    interrupts: Vec<Arc<Interrupt>>,
    run: impl FnOnce() -> Result<T>,
) -> Result<T> {
    /// Says that it is over, also by a panic.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let over = AtomicBool::new(false);
    let ran = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                if workspace.cancel.load(Ordering::Acquire) {
                    // Again and again: the next statement takes it back.
                    interrupts.iter().for_each(|interrupt| interrupt.raise(InterruptReason::Cancel));
                }
                thread::sleep(STEP);
            }
        });
        let _over = Over(&over);
        run()
    });
    workspace.check_canceled()?;
    ran
}

/// The state that the runs of a comparison share.
struct Runs<'a> {
    comparison: &'a Comparison,
    /// The databases that variants begin with, by method.
    made: Vec<(Recovery, PathBuf)>,
    /// The sums that are checked after recovery.
    sums: Option<Sums>,
    /// The result of the last check.
    checked: Option<String>,
    /// True if a transaction has changed something, as far as a durable variant tells.
    changed: Option<bool>,
}

impl Runs<'_> {
    fn options(&self, method: Method) -> Options {
        Options {
            recovery: Some(method.recovery()),
            commits: method.commits(),
            pool_bytes: self.comparison.pool_mib << 20,
            procedures: session::procedures(),
            ..Options::default()
        }
    }

    /// The database that variants of a method begin with, closed.
    fn made(&mut self, method: Method, workspace: &mut Workspace) -> Result<PathBuf> {
        let recovery = method.recovery();
        if let Some((_, path)) = self.made.iter().find(|(made, _)| *made == recovery) {
            return Ok(path.clone());
        }
        let path = workspace.new_path();
        let engine = Database::open(&path, self.options(Method::Of(recovery)))?;
        let database = SqlDatabase::open(engine).map_err(of_sql)?;
        let options = SessionOptions { is_owner: true, ..SessionOptions::default() };
        let mut session = database.session(options).map_err(of_sql)?;
        let comparison = self.comparison;
        let interrupts = vec![session.interrupt()];
        until_canceled(workspace, interrupts, || {
            match &comparison.init {
                Some((name, sql)) => plain::run(&mut session, name, sql),
                None if comparison.makes_pgbench() => pgbench::make(&mut session, comparison.scale),
                None => Ok(()),
            }
            .map_err(StoreError::unexpected)
        })?;
        drop(session);
        database.close()?;
        self.made.push((recovery, path.clone()));
        Ok(path)
    }

    fn measure(&mut self, variant: Variant, round: u64, workspace: &mut Workspace) -> Result<Figures> {
        workspace.check_canceled()?;
        let made = self.made(variant.method, workspace)?;
        let path = workspace.copy(&made)?;
        let options = self.options(variant.method);
        let stop = Stop::default();
        let disk = CrashDisk::new(FileDisk::open(&path, false)?, stop.clone());
        let engine = Database::open_on(Arc::new(disk), options.clone())?;
        let database = SqlDatabase::open(engine.clone()).map_err(of_sql)?;
        let (before, durable_before) = (engine.stats().activity, engine.durable_csn());
        let measured = self.drive(&database, variant, round, workspace)?;
        let after = engine.stats();
        let done = after.activity.since(&before);
        let durable = engine.durable_csn();
        if variant.is_durable() {
            self.changed = Some(self.changed == Some(true) || durable > durable_before);
        }
        stop.stop();
        drop(database);
        // It cannot be closed any more.
        let _ = engine.close();
        drop(engine);
        let clock = SystemClock::new();
        let engine = Database::open(&path, options)?;
        let database = SqlDatabase::open(engine.clone()).map_err(of_sql)?;
        let recovery_ms = clock.now().as_secs_f64() * 1e3;
        self.check(variant, &database, durable, measured.committed_in_all)?;
        database.close()?;
        drop((database, engine));
        workspace.remove(&path)?;
        let latency_ms = |us: u64| us as f64 / 1e3;
        let latency = Latency::of(&measured.latency_us);
        let per_transaction = |bytes: u64| bytes as f64 / measured.committed_in_all as f64;
        Ok(Figures {
            committed: measured.committed,
            tps: measured.committed as f64 / measured.seconds,
            latency_ms_p50: latency_ms(latency.p50),
            latency_ms_p90: latency_ms(latency.p90),
            latency_ms_p99: latency_ms(latency.p99),
            latency_ms_max: latency_ms(latency.max),
            retries_per_transaction: measured.aborted as f64 / measured.committed as f64,
            log_bytes_per_transaction: variant.has_log().then(|| per_transaction(done.log_bytes_written)),
            page_bytes_per_transaction: per_transaction(done.bytes_written),
            log_mib: variant.has_log().then(|| after.log_bytes as f64 / MIB),
            recovery_ms,
        })
    }

    /// Runs the clients.
    fn drive(
        &self,
        database: &SqlDatabase,
        variant: Variant,
        round: u64,
        workspace: &Workspace,
    ) -> Result<Measured> {
        let Comparison { script, clients, scale, seed, .. } = self.comparison;
        let session = |client: usize| -> Result<Session> {
            let settings = [
                ("default_transaction_isolation", self.comparison.isolation.sql().to_ascii_lowercase()),
                ("gnomon.semantic_locks", variant.locks().to_owned()),
            ];
            let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
            let options =
                SessionOptions { settings, process_id: client as i32 + 1, ..SessionOptions::default() };
            database.session(options).map_err(of_sql)
        };
        let sessions = (0..*clients).map(session).collect::<Result<Vec<_>>>()?;
        let interrupts = sessions.iter().map(Session::interrupt).collect();
        let mut sessions = sessions.into_iter();
        let load = Load {
            clients: *clients,
            warm_up: Duration::from_secs_f64(self.comparison.warm_up_seconds),
            measured: Duration::from_secs_f64(self.comparison.measured_seconds),
            seed: seed.wrapping_add(round),
            cancel: workspace.cancel.clone(),
        };
        let client = |client| {
            let session = sessions.next().expect("there is one for each client");
            ScriptClient::new(script, session, script.variables(client, *seed, *scale))
        };
        let mut kinds = until_canceled(workspace, interrupts, || drive_kinds(1, &load, client))?;
        match kinds.pop() {
            Some(measured) if measured.committed > 0 => Ok(measured),
            _ => Err(StoreError::unexpected(format!(
                "{} s are too short with {}: no transaction was committed in that time",
                self.comparison.measured_seconds,
                variant.method.name()
            ))),
        }
    }

    /// Fails if something is missing after recovery. With none, the rest must still be whole transactions.
    fn check(
        &mut self,
        variant: Variant,
        database: &SqlDatabase,
        durable: Csn,
        committed: u64,
    ) -> Result<()> {
        let method = variant.method.name();
        let recovered = database.engine().durable_csn();
        if variant.is_durable() && recovered < durable {
            return Err(StoreError::unexpected(format!(
                "{method} has lost commits in a crash: there were {}, and {} are there",
                durable.0, recovered.0
            )));
        }
        if let Some(sums) = &self.sums {
            let mut session = database.session(SessionOptions::default()).map_err(of_sql)?;
            let checked = sums.check(&mut session, variant.is_durable().then_some(committed));
            let checked = checked.map_err(|error| StoreError::unexpected(format!("{method}: {error}")))?;
            if variant.is_durable() {
                self.checked = Some(checked);
            }
        }
        Ok(())
    }
}

fn of_sql(error: gnomon_sql::SqlError) -> StoreError {
    StoreError::Failed(error.into())
}

#[cfg(test)]
mod tests;
