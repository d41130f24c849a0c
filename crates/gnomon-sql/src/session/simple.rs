//! The simple protocol: texts of statements, run one after another.
//!
//! The statements of a text form one implicit transaction, unless it has BEGIN in it. The transaction commits before
//! its last statement is reported complete.

use std::sync::Arc;

use gnomon_parser::{StringRules, literals::NormalizedText};

use super::{
    Session, again,
    command::Command,
    measured,
    texts::{self, KnownStatement, KnownText},
};
use crate::{
    Result, SqlError,
    context::{Company, SessionContext, State},
    settings::{PlanCacheMode, Settings},
    sink::{Sink, Tag},
    statement::begin,
    syntax::{self, Parsed, Written, is_planned, on_fit_stack},
};

/// Runs a text: by what the session remembers of it, or as it is written.
pub(super) fn execute(session: &mut Session, sql: &str, sink: &mut dyn Sink) -> Result<()> {
    let mode = session.context.settings.plan_cache_mode();
    let is_shared = mode != PlanCacheMode::Custom && session.context.settings.string_rules().is_usual();
    let text = if is_shared { texts::normalize(sql) } else { None };
    let Some(text) = text else { return execute_written(session, sql, sink).map(drop) };
    let known = match session.texts.find(sql, &text) {
        None if mode == PlanCacheMode::Generic => learn(session, sql, &text)?,
        known => known,
    };
    let Some(statement) = known else {
        if let Some(parsed) = execute_written(session, sql, sink)? {
            session.texts.remember(&session.context, sql, &text, &parsed);
        }
        return Ok(());
    };
    let known = KnownText { sql, text: &text, statement: &statement };
    if !execute_known(session, known, sink)? {
        execute_written(session, sql, sink)?;
        statement.refuse();
    }
    Ok(())
}

/// Remembers the statement of a text before its first run, if it may be.
fn learn(session: &mut Session, sql: &str, text: &NormalizedText) -> Result<Option<Arc<KnownStatement>>> {
    let mut notices = Vec::new();
    let parsed = syntax::parse(sql, StringRules::default(), &mut |_| Ok(()), &mut notices)?;
    Ok(match &parsed[..] {
        [Written::Parsed(one)] if notices.is_empty() => {
            session.texts.remember(&session.context, sql, text, one);
            session.texts.find(sql, text)
        }
        _ => None,
    })
}

/// Runs a statement that is remembered. False if it is to be run as it is written.
fn execute_known(session: &mut Session, known: KnownText<'_>, sink: &mut dyn Sink) -> Result<bool> {
    session.context.send_left_notices(sink)?;
    if session.context.current.state == State::Idle
        && again::leaves_nothing(&known.statement.parsed.statement)
    {
        return session.run_until_first(sink, |session, sink| run_known(session, known, sink));
    }
    run_known(session, known, sink)
}

fn run_known(session: &mut Session, known: KnownText<'_>, sink: &mut dyn Sink) -> Result<bool> {
    session.pipeline.first = None;
    let before = session.context.settings.clone();
    let command = known.command();
    let tag = on_fit_stack(command.parsed.nesting, || match is_planned(&command.parsed.statement) {
        true => run_by_known_plan(session, known, sink),
        false => session.run(command, sink).map(Some),
    })?;
    let Some(tag) = tag else { return Ok(false) };
    complete(session, &tag, &before, sink)?;
    Ok(true)
}

/// Runs a statement by a plan whose parameters are literals. None, and nothing done, if there is none for this text.
fn run_by_known_plan(
    session: &mut Session,
    known: KnownText<'_>,
    sink: &mut dyn Sink,
) -> Result<Option<Tag>> {
    let _alarm = session.context.start_statement()?;
    let begun = session.context.shared.clock.now();
    session.context.refuse_if_failed(&known.statement.parsed.statement)?;
    session.opened.portals.settle(&mut session.context, None)?;
    let plan = known.statement.plan(&mut session.context);
    let values = plan.and_then(|plan| Ok((known.values(&mut session.context, &plan)?, plan)));
    let Ok((mut values, first)) = values else {
        session.context.interrupt.check()?;
        return Ok(None);
    };
    // Positions of errors would be those in another text.
    let mut plan_again =
        |session: &mut SessionContext| known.statement.plan(session).map_err(SqlError::unplaced);
    let plan = begin(&mut session.context, first.clone(), &mut plan_again)?;
    if !Arc::ptr_eq(&plan, &first) {
        values = known.values(&mut session.context, &plan)?;
    }
    let tag = session.executor().run(&plan, &values, sink)?;
    let took = session.context.shared.clock.now().saturating_sub(begun);
    if measured::is_tracked(&session.context.settings, &known.statement.parsed.statement) {
        session.context.shared.statements.record(&known.statement.form, took, measured::rows_of(&tag));
    }
    if plan.reads_only() && session.context.settings.plan_cache_mode() == PlanCacheMode::Auto {
        known.statement.note_run(took);
    }
    Ok(Some(tag))
}

/// Runs a text as it is written. Returns its statement, if it is the only one and was read without notices.
fn execute_written(session: &mut Session, sql: &str, sink: &mut dyn Sink) -> Result<Option<Parsed>> {
    let (mut statements, _memory) = {
        let _alarm = session.context.start_statement()?;
        session.parse(sql)?
    };
    let is_noted = session.context.has_left_notices();
    session.context.send_left_notices(sink)?;
    if statements.is_empty() {
        if session.context.current.state == State::Implicit {
            session.commit()?;
        }
        sink.empty()?;
        return Ok(None);
    }
    match &statements[..] {
        [Written::Parsed(one)]
            if session.context.current.state == State::Idle && again::leaves_nothing(&one.statement) =>
        {
            session.run_until_first(sink, |session, sink| run_all(session, sql, &statements, sink))?;
        }
        _ => run_all(session, sql, &statements, sink)?,
    }
    Ok(match statements.pop() {
        Some(Written::Parsed(one)) if statements.is_empty() && !is_noted => Some(one),
        _ => None,
    })
}

/// Runs the statements of a text.
fn run_all(session: &mut Session, sql: &str, statements: &[Written], sink: &mut dyn Sink) -> Result<()> {
    // They are in one transaction with what a client has begun by the extended protocol.
    session.pipeline.first = None;
    let last = statements.len() - 1;
    let company = if last == 0 { Company::Alone } else { Company::Text };
    for (i, statement) in statements.iter().enumerate() {
        let parsed = statement.parsed(sql)?;
        let before = session.context.settings.clone();
        let command = Command { parsed: &parsed, text: sql, company, types: &[], values: &[] };
        let tag = on_fit_stack(parsed.nesting, || session.run(command, sink))?;
        match i == last {
            true => complete(session, &tag, &before, sink)?,
            false => session.report(&tag, &before, sink)?,
        }
    }
    Ok(())
}

/// Ends the last statement of a text, and reports it complete.
fn complete(session: &mut Session, tag: &Tag, before: &Settings, sink: &mut dyn Sink) -> Result<()> {
    if session.context.current.state == State::Implicit {
        session.commit()?;
    }
    session.report(tag, before, sink)
}
