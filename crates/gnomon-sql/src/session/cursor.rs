//! Cursors: DECLARE, FETCH, MOVE and CLOSE.

use std::sync::Arc;

use gnomon_engine::Csn;

use super::{
    parse::{FetchCount, Parsed},
    portal::{Body, Portal, Portals},
    prepared::COPIES,
};
use crate::{
    Result, SqlError, SqlState,
    sink::{Sink, Tag, tag},
    statement::{Executor, begin, plan, plannable},
    types::{Context, Datum, Type},
};

/// DECLARE.
pub(super) fn declare(
    executor: &mut Executor<'_>,
    portals: &Portals,
    (name, hold): (&str, bool),
    body: &Parsed,
    (types, values): (&[Type], &[Datum]),
) -> Result<Tag> {
    if !hold && !executor.session.in_block() {
        return Err(SqlError::new(
            SqlState::NO_ACTIVE_SQL_TRANSACTION,
            "DECLARE CURSOR can only be used in transaction blocks",
        ));
    }
    portals.refuse_taken(name)?;
    let (statement, _) = plannable(&body.command)?;
    let planned = plan(executor.session, statement, None, types)?;
    planned.refuse_missing(values)?;
    let planned = begin(executor.session, planned, &mut |session| plan(session, statement, None, types))?;
    // It shows the rows as of now, whenever it is fetched.
    executor.session.engine()?.fix_snapshot()?;
    let running = executor.start(&planned, values)?;
    let planned = Body::Plan { statement: None, plan: planned, running: Some(running) };
    let text: Arc<str> = statement.to_string().into();
    let bytes = COPIES * text.len() + body.bytes();
    let mut portal = portals.make(executor.session, name, planned, values.to_vec(), text)?;
    portal.memory.grow(bytes)?;
    portal.hold = hold;
    portals.insert(name, portal);
    tag("DECLARE CURSOR")
}

/// FETCH and MOVE.
pub(super) fn fetch(
    executor: &mut Executor<'_>,
    portals: &Portals,
    name: &str,
    (count, discard): (FetchCount, bool),
    sink: &mut dyn Sink,
) -> Result<Tag> {
    portals.settle(executor.session, Some(name))?;
    let mut portal = portals.take_to_run("cursor", name)?;
    let result = fetch_from(executor, &mut portal, count, discard, sink);
    portals.insert(name, portal);
    result
}

fn fetch_from(
    executor: &mut Executor<'_>,
    portal: &mut Portal,
    count: FetchCount,
    discard: bool,
    sink: &mut dyn Sink,
) -> Result<Tag> {
    if !discard && let Some(columns) = portal.columns() {
        sink.columns(&columns)?;
    }
    let max_rows = match count {
        FetchCount::All => 0,
        FetchCount::Forward(rows) => rows,
    };
    let sent = if portal.done || count == FetchCount::Forward(0) {
        0
    } else {
        // A held cursor needs no transaction's data, but the engine's transaction gives its rows' surroundings.
        executor.session.engine_transaction(true, Csn::default())?;
        let mut send = |context: &Context<'_>, row: &[Datum]| {
            if discard { Ok(()) } else { sink.row(context, row) }
        };
        portal.advance(executor, max_rows, &mut send)?.0
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
