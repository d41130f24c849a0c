//! `operations/patterns`: transactions that applications write about hot rows, with locks by meaning beside row locks.
//!
//! No pattern is to be slower with locks by meaning than without: what they cannot share, they must not make worse. Both
//! kinds of locks take turns within a round, each on a database of its own in this process, and the round of the median
//! ratio counts: what else the machine does for some seconds weighs on both figures of a round alike. Each transaction
//! that fails with 40001 or 40P01 is run again and counted. At the end of a run the sum of what the committed
//! transactions added must be what is there.

use std::{collections::BTreeMap, time::Duration};

use gnomon_bench::{
    result::{Claim, Outcome, ResultTable, Verdict},
    store::{Result, StoreError},
    workspace::Workspace,
};
use gnomon_engine::{
    Database, Options,
    env::{Clock, Rng, SystemClock},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        thread,
    },
};
use gnomon_sql::{
    SqlError,
    session::{Rows, Session, SessionOptions, SqlDatabase},
};
use serde::Serialize;

use crate::experiment::{Experiment, Setting, Values};

const STATED: &str = "(this project) no pattern commits less than 0.9 of what it does with row locks";
const RATIO_MIN: f64 = 0.9;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "operations/patterns",
    source: "transactions about hot rows as applications write them",
    measures: "committed transactions and errors of each pattern, locks by meaning beside row locks",
    stated: &[STATED],
    settings: &[&[
        Setting { name: "clients", help: "numbers of clients", full: "16", quick: "4" },
        Setting {
            name: "patterns",
            help: "those whose names contain this; all is all",
            full: "all",
            quick: "all",
        },
        Setting {
            name: "runs",
            help: "of each point, of which that of the median ratio counts",
            full: "5",
            quick: "1",
        },
        Setting { name: "seconds", help: "measured in each run", full: "1", quick: "0.05" },
        Setting { name: "warm-up", help: "seconds before that", full: "0.2", quick: "0" },
    ]],
    terms: &[
        "ratio: committed transactions a second with locks by meaning, over those with row locks",
        "40001, 40P01: transactions that failed so and were run again, for each that was committed",
    ],
    run,
};

