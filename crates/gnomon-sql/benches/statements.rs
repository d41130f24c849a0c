//! The path of a statement: `cargo bench -p gnomon-sql`. The database is in memory, so no disk is measured.

use criterion::{Criterion, criterion_group, criterion_main};
use gnomon_engine::{Database, Options};
use gnomon_sql::session::{Format, Rows, SessionOptions, SqlDatabase};

const SETUP: &str = "CREATE TABLE accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
    INSERT INTO accounts SELECT n, 1, 0, '' FROM generate_series(1, 10000) AS n";

const SELECT: &str = "SELECT abalance FROM accounts WHERE aid = $1";
const UPDATE: &str = "UPDATE accounts SET abalance = abalance + $1 WHERE aid = $2";

fn text(value: &str) -> Option<(Format, &[u8])> {
    Some((Format::Text, value.as_bytes()))
}

fn statements(criterion: &mut Criterion) {
    let engine = Database::in_memory(Options::default()).expect("memory is there");
    let database = SqlDatabase::open(engine).expect("it is new");
    let mut session = database.session(SessionOptions::default()).expect("it is the first");
    let mut rows = Rows::default();
    session.execute(SETUP, &mut rows).expect("the table is new");
    for (name, statement) in [("s", SELECT), ("u", UPDATE)] {
        session.prepare(name, statement, &[]).expect("it is right");
    }
    // Numbers that follow each other at random, the same ones in each run.
    let mut accounts = (0u32..).map(|step| step.wrapping_mul(2_654_435_761) % 10_000 + 1);
    let mut account = || accounts.next().expect("endless").to_string();

    criterion.bench_function("plan a statement", |bencher| {
        bencher.iter(|| session.prepare("", SELECT, &[]).expect("it is right"));
    });
    criterion.bench_function("execute a prepared SELECT", |bencher| {
        bencher.iter(|| {
            session.bind("", "s", &[text(&account())]).expect("it is a number");
            session.execute_portal("", 0, &mut rows).expect("it is there");
            session.sync().expect("it is done");
            rows.rows.clear();
            rows.texts.clear();
        });
    });
    criterion.bench_function("execute a prepared UPDATE", |bencher| {
        bencher.iter(|| {
            session.bind("", "u", &[text("1"), text(&account())]).expect("they are numbers");
            session.execute_portal("", 0, &mut rows).expect("it is there");
            session.sync().expect("it is done");
        });
    });
}

criterion_group!(benches, statements);
criterion_main!(benches);
