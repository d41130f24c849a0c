//! Portals and cursors: statements that return their rows some at a time.
//!
//! A portal that has returned some of its rows goes on where it stopped; when another statement begins in between, the
//! rest of its rows is read first and kept, since what a statement sees of the database ends with it.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use gnomon_engine::sync::Mutex;

use super::{Format, current::Departures, measured::Measure, prepared::Prepared, scroll::Place};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        model::{Oid, Table},
        system,
    },
    context::SessionContext,
    database::timer::Alarm,
    memory::Held,
    query::{ResultColumn, plan::Origins},
    statement::{Executor, KeptRows, Plan, Running, begin, fetch},
    syntax::on_fit_stack,
    types::{Context, Datum, Type, limit::row_bytes},
};

/// The memory of a portal, beside its name, parameters and rows, in bytes.
const PORTAL_BYTES: usize = 1024;

/// A portal, or a cursor.
pub(super) struct Portal {
    pub(super) body: Body,
    /// The text of its query.
    pub(super) text: Arc<str>,
    /// When it was opened, in microseconds since 2000-01-01 00:00 UTC.
    opened: i64,
    pub(super) params: Vec<Datum>,
    /// True if it was run to its end.
    pub(super) done: bool,
    /// The tag of what it has changed, once it is at its end.
    pub(super) tag: Option<String>,
    /// DECLARE ... WITH HOLD: it stays when its transaction commits.
    pub(super) hold: bool,
    /// DECLARE BINARY: FETCH sends its rows in binary form.
    pub(super) is_binary: bool,
    /// True if a fetch has failed: then it is not run any more.
    pub(super) is_failed: bool,
    /// Where a cursor is among its rows.
    pub(super) place: Place,
    /// The tables that its rows come from, once it has begun and if it returns its rows some at a time.
    pub(super) origins: Option<Origins>,
    /// True if the transaction that made it has committed.
    committed: bool,
    /// The formats in which a client wants the columns of its rows.
    pub(super) formats: Arc<[Format]>,
    /// Its time and rows so far, if it is counted.
    pub(super) measure: Option<Measure>,
    /// The memory that it takes without its rows.
    pub(super) memory: Held,
    /// The rows that have left their keys since it began.
    pub(super) departures: Departures,
    /// True if statements can name it.
    is_named: bool,
    /// Its number, larger than those of the portals that the session opened before it.
    number: u64,
}

/// A statement that a portal is to run, before its parameters have values.
pub(super) struct Unbound {
    pub(super) prepared: Arc<Prepared>,
    pub(super) body: Body,
}

/// How a portal was bound to a planned statement.
pub(super) struct Bound {
    pub(super) statement: Arc<Prepared>,
    pub(super) params: Vec<Datum>,
    pub(super) formats: Arc<[Format]>,
}

/// The statement of a portal.
pub(super) enum Body {
    Empty,
    /// A query or DML.
    Plan {
        statement: Option<Arc<Prepared>>,
        plan: Arc<Plan>,
        running: Option<Running>,
    },
    /// Another command.
    Command(Arc<Prepared>),
}

impl Unbound {
    /// The types of its parameters.
    pub(super) fn types(&self) -> Cow<'_, [Type]> {
        match &self.body {
            Body::Plan { plan, .. } => Cow::Borrowed(&plan.params),
            _ => Cow::Owned(self.prepared.parameter_types()),
        }
    }
}

impl Portal {
    /// True if it outlives the transaction that made it.
    pub(super) fn is_held(&self) -> bool {
        self.committed
    }

    /// Returns the row of pg_cursors.
    fn describe(&self, name: &str) -> system::Cursor {
        system::Cursor {
            name: name.to_owned(),
            statement: self.text.to_string(),
            opened: self.opened,
            is_holdable: self.hold,
            is_binary: self.is_binary,
            is_scrollable: self.place.is_scrollable(),
        }
    }

    /// True if it outlives a rollback to a savepoint, after which portals got numbers from this one on.
    fn outlives_savepoint(&self, first: u64) -> bool {
        self.committed || self.number < first
    }

