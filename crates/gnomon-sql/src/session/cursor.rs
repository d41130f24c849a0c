//! Cursors: DECLARE, FETCH, MOVE and CLOSE.

use std::sync::Arc;

use gnomon_engine::Csn;
use gnomon_parser::ast::{DeclareCursor, Fetch, FetchDirection, LockStrength, Statement};

use super::{
    command::Command,
    portal::{Body, Portal, Portals, cannot_be_run},
    prepared::COPIES,
    scroll::{Place, Send},
};
use crate::{
    Result, SqlError, SqlState,
    context::{Company, SessionContext},
    sink::{Sink, Tag, tag},
    statement::{Executor, begin, plan},
    types::{Context, Datum},
};

/// DECLARE. INSENSITIVE and ASENSITIVE ask for what every cursor is.
pub(super) fn declare(
    executor: &mut Executor<'_>,
    portals: &Portals,
    declare: &DeclareCursor,
    command: Command<'_>,
) -> Result<Tag> {
    refuse_contradictions(declare)?;
    let mut plan_it = |session: &mut SessionContext| plan(session, &declare.statement, command.types);
    let planned = plan_it(executor.session)?;
    planned.refuse_missing(command.values)?;
    let lock = match &*declare.statement {
        Statement::Query(query) if !planned.reads_only() => query.locks.first().map(|lock| lock.strength),
        _ => None,
    };
    if let Some(lock) = lock {
        refuse_locking(declare, lock)?;
    }
    if !declare.is_hold && !executor.session.in_block() && command.company != Company::Text {
        return Err(SqlError::new(
            SqlState::NO_ACTIVE_SQL_TRANSACTION,
            "DECLARE CURSOR can only be used in transaction blocks",
        ));
    }
    let name = &*declare.name.name;
    portals.refuse_taken(name)?;
    let planned = begin(executor.session, planned, &mut plan_it)?;
    // It shows the rows as of now, whenever it is fetched.
    executor.session.engine()?.fix_snapshot()?;
    let (running, origins) = executor.start_cursor(&planned, command.values)?;
    let planned = Body::Plan { statement: None, plan: planned, running: Some(running) };
    let text: Arc<str> = command.text.into();
    let bytes = COPIES * text.len() + command.parsed.bytes();
    let mut portal = portals.make(executor.session, name, planned, command.values.to_vec(), text)?;
    portal.memory.grow(bytes)?;
    portal.hold = declare.is_hold;
    portal.is_binary = declare.is_binary;
    portal.origins = Some(origins);
    if !declare.is_no_scroll && lock.is_none() {
        portal.place = Place::scrolling(executor.session, declare.is_scroll)?;
    }
    portals.insert(name, portal);
    tag("DECLARE CURSOR")
}

/// Fails if options exclude each other.
fn refuse_contradictions(declare: &DeclareCursor) -> Result<()> {
    let invalid = |message: &str| Err(SqlError::new(SqlState::INVALID_CURSOR_DEFINITION, message));
    if declare.is_scroll && declare.is_no_scroll {
        return invalid("cannot specify both SCROLL and NO SCROLL");
    }
    if declare.is_insensitive && declare.is_asensitive {
        return invalid("cannot specify both ASENSITIVE and INSENSITIVE");
    }
    Ok(())
}

/// Fails if an option excludes the locking of rows.
fn refuse_locking(declare: &DeclareCursor, lock: LockStrength) -> Result<()> {
    let clause = lock.words();
    let unsupported = |kind: &str| {
        let message = format!("DECLARE {kind} ... {clause} is not supported");
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    };
    if declare.is_hold {
        return Err(unsupported("CURSOR WITH HOLD").detail("Holdable cursors must be READ ONLY."));
    }
    if declare.is_scroll {
        return Err(unsupported("SCROLL CURSOR").detail("Scrollable cursors must be READ ONLY."));
    }
    if declare.is_insensitive {
        let message = format!("DECLARE INSENSITIVE CURSOR ... {clause} is not valid");
        return Err(SqlError::new(SqlState::INVALID_CURSOR_DEFINITION, message)
            .detail("Insensitive cursors must be READ ONLY."));
    }
    Ok(())
}

