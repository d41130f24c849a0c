//! Queries that run in batches of columns give what they give row by row.
//!
//! A condition that is volatile, and always true, keeps a query from being run in batches.

use gnomon_engine::env::Rng;
use gnomon_sql::session::{Session, SessionOptions};

use crate::support::{database, ok, run};

/// Rows of the table: more than two batches.
const ROWS: u64 = 2500;
/// True for every row.
const BY_ROWS: &str = "random() >= 0";

/// Columns of integers and dates, of numerics, and of texts and other types.
const INTEGERS: [&str; 4] = ["s", "i", "b", "id"];
const NUMERICS: [&str; 2] = ["n", "w"];
const OTHERS: [&str; 6] = ["t", "v", "c", "f", "d", "y"];

fn session() -> Session {
    let mut s = database().session(SessionOptions::default()).unwrap();
    ok(
        &mut s,
        "CREATE TABLE r (id int PRIMARY KEY, s smallint, i int, b bigint, n numeric(12,3), w numeric, t text, \
         v varchar(9), c char(4), f float8, d date, y bool)",
    );
    ok(
        &mut s,
        &format!(
            "INSERT INTO r SELECT k, CASE WHEN k % 7 <> 0 THEN k % 300 - 150 END, \
             CASE WHEN k % 11 <> 0 THEN (k * 7919) % 2000 - 1000 END, \
             CASE k % 13 WHEN 0 THEN NULL WHEN 1 THEN 9223372036854775807 WHEN 2 THEN -9223372036854775808 ELSE k * 3 END, \
             CASE WHEN k % 5 <> 0 THEN (k % 1000)::numeric / 8 END, \
             CASE k % 17 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' WHEN 2 THEN repeat('9', 45)::numeric WHEN 3 THEN 1e-30 \
             ELSE (k % 50)::numeric / 10 END, \
             CASE WHEN k % 3 <> 0 THEN 'text ' || k % 40 END, 'v' || k % 10, CASE WHEN k % 4 <> 0 THEN 'c' || k % 3 END, \
             CASE k % 19 WHEN 0 THEN NULL WHEN 1 THEN 'NaN' ELSE k / 3.0 END, \
             CASE WHEN k % 9 <> 0 THEN date '2020-01-01' + k % 60 END, CASE WHEN k % 6 <> 0 THEN k % 2 = 0 END \
             FROM generate_series(1, {ROWS}) AS k(k)"
        ),
    );
    // Keys that come several times, once or never, and NULLs.
    ok(
        &mut s,
        "CREATE TABLE k AS SELECT (k % 90 - 20)::int AS x, CASE WHEN k % 8 <> 0 THEN 'text ' || k % 50 END AS text, \
         CASE WHEN k % 6 <> 0 THEN k END AS z, (k % 30)::numeric / 8 AS eighths FROM generate_series(1, 120) AS k(k)",
    );
    s
}

/// Makes random expressions.
struct Maker(Rng);