    /// True if it reads a table, or a partition by its own name, as long as it is open; a held one has its rows.
    fn reads(&self, relation: Oid) -> bool {
        match &self.body {
            Body::Plan { plan, running, .. } if !self.committed && !self.is_failed => {
                let is_open = running.is_some() || (self.is_named && (!self.done || plan.is_query()));
                is_open && plan.reads(relation)
            }
            _ => false,
        }
    }

    /// True if it is to outlive its transaction, which has not ended yet.
    fn waits_to_be_held(&self) -> bool {
        self.hold && !self.committed
    }

    /// Notes the end of its transaction; true if it outlives that.
    fn outlives(&mut self, commits: bool) -> bool {
        self.committed |= self.hold && commits;
        self.committed
    }

    /// The columns of a query's rows, and of the rows that DML returns.
    pub(super) fn columns(&self) -> Option<Arc<[ResultColumn]>> {
        match &self.body {
            Body::Plan { plan, .. } => plan.columns(),
            _ => None,
        }
    }

    /// Runs it on, if it is planned. Rows have the keys of [`Portal::origins`] behind their columns. Returns how many rows
    /// were sent and, once it is at its end, the command tag of this call.
    pub(super) fn advance(
        &mut self,
        executor: &mut Executor<'_>,
        max_rows: usize,
        send: &mut dyn FnMut(&Context<'_>, &[Datum]) -> Result<()>,
    ) -> Result<(u64, Option<String>)> {
        if self.done {
            return Ok((0, Some(counted(self.tag.as_deref(), 0))));
        }
        let Body::Plan { statement, plan, running } = &mut self.body else { return Ok((0, None)) };
        let nesting = statement.as_ref().and_then(|s| s.parsed.as_ref()).map_or(0, |parsed| parsed.nesting);
        on_fit_stack(nesting, || {
            if running.is_none() {
                let statement = statement.clone();
                *plan = begin(executor.session, plan.clone(), &mut |session| match &statement {
                    Some(statement) => statement.plan(session),
                    None => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a cursor began with an old plan")),
                })?;
                *running = Some(match self.is_named && max_rows > 0 {
                    true => {
                        let (running, origins) = executor.start_cursor(plan, &self.params)?;
                        self.origins = Some(origins);
                        running
                    }
                    false => executor.start(plan, &self.params)?,
                });
            }
            let Some(rows) = running.as_mut() else { return Ok((0, None)) };
            let (sent, end) = fetch(executor.session, rows, &self.params, max_rows, send)?;
            if !end {
                return Ok((sent, None));
            }
            self.done = true;
            let tag = match running.take() {
                Some(Running::Rows(_, tag)) => tag,
                _ => None,
            };
            executor.session.end_engine_statement()?;
            self.tag.clone_from(&tag);
            let tag = match tag {
                Some(tag) if plan.columns().is_none() => tag,
                tag => counted(tag.as_deref(), sent),
            };
            Ok((sent, Some(tag)))
        })
    }

    /// Reads the rest of its rows.
    fn settle(&mut self, session: &mut SessionContext) -> Result<()> {
        if let Body::Plan { running: Some(running), .. } = &mut self.body
            && matches!(running, Running::Query(_))
        {
            let mut rows = KeptRows::new(session.memory.clone())?;
            match fetch(session, running, &self.params, 0, &mut |_, row| rows.push(row)) {
                Ok(_) => {}
                // It is of the statement that reads so far, if one does.
                Err(error) if error.state().is_of_data() => rows.end_by(error),
                Err(error) => return Err(error),
            }
            *running = Running::Rows(rows, None);
        }
        Ok(())
    }
}

/// The portals and cursors of a session, by name; the empty name is that of the unnamed portal.
#[derive(Default)]
pub(super) struct Portals(Mutex<Open>);

#[derive(Default)]
struct Open {
    // Most sessions have one at a time: a tree of one finds it sooner than a hash would be made.
    open: BTreeMap<String, Box<Portal>>,
    /// The numbers that portals, and statements beside them, have got so far.
    numbers: u64,
}

impl Portals {
    /// Makes a portal for a name. Its statement is counted elsewhere.
    pub(super) fn make(
        &self,
        session: &SessionContext,
        name: &str,
        body: Body,
        params: Vec<Datum>,
        text: Arc<str>,
    ) -> Result<Box<Portal>> {
        let memory = session.memory.hold(PORTAL_BYTES + 2 * name.len() + row_bytes(&params))?;
        let mut portals = self.0.lock();
        let number = portals.numbers;
        portals.numbers += 1;
        Ok(Box::new(Portal {
            body,
            text,
            opened: session.statement_time,
            params,
            done: false,
            tag: None,
            hold: false,
            is_binary: false,
            is_failed: false,
            place: Place::forward_only(),
            origins: None,
            committed: false,
            formats: Arc::default(),
            measure: None,
            memory,
            departures: Departures::default(),
            is_named: !name.is_empty(),
            number,
        }))
    }

