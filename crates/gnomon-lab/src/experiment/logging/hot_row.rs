//! `logging/hot-row`: TPC-B with one branch by each recovery method, beside the disk and a log without a database.
//!
//! Every transaction changes the same row. With locks by meaning nobody waits for it, so that what is left is how commits
//! become durable: by one client that waits, by many, and through tickets, with many transactions of a client under way.

use std::time::Duration;

use gnomon_bench::{
    drive::{Load, Measured},
    recovery::{Recovery, TWO_LEVEL_DEFERRED, VALUE_LOG},
    report::{Latency, Report},
    result::{Claim, Outcome, ResultTable, text::figure},
    store::{Result, StoreError},
    workload::{self, Place, Settings, tpcb::Tpcb},
    workspace::Workspace,
};
use gnomon_program::Progress;
use serde::Serialize;

use super::{
    bare,
    bench::{ROUNDS, median},
};
use crate::experiment::{Experiment, Setting, Values, verdict};

const STATED: [&str; 4] = [
    "(this project) value log, one client: the median latency is within 1.2 times that of a write and sync of 4 KiB",
    "(this project) value log, 32 clients: at least 50,000 transactions a second",
    "(this project) value log, 32 clients: three quarters of what a log without a database takes",
    "(this project) value log, 1000 transactions under way through tickets: at least 150,000 a second",
];
const CLIENTS: Setting = Setting {
    name: "clients",
    help: "that wait for each commit, and as many of the bare log",
    full: "32",
    quick: "4",
};
const OUTSTANDING: Setting = Setting {
    name: "outstanding",
    help: "transactions that are not durable yet, through tickets",
    full: "1000",
    quick: "20",
};
const TICKET_CLIENTS: Setting =
    Setting { name: "ticket-clients", help: "that share these", full: "2", quick: "2" };
const TICKET_INTERVAL: Setting = Setting {
    name: "ticket-group-commit-ms",
    help: "how long these wait for others before they are forced together",
    full: "1",
    quick: "1",
};
const RECORD: Setting =
    Setting { name: "record-bytes", help: "a record of the bare log, in bytes", full: "128", quick: "128" };
const ACCOUNTS: Setting = Setting { name: "accounts", help: "of the branch", full: "100000", quick: "100" };
const SECONDS: Setting = Setting { name: "seconds", help: "measured of each load", full: "5", quick: "0.1" };
const WARM_UP: Setting = Setting { name: "warm-up", help: "seconds before that", full: "1", quick: "0.01" };
const POOL: Setting = Setting { name: "pool-mib", help: "the buffer pool, in MiB", full: "512", quick: "16" };
const METHODS: [Recovery; 3] = [VALUE_LOG, Recovery::Shadow, TWO_LEVEL_DEFERRED];

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "logging/hot-row",
    source: "TPC-B with one branch; group commit and tickets of this project",
    measures: "durable transactions on one hot row by recovery method, beside the disk and a bare log",
    stated: &STATED,
    settings: &[&[
        CLIENTS,
        OUTSTANDING,
        TICKET_CLIENTS,
        TICKET_INTERVAL,
        RECORD,
        ACCOUNTS,
        SECONDS,
        WARM_UP,
        POOL,
        ROUNDS,
    ]],
    terms: &[
        "write and sync: one thread that writes 4 KiB to a file and syncs it, again and again",
        "bare log: threads that append a record to a log and wait until it is durable; one of them writes for all",
        "tickets: few clients, which go on before their transactions are durable; in batches: these wait for others \
         for a moment before they are forced together",
        "tps: transactions (records, writes) a second; p50, p99: until they are durable",
    ],
    run,
};

/// What was measured of one load in one round.
#[derive(Clone, Debug, Serialize)]
struct Point {
    tps: f64,
    latency_us: Latency,
}

impl From<&Report> for Point {
    fn from(report: &Report) -> Point {
        Point { tps: report.tps, latency_us: report.latency_us }
    }
}

impl From<&Measured> for Point {
    fn from(measured: &Measured) -> Point {
        let tps = measured.committed as f64 / measured.seconds;
        Point { tps, latency_us: Latency::of(&measured.latency_us) }
    }
}

/// A recovery method in one round.
#[derive(Clone, Debug, Serialize)]
struct OfMethod {
    recovery: &'static str,
    one: Point,
    many: Point,
    tickets: Point,
    in_batches: Point,
}

/// All loads, one after another.
#[derive(Clone, Debug, Serialize)]
struct Round {
    write_and_sync: Point,
    bare_log: Point,
    methods: Vec<OfMethod>,
}

impl Round {
    fn value_log(&self) -> Option<&OfMethod> {
        self.methods.iter().find(|method| method.recovery == VALUE_LOG.name())
    }
}

