//! The tables of pgbench, and what its own scripts keep true of them.
//!
//! Promises: the tables are those of `pgbench -i`, with the same rows. What is checked holds of every script that is one
//! transaction and changes some of them by one statement each, which adds `:delta`, as pgbench's built-in ones do; others
//! promise nothing.

use gnomon_sql::session::{Rows, Session};

use super::{
    plain,
    script::{Action, Command, Script, Statement},
};

/// Accounts of each branch.
const ACCOUNTS_PER_BRANCH: u64 = 100_000;
/// Tellers of each branch.
const TELLERS_PER_BRANCH: u64 = 10;

/// Each table, and what its rows have of the sum.
const TABLES: [(&str, &str); 4] = [
    ("pgbench_accounts", "abalance"),
    ("pgbench_tellers", "tbalance"),
    ("pgbench_branches", "bbalance"),
    (HISTORY, "delta"),
];
const HISTORY: &str = "pgbench_history";

/// True if a script is about these tables.
pub fn is_used_by(script: &Script) -> bool {
    let named = |statement: &Statement| {
        statement.words(usize::MAX).iter().any(|word| TABLES.iter().any(|(table, _)| word == table))
    };
    script.statements().any(named)
}

/// Makes the tables and fills them, with so many branches.
///
/// # Errors
/// Those of the session.
pub fn make(session: &mut Session, scale: u32) -> Result<(), String> {
    const SCHEMA: &str = "\
        CREATE TABLE pgbench_history
            (tid integer, bid integer, aid integer, delta integer, mtime timestamp, filler char(22));
        CREATE TABLE pgbench_tellers (tid integer NOT NULL, bid integer, tbalance integer, filler char(84));
        CREATE TABLE pgbench_accounts (aid integer NOT NULL, bid integer, abalance integer, filler char(84));
        CREATE TABLE pgbench_branches (bid integer NOT NULL, bbalance integer, filler char(88));
        ALTER TABLE pgbench_branches ADD PRIMARY KEY (bid);
        ALTER TABLE pgbench_tellers ADD PRIMARY KEY (tid);
        ALTER TABLE pgbench_accounts ADD PRIMARY KEY (aid);";
    const NAME: &str = "the tables of pgbench";
    plain::run(session, NAME, SCHEMA)?;
    for branch in 1..=u64::from(scale) {
        let fill = format!(
            "INSERT INTO pgbench_branches (bid, bbalance) VALUES ({branch}, 0);
            INSERT INTO pgbench_tellers (tid, bid, tbalance)
                SELECT tid, {branch}, 0 FROM generate_series({}, {}) AS tid;
            INSERT INTO pgbench_accounts (aid, bid, abalance, filler)
                SELECT aid, {branch}, 0, '' FROM generate_series({}, {}) AS aid;",
            (branch - 1) * TELLERS_PER_BRANCH + 1,
            branch * TELLERS_PER_BRANCH,
            (branch - 1) * ACCOUNTS_PER_BRANCH + 1,
            branch * ACCOUNTS_PER_BRANCH,
        );
        plain::run(session, NAME, &fill)?;
    }
    Ok(())
}

/// An invariant of a script: the sums of some tables agree, since each transaction adds the same to all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    tables: Vec<(&'static str, &'static str)>,
}

impl Sums {
    /// Returns the invariant of a script on tables that were made by [`make`], if that can be told.
    pub fn kept_by(script: &Script) -> Option<Sums> {
        let is_plain = |action: &Action| !matches!(action, Action::Jump(_) | Action::JumpUnless(..));
        if !script.commands.iter().all(|command| is_plain(&command.action)) {
            return None;
        }
        let delta = script.names.find("delta")?;
        let begins = script.commands.iter().position(|command| matches!(command.action, Action::Run(_)))?;
        let sets = |command: &Command| matches!(&command.action, Action::Set(name, _) if *name == delta);
        // It is the same everywhere in the transaction.
        if script.commands[begins..].iter().any(sets) {
            return None;
        }
        let statements: Vec<(&Statement, Vec<String>)> =
            script.statements().map(|statement| (statement, statement.words(3))).collect();
        // All of it is one transaction: what is run again has left nothing.
        let [(_, begin), changes @ .., (_, end)] = &statements[..] else { return None };
        let is_one =
            |words: &[String], of: [&str; 2]| words.first().is_some_and(|word| of.contains(&&**word));
        if !is_one(begin, ["begin", "start"]) || !is_one(end, ["end", "commit"]) {
            return None;
        }
        let mut tables = Vec::new();
        for (statement, words) in changes {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let changed = match words[..] {
                ["select" | "values", ..] => continue,
                ["update", table, _] | ["insert", "into", table] => table,
                _ => return None,
            };
            let known = TABLES.into_iter().find(|(table, _)| *table == changed)?;
            if tables.contains(&known) || !adds_delta(statement, known, delta) {
                return None;
            }
            tables.push(known);
        }
        (tables.len() > 1).then_some(Sums { tables })
    }