    /// Opens a portal of a statement whose parameters have these values, in place of the one that had the name.
    pub(super) fn open(
        &self,
        session: &SessionContext,
        name: &str,
        unbound: Unbound,
        params: Vec<Datum>,
    ) -> Result<()> {
        let Unbound { prepared, body } = unbound;
        self.insert(name, self.make(session, name, body, params, prepared.text.clone())?);
        Ok(())
    }

    /// Adds a portal, in place of the one that had the name.
    pub(super) fn insert(&self, name: &str, portal: Box<Portal>) {
        let former = self.0.lock().open.insert(name.to_owned(), portal);
        drop(former);
    }

    /// Takes a portal out.
    pub(super) fn take(&self, name: &str) -> Option<Box<Portal>> {
        self.0.lock().open.remove(name)
    }

    /// Takes a portal out to run it.
    ///
    /// # Errors
    /// 34000 if there is none of this name. `kind` names it in the message.
    pub(super) fn take_to_run(&self, kind: &str, name: &str) -> Result<Box<Portal>> {
        self.take(name).ok_or_else(|| missing(kind, name))
    }

    /// Looks at a portal.
    ///
    /// # Errors
    /// 34000 if there is none of this name.
    pub(super) fn with<R>(&self, name: &str, look: impl FnOnce(&mut Portal) -> R) -> Result<R> {
        self.0.lock().open.get_mut(name).map(|portal| look(portal)).ok_or_else(|| missing("portal", name))
    }

    /// True if the query of an open portal reads a table, or a partition by its own name.
    pub(super) fn read(&self, relation: Oid) -> bool {
        self.0.lock().open.values().any(|portal| portal.reads(relation))
    }

    /// Returns the key of the row of a table that a cursor is on, as
    /// [`Cursors::current_row`](crate::query::Cursors::current_row) does.
    pub(super) fn current_row(&self, cursor: &str, table: &Table) -> Result<Option<Vec<u8>>> {
        let portals = self.0.lock();
        let portal = portals.open.get(cursor).ok_or_else(|| missing("cursor", cursor))?;
        portal.current_row(cursor, table)
    }

    /// Returns the number of a statement that begins.
    pub(super) fn begin_statement(&self) -> u64 {
        let Open { open, numbers } = &mut *self.0.lock();
        let number = *numbers;
        *numbers += u64::from(!open.is_empty());
        number
    }

    /// Notes that a row has left its key, as [`Cursors::row_left`](crate::query::Cursors::row_left) does.
    pub(super) fn row_left(
        &self,
        statement: u64,
        table: &Table,
        key: &[u8],
        new_key: Option<&[u8]>,
    ) -> Result<()> {
        let mut portals = self.0.lock();
        portals.open.values_mut().try_for_each(|portal| portal.row_left(statement, table, key, new_key))
    }

