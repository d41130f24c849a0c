//! EXPLAIN.

use gnomon_parser::ast::{Explain, Statement};

use super::{
    advice,
    command::Command,
    prepared::Prepared,
    setting::{plain_context, text_column},
};
use crate::{
    Notice, Result, SqlError, SqlState,
    context::SessionContext,
    sink::{Sink, Tag, tag},
    statement::{Executor, Plan, begin, fetch, plan},
    syntax::{option_is_on, option_text},
    types::Datum,
};

/// The options that EXPLAIN acts on.
struct Options {
    analyze: bool,
    summary: bool,
}

impl Options {
    /// Reads the options. Those that are on and show nothing are told of.
    fn of(explain: &Explain, notices: &mut Vec<Notice>) -> Result<Options> {
        let (mut analyze, mut summary) = (false, None);
        let mut of_running = None;
        for option in &explain.options {
            let name = &*option.name.name;
            match name {
                "analyze" | "analyse" => analyze = option_is_on(option)?,
                "summary" => summary = Some(option_is_on(option)?),
                "format" => match option_text(option)? {
                    "text" => {}
                    "xml" | "json" | "yaml" => {
                        let error = SqlError::unsupported("an EXPLAIN format other than TEXT");
                        return Err(error.at(option.name.position));
                    }
                    other => {
                        return Err(SqlError::new(
                            SqlState::INVALID_PARAMETER_VALUE,
                            format!("unrecognized value for EXPLAIN option \"format\": \"{other}\""),
                        )
                        .at(option.name.position));
                    }
                },
                "verbose" | "costs" | "buffers" | "timing" | "settings" | "wal" => {
                    if option_is_on(option)? {
                        let what = format!("EXPLAIN option {}", name.to_uppercase());
                        notices.push(Notice::no_effect(&what, "plans show no more than they do without"));
                        if name == "wal" || name == "timing" && of_running.is_none() {
                            of_running = Some(what);
                        }
                    }
                }
                _ => {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!("unrecognized EXPLAIN option \"{name}\""),
                    )
                    .at(option.name.position));
                }
            }
        }
        if let Some(what) = of_running.filter(|_| !analyze) {
            let message = format!("{what} requires ANALYZE");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        Ok(Options { analyze, summary: summary.unwrap_or(analyze) })
    }
}

/// Returns the statement whose plan EXPLAIN shows: its own, or that of the cursor or table that its own makes.
pub(super) fn explained(explain: &Explain) -> &Statement {
    match &*explain.statement {
        Statement::DeclareCursor(declare) => &declare.statement,
        Statement::CreateTableAs(create) => &create.source,
        statement => statement,
    }
}

/// EXPLAIN of a statement.
pub(super) fn explain(
    executor: &mut Executor<'_>,
    explain: &Explain,
    command: Command<'_>,
    notices: &mut Vec<Notice>,
    sink: &mut dyn Sink,
) -> Result<Tag> {
    let options = Options::of(explain, notices)?;
    if let Statement::Unsupported(unsupported) = &*explain.statement {
        return Err(advice::unsupported(unsupported));
    }
    if options.analyze && matches!(*explain.statement, Statement::CreateTableAs(_)) {
        return Err(SqlError::unsupported("EXPLAIN ANALYZE of CREATE TABLE AS"));
    }
    let statement = explained(explain);
    let mut plan_it = |session: &mut SessionContext| plan(session, statement, command.types);
    let planned = plan_it(executor.session)?;
    planned.refuse_missing(command.values)?;
    let planned = begin(executor.session, planned, &mut plan_it)?;
    show(executor, &options, &planned, command.values, sink)
}

/// EXPLAIN of EXECUTE: of the plan of a prepared statement, with the values of its parameters.
pub(super) fn explain_prepared(
    executor: &mut Executor<'_>,
    explain: &Explain,
    prepared: &Prepared,
    values: &[Datum],
    notices: &mut Vec<Notice>,
    sink: &mut dyn Sink,
) -> Result<Tag> {
    let options = Options::of(explain, notices)?;
    let planned = prepared.plan(executor.session)?;
    let planned = begin(executor.session, planned, &mut |session| prepared.plan(session))?;
    show(executor, &options, &planned, values, sink)
}

/// Shows a plan whose statement has begun; with ANALYZE, runs it.
fn show(
    executor: &mut Executor<'_>,
    options: &Options,
    planned: &Plan,
    values: &[Datum],
    sink: &mut dyn Sink,
) -> Result<Tag> {
    let mut lines = planned.explain(executor.session.settings.semantic_locks());
    if options.analyze {
        let before = executor.session.shared.clock.now();
        let mut running = executor.start(planned, values)?;
        let (rows, _) = fetch(executor.session, &mut running, values, 0, &mut |_, _| Ok(()))?;
        let elapsed = executor.session.shared.clock.now().saturating_sub(before);
        lines.push(format!("Rows: {rows}"));
        if options.summary {
            lines.push(format!("Execution Time: {:.3} ms", elapsed.as_secs_f64() * 1e3));
        }
    }
    executor.session.end_engine_statement()?;
    sink.columns(&[text_column("QUERY PLAN")])?;
    plain_context(|context| {
        lines.into_iter().try_for_each(|line| sink.row(context, &[Datum::Text(line.into())]))
    })?;
    tag("EXPLAIN")
}
