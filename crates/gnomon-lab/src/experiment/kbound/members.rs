//! The paper's job on real members and an etcd of this machine.
//!
//! Transactions come at random moments, each at the next member, and do what their jobs say: to execute a step takes the
//! time that is set, to order and to apply a commit what it takes. All times are a scale shorter than those that are set,
//! and what is found is told as if they were not.

use std::{collections::BTreeMap, time::Duration};

use gnomon_bench::{store::Result, workspace::Workspace};
use gnomon_cluster::{
    node::{Common, Node, Options, create},
    order::{EtcdLog, EtcdOptions, LocalEtcd},
    protocol::{Level, Table},
    simulation::{Job, Jobs, Step},
};
use gnomon_engine::{
    Call, Conflict, Database, Error, Isolation, Procedure, RowLock, Transaction, TreeId, TxnOptions,
    env::{Clock, Rng, SystemClock},
    op::number,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        thread,
    },
};

use super::bench::{Found, Load, Point, failed, start_etcd};

/// Transactions at a time, at most.
const WORKERS: usize = 64;
/// The procedure that does a job without its waits.
const JOB: &str = "job";

/// Runs loads, each so many times with what is varied.
///
/// # Errors
/// That etcd is not installed, what stops a member, and that it was canceled.
pub fn measure(
    workspace: &mut Workspace,
    loads: &[(f64, Load)],
    runs: usize,
    scale: f64,
) -> Result<Vec<Point>> {
    let total = (loads.iter().map(|(_, load)| load.transactions).sum::<usize>() * runs) as u64;
    let mut done = 0;
    let mut found = vec![Vec::new(); loads.len()];
    // Each load once before any of them again: what a machine does meanwhile is shared by all that are compared.
    for run in 0..runs {
        for ((_, load), found) in loads.iter().zip(&mut found) {
            let etcd = start_etcd(&workspace.new_path(), 1)?;
            let cluster = Cluster::start(workspace, &etcd, load)?;
            let seed = workspace.seed.wrapping_add(run as u64);
            found.push(cluster.measure(workspace, load, seed, scale, (done, total))?);
            done += load.transactions as u64;
        }
    }
    let points = loads.iter().zip(&found);
    Ok(points
        .map(|((at, load), found)| Point { how: load.how, at: *at, found: Found::means(found) })
        .collect())
}

/// Members with the same data.
struct Cluster {
    databases: Vec<Database>,
    nodes: Vec<Node>,
    tables: BTreeMap<Table, TreeId>,
}

/// How a transaction ended, and how long it took.
struct Ended {
    level: Level,
    took: Duration,
    has_committed: bool,
}

impl Cluster {
    fn start(workspace: &mut Workspace, etcd: &LocalEtcd, load: &Load) -> Result<Cluster> {
        let common = Common { data: 1, settings: load.how.settings() };
        let mut cluster = Cluster { databases: Vec::new(), nodes: Vec::new(), tables: BTreeMap::new() };
        for member in 0..load.replicas {
            let options =
                gnomon_engine::Options { procedures: vec![job()], ..gnomon_engine::Options::default() };
            let database = Database::open(workspace.new_path(), options)?;
            let marks = create(&database, &common)?;
            let mut txn = database.begin(TxnOptions::default())?;
            // Rows that jobs read and write, and numbers that they add to.
            for table in (0..4).chain(1000..1004) {
                let tree = txn.create_tree()?;
                cluster.tables.insert(table, tree);
                for row in 0..load.rows.div_ceil(4) + 1 {
                    txn.put(tree, &row.to_be_bytes(), &0_i64.to_le_bytes())?;
                }
            }
            txn.commit()?;
            let log = EtcdLog::open(&EtcdOptions::new(etcd.endpoints(0))).map_err(failed)?;
            let log = Arc::new(log);
            let options = Options::new(format!("member {member}"), marks);
            let node = Node::start(Arc::new(database.clone()), log, options).map_err(failed)?;
            cluster.databases.push(database);
            cluster.nodes.push(node);
        }
        Ok(cluster)
    }