/// A statement, and what each row that it changes adds to the sum over `c.n`. `$row` is one of the two hot rows, `$other`
/// the other one.
type Statement = (&'static str, i64);

/// A transaction that clients run again and again.
struct Pattern {
    name: &'static str,
    isolation: &'static str,
    statements: &'static [Statement],
    /// The hot row's number at the beginning.
    begins_with: i64,
}

const ADD: Statement = ("UPDATE c SET n = n + 1 WHERE k = 1", 1);
const ADD_ROW: Statement = ("UPDATE c SET n = n + 1 WHERE k = $row", 1);
const ADD_OTHER: Statement = ("UPDATE c SET n = n + 1 WHERE k = $other", 1);
const TAKE: Statement = ("UPDATE c SET n = n - 4 WHERE k = 1 AND n >= 4", -4);
const REFILL: Statement = ("UPDATE c SET n = n + 8 WHERE k = 1", 8);
const READ: Statement = ("SELECT n FROM c WHERE k = 1", 0);

const READ_COMMITTED: &str = "read committed";
const REPEATABLE_READ: &str = "repeatable read";
const SERIALIZABLE: &str = "serializable";
const PLENTY: i64 = 1 << 40;

const fn pattern(name: &'static str, isolation: &'static str, statements: &'static [Statement]) -> Pattern {
    Pattern { name, isolation, statements, begins_with: PLENTY }
}

const PATTERNS: &[Pattern] = &[
    pattern("increment", READ_COMMITTED, &[ADD]),
    pattern("increment", REPEATABLE_READ, &[ADD]),
    pattern("increment", SERIALIZABLE, &[ADD]),
    pattern("increment, read", READ_COMMITTED, &[ADD, READ]),
    pattern("increment, read", REPEATABLE_READ, &[ADD, READ]),
    pattern("increment, read", SERIALIZABLE, &[ADD, READ]),
    pattern("read, increment", READ_COMMITTED, &[READ, ADD]),
    pattern("read, increment", REPEATABLE_READ, &[READ, ADD]),
    pattern("increment RETURNING", READ_COMMITTED, &[("UPDATE c SET n = n + 1 WHERE k = 1 RETURNING n", 1)]),
    pattern("increment, lock", READ_COMMITTED, &[ADD, ("SELECT n FROM c WHERE k = 1 FOR UPDATE", 0)]),
    pattern("increment, lock", REPEATABLE_READ, &[ADD, ("SELECT n FROM c WHERE k = 1 FOR UPDATE", 0)]),
    pattern("increment, assign", READ_COMMITTED, &[ADD, ("UPDATE c SET w = w || '' WHERE k = 1", 0)]),
    pattern("decrement if enough", READ_COMMITTED, &[TAKE]),
    pattern("decrement twice", READ_COMMITTED, &[TAKE, TAKE]),
    pattern("decrement twice", REPEATABLE_READ, &[TAKE, TAKE]),
    Pattern { begins_with: 16, ..pattern("decrement twice of few", READ_COMMITTED, &[TAKE, TAKE, REFILL]) },
    Pattern { begins_with: 16, ..pattern("decrement twice of few", REPEATABLE_READ, &[TAKE, TAKE, REFILL]) },
    pattern("two rows in either order", READ_COMMITTED, &[ADD_ROW, ADD_OTHER]),
    pattern(
        "two rows in either order, read",
        READ_COMMITTED,
        &[ADD_ROW, ADD_OTHER, ("SELECT sum(n) FROM c", 0)],
    ),
    pattern(
        "upsert",
        READ_COMMITTED,
        &[("INSERT INTO c VALUES (1, 1, '') ON CONFLICT (k) DO UPDATE SET n = c.n + excluded.n", 1)],
    ),
    pattern("insert, increment", READ_COMMITTED, &[("INSERT INTO l VALUES (7, 'entry')", 0), ADD]),
    pattern(
        "increment, insert the number",
        READ_COMMITTED,
        &[ADD, ("INSERT INTO l SELECT n, 'entry' FROM c WHERE k = 1", 0)],
    ),
    pattern("increment, text", READ_COMMITTED, &[("UPDATE c SET n = n + 1, w = 'set' WHERE k = 1", 1)]),
];

/// One kind of locks over one run.
#[derive(Clone, Debug, Default, Serialize)]
struct Measured {
    tps: f64,
    committed: u64,
    /// By SQLSTATE.
    errors: BTreeMap<String, u64>,
}

impl Measured {
    fn errors_each(&self, state: &str) -> String {
        let count = self.errors.get(state).copied().unwrap_or(0);
        format!("{:.2}", count as f64 / self.committed.max(1) as f64)
    }
}

/// A pattern with so many clients, with both kinds of locks.
#[derive(Serialize)]
struct Point {
    pattern: &'static str,
    isolation: &'static str,
    clients: usize,
    semantic: Measured,
    exclusive: Measured,
}

impl Point {
    fn ratio(&self) -> f64 {
        self.semantic.tps / self.exclusive.tps
    }
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let levels: Vec<usize> = settings.list("clients", 1, 1024)?;
    let runs: usize = settings.number("runs", 1, 100)?;
    let measured = Duration::from_secs_f64(settings.number("seconds", 0.01, 3600.0)?);
    let warm_up = Duration::from_secs_f64(settings.number("warm-up", 0.0, 3600.0)?);
    let wanted = settings.text("patterns")?;
    let patterns: Vec<&Pattern> =
        PATTERNS.iter().filter(|pattern| wanted == "all" || pattern.name.contains(wanted)).collect();
    let total = (patterns.len() * levels.len() * runs * 2) as u64;
    let mut done = 0;
    let mut points = Vec::new();
    for &clients in &levels {
        for pattern in &patterns {
            let mut rounds = Vec::new();
            for round in 0..runs {
                let mut measure = |semantic_locks| {
                    let load = Load { pattern, clients, semantic_locks, warm_up, measured };
                    let measured = once(&load, round as u64, workspace)?;
                    done += 1;
                    workspace.progress.set(done, total);
                    Ok::<_, StoreError>(measured)
                };
                rounds.push(Round { semantic: measure(true)?, exclusive: measure(false)? });
            }
            let Round { semantic, exclusive } = median(rounds);
            let (name, isolation) = (pattern.name, pattern.isolation);
            points.push(Point { pattern: name, isolation, clients, semantic, exclusive });
        }
    }
    Ok(Outcome {
        claims: vec![claim(&points)],
        differences: Vec::new(),
        tables: vec![table(&points)],
        figures: Vec::new(),
        data: serde_json::json!({ "points": points }),
    })
}

/// The figures of both kinds of locks, measured one right after the other.
struct Round {
    semantic: Measured,
    exclusive: Measured,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.semantic.tps / self.exclusive.tps
    }
}