impl Maker {
    fn of<'s>(&mut self, all: &[&'s str]) -> &'s str {
        all[self.0.below(all.len() as u64) as usize]
    }

    fn integer(&mut self, depth: u32) -> String {
        match if depth == 0 { self.0.below(2) } else { self.0.below(6) } {
            0 => self.of(&INTEGERS).to_owned(),
            1 => format!("{}", self.0.below(200) as i64 - 100),
            2 => format!("({})::int8", self.integer(depth - 1)),
            3 => format!("abs({})", self.integer(depth - 1)),
            4 => format!(
                "CASE WHEN {} THEN {} ELSE {} END",
                self.condition(depth - 1),
                self.integer(depth - 1),
                self.integer(depth - 1)
            ),
            _ => {
                let (left, op, right) =
                    (self.integer(depth - 1), self.of(&["+", "-", "*", "/", "%"]), self.integer(depth - 1));
                format!("({left} {op} {right})")
            }
        }
    }

    fn numeric(&mut self, depth: u32) -> String {
        match if depth == 0 { self.0.below(2) } else { self.0.below(5) } {
            0 => self.of(&NUMERICS).to_owned(),
            1 => self.of(&["0.5", "-12.25", "3::numeric", "0.00", "1e20", "NULL::numeric"]).to_owned(),
            2 => format!("({})::numeric", self.integer(depth - 1)),
            3 => format!("round({}, 2)", self.numeric(depth - 1)),
            _ => {
                let (left, op, right) =
                    (self.numeric(depth - 1), self.of(&["+", "-", "*", "/"]), self.numeric(depth - 1));
                format!("({left} {op} {right})")
            }
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        let comparison = self.of(&["=", "<>", "<", "<=", ">", ">="]);
        match if depth == 0 { self.0.below(4) } else { self.0.below(8) } {
            0 => format!("{} {comparison} {}", self.integer(0), self.integer(0)),
            1 => format!("t {comparison} {}", self.of(&["'text 7'", "v", "t", "NULL"])),
            2 => {
                let sides = self.of(&[
                    "d = date '2020-01-09'",
                    "y",
                    "c = 'c1'",
                    "f > 100",
                    "d < '2020-02-01'",
                    "t LIKE '%3'",
                ]);
                sides.to_owned()
            }
            3 => {
                let column = self.of(&["t", "b", "w", "f", "y"]);
                format!("{column} IS {}NULL", self.of(&["", "NOT "]))
            }
            4 => format!("({} AND {})", self.condition(depth - 1), self.condition(depth - 1)),
            5 => format!("({} OR {})", self.condition(depth - 1), self.condition(depth - 1)),
            6 => format!("NOT ({})", self.condition(depth - 1)),
            _ => {
                let (left, right) = (self.numeric(depth - 1), self.numeric(depth - 1));
                format!("{left} {comparison} {right}")
            }
        }
    }

    fn aggregate(&mut self) -> String {
        let call = match self.0.below(8) {
            0 => "count(*)".to_owned(),
            1 => format!("count({})", self.of(&OTHERS)),
            2 => format!("sum({})", self.integer(2)),
            3 => format!("sum({})", self.numeric(2)),
            4 => format!("avg({})", self.numeric(1)),
            5 => format!("min({})", self.of(&OTHERS[..5])),
            6 => format!("max({})", self.of(&["t", "c", "f", "d", "w", "s"])),
            _ => format!("bool_or({})", self.condition(1)),
        };
        match self.0.below(4) {
            0 => format!("{call} FILTER (WHERE {})", self.condition(1)),
            _ => call,
        }
    }

    /// Returns a query with aggregates, with a condition to be added or not.
    fn query(&mut self) -> impl Fn(&str) -> String + use<> {
        let calls: Vec<String> = (0..=self.0.below(3)).map(|_| self.aggregate()).collect();
        let keys: Vec<String> = (0..self.0.below(3))
            .map(|_| match self.0.below(3) {
                0 => self.of(&OTHERS).to_owned(),
                1 => self.of(&["s", "i", "n", "w"]).to_owned(),
                _ => self.integer(1),
            })
            .collect();
        let filter = self.condition(2);
        let source = self.of(&[
            "r",
            "r",
            "(SELECT * FROM r WHERE id > 1000 OFFSET 0) AS q",
            "r WHERE id < 0",
            "r JOIN k ON k.x = r.s",
            "r JOIN k ON k.x = r.i AND k.z > r.s",
            "r LEFT JOIN k ON k.text = r.t",
            "r LEFT JOIN k ON k.x = r.s AND k.text = r.t",
            "r JOIN (SELECT x + 1 AS x FROM k WHERE z < 50) AS k ON k.x = r.b",
            "r LEFT JOIN (SELECT * FROM k WHERE x > 1000) AS k ON k.x = r.s",
            "r JOIN k ON k.eighths = r.n",
        ]);
        move |more| {
            let list = keys.iter().chain(&calls).cloned().collect::<Vec<_>>().join(", ");
            let both = if source.contains("WHERE id <") { "AND" } else { "WHERE" };
            let group: Vec<String> = (1..=keys.len()).map(|at| at.to_string()).collect();
            let group =
                if group.is_empty() { String::new() } else { format!("GROUP BY {}", group.join(", ")) };
            format!("SELECT {list} FROM {source} {both} ({filter}) AND {more} {group}")
        }
    }
}

#[test]
fn batches_give_what_rows_give() {
    let rounds: u64 = std::env::var("GNOMON_BATCH_QUERIES").map_or(400, |rounds| rounds.parse().unwrap());
    let mut s = session();
    let mut maker = Maker(Rng::from_seed(1));
    let mut answered = 0;
    for round in 0..rounds {
        let query = maker.query();
        let (batches, rows) = (run(&mut s, &query("true")), run(&mut s, &query(BY_ROWS)));
        match (batches, rows) {
            (Ok(batches), Ok(rows)) => {
                assert_eq!(batches.rows, rows.rows, "query {round}: {}", query("true"));
                answered += 1;
            }
            (Err(_), Err(_)) => {}
            (batches, rows) => panic!(
                "query {round}: {}: {:?} in batches, {:?} by rows",
                query("true"),
                batches.map(|answer| answer.rows.len()),
                rows.map(|answer| answer.rows.len())
            ),
        }
    }
    assert!(answered * 2 > rounds, "only {answered} of {rounds} queries have an answer");
}
