//! Plain SQL in a session: the file that makes what a script works on; what is told of errors.
//!
//! Promises: statements are cut as by `gnomon sql --file`, each is a transaction of its own outside of BEGIN and COMMIT,
//! and COPY FROM STDIN takes its data from the lines that follow, up to `\.`. The first error ends it, with its line.

use std::str::Lines;

use gnomon_sql::{
    Notice, SqlError,
    session::{CopySource, ResultColumn, Session, Sink, TransactionStatus},
    split::{Item, Splitter},
    types::{Context, Datum},
};

/// Runs the SQL of a file that messages call `name`.
///
/// # Errors
/// The first error with its line; a backslash command; a transaction that is not ended.
pub fn run(session: &mut Session, name: &str, text: &str) -> Result<(), String> {
    let mut splitter = Splitter::default();
    let mut lines = text.lines();
    loop {
        let next = lines.next();
        let items = match next {
            Some(line) => splitter.line(line),
            None => splitter.finish().into_iter().collect(),
        };
        for item in items {
            match item {
                Item::Statement { text, line } => {
                    let mut sink = Ignored { lines: Some(&mut lines), taken: 0 };
                    let done = session.execute(&text, &mut sink);
                    (0..sink.taken).for_each(|_| splitter.skip_line());
                    done.map_err(|error| told(name, line, &text, &text, &error))?;
                }
                Item::Command { text, line } => {
                    return Err(format!("{name}:{line}: \\{text} is no SQL, and nothing else is run here"));
                }
            }
        }
        if next.is_none() {
            return match session.status() {
                TransactionStatus::Idle => Ok(()),
                _ => Err(format!("{name}: it ends within a transaction: end it with COMMIT")),
            };
        }
    }
}

/// An error of a statement on one line: where it stands, what is wrong, the SQLSTATE and the statement. `sent` is the
/// text that the session was given, and `source` the one that people wrote; they have the same lines.
pub fn told(name: &str, line: usize, sent: &str, source: &str, error: &SqlError) -> String {
    let report = error.report();
    let place = report.position.map_or(0, |position| position.saturating_sub(1));
    let inside = sent.chars().take(place).filter(|&c| c == '\n').count();
    let hint = report.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    let source = source.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = match source.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &source[..end]),
        None => source,
    };
    format!("{name}:{}: {}{hint}, SQLSTATE {}, in: {shown}", line + inside, report.message, report.state.0)
}

/// How much of a statement is shown with its error, in characters.
const SHOWN_MAX: usize = 400;

/// Takes what a statement produces, and keeps nothing of it. COPY FROM STDIN has its data from lines, if there are some.
#[derive(Default)]
pub struct Ignored<'a, 't> {
    lines: Option<&'a mut Lines<'t>>,
    /// How many lines were taken.
    taken: usize,
}

impl Sink for Ignored<'_, '_> {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, _: &Context<'_>, _: &[Datum]) -> Result<(), SqlError> {
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<(), SqlError> {
        Ok(())
    }

    fn empty(&mut self) -> Result<(), SqlError> {
        Ok(())
    }

    fn notice(&mut self, _: Notice) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_out(&mut self, _: bool, _: usize) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_data(&mut self, _: &[u8]) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_done(&mut self) -> Result<(), SqlError> {
        Ok(())
    }

    fn copy_in(&mut self, binary: bool, _: usize) -> Result<Box<dyn CopySource + '_>, SqlError> {
        match &mut self.lines {
            Some(lines) if !binary => Ok(Box::new(CopyLines { lines, taken: &mut self.taken, ended: false })),
            Some(_) => Err(SqlError::unsupported("COPY FROM STDIN in binary form from a file of SQL")),
            None => Err(SqlError::unsupported("COPY FROM STDIN in a script that is measured")),
        }
    }
}

/// COPY data among the lines of a file, up to a line of `\.` or the end.
struct CopyLines<'a, 't> {
    lines: &'a mut Lines<'t>,
    taken: &'a mut usize,
    ended: bool,
}

impl CopySource for CopyLines<'_, '_> {
    fn next(&mut self) -> Result<Option<Vec<u8>>, SqlError> {
        if self.ended {
            return Ok(None);
        }
        let line = self.lines.next();
        *self.taken += usize::from(line.is_some());
        let data = line.filter(|line| *line != "\\.");
        self.ended = data.is_none();
        Ok(data.map(|line| format!("{line}\n").into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnomon_sql::session::{Rows, SessionOptions, SqlDatabase};

    fn session() -> Session {
        let engine = gnomon_engine::Database::in_memory(gnomon_engine::Options::default()).unwrap();
        SqlDatabase::open(engine).unwrap().session(SessionOptions::default()).unwrap()
    }

    #[test]
    fn files_may_have_data_among_their_lines() {
        let mut session = session();
        let text =
            "-- two\nCREATE TABLE t (a integer);\nCOPY t FROM STDIN;\n1\n2\n\\.\nINSERT INTO t\nVALUES (3)";
        run(&mut session, "init.sql", text).unwrap();
        let mut rows = Rows::default();
        session.execute("SELECT sum(a) FROM t", &mut rows).unwrap();
        assert_eq!(rows.texts, [[Some("6".to_owned())]]);
        let told = run(&mut session, "init.sql", "COPY t FROM STDIN;\n1\n\\.\n\nSELECT 1,\n  1 / 0;");
        let told = told.unwrap_err();
        assert_eq!(told, "init.sql:5: division by zero, SQLSTATE 22012, in: SELECT 1, 1 / 0;");
        let told = run(&mut session, "init.sql", "SELECT 1,\n  b FROM t;").unwrap_err();
        assert!(told.starts_with("init.sql:2: column \"b\" does not exist, SQLSTATE 42703"), "{told}");
        let told = run(&mut session, "init.sql", "\\d t").unwrap_err();
        assert_eq!(told, "init.sql:1: \\d t is no SQL, and nothing else is run here");
        let told = run(&mut session, "init.sql", "BEGIN;").unwrap_err();
        assert!(told.contains("within a transaction"), "{told}");
    }
}