    /// Checks it, and that the history has a row for each of so many transactions, if they are given. Says what was
    /// compared.
    ///
    /// # Errors
    /// What differs; those of the session.
    pub fn check(&self, session: &mut Session, committed: Option<u64>) -> Result<String, String> {
        let mut sums = Vec::new();
        for (table, column) in &self.tables {
            let sum = format!("SELECT coalesce(sum({column}), 0) FROM {table}");
            sums.push((format!("sum({column})"), number(session, &sum)?));
        }
        let told: Vec<_> = sums.iter().map(|(name, sum)| format!("{name} = {sum}")).collect();
        let told = told.join(", ");
        if sums.iter().any(|(_, sum)| *sum != sums[0].1) {
            return Err(format!(
                "after recovery the sums differ: {told}. Unless the script adds to rows that are not there, this is an \
                 error of the database"
            ));
        }
        if let Some(committed) = committed
            && self.tables.iter().any(|(table, _)| *table == HISTORY)
        {
            let rows = number(session, &format!("SELECT count(*) FROM {HISTORY}"))?;
            if rows != i128::from(committed) {
                return Err(format!(
                    "after recovery {HISTORY} has {rows} rows, and {committed} transactions were committed"
                ));
            }
        }
        Ok(told)
    }
}

/// True if a statement adds the variable to one row's part of the sum, or as a new row of the history.
fn adds_delta(statement: &Statement, (table, column): (&str, &str), delta: usize) -> bool {
    let text = statement.written(|variable| if variable == delta { ":delta" } else { ":other" }.into());
    let text = text.to_ascii_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    if table == HISTORY {
        let lists =
            text.strip_prefix("insert into pgbench_history (").and_then(|rest| rest.strip_suffix(')'));
        return lists.and_then(|lists| lists.split_once(") values (")).is_some_and(|(columns, values)| {
            let place = |list: &str, of: &str| list.split(',').position(|one| one.trim() == of);
            place(columns, column).is_some_and(|at| place(values, ":delta") == Some(at))
        });
    }
    let key = format!("{}id", &column[..1]);
    let row = text.strip_prefix(&format!("update {table} set {column} = {column} + :delta where {key} = "));
    row.is_some_and(|row| row == ":other" || row.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The one number that a query returns.
fn number(session: &mut Session, query: &str) -> Result<i128, String> {
    let mut rows = Rows::default();
    session.execute(query, &mut rows).map_err(|error| plain::told("the check", 1, query, query, &error))?;
    let text = rows.texts.first().and_then(|row| row.first()).and_then(Option::as_deref);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| format!("{query} returned no number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnomon_sql::session::{SessionOptions, SqlDatabase};

    fn kept_by(text: &str) -> Option<Vec<&'static str>> {
        let script = Script::parse("s", &format!("\\set delta 1\n{text}"), &[]).unwrap();
        Some(Sums::kept_by(&script)?.tables.into_iter().map(|(table, _)| table).collect())
    }

    #[test]
    fn what_scripts_keep_true_is_known_of_those_that_add_delta_once_a_table() {
        let accounts = "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = 2;";
        let history = "INSERT INTO pgbench_history (aid, delta) VALUES (2, :delta);";
        let block = |statements: &[&str]| kept_by(&format!("BEGIN;\n{}\nEND;", statements.join("\n")));
        assert_eq!(block(&[accounts, "SELECT 1;", history]), Some(vec!["pgbench_accounts", HISTORY]));
        let not_so = |statement: &str| assert_eq!(block(&[statement, history]), None, "{statement}");
        not_so("UPDATE pgbench_accounts SET abalance = :delta WHERE aid = 2;");
        not_so("UPDATE pgbench_accounts SET abalance = abalance - :delta WHERE aid = 2;");
        not_so("UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE bid = 1;");
        not_so("UPDATE pgbench_accounts SET abalance = abalance + :delta;");
        not_so("INSERT INTO pgbench_accounts (aid, abalance) VALUES (2, :delta);");
        not_so("\\set delta 2\nUPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = 2;");
        assert_eq!(block(&[accounts, "INSERT INTO pgbench_history (aid, delta) VALUES (:delta, 2);"]), None);
        assert_eq!(block(&[accounts]), None, "one table");
        assert_eq!(block(&[accounts, history, history]), None, "twice");
        assert_eq!(block(&[accounts, "END; BEGIN;", history]), None, "two transactions");
        assert_eq!(block(&[accounts, history, "DELETE FROM pgbench_history;"]), None);
        assert_eq!(block(&[accounts, history, "UPDATE other SET a = :delta;"]), None);
        assert_eq!(block(&[accounts, history, "\\if 1\nSELECT 1;\n\\endif"]), None);
        assert_eq!(kept_by(&format!("{accounts}\n{history}")), None, "two transactions");
    }

    #[test]
    fn sums_that_differ_and_commits_that_are_lost_are_found() {
        let engine = gnomon_engine::Database::in_memory(gnomon_engine::Options::default()).unwrap();
        let database = SqlDatabase::open(engine).unwrap();
        let mut session = database.session(SessionOptions::default()).unwrap();
        let tables = "CREATE TABLE pgbench_accounts (abalance integer);
            CREATE TABLE pgbench_history (delta integer);
            INSERT INTO pgbench_accounts VALUES (7), (-2);
            INSERT INTO pgbench_history VALUES (5);";
        plain::run(&mut session, "t", tables).unwrap();
        let sums = Sums { tables: vec![TABLES[0], TABLES[3]] };
        assert_eq!(sums.check(&mut session, Some(1)), Ok("sum(abalance) = 5, sum(delta) = 5".into()));
        assert!(sums.check(&mut session, Some(2)).unwrap_err().contains("has 1 rows, and 2 transactions"));
        plain::run(&mut session, "t", "INSERT INTO pgbench_history VALUES (1)").unwrap();
        assert!(sums.check(&mut session, None).unwrap_err().contains("sum(abalance) = 5, sum(delta) = 6"));
    }
}