    /// Fails if a portal has this name.
    pub(super) fn refuse_taken(&self, name: &str) -> Result<()> {
        if self.0.lock().open.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{name}\" already exists"),
            ));
        }
        Ok(())
    }

    /// Closes all of them.
    pub(super) fn clear(&self) {
        self.0.lock().open.clear();
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.0.lock().open.len()
    }

    /// Returns the number that the next portal gets: what has a smaller one was before a savepoint that is set now.
    pub(super) fn next_number(&self) -> u64 {
        self.0.lock().numbers
    }

    /// The columns of a portal's rows, if it returns any.
    pub(super) fn columns(&self, name: &str) -> Option<Arc<[ResultColumn]>> {
        self.0.lock().open.get(name).and_then(|portal| portal.columns())
    }

    /// Returns the rows of pg_cursors.
    pub(super) fn describe(&self) -> Vec<system::Cursor> {
        self.0.lock().open.iter().map(|(name, portal)| portal.describe(name)).collect()
    }

    /// True if one of them is to outlive its transaction, which has not ended yet.
    pub(super) fn wait_to_be_held(&self) -> bool {
        self.0.lock().open.values().any(|portal| portal.waits_to_be_held())
    }

    /// Closes those that end with their transaction.
    pub(super) fn end_transaction(&self, commits: bool) {
        self.0.lock().open.retain(|_, portal| portal.outlives(commits));
    }

    /// Closes those of the transaction that were opened after a savepoint: with numbers from this one on.
    pub(super) fn end_savepoint(&self, first: u64) {
        let portals = &mut self.0.lock().open;
        portals.retain(|_, portal| portal.outlives_savepoint(first));
        portals.values_mut().for_each(|portal| portal.departures.forget_since(first));
    }

    /// Returns how a portal that was not run yet was bound, if it is of a planned statement.
    pub(super) fn fresh(&self, name: &str) -> Option<Bound> {
        let portals = self.0.lock();
        let portal = portals.open.get(name)?;
        match &portal.body {
            Body::Plan { statement: Some(statement), running: None, .. } if !portal.done => Some(Bound {
                statement: statement.clone(),
                params: portal.params.clone(),
                formats: portal.formats.clone(),
            }),
            _ => None,
        }
    }

    fn names(&self, which: impl Fn(&str, &Portal) -> bool) -> Vec<String> {
        let portals = self.0.lock();
        let found = portals.open.iter().filter(|(name, portal)| which(name, portal));
        found.map(|(name, _)| name.clone()).collect()
    }

    /// Before another statement begins: portals that are not at their end read the rest of their rows.
    pub(super) fn settle(&self, session: &mut SessionContext, except: Option<&str>) -> Result<()> {
        let open =
            |portal: &Portal| matches!(&portal.body, Body::Plan { running: Some(Running::Query(_)), .. });
        let names = self.names(|name, portal| open(portal) && except != Some(name));
        for name in names {
            let Some(mut portal) = self.take(&name) else { continue };
            portal.settle(session)?;
            self.insert(&name, portal);
        }
        Ok(())
    }

    /// Begins the statement in which a planned portal runs.
    pub(super) fn start(
        &self,
        session: &mut SessionContext,
        name: &str,
        portal: &Portal,
    ) -> Result<Option<Alarm>> {
        let alarm = session.start_statement()?;
        session.refuse_any_if_failed()?;
        self.settle(session, Some(name))?;
        match portal.done && portal.columns().is_none() {
            true => Err(cannot_be_run(name)),
            false => Ok(alarm),
        }
    }

    /// Reads the rest of the cursors that stay beyond the transaction, before it commits.
    pub(super) fn settle_held(&self, session: &mut SessionContext) -> Result<()> {
        for name in self.names(|_, portal| portal.waits_to_be_held()) {
            let Some(mut portal) = self.take(&name) else { continue };
            portal.settle(session)?;
            if let Body::Plan { running: Some(Running::Rows(rows, _)), .. } = &portal.body
                && let Some(error) = rows.end()
            {
                return Err(error.clone());
            }
            self.insert(&name, portal);
        }
        Ok(())
    }
}

/// The tag of a call of Execute that returned so many rows. As in PostgreSQL, a portal that returns the rows that it has
/// changed in parts counts each part.
pub(super) fn counted(tag: Option<&str>, rows: u64) -> String {
    let tag = tag.unwrap_or("SELECT 0");
    match tag.rsplit_once(' ') {
        Some((command, _)) => format!("{command} {rows}"),
        None => tag.to_owned(),
    }
}

/// The error of a portal that is not run once more.
pub(super) fn cannot_be_run(name: &str) -> SqlError {
    let message = format!("portal \"{name}\" cannot be run");
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

fn missing(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("{kind} \"{name}\" does not exist"))
}