/// How loads are run.
struct Runs<'a> {
    workspace: &'a mut Workspace,
    bank: Tpcb,
    warm_up: f64,
    measured: f64,
    pool_mib: usize,
    seed: u64,
    done: u64,
    total: u64,
}

impl Runs<'_> {
    fn bare(&mut self, clients: usize, record_bytes: usize) -> Result<Point> {
        self.workspace.check_canceled()?;
        let directory = self.workspace.new_path();
        let load = Load {
            clients,
            warm_up: Duration::from_secs_f64(self.warm_up),
            measured: Duration::from_secs_f64(self.measured),
            seed: self.seed,
            cancel: self.workspace.cancel.clone(),
        };
        let measured = bare::measure(&directory, record_bytes, &load)?;
        self.end(&directory)?;
        Ok((&measured).into())
    }

    fn bank(
        &mut self,
        recovery: Recovery,
        clients: usize,
        outstanding: usize,
        group_commit_ms: f64,
    ) -> Result<Point> {
        self.workspace.check_canceled()?;
        let directory = self.workspace.new_path();
        let place = Place::Process {
            recovery,
            outstanding,
            group_commit_ms,
            pool_mib: self.pool_mib,
            dir: Some(directory.clone()),
        };
        let settings = Settings {
            clients,
            warm_up_seconds: self.warm_up,
            measured_seconds: self.measured,
            semantic_locks: true,
            place,
        };
        let cancel = self.workspace.cancel.clone();
        let report = workload::bench(&self.bank, &settings, self.seed, &mut Progress::silent(), &cancel)?;
        if !report.invariant.holds {
            return Err(StoreError::unexpected(format!("tpcb: {}", report.invariant.detail)));
        }
        self.end(&directory)?;
        Ok((&report).into())
    }

    fn end(&mut self, directory: &std::path::Path) -> Result<()> {
        self.workspace.remove(directory)?;
        self.done += 1;
        self.workspace.progress.set(self.done, self.total);
        Ok(())
    }
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let clients = settings.number(CLIENTS.name, 1, 4096)?;
    let outstanding = settings.number(OUTSTANDING.name, 2, 1_000_000)?;
    let ticket_clients: usize = settings.number(TICKET_CLIENTS.name, 1, outstanding)?;
    let of_each = outstanding.div_ceil(ticket_clients);
    let interval = settings.number(TICKET_INTERVAL.name, 0.0, 1_000.0)?;
    let record_bytes = settings.number(RECORD.name, 1, 1 << 20)?;
    let rounds: u64 = settings.number(ROUNDS.name, 1, 100)?;
    let seed = workspace.seed;
    let mut runs = Runs {
        bank: Tpcb::new(1, settings.number(ACCOUNTS.name, 1, 100_000_000)?),
        warm_up: settings.number(WARM_UP.name, 0.0, 86_400.0)?,
        measured: settings.number(SECONDS.name, 0.01, 86_400.0)?,
        pool_mib: settings.number(POOL.name, 1, 1 << 20)?,
        seed,
        done: 0,
        total: rounds * (2 + 4 * METHODS.len() as u64),
        workspace,
    };
    let mut all = Vec::new();
    for round in 0..rounds {
        runs.seed = seed.wrapping_add(round);
        let (write_and_sync, bare_log) = (runs.bare(1, 4096)?, runs.bare(clients, record_bytes)?);
        // Each round begins with another one, so that none is always the first after the bare log.
        let methods = (0..METHODS.len()).map(|at| METHODS[(at + round as usize) % METHODS.len()]);
        let mut methods = methods
            .map(|recovery| {
                let one = runs.bank(recovery, 1, 1, 0.0)?;
                let many = runs.bank(recovery, clients, 1, 0.0)?;
                let tickets = runs.bank(recovery, ticket_clients, of_each, 0.0)?;
                let in_batches = runs.bank(recovery, ticket_clients, of_each, interval)?;
                Ok(OfMethod { recovery: recovery.name(), one, many, tickets, in_batches })
            })
            .collect::<Result<Vec<_>>>()?;
        methods.sort_by_key(|method| METHODS.iter().position(|known| known.name() == method.recovery));
        all.push(Round { write_and_sync, bare_log, methods });
    }
    Ok(Outcome {
        claims: claims(&all),
        differences: vec![
            "clients are threads of the process, on the processors that the database uses as well".into(),
            "one ratio is of the loads of one round; the median over the rounds counts".into(),
            "through tickets, the faster one of both loads counts".into(),
        ],
        tables: vec![table(&all)],
        figures: Vec::new(),
        data: serde_json::json!({ "rounds": all }),
    })
}

