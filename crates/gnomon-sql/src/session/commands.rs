//! Commands that work with the context of a session: settings, locks, maintenance, EXPLAIN.

use std::sync::Arc;

use gnomon_engine::{Error, TreeLock};
use sqlparser::ast::ObjectName;

use super::parse::{Mode, Parsed};
use crate::{
    Notice, Result, Severity, SqlError, SqlState,
    context::{SessionContext, State},
    query::ResultColumn,
    settings::{Progress, Scope},
    sink::{Sink, Tag, tag},
    statement::{Executor, begin, fetch, plan, plannable},
    types::{ColumnType, Context, Datum, FixedEnvironment, Type},
};

/// A column of text in the result of a command.
pub(super) fn text_column(name: &str) -> ResultColumn {
    ResultColumn {
        name: name.into(),
        ty: ColumnType { ty: Type::Text, modifier: -1 },
        table: 0,
        attribute: 0,
    }
}

/// Tells that options of VACUUM or ANALYZE have no effect. VERBOSE, which has nothing to tell, is none of them, nor is
/// ANALYZE.
pub(super) fn options_without_effect(statement: &str, options: &[String], notices: &mut Vec<Notice>) {
    let why = match statement {
        "VACUUM" => "space is reclaimed all the time",
        _ => "plans need no statistics",
    };
    for option in
        options.iter().filter(|option| !matches!(option.as_str(), "verbose" | "analyze" | "analyse"))
    {
        let what = format!("{statement} option {}", option.to_uppercase());
        notices.push(Notice::no_effect(&what, why));
    }
}

fn send_lines(column: &str, lines: Vec<String>, sink: &mut dyn Sink) -> Result<()> {
    sink.columns(&[text_column(column)])?;
    plain_context(|context| {
        lines.into_iter().try_for_each(|line| sink.row(context, &[Datum::Text(line.into())]))
    })
}

