//! Joins by cost: whatever statistics say, the rows are those of plans made without any.

use gnomon_engine::env::Rng;
use gnomon_sql::session::{Session, SessionOptions};

use crate::support::{database, ok};

const TABLES: usize = 6;
/// Number of rows, to be taken by statistics for what they are not.
const FALSE_ROWS: [u64; 4] = [1, 2, 40, 3000];

/// Tables of a few rows, with NULLs and values that meet, whose rows are the same in each session.
fn session(mut before: impl FnMut(&mut Session, usize)) -> Session {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    for table in 0..TABLES {
        ok(&mut session, &format!("CREATE TABLE t{table} (id int PRIMARY KEY, a int, b int, c text)"));
        if table % 2 == 0 {
            ok(&mut session, &format!("CREATE INDEX ON t{table} (a, b)"));
        } else {
            ok(&mut session, &format!("CREATE UNIQUE INDEX ON t{table} (c, id)"));
        }
        before(&mut session, table);
        ok(&mut session, &format!("DELETE FROM t{table}"));
        let rows = 4 + table;
        ok(
            &mut session,
            &format!(
                "INSERT INTO t{table} SELECT g, nullif(g % 4, 3), g * {table} % 5, 'c' || g % 3
                 FROM generate_series(1, {rows}) g"
            ),
        );
    }
    session
}

/// A session whose tables have statistics of other rows than theirs.
fn deceived(seed: u64) -> Session {
    let mut rng = Rng::from_seed(seed);
    session(|session, table| {
        let rows = FALSE_ROWS[rng.below(FALSE_ROWS.len() as u64) as usize];
        let distinct = 1 + rng.below(rows);
        ok(
            session,
            &format!(
                "INSERT INTO t{table} SELECT g, nullif(g % {distinct}, 0), g % 3, 'c' || g % {distinct}
                 FROM generate_series(1, {rows}) g"
            ),
        );
        ok(session, &format!("ANALYZE t{table}"));
    })
}

struct Query<'r>(&'r mut Rng);

impl Query<'_> {
    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.0.below(of.len() as u64) as usize]
    }

    fn number(&mut self, table: usize) -> String {
        format!("t{table}.{}", self.pick(&["id", "a", "b"]))
    }

    /// A condition on two tables.
    fn link(&mut self, a: usize, b: usize) -> String {
        let (left, right) = (self.number(a), self.number(b));
        match self.0.below(10) {
            0 => format!("t{a}.c = t{b}.c"),
            1 => format!("{left} < {right}"),
            2 => format!("{left} + 1 = {right}"),
            3 => format!("({left} = {right} OR t{a}.a IS NULL AND t{b}.b = 1)"),
            4 => format!("{left} IS NOT DISTINCT FROM {right}"),
            5 => format!("{left} = {right} AND t{a}.c <> t{b}.c"),
            _ => format!("{left} = {right}"),
        }
    }

    /// A condition on one table.
    fn own(&mut self, table: usize) -> String {
        let column = self.number(table);
        match self.0.below(8) {
            0 => format!("{column} IN (1, 2, 5)"),
            1 => format!("{column} IS NULL"),
            2 => format!("{column} BETWEEN 1 AND 4"),
            3 => format!("t{table}.c LIKE 'c%'"),
            4 => "1 = 1".to_owned(),
            5 => format!("{column} IN (SELECT a FROM t0)"),
            6 => format!("(t{table}.a = 1 OR t{table}.b = 2)"),
            _ => format!("{column} > 1"),
        }
    }

    fn text(&mut self) -> String {
        let count = 3 + self.0.below(TABLES as u64 - 2) as usize;
        let mut from = "t0".to_owned();
        let mut conditions = Vec::new();
        for table in 1..count {
            let other = self.0.below(table as u64) as usize;
            let on = self.link(other, table);
            match self.0.below(8) {
                0 => from = format!("{from} LEFT JOIN t{table} ON {on}"),
                1 => {
                    from =
                        format!("{from} RIGHT JOIN t{table} ON {}", format_args!("t{other}.a = t{table}.b"))
                }
                2 => {
                    from = format!("{from} FULL JOIN t{table} ON {}", format_args!("t{other}.c = t{table}.c"))
                }
                3 => from = format!("{from} CROSS JOIN t{table}"),
                _ => from = format!("{from} JOIN t{table} ON {on}"),
            }
        }
        for _ in 0..self.0.below(3) {
            let table = self.0.below(count as u64) as usize;
            conditions.push(self.own(table));
        }
        if self.0.below(3) == 0 {
            conditions.push("t0.a + t1.b = t2.id".to_owned());
        }
        let columns: Vec<String> = (0..count).map(|table| format!("t{table}.id")).collect();
        let filter = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
        format!("SELECT {} FROM {from} WHERE {filter}", columns.join(", "))
    }
}

#[test]
fn statistics_change_no_rows() {
    let mut plain = session(|_, _| {});
    let mut others: Vec<Session> = (0..5).map(deceived).collect();
    others.push({
        let mut true_ones = session(|_, _| {});
        ok(&mut true_ones, "ANALYZE");
        true_ones
    });
    let mut rng = Rng::from_seed(7);
    let mut changed = 0;
    for _ in 0..250 {
        let sql = Query(&mut rng).text();
        let sorted = |session: &mut Session| {
            let mut rows = ok(session, &sql).rows;
            rows.sort();
            rows
        };
        let plan = |session: &mut Session| ok(session, &format!("EXPLAIN (COSTS OFF) {sql}")).rows;
        let (expected, by_rules) = (sorted(&mut plain), plan(&mut plain));
        for session in &mut others {
            changed += usize::from(plan(session) != by_rules);
            let found = sorted(session);
            assert!(found == expected, "{sql}\n{:#?}\n{found:?}\n{expected:?}", plan(session));
        }
    }
    assert!(changed > 500, "statistics changed {changed} plans");
}