/// FETCH and MOVE.
pub(super) fn fetch(
    executor: &mut Executor<'_>,
    portals: &Portals,
    fetch: &Fetch,
    sink: &mut dyn Sink,
) -> Result<Tag> {
    let name = &*fetch.cursor.name;
    portals.settle(executor.session, Some(name))?;
    let mut portal = portals.take_to_run("cursor", name)?;
    let result = match portal.is_failed {
        true => Err(cannot_be_run(name)),
        false => fetch_from(executor, &mut portal, fetch, sink),
    };
    portal.is_failed = result.is_err();
    portals.insert(name, portal);
    result
}

fn fetch_from(
    executor: &mut Executor<'_>,
    portal: &mut Portal,
    fetch: &Fetch,
    sink: &mut dyn Sink,
) -> Result<Tag> {
    if !fetch.is_move
        && let Some(columns) = portal.columns()
    {
        match portal.is_binary {
            true => sink.binary_columns(&columns)?,
            false => sink.columns(&columns)?,
        }
    }
    // A held cursor needs no transaction's data, but the engine's transaction gives its rows' surroundings.
    executor.session.engine_transaction(true, Csn::default())?;
    let count = if fetch.is_move {
        move_to(executor, portal, fetch.direction, true, &mut |_, _| Ok(()))?
    } else {
        let mut send = |context: &Context<'_>, row: &[Datum]| sink.row(context, row);
        move_to(executor, portal, fetch.direction, false, &mut send)?
    };
    tag(format!("{} {count}", if fetch.is_move { "MOVE" } else { "FETCH" }))
}

/// Moves a cursor, and sends the rows that the move is for. Returns how many they were.
fn move_to(
    executor: &mut Executor<'_>,
    portal: &mut Portal,
    direction: FetchDirection,
    is_move: bool,
    send: Send<'_>,
) -> Result<u64> {
    let mut pass = |_: &Context<'_>, _: &[Datum]| Ok(());
    match direction {
        FetchDirection::Forward(None) => portal.forward(executor, None, send),
        FetchDirection::Backward(None) => portal.backward(executor, None, send),
        FetchDirection::Forward(Some(0))
        | FetchDirection::Backward(Some(0))
        | FetchDirection::Relative(0) => match portal.place.is_on_row() {
            false => Ok(0),
            true if is_move => Ok(1),
            true => {
                portal.backward(executor, Some(1), &mut pass)?;
                portal.forward(executor, Some(1), send)
            }
        },
        FetchDirection::Forward(Some(rows)) if rows > 0 => {
            portal.forward(executor, Some(rows.unsigned_abs()), send)
        }
        FetchDirection::Backward(Some(rows)) if rows < 0 => {
            portal.forward(executor, Some(rows.unsigned_abs()), send)
        }
        FetchDirection::Forward(Some(rows)) | FetchDirection::Backward(Some(rows)) => {
            portal.backward(executor, Some(rows.unsigned_abs()), send)
        }
        FetchDirection::Absolute(0) => portal.place.rewind().map(|()| 0),
        FetchDirection::Absolute(row) if row > 0 => portal.go_to_row(executor, row.unsigned_abs(), send),
        FetchDirection::Absolute(row) => {
            portal.forward(executor, None, &mut pass)?;
            portal.backward(executor, Some(row.unsigned_abs() - 1), &mut pass)?;
            portal.backward(executor, Some(1), send)
        }
        FetchDirection::Relative(rows) if rows > 0 => {
            portal.forward(executor, Some(rows.unsigned_abs() - 1), &mut pass)?;
            portal.forward(executor, Some(1), send)
        }
        FetchDirection::Relative(rows) => {
            portal.backward(executor, Some(rows.unsigned_abs() - 1), &mut pass)?;
            portal.backward(executor, Some(1), send)
        }
    }
}

/// CLOSE.
pub(super) fn close(portals: &Portals, name: Option<&str>) -> Result<Tag> {
    match name {
        None => {
            portals.clear();
            tag("CLOSE CURSOR ALL")
        }
        Some(name) => portals.take_to_run("cursor", name).and_then(|_| tag("CLOSE CURSOR")),
    }
}