/// Returns the round with the median ratio; of an even number, the lower one of the middle.
fn median(mut rounds: Vec<Round>) -> Round {
    rounds.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    let middle = (rounds.len() - 1) / 2;
    rounds.swap_remove(middle)
}

/// A run.
struct Load<'p> {
    pattern: &'p Pattern,
    clients: usize,
    semantic_locks: bool,
    warm_up: Duration,
    measured: Duration,
}

/// The work of one client.
#[derive(Default)]
struct Done {
    committed: u64,
    errors: BTreeMap<String, u64>,
    /// To the sum over all rows, by transactions that are committed.
    added: i64,
}

fn failed(error: SqlError) -> StoreError {
    StoreError::Failed(error.into())
}

fn once(load: &Load<'_>, round: u64, workspace: &mut Workspace) -> Result<Measured> {
    workspace.check_canceled()?;
    let directory = workspace.new_path();
    let engine =
        Database::open(&directory, Options::default()).map_err(|error| StoreError::Failed(error.into()))?;
    let database = SqlDatabase::open(engine).map_err(failed)?;
    let mut rows = Rows::default();
    let mut setup = database.session(SessionOptions::default()).map_err(failed)?;
    let begins_with = load.pattern.begins_with;
    setup
        .execute(
            &format!(
                "CREATE TABLE c (k int PRIMARY KEY, n bigint, w text); CREATE TABLE l (n bigint, w text);
                 INSERT INTO c VALUES (1, {begins_with}, ''), (2, 0, '')"
            ),
            &mut rows,
        )
        .map_err(failed)?;
    let (counts, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut sessions = Vec::new();
    for client in 0..load.clients {
        let mut session = database.session(SessionOptions::default()).map_err(failed)?;
        let locks = if load.semantic_locks { "on" } else { "off" };
        session.execute(&format!("SET gnomon.semantic_locks = {locks}"), &mut rows).map_err(failed)?;
        sessions.push((session, Rng::from_seed(workspace.seed ^ round << 32 ^ client as u64)));
    }
    let clock = SystemClock::new();
    let (finished, seconds) = thread::scope(|scope| {
        let clients: Vec<_> = sessions
            .into_iter()
            .map(|(session, rng)| {
                let (counts, ends) = (counts.clone(), ends.clone());
                scope.spawn(move || client(load.pattern, session, rng, &counts, &ends))
            })
            .collect();
        thread::sleep(load.warm_up);
        counts.store(true, Ordering::Release);
        let begun = clock.now();
        thread::sleep(load.measured);
        ends.store(true, Ordering::Release);
        let seconds = (clock.now() - begun).as_secs_f64();
        let joined = clients.into_iter().map(|client| client.join().expect("a client does not panic"));
        (joined.collect::<Result<Vec<Done>>>(), seconds)
    });
    let (mut measured, mut added) = (Measured::default(), 0);
    for done in finished? {
        measured.committed += done.committed;
        added += done.added;
        for (state, count) in done.errors {
            *measured.errors.entry(state).or_default() += count;
        }
    }
    measured.tps = measured.committed as f64 / seconds;
    setup.execute("SELECT sum(n)::bigint, min(n) FROM c", &mut rows).map_err(failed)?;
    let number = |column: usize| rows.rows.first().and_then(|row| row[column].as_i64());
    if number(0) != Some(begins_with + added) || number(1) < Some(0) {
        return Err(StoreError::unexpected(format!(
            "{}: there are {:?}, and {} were added to {begins_with}",
            load.pattern.name, rows.texts, added
        )));
    }
    drop((setup, database));
    workspace.remove(&directory)?;
    Ok(measured)
}

/// Runs transactions of a pattern until they are to end.
fn client(
    pattern: &Pattern,
    mut session: Session,
    mut rng: Rng,
    counts: &AtomicBool,
    ends: &AtomicBool,
) -> Result<Done> {
    let (mut done, mut rows) = (Done::default(), Rows::default());
    while !ends.load(Ordering::Acquire) {
        let is_counted = counts.load(Ordering::Acquire);
        match transaction(pattern, &mut session, rng.chance(1, 2), &mut rows) {
            Ok(added) => {
                done.added += added;
                done.committed += u64::from(is_counted);
            }
            Err(error) => {
                let state = error.state().0;
                if !["40001", "40P01"].contains(&state) {
                    return Err(failed(error));
                }
                session.execute("ROLLBACK", &mut rows).map_err(failed)?;
                if is_counted {
                    *done.errors.entry(state.to_owned()).or_default() += 1;
                }
            }
        }
    }
    Ok(done)
}

/// Runs one transaction; returns what it has added.
fn transaction(
    pattern: &Pattern,
    session: &mut Session,
    swaps: bool,
    rows: &mut Rows,
) -> gnomon_sql::Result<i64> {
    let (row, other) = if swaps { ("2", "1") } else { ("1", "2") };
    session.execute(&format!("BEGIN ISOLATION LEVEL {}", pattern.isolation), rows)?;
    let mut added = 0;
    for (sql, adds) in pattern.statements {
        session.execute(&sql.replace("$row", row).replace("$other", other), rows)?;
        let changed: i64 = rows.tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
        added += adds * changed;
    }
    session.execute("COMMIT", rows)?;
    Ok(added)
}

/// The worst ratio counts.
fn claim(points: &[Point]) -> Claim {
    let worst = points.iter().min_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    Claim {
        figure: "the worst ratio",
        stated: STATED,
        measured: worst.map_or_else(String::new, |worst| {
            format!("{:.2}: {}, {}, {} clients", worst.ratio(), worst.pattern, worst.isolation, worst.clients)
        }),
        verdict: worst.map_or(Verdict::NotComparable, |worst| Verdict::of(worst.ratio() >= RATIO_MIN)),
    }
}

fn table(points: &[Point]) -> ResultTable {
    let row = |point: &Point| {
        let rate = |measured: &Measured| format!("{:.0}", measured.tps);
        vec![
            point.pattern.to_owned(),
            point.isolation.to_owned(),
            point.clients.to_string(),
            rate(&point.semantic),
            rate(&point.exclusive),
            format!("{:.2}", point.ratio()),
            point.semantic.errors_each("40001"),
            point.exclusive.errors_each("40001"),
            point.semantic.errors_each("40P01"),
            point.exclusive.errors_each("40P01"),
        ]
    };
    ResultTable {
        title: "Committed transactions a second, and errors for each of them".into(),
        headings: vec![
            "pattern",
            "isolation",
            "clients",
            "by meaning",
            "rows",
            "ratio",
            "40001",
            "rows",
            "40P01",
            "rows",
        ],
        rows: points.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Request, run};
    use gnomon_program::Progress;

    #[test]
    fn a_quick_run_measures_every_pattern_both_ways() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let points = report.data["points"].as_array().unwrap();
        assert_eq!(points.len(), PATTERNS.len());
        for point in points {
            for kind in ["semantic", "exclusive"] {
                assert!(point[kind]["committed"].as_u64() > Some(0), "{point}");
            }
        }
    }
}
