//! Prepared statements, portals and cursors: the extended protocol, and PREPARE, EXECUTE, DECLARE and FETCH.
//!
//! Statements of the extended protocol share an implicit transaction that goes on to [`Session::sync`]. A portal that
//! has returned some of its rows goes on where it stopped; when another statement begins in between, the rest of its
//! rows is read first and kept, since what a statement sees of the database ends with it.

mod cursor;
mod prepared;

use std::{borrow::Cow, sync::Arc};

pub(super) use self::prepared::Prepared;

use super::{
    Format, PortalState, ResultColumn, Session, Sink,
    again::FirstPortal,
    kept::KeptRows,
    parse::on_fit_stack,
    plan::{Plan, Running},
    transaction::State,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::system,
    memory::Held,
    types::{ColumnType, Context, Datum, FixedEnvironment, Type, binary, limit::row_bytes, text},
};

/// The most parameters that a statement may have.
pub(super) const PARAMETERS_MAX: usize = 65535;

/// The memory of a portal, beside its name, parameters and rows, in bytes.
const PORTAL_BYTES: usize = 1024;
/// A literal is kept in the text, in the syntax tree and in the plan.
const COPIES: usize = 3;

/// A portal, or a cursor.
pub(super) struct Portal {
    body: Body,
    /// The text of its query.
    text: Arc<str>,
    /// When it was opened, in microseconds since 2000-01-01 00:00 UTC.
    opened: i64,
    params: Vec<Datum>,
    /// True if it was run to its end.
    done: bool,
    /// The tag of what it has changed, once it is at its end.
    tag: Option<String>,
    /// DECLARE ... WITH HOLD: it stays when its transaction commits.
    hold: bool,
    /// True if the transaction that made it has committed.
    committed: bool,
    /// Number of rows that it returned.
    returned: u64,
    /// The formats in which a client wants the columns of its rows.
    formats: Arc<[Format]>,
    /// The memory that it takes without its rows.
    memory: Held,
    /// Number of portals that the session opened before it.
    number: u64,
}

/// How a portal was bound to a planned statement.
pub(super) struct Bound {
    statement: Arc<Prepared>,
    params: Vec<Datum>,
    pub(super) formats: Arc<[Format]>,
}

enum Body {
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

impl Portal {
    /// A portal of this name. Its statement is counted elsewhere.
    fn new(
        session: &mut Session,
        name: &str,
        body: Body,
        params: Vec<Datum>,
        text: Arc<str>,
    ) -> Result<Portal> {
        let memory = session.memory.hold(PORTAL_BYTES + 2 * name.len() + row_bytes(&params))?;
        let number = session.portals_opened;
        session.portals_opened += 1;
        let opened = session.statement_time;
        Ok(Portal {
            body,
            text,
            opened,
            params,
            done: false,
            tag: None,
            hold: false,
            committed: false,
            returned: 0,
            formats: Arc::default(),
            memory,
            number,
        })
    }

    /// Returns the row of pg_cursors.
    pub(super) fn describe(&self, name: &str) -> system::Cursor {
        system::Cursor {
            name: name.to_owned(),
            statement: self.text.to_string(),
            opened: self.opened,
            is_holdable: self.hold,
        }
    }

    /// True if it outlives a rollback to a savepoint before which so many portals were opened.
    pub(super) fn outlives_savepoint(&self, portals_opened: u64) -> bool {
        self.committed || self.number < portals_opened
    }

    /// True if it is to outlive its transaction, which has not ended yet.
    pub(super) fn waits_to_be_held(&self) -> bool {
        self.hold && !self.committed
    }

    /// Notes the end of its transaction; true if it outlives that.
    pub(super) fn outlives(&mut self, commits: bool) -> bool {
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
}

impl Session {
    /// Binds a portal to a prepared statement and its parameters (Bind); each is NULL or bytes in a format. `portal`
    /// empty is the unnamed one, which is replaced.
    pub fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: Vec<Option<(Format, Vec<u8>)>>,
    ) -> Result<()> {
        let numbered: Vec<_> = (1..).zip(parameters).collect();
        let result = self.bind_portal(portal, statement, &numbered, |context, (number, value), ty| {
            decode(context, *number, value.as_ref(), ty)
        });
        self.check_extended(result)
    }