    /// Starts transactions at random moments, each at a member.
    fn measure(
        &self,
        workspace: &mut Workspace,
        load: &Load,
        seed: u64,
        scale: f64,
        (before, total): (u64, u64),
    ) -> Result<Vec<Found>> {
        let mut rng = Rng::from_seed(seed);
        let mut jobs = load.jobs();
        let mut at = Duration::ZERO;
        let arrivals: Vec<(Duration, Job)> = (0..load.transactions)
            .map(|_| {
                at += Duration::from_secs_f64(-(1.0 - rng.unit()).ln() / load.tps / scale);
                (at, jobs.next(&mut rng))
            })
            .collect();
        let (clock, next) = (SystemClock::new(), AtomicUsize::new(0));
        let ended: Mutex<Vec<(usize, Ended)>> = Mutex::new(Vec::new());
        let work = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some((at, job)) = arrivals.get(number) else { return Ok(()) };
                thread::sleep(at.saturating_sub(clock.now()));
                let begun = clock.now();
                let has_committed = match self.run(number, job, load, scale) {
                    Ok(()) => true,
                    Err(Error::Serialization(_) | Error::Deadlock) => false,
                    Err(error) => {
                        next.store(arrivals.len(), Ordering::Relaxed);
                        return Err(error.into());
                    }
                };
                let took = clock.now() - begun;
                ended.lock().push((number, Ended { level: job.level, took, has_committed }));
            }
        };
        thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                workspace.progress.set(before + ended.lock().len() as u64, total);
                if workspace.check_canceled().is_err() {
                    next.store(arrivals.len(), Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(50));
            }
            workers.into_iter().try_for_each(|worker| worker.join().expect("workers do not panic"))
        })?;
        workspace.check_canceled()?;
        for node in &self.nodes {
            node.catch_up().map_err(failed)?;
        }
        let counted = ended.into_inner();
        let counted: Vec<&Ended> = counted
            .iter()
            .filter(|(number, _)| *number >= load.transactions / 20)
            .map(|(_, ended)| ended)
            .collect();
        Ok(load.levels.iter().map(|level| self.found(*level, &counted, scale)).collect())
    }

    fn found(&self, level: Level, ended: &[&Ended], scale: f64) -> Found {
        let of_level = || ended.iter().filter(|ended| ended.level == level);
        let transactions = of_level().count() as f64;
        let mean_ms = |has_committed: bool| {
            let took: Vec<f64> = of_level()
                .filter(|ended| ended.has_committed == has_committed)
                .map(|ended| ended.took.as_secs_f64() * 1000.0 * scale)
                .collect();
            took.iter().sum::<f64>() / took.len() as f64
        };
        // Of all, the first ones too.
        let (mut all, mut stale) = (0, 0);
        for node in &self.nodes {
            for ((of, reason), count) in node.status().ended {
                if of == level {
                    all += count;
                    stale += if reason == Some(Conflict::Stale.into()) { count } else { 0 };
                }
            }
        }
        Found {
            level,
            transactions,
            complete_ms: mean_ms(true),
            abort_ms: mean_ms(false),
            aborts: of_level().filter(|ended| !ended.has_committed).count() as f64 / transactions,
            stale: stale as f64 / all as f64,
        }
    }

    /// Runs a job at a member.
    fn run(&self, number: usize, job: &Job, load: &Load, scale: f64) -> gnomon_engine::Result<()> {
        let database = &self.databases[number % self.databases.len()];
        if job.is_call {
            return database.call(JOB, &self.params(job)).map(drop);
        }
        let (isolation, missed_max) = match job.level {
            Level::ReadCommitted => (Isolation::ReadCommitted, None),
            Level::Snapshot => (Isolation::Snapshot, None),
            Level::KBound(k) => (Isolation::Snapshot, Some(k)),
            Level::Serializable => (Isolation::Serializable, None),
        };
        let options = TxnOptions { isolation, missed_max, ..TxnOptions::default() };
        let mut txn = database.begin(options)?;
        let pause = |us: u64| thread::sleep(Duration::from_secs_f64(us as f64 / 1e6 / scale));
        for step in &job.steps {
            if let Step::Wait(us) = step {
                pause(*us);
                continue;
            }
            pause(load.times.step_us);
            txn.start_statement()?;
            self.execute(&mut txn, job.level, step)?;
            txn.end_statement()?;
        }
        txn.commit().map(drop)
    }

    fn execute(&self, txn: &mut Transaction, level: Level, step: &Step) -> gnomon_engine::Result<()> {
        let tree = |table: &Table| self.tables[table];
        match step {
            Step::Read(table, key) => drop(txn.get(tree(table), key)?),
            Step::Append(table, key, _) => {
                let value = match level {
                    Level::ReadCommitted => txn.get_locked(tree(table), key, RowLock::Update)?,
                    _ => txn.get(tree(table), key)?,
                };
                let bytes = value.and_then(|value| value.try_into().ok()).unwrap_or_default();
                txn.put(tree(table), key, &(i64::from_le_bytes(bytes) + 1).to_le_bytes())?;
            }
            Step::Add { table, key, delta, .. } => {
                txn.apply(tree(table), key, &number::add(i128::from(*delta)))?;
            }
            Step::Scan(..) | Step::Wait(_) => {}
        }
        Ok(())
    }

    /// A job as [`JOB`] has it: of each step whether it writes (1 byte), its tree and its key (8 bytes each).
    fn params(&self, job: &Job) -> Vec<u8> {
        let step = |step: &Step| match step {
            Step::Read(table, key) | Step::Append(table, key, _) => {
                let writes = u8::from(matches!(step, Step::Append(..)));
                [&[writes][..], &self.tables[table].0.to_le_bytes(), key].concat()
            }
            Step::Add { .. } | Step::Scan(..) | Step::Wait(_) => Vec::new(),
        };
        job.steps.iter().flat_map(step).collect()
    }
}

/// Reads rows and counts up others, as its parameters say.
fn job() -> Procedure {
    let run = |call: &mut Call<'_>, params: &[u8]| {
        for step in params.chunks_exact(17) {
            let tree = TreeId(u64::from_le_bytes(step[1..9].try_into().expect("eight bytes")));
            let value = call.get(tree, &step[9..])?;
            if step[0] == 1 {
                let count = value.and_then(|value| value.try_into().ok()).map_or(0, i64::from_le_bytes);
                call.put(tree, &step[9..], &(count + 1).to_le_bytes())?;
            }
        }
        Ok(Vec::new())
    };
    Procedure::new(JOB, "1", run)
}