/// A context for rows of plain text, which is written alike everywhere.
fn plain_context<R>(f: impl FnOnce(&Context<'_>) -> R) -> R {
    let environment = FixedEnvironment::default();
    f(&Context::new(&environment))
}

/// SET, or RESET without values.
pub(super) fn set(
    session: &mut SessionContext,
    name: &str,
    values: Option<&[String]>,
    local: bool,
) -> Result<()> {
    session.ensure_transaction();
    let scope = if local { Scope::Local } else { Scope::Session };
    let progress = session.progress();
    session.settings.set(name, values, scope, progress)?;
    session.follow_settings();
    Ok(())
}

/// SET TRANSACTION, and SET SESSION CHARACTERISTICS.
pub(super) fn set_transaction(
    session: &mut SessionContext,
    of_session: bool,
    modes: &[Mode],
    notices: &mut Vec<Notice>,
) -> Result<()> {
    session.ensure_transaction();
    if !of_session {
        if session.current.state == State::Implicit {
            notices.push(
                SqlError::new(
                    SqlState::NO_ACTIVE_SQL_TRANSACTION,
                    "SET TRANSACTION can only be used in transaction blocks",
                )
                .severity(Severity::Warning),
            );
        }
        return session.set_modes(modes);
    }
    for mode in modes {
        let (name, value) = match *mode {
            Mode::Isolation(level) => ("default_transaction_isolation", level),
            Mode::ReadOnly(true) => ("default_transaction_read_only", "on"),
            Mode::ReadOnly(false) => ("default_transaction_read_only", "off"),
            Mode::Deferrable(true) => ("default_transaction_deferrable", "on"),
            Mode::Deferrable(false) => ("default_transaction_deferrable", "off"),
        };
        session.settings.set(name, Some(&[value.to_owned()]), Scope::Session, Progress::Begun)?;
    }
    Ok(())
}

/// The columns of SHOW.
pub(super) fn show_columns(session: &SessionContext, name: Option<&str>) -> Result<Vec<ResultColumn>> {
    Ok(match name {
        Some(name) => vec![text_column(&session.settings.show(name)?.0)],
        None => ["name", "setting", "description"].map(text_column).to_vec(),
    })
}

/// SHOW.
pub(super) fn show(session: &mut SessionContext, name: Option<&str>, sink: &mut dyn Sink) -> Result<()> {
    // Whose characteristics it may show.
    session.ensure_transaction();
    let columns = show_columns(session, name)?;
    sink.columns(&columns)?;
    plain_context(|context| match name {
        Some(name) => sink.row(context, &[Datum::Text(session.settings.show(name)?.1.into())]),
        None => session.settings.show_all().try_for_each(|(name, value, description)| {
            sink.row(
                context,
                &[name.to_owned(), value, description.to_owned()].map(|text| Datum::Text(text.into())),
            )
        }),
    })
}

/// RESET ALL.
pub(super) fn reset_all(session: &mut SessionContext) {
    session.ensure_transaction();
    session.settings.reset_all();
    session.follow_settings();
}

/// Fails if one of the tables does not exist.
pub(super) fn find_tables(session: &SessionContext, names: &[ObjectName]) -> Result<()> {
    let view = session.view();
    names.iter().try_for_each(|name| view.table(&session.name(name)?).map(drop))
}

/// LOCK TABLE. The engine's locks on trees conflict as PostgreSQL's modes do.
pub(super) fn lock_tables(
    session: &mut SessionContext,
    names: &[ObjectName],
    mode: &str,
    nowait: bool,
) -> Result<Tag> {
    if !session.in_block() {
        return Err(SqlError::new(
            SqlState::NO_ACTIVE_SQL_TRANSACTION,
            "LOCK TABLE can only be used in transaction blocks",
        ));
    }
    let lock = match mode {
        "access share" => TreeLock::Access,
        "row share" => TreeLock::IntentionShared,
        "row exclusive" => TreeLock::IntentionExclusive,
        "share update exclusive" => TreeLock::Maintenance,
        "share" => TreeLock::Shared,
        "share row exclusive" => TreeLock::SharedAlone,
        "exclusive" => TreeLock::Escalated,
        "access exclusive" => TreeLock::Exclusive,
        other => {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("syntax error at or near \"{other}\""),
            ));
        }
    };
    for name in names {
        let name = session.name(name)?;
        loop {
            let view = session.view();
            let table = view.table(&name)?;
            session.engine_transaction(false, view.catalog.csn)?;
            let timeout = session.settings.lock_timeout();
            let engine = session.engine()?;
            if nowait {
                engine.set_lock_timeout(Some(std::time::Duration::ZERO));
            }
            let locked = table.trees().try_for_each(|tree| engine.lock_tree(tree, lock));
            engine.set_lock_timeout(timeout);
            let unchanged = Arc::ptr_eq(&session.catalog(), &view.catalog);
            match locked {
                Ok(()) if unchanged => break,
                Ok(()) => {}
                Err(Error::NoSuchTree(_)) if !unchanged => {}
                Err(Error::LockTimeout) if nowait => {
                    return Err(SqlError::new(
                        SqlState::LOCK_NOT_AVAILABLE,
                        format!("could not obtain lock on relation \"{}\"", table.name),
                    ));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    tag("LOCK TABLE")
}

/// CHECKPOINT.
pub(super) fn checkpoint(session: &SessionContext, notices: &mut Vec<Notice>) -> Result<Tag> {
    match session.shared.engine.checkpoint() {
        Err(Error::Unsupported(_)) => {
            let why = "a database with a log of pages takes checkpoints as its log grows";
            notices.push(Notice::no_effect("CHECKPOINT", why));
        }
        done => done?,
    }
    tag("CHECKPOINT")
}

/// EXPLAIN.
pub(super) fn explain(
    executor: &mut Executor<'_>,
    (analyze, summary): (bool, bool),
    body: &Parsed,
    (types, values): (&[Type], &[Datum]),
    sink: &mut dyn Sink,
) -> Result<Tag> {
    let (statement, overriding) = plannable(&body.command)?;
    let planned = plan(executor.session, statement, overriding, types)?;
    planned.refuse_missing(values)?;
    let mut again = |session: &mut SessionContext| plan(session, statement, overriding, types);
    let planned = begin(executor.session, planned, &mut again)?;
    let mut lines = planned.explain(executor.session.settings.semantic_locks());
    if analyze {
        let before = executor.session.shared.clock.now();
        let mut running = executor.start(&planned, values)?;
        let (rows, _) = fetch(executor.session, &mut running, values, 0, &mut |_, _| Ok(()))?;
        let elapsed = executor.session.shared.clock.now().saturating_sub(before);
        lines.push(format!("Rows: {rows}"));
        if summary {
            lines.push(format!("Execution Time: {:.3} ms", elapsed.as_secs_f64() * 1e3));
        }
    }
    executor.session.end_engine_statement()?;
    send_lines("QUERY PLAN", lines, sink)?;
    tag("EXPLAIN")
}