    /// Binds parameters of any form; `decode` makes of each a value of its type.
    pub(super) fn bind_portal<P>(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: &[P],
        decode: impl Fn(&Context<'_>, &P, Type) -> Result<Datum>,
    ) -> Result<()> {
        let _alarm = self.start_statement()?;
        let prepared = self.statement(statement)?;
        if let Some(command) = prepared.command() {
            self.refuse_if_failed(command)?;
        }
        if !portal.is_empty() && self.portals.contains_key(portal) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{portal}\" already exists"),
            ));
        }
        self.ensure_transaction();
        let body = if prepared.parsed.is_none() {
            Body::Empty
        } else if prepared.is_planned() {
            let plan = self.plan_of(&prepared)?;
            Body::Plan { statement: Some(prepared.clone()), plan, running: None }
        } else {
            if prepared.planned_command().is_some() {
                self.plan_of(&prepared)?;
            }
            Body::Command(prepared.clone())
        };
        let types: Cow<'_, [Type]> = match &body {
            Body::Plan { plan, .. } => Cow::Borrowed(&plan.params),
            _ => Cow::Owned(prepared.parameter_types()),
        };
        if parameters.len() != types.len() {
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                    parameters.len(),
                    prepared.name,
                    types.len()
                ),
            ));
        }
        let params = if parameters.is_empty() {
            Vec::new()
        } else {
            self.with_types(|context, _| {
                parameters.iter().zip(types.iter()).map(|(value, ty)| decode(context, value, *ty)).collect()
            })?
        };
        self.interrupt.check()?;
        let opened = Portal::new(self, portal, body, params, prepared.text.clone())?;
        self.portals.insert(portal.to_owned(), opened);
        Ok(())
    }

    /// Opens a portal anew, as it was bound.
    pub(super) fn rebind(&mut self, name: &str, bound: &Bound) -> Result<()> {
        let _alarm = self.start_statement()?;
        self.ensure_transaction();
        let plan = self.plan_of(&bound.statement)?;
        let body = Body::Plan { statement: Some(bound.statement.clone()), plan, running: None };
        let mut opened = Portal::new(self, name, body, bound.params.clone(), bound.statement.text.clone())?;
        opened.formats = bound.formats.clone();
        self.portals.insert(name.to_owned(), opened);
        Ok(())
    }

    /// Returns how a portal that was not run yet was bound, if it is of a planned statement.
    fn fresh(&self, name: &str) -> Option<Bound> {
        let portal = self.portals.get(name)?;
        match &portal.body {
            Body::Plan { statement: Some(statement), running: None, .. } if !portal.done => Some(Bound {
                statement: statement.clone(),
                params: portal.params.clone(),
                formats: portal.formats.clone(),
            }),
            _ => None,
        }
    }

    /// The columns of a portal's result; none if it returns no rows.
    pub fn describe_portal(&mut self, name: &str) -> Result<Option<Vec<ResultColumn>>> {
        let result = self.portal_columns(name);
        self.check_extended(result)
    }

    fn portal_columns(&mut self, name: &str) -> Result<Option<Vec<ResultColumn>>> {
        let portal = self.portals.get(name).ok_or_else(|| missing_portal(name))?;
        let statement = match &portal.body {
            Body::Command(statement) => statement.clone(),
            _ => return Ok(portal.columns().map(|columns| columns.to_vec())),
        };
        match statement.command() {
            Some(command) => self.command_columns(command),
            None => Ok(None),
        }
    }

    /// The columns of the rows that running a portal of a query or of DML returns, for its sink: texts depend on their
    /// types. Other commands tell the sink themselves.
    pub fn columns_of_rows(&self, portal: &str) -> Option<Arc<[ResultColumn]>> {
        self.portals.get(portal).and_then(Portal::columns)
    }

    /// Sets the formats in which the client wants the columns of a portal's rows, as Bind gave them: none (all text),
    /// one (for all) or one for each column.
    ///
    /// # Errors
    /// 08P01 for another number of them, 53200.
    pub fn set_result_formats(&mut self, portal: &str, formats: Vec<Format>) -> Result<()> {
        if formats.is_empty() {
            return Ok(());
        }
        let set = self.give_formats(portal, formats);
        self.check_extended(set)
    }

    fn give_formats(&mut self, name: &str, formats: Vec<Format>) -> Result<()> {
        if formats.len() > 1
            && let Some(columns) = self.portal_columns(name)?
            && columns.len() != formats.len()
        {
            let (formats, columns) = (formats.len(), columns.len());
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("bind message has {formats} result formats but query has {columns} columns"),
            ));
        }
        if let Some(portal) = self.portals.get_mut(name) {
            portal.memory.grow(size_of_val(&formats[..]))?;
            portal.formats = formats.into();
        }
        Ok(())
    }

    /// The formats in which the client wants the columns of a portal's rows: empty if all are text.
    pub fn result_formats(&self, portal: &str) -> Arc<[Format]> {
        self.portals.get(portal).map_or_else(Arc::default, |portal| portal.formats.clone())
    }

    /// Runs a portal (Execute) until it is complete or has returned `max_rows` rows (0 for all). The sink is not
    /// told the columns, see [`Session::columns_of_rows`].
    pub fn execute_portal(
        &mut self,
        name: &str,
        max_rows: usize,
        sink: &mut dyn Sink,
    ) -> Result<PortalState> {
        let first = self
            .first_run(sink)
            .and_then(|runs| self.fresh(name).map(|portal| FirstPortal::new(name, portal, max_rows, runs)));
        let mut result = self.run_portal(name, max_rows, sink);
        if let Some(mut first) = first {
            if let Err(error) = result {
                result = self.run_first_again(&mut first, error, sink);
                self.spent = None;
            }
            if result.is_ok() {
                self.keep_first(first, sink);
            }
        }
        let result = self.check_extended(result);
        self.note_rest();
        result
    }

    pub(super) fn run_portal(
        &mut self,
        name: &str,
        max_rows: usize,
        sink: &mut dyn Sink,
    ) -> Result<PortalState> {
        let Some(mut portal) = self.portals.remove(name) else { return Err(missing_portal(name)) };
        self.note_statement(&portal.text.clone());
        self.current.portals_run += 1;
        let result = self.run_body(name, &mut portal, max_rows, sink);
        // A command such as CLOSE ALL or COMMIT ends the portals, its own among them.
        let keeps = matches!(portal.body, Body::Plan { .. }) && self.current.state != State::Idle;
        if keeps || matches!(portal.body, Body::Empty) {
            self.portals.insert(name.to_owned(), portal);
        }
        result
    }

    fn run_body(
        &mut self,
        name: &str,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn Sink,
    ) -> Result<PortalState> {
        match &mut portal.body {
            Body::Empty => {
                sink.empty()?;
                Ok(PortalState::Complete)
            }
            Body::Command(statement) => {
                let Some(parsed) = &statement.parsed else { return Ok(PortalState::Complete) };
                let before = self.settings.clone();
                let types = statement.parameter_types();
                let parameters = (&types[..], &portal.params[..]);
                let tag =
                    on_fit_stack(parsed.nesting, || self.run_with(&parsed.command, false, parameters, sink))?;
                self.report(&tag, &before, sink)?;
                Ok(PortalState::Complete)
            }
            Body::Plan { .. } => {
                let _alarm = self.start_statement()?;
                self.refuse_any_if_failed()?;
                self.settle_portals(Some(name))?;
                if portal.done {
                    if portal.columns().is_none() {
                        return Err(SqlError::new(
                            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                            format!("portal \"{name}\" cannot be run"),
                        ));
                    }
                    sink.complete(&counted(portal.tag.as_deref(), 0))?;
                    return Ok(PortalState::Complete);
                }
                let before = self.settings.clone();
                let (sent, tag) =
                    self.advance(portal, max_rows, &mut |context, row| sink.row(context, row))?;
                let Some(tag) = tag else {
                    sink.suspended()?;
                    return Ok(PortalState::Suspended);
                };
                let tag = match tag {
                    Some(tag) if portal.columns().is_none() => tag,
                    tag => counted(tag.as_deref(), sent),
                };
                self.report(&tag, &before, sink)?;
                Ok(PortalState::Complete)
            }
        }
    }

    /// Runs a planned portal on. Returns how many rows were sent and, once it is at its end, its command tag if it
    /// has one of its own.
    fn advance(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        send: &mut dyn FnMut(&Context<'_>, &[Datum]) -> Result<()>,
    ) -> Result<(u64, Option<Option<String>>)> {
        let Body::Plan { statement, plan, running } = &mut portal.body else { return Ok((0, None)) };
        let nesting = statement.as_ref().and_then(|s| s.parsed.as_ref()).map_or(0, |parsed| parsed.nesting);
        on_fit_stack(nesting, || {
            if running.is_none() {
                let statement = statement.clone();
                *plan = self.begin_plan(plan.clone(), &mut |session| match &statement {
                    Some(statement) => session.plan_of(statement),
                    None => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a cursor began with an old plan")),
                })?;
                *running = Some(self.start_plan(plan, &portal.params)?);
            }
            let Some(rows) = running.as_mut() else { return Ok((0, None)) };
            let (sent, end) = self.fetch(rows, &portal.params, max_rows, send)?;
            portal.returned += sent;
            if !end {
                return Ok((sent, None));
            }
            portal.done = true;
            let tag = match running.take() {
                Some(Running::Rows(_, tag)) => tag,
                _ => None,
            };
            self.end_engine_statement()?;
            portal.tag.clone_from(&tag);
            Ok((sent, Some(tag)))
        })
    }

    /// Before another statement begins: portals that are not at their end read the rest of their rows.
    pub(super) fn settle_portals(&mut self, except: Option<&str>) -> Result<()> {
        let open =
            |portal: &Portal| matches!(&portal.body, Body::Plan { running: Some(Running::Query(_)), .. });
        let names: Vec<String> = self
            .portals
            .iter()
            .filter(|(name, portal)| open(portal) && except != Some(name.as_str()))
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            let Some(mut portal) = self.portals.remove(&name) else { continue };
            self.settle(&mut portal)?;
            self.portals.insert(name, portal);
        }
        Ok(())
    }

    fn settle(&mut self, portal: &mut Portal) -> Result<()> {
        if let Body::Plan { running: Some(running), .. } = &mut portal.body
            && matches!(running, Running::Query(_))
        {
            let mut rows = KeptRows::new(self.memory.clone())?;
            match self.fetch(running, &portal.params, 0, &mut |_, row| rows.push(row)) {
                Ok(_) => {}
                // It is of the statement that reads so far, if one does.
                Err(error) if error.state().is_of_data() => rows.end_by(error),
                Err(error) => return Err(error),
            }
            *running = Running::Rows(rows, None);
        }
        Ok(())
    }

    /// Reads the rest of the cursors that stay beyond the transaction, before it commits.
    pub(super) fn settle_held(&mut self) -> Result<()> {
        if self.portals.values().any(|portal| portal.hold) {
            let held: Vec<String> =
                self.portals.iter().filter(|(_, p)| p.waits_to_be_held()).map(|(n, _)| n.clone()).collect();
            for name in held {
                let Some(mut portal) = self.portals.remove(&name) else { continue };
                self.settle(&mut portal)?;
                if let Body::Plan { running: Some(Running::Rows(rows, _)), .. } = &portal.body
                    && let Some(error) = rows.end()
                {
                    return Err(error.clone());
                }
                self.portals.insert(name, portal);
            }
        }
        Ok(())
    }

    /// Returns how many prepared statements there are.
    pub fn statement_count(&self) -> usize {
        self.statements.len()
    }

    /// Returns how many portals there are.
    pub fn portal_count(&self) -> usize {
        self.portals.len()
    }

    /// Forgets a prepared statement; no error if there is none.
    pub fn close_statement(&mut self, name: &str) {
        self.statements.remove(name);
    }

    /// Forgets a portal; no error if there is none.
    pub fn close_portal(&mut self, name: &str) {
        self.portals.remove(name);
    }

    /// Ends the implicit transaction of the extended protocol (Sync): commits it and waits until it is durable.
    /// After an error in one of the calls above it has been rolled back already.
    pub fn sync(&mut self) -> Result<()> {
        if self.current.state == State::Implicit {
            let result = self.commit();
            self.note_rest();
            return result;
        }
        Ok(())
    }

    fn check_extended<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.fail();
        }
        result
    }
}

/// The tag of a call of Execute that returned so many rows. As in PostgreSQL, a portal that returns the rows that it has
/// changed in parts counts each part.
fn counted(tag: Option<&str>, rows: u64) -> String {
    let tag = tag.unwrap_or("SELECT 0");
    match tag.rsplit_once(' ') {
        Some((command, _)) => format!("{command} {rows}"),
        None => tag.to_owned(),
    }
}

fn missing_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

/// A parameter as the client sent it, and its number.
fn decode(
    context: &Context<'_>,
    number: usize,
    value: Option<&(Format, Vec<u8>)>,
    ty: Type,
) -> Result<Datum> {
    let target = ColumnType { ty, modifier: -1 };
    match value {
        None => Ok(Datum::Null),
        Some((Format::Binary, bytes)) => binary::receive_parameter(bytes, target, number),
        Some((Format::Text, bytes)) => text::input(context, binary::validate_text(bytes)?, target),
    }
}

/// A context for rows of plain text, which is written alike everywhere.
pub(super) fn plain_context<R>(f: impl FnOnce(&Context<'_>) -> R) -> R {
    let environment = FixedEnvironment::default();
    f(&Context::new(&environment))
}
