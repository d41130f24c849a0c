//! Cursors: DECLARE, FETCH, MOVE and CLOSE.

use std::sync::Arc;

use gnomon_engine::Csn;
use gnomon_parser::ast::{DeclareCursor, Fetch, FetchDirection};

use super::{
    command::Command,
    portal::{Body, Portal, Portals},
    prepared::COPIES,
};
use crate::{
    Result, SqlError, SqlState,
    context::SessionContext,
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
    if declare.is_binary {
        return Err(SqlError::unsupported("a BINARY cursor"));
    }
    if declare.scroll == Some(true) {
        return Err(SqlError::unsupported("a SCROLL cursor"));
    }
    if !declare.is_hold && !executor.session.in_block() {
        return Err(SqlError::new(
            SqlState::NO_ACTIVE_SQL_TRANSACTION,
            "DECLARE CURSOR can only be used in transaction blocks",
        ));
    }
    let name = &*declare.name.name;
    portals.refuse_taken(name)?;
    let mut plan_it = |session: &mut SessionContext| plan(session, &declare.statement, command.types);
    let planned = plan_it(executor.session)?;
    planned.refuse_missing(command.values)?;
    let planned = begin(executor.session, planned, &mut plan_it)?;
    // It shows the rows as of now, whenever it is fetched.
    executor.session.engine()?.fix_snapshot()?;
    let running = executor.start(&planned, command.values)?;
    let planned = Body::Plan { statement: None, plan: planned, running: Some(running) };
    let text: Arc<str> = command.text.into();
    let bytes = COPIES * text.len() + command.parsed.bytes();
    let mut portal = portals.make(executor.session, name, planned, command.values.to_vec(), text)?;
    portal.memory.grow(bytes)?;
    portal.hold = declare.is_hold;
    portals.insert(name, portal);
    tag("DECLARE CURSOR")
}

/// FETCH and MOVE. Cursors go forward only.
pub(super) fn fetch(
    executor: &mut Executor<'_>,
    portals: &Portals,
    fetch: &Fetch,
    sink: &mut dyn Sink,
) -> Result<Tag> {
    let count = match fetch.direction {
        FetchDirection::Forward(None) => None,
        FetchDirection::Forward(Some(rows)) => match usize::try_from(rows) {
            Ok(rows) => Some(rows),
            Err(_) => return Err(SqlError::unsupported("fetching backward")),
        },
        _ => return Err(SqlError::unsupported("fetching by position or backward")),
    };
    let name = &*fetch.cursor.name;
    portals.settle(executor.session, Some(name))?;
    let mut portal = portals.take_to_run("cursor", name)?;
    let result = fetch_from(executor, &mut portal, count, fetch.is_move, sink);
    portals.insert(name, portal);
    result
}

/// Fetches so many rows, without a count all that are left.
fn fetch_from(
    executor: &mut Executor<'_>,
    portal: &mut Portal,
    count: Option<usize>,
    discard: bool,
    sink: &mut dyn Sink,
) -> Result<Tag> {
    if !discard && let Some(columns) = portal.columns() {
        sink.columns(&columns)?;
    }
    let sent = if portal.done || count == Some(0) {
        0
    } else {
        // A held cursor needs no transaction's data, but the engine's transaction gives its rows' surroundings.
        executor.session.engine_transaction(true, Csn::default())?;
        let mut send = |context: &Context<'_>, row: &[Datum]| {
            if discard { Ok(()) } else { sink.row(context, row) }
        };
        portal.advance(executor, count.unwrap_or(0), &mut send)?.0
    };
    tag(format!("{} {sent}", if discard { "MOVE" } else { "FETCH" }))
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
