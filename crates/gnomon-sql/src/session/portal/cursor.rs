//! Cursors: DECLARE, FETCH, MOVE and CLOSE.

use std::sync::Arc;

use super::{Body, COPIES, Portal};
use crate::{
    Result, SqlError, SqlState,
    session::{
        Session, Sink,
        connection::{Tag, tag},
        parse::{FetchCount, Parsed},
        plan::plannable,
    },
    types::{Context, Datum, Type},
};

impl Session {
    /// DECLARE.
    pub(in crate::session) fn declare(
        &mut self,
        name: &str,
        hold: bool,
        body: &Parsed,
        (types, values): (&[Type], &[Datum]),
    ) -> Result<Tag> {
        if !hold && !self.in_block() {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        if self.portals.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{name}\" already exists"),
            ));
        }
        let (statement, _) = plannable(&body.command)?;
        let plan = self.plan(statement, None, types)?;
        plan.refuse_missing(values)?;
        let plan = self.begin_plan(plan, &mut |session| session.plan(statement, None, types))?;
        // It shows the rows as of now, whenever it is fetched.
        self.engine()?.fix_snapshot()?;
        let running = self.start_plan(&plan, values)?;
        let planned = Body::Plan { statement: None, plan, running: Some(running) };
        let text: Arc<str> = statement.to_string().into();
        let bytes = COPIES * text.len() + body.bytes();
        let mut portal = Portal::new(self, name, planned, values.to_vec(), text)?;
        portal.memory.grow(bytes)?;
        portal.hold = hold;
        self.portals.insert(name.to_owned(), portal);
        tag("DECLARE CURSOR")
    }

    /// FETCH and MOVE.
    pub(in crate::session) fn fetch_cursor(
        &mut self,
        name: &str,
        count: FetchCount,
        discard: bool,
        sink: &mut dyn Sink,
    ) -> Result<Tag> {
        self.settle_portals(Some(name))?;
        let Some(mut portal) = self.portals.remove(name) else {
            return Err(SqlError::new(
                SqlState::INVALID_CURSOR_NAME,
                format!("cursor \"{name}\" does not exist"),
            ));
        };
        let result = self.fetch_from(&mut portal, count, discard, sink);
        self.portals.insert(name.to_owned(), portal);
        result
    }

    fn fetch_from(
        &mut self,
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
            self.engine_transaction(true, gnomon_engine::Csn::default())?;
            let mut send = |context: &Context<'_>, row: &[Datum]| {
                if discard { Ok(()) } else { sink.row(context, row) }
            };
            self.advance(portal, max_rows, &mut send)?.0
        };
        tag(format!("{} {sent}", if discard { "MOVE" } else { "FETCH" }))
    }

    /// CLOSE.
    pub(in crate::session) fn close_cursor(&mut self, name: Option<&str>) -> Result<Tag> {
        match name {
            None => {
                self.portals.clear();
                tag("CLOSE CURSOR ALL")
            }
            Some(name) => match self.portals.remove(name) {
                Some(_) => tag("CLOSE CURSOR"),
                None => Err(SqlError::new(
                    SqlState::INVALID_CURSOR_NAME,
                    format!("cursor \"{name}\" does not exist"),
                )),
            },
        }
    }
}
