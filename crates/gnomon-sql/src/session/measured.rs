//! The time that statements take and the rows that they give, for `pg_stat_statements`.
//!
//! Statements that a client sends are counted, not those within procedures; and only those that came to their end. A
//! portal that is run in parts counts once, when it is at its end or given up.

use std::{sync::Arc, time::Duration};

use gnomon_parser::{Statement, general::GeneralText};

use super::{Session, command::Command};
use crate::{
    Result,
    database::statements::AllStatements,
    settings::Settings,
    sink::Tag,
    syntax::{Parsed, is_planned, on_fit_stack},
};

/// Returns the form of a statement of a text. Constants of commands that have no plan stay.
pub(super) fn form(parsed: &Parsed, text: &str) -> Arc<GeneralText> {
    let (range, rules) = (parsed.range.clone(), parsed.rules);
    Arc::new(match is_planned(&parsed.statement) {
        true => on_fit_stack(parsed.nesting, || GeneralText::of(text, range, rules, &parsed.statement)),
        false => GeneralText::verbatim(text, range, rules),
    })
}

/// True if executions of a statement are counted. EXECUTE counts as the statement that it runs.
pub(super) fn is_tracked(settings: &Settings, statement: &Statement) -> bool {
    match statement {
        Statement::Execute(_) | Statement::Prepare(_) | Statement::Deallocate(_) => false,
        statement => settings.tracks_statements(is_planned(statement)),
    }
}

/// Returns the number of rows that a command tag tells.
pub(super) fn rows_of(tag: &str) -> u64 {
    let mut words = tag.split(' ');
    match words.next() {
        Some("SELECT" | "INSERT" | "UPDATE" | "DELETE" | "COPY" | "FETCH") => {
            words.next_back().and_then(|count| count.parse().ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Runs a command by `run`, and counts it.
pub(super) fn measured(
    session: &mut Session,
    command: Command<'_>,
    run: impl FnOnce(&mut Session) -> Result<Tag>,
) -> Result<Tag> {
    if !is_tracked(&session.context.settings, &command.parsed.statement) {
        return run(session);
    }
    let begun = session.context.shared.clock.now();
    let tag = run(session)?;
    let took = session.context.shared.clock.now().saturating_sub(begun);
    let form = form(command.parsed, command.text);
    session.context.shared.statements.record(&form, took, rows_of(&tag));
    Ok(tag)
}

/// The measure of a portal that is run in parts. Dropped, it is counted, unless a part has failed.
pub(super) struct Measure {
    statements: Arc<AllStatements>,
    form: Arc<GeneralText>,
    took: Duration,
    rows: u64,
    is_failed: bool,
}

impl Measure {
    pub(super) fn new(statements: Arc<AllStatements>, form: Arc<GeneralText>) -> Measure {
        Measure { statements, form, took: Duration::ZERO, rows: 0, is_failed: false }
    }

    /// Adds a part.
    pub(super) fn add(&mut self, took: Duration, rows: u64) {
        self.took += took;
        self.rows += rows;
    }

    /// Notes that a part has failed.
    pub(super) fn fail(&mut self) {
        self.is_failed = true;
    }
}

impl Drop for Measure {
    fn drop(&mut self) {
        if !self.is_failed {
            self.statements.record(&self.form, self.took, self.rows);
        }
    }
}
