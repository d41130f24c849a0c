//! DROP of objects that cannot be made: `fixtures/absent.txt` has statements, each behind `> `, with PostgreSQL's answers.

use gnomon_sql::session::{Session, SessionOptions};

use super::support::{database, run};

/// Notices and the command tag of a statement, or its error.
fn answer(session: &mut Session, sql: &str) -> Vec<String> {
    match run(session, sql) {
        Ok(done) => {
            let notices = done.notices.into_iter().map(|notice| format!("NOTICE: {notice}"));
            notices.chain(done.tags).collect()
        }
        Err(error) => {
            let report = error.report();
            let hint = report.hint.as_ref().map_or(String::new(), |hint| format!(" HINT: {hint}"));
            vec![format!("ERROR {}: {}{hint}", report.state.0, report.message)]
        }
    }
}

#[test]
fn what_cannot_be_made_cannot_be_dropped() {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    for block in include_str!("../fixtures/absent.txt").split("> ").skip(1) {
        let (sql, expected) = block.split_once('\n').expect("a statement and its answer");
        assert_eq!(answer(&mut session, sql), expected.lines().collect::<Vec<_>>(), "{sql}");
    }
}