/// The median over the rounds.
fn over(rounds: &[Round], of: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
    let figures: Vec<f64> = rounds.iter().filter_map(of).filter(|figure| figure.is_finite()).collect();
    (!figures.is_empty()).then(|| median(figures))
}

fn claims(rounds: &[Round]) -> Vec<Claim> {
    let latency = over(rounds, |round| {
        Some(round.value_log()?.one.latency_us.p50 as f64 / round.write_and_sync.latency_us.p50 as f64)
    });
    let many = over(rounds, |round| Some(round.value_log()?.many.tps));
    let share = over(rounds, |round| Some(round.value_log()?.many.tps / round.bare_log.tps));
    let tickets = over(rounds, |round| {
        let of = round.value_log()?;
        Some(of.tickets.tps.max(of.in_batches.tps))
    });
    let claim = |figure_of, stated, measured: Option<f64>, unit: &str, holds: fn(f64) -> bool| Claim {
        figure: figure_of,
        stated,
        measured: measured.map_or_else(String::new, |measured| format!("{} {unit}", figure(measured))),
        verdict: verdict(true, measured.map(holds)),
    };
    vec![
        claim("one client", STATED[0], latency, "times", |times| times <= 1.2),
        claim("many clients", STATED[1], many, "tps", |tps| tps >= 50_000.0),
        claim("many clients, share", STATED[2], share, "of the bare log", |share| share >= 0.75),
        claim("tickets", STATED[3], tickets, "tps", |tps| tps >= 150_000.0),
    ]
}

fn table(rounds: &[Round]) -> ResultTable {
    let row = |name: &str, load: &str, of: &dyn Fn(&Round) -> Option<Point>| {
        let over = |part: fn(&Point) -> f64| {
            figure(over(rounds, |round| of(round).map(|point| part(&point))).unwrap_or(f64::NAN))
        };
        vec![
            name.to_owned(),
            load.to_owned(),
            over(|point| point.tps),
            over(|point| point.latency_us.p50 as f64),
            over(|point| point.latency_us.p99 as f64),
        ]
    };
    let mut rows = vec![
        row("write and sync", "one thread", &|round| Some(round.write_and_sync.clone())),
        row("bare log", "clients", &|round| Some(round.bare_log.clone())),
    ];
    for recovery in METHODS.map(|recovery| recovery.name()) {
        let of = |round: &Round| round.methods.iter().find(|method| method.recovery == recovery).cloned();
        rows.push(row(recovery, "one client", &|round| Some(of(round)?.one)));
        rows.push(row(recovery, "clients", &|round| Some(of(round)?.many)));
        rows.push(row(recovery, "tickets", &|round| Some(of(round)?.tickets)));
        rows.push(row(recovery, "in batches", &|round| Some(of(round)?.in_batches)));
    }
    ResultTable {
        title: "Durable transactions on one hot row".into(),
        headings: vec!["what", "load", "tps", "p50 us", "p99 us"],
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::bench::tests::quick, *};
    use gnomon_bench::result::Verdict::{DoesNotHold, Holds, NotComparable};

    #[test]
    fn a_quick_run_has_every_load() {
        let report = quick(&EXPERIMENT);
        let round = &report.data["rounds"][0];
        let tps = |point: &serde_json::Value| point["tps"].as_f64().unwrap();
        assert!(tps(&round["write_and_sync"]) > 0.0 && tps(&round["bare_log"]) > 0.0);
        let methods = round["methods"].as_array().unwrap();
        assert_eq!(methods.len(), METHODS.len());
        for method in methods {
            assert!(
                ["one", "many", "tickets", "in_batches"].iter().all(|load| tps(&method[load]) > 0.0),
                "{method}"
            );
        }
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let point =
            |tps, p50| Point { tps, latency_us: Latency { p50, p90: p50, p99: p50, p999: p50, max: p50 } };
        let round = |one_us, many, tickets| Round {
            write_and_sync: point(8_000.0, 100),
            bare_log: point(66_000.0, 400),
            methods: vec![OfMethod {
                recovery: VALUE_LOG.name(),
                one: point(5_000.0, one_us),
                many: point(many, 500),
                tickets: point(tickets - 10_000.0, 900),
                in_batches: point(tickets, 2000),
            }],
        };
        let verdicts =
            |rounds: &[Round]| claims(rounds).iter().map(|claim| claim.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(&[round(119, 50_001.0, 150_001.0)]), [Holds; 4]);
        assert_eq!(verdicts(&[round(121, 49_000.0, 149_000.0)]), [DoesNotHold; 4]);
        assert_eq!(verdicts(&[]), [NotComparable; 4]);
    }
}
