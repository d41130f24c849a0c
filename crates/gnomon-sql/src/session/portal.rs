//! Prepared statements, portals and cursors: the extended protocol, and PREPARE, EXECUTE, DECLARE and FETCH.
//!
//! Statements of the extended protocol share an implicit transaction that goes on to [`Session::sync`]. A portal that
//! has returned some of its rows goes on where it stopped; when another statement begins in between, the rest of its
//! rows is read first and kept, since what a statement sees of the database ends with it.

use std::{borrow::Cow, sync::Arc};

use gnomon::sync::Mutex;

use super::{
    Format, PortalState, ResultColumn, Session, Sink, StatementDescription,
    again::FirstPortal,
    connection::{Tag, tag},
    kept::KeptRows,
    parse::{self, Command, FetchCount, Parsed, on_fit_stack},
    plan::{Plan, Running, is_plannable, plannable},
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

/// What a portal takes in memory, beside what depends on what it is.
const PORTAL_BYTES: usize = 1024;
/// The same of a prepared statement.
const STATEMENT_BYTES: usize = 8192;
/// A literal is kept in the text, in the syntax tree and in the plan.
const COPIES: usize = 3;

/// A prepared statement.
pub(super) struct Prepared {
    pub(super) name: String,
    /// Its text, as it was given by the protocol; what PREPARE prepared is written anew.
    text: Arc<str>,
    /// When it was prepared, in microseconds since 2000-01-01 00:00 UTC.
    prepared: i64,
    from_sql: bool,
    /// None for an empty text.
    pub(super) parsed: Option<Parsed>,
    /// The types of its parameters as declared; unknown where they were left open.
    declared: Vec<Type>,
    /// The plan made last.
    plan: Mutex<Option<Arc<Plan>>>,
    /// What all of this takes in memory.
    _memory: Held,
}

/// A portal, or a cursor.
pub(super) struct Portal {
    body: Body,
    /// The text of its query.
    text: Arc<str>,
    /// When it was opened, in microseconds since 2000-01-01 00:00 UTC.
    opened: i64,
    params: Vec<Datum>,
    /// Whether it was run to its end.
    done: bool,
    /// The tag of what it has changed, once it is at its end.
    tag: Option<String>,
    /// DECLARE ... WITH HOLD: it stays when its transaction commits.
    hold: bool,
    /// Whether the transaction that made it has committed.
    committed: bool,
    /// How many rows it returned.
    returned: u64,
    /// The formats in which a client wants the columns of its rows.
    formats: Arc<[Format]>,
    /// What it takes in memory without its rows.
    memory: Held,
    /// How many portals the session opened before it.
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

    /// What pg_cursors shows of it.
    pub(super) fn describe(&self, name: &str) -> system::Cursor {
        system::Cursor {
            name: name.to_owned(),
            statement: self.text.to_string(),
            opened: self.opened,
            is_holdable: self.hold,
        }
    }

    /// Whether it outlives a rollback to a savepoint before which so many portals were opened.
    pub(super) fn outlives_savepoint(&self, portals_opened: u64) -> bool {
        self.committed || self.number < portals_opened
    }

    /// Whether it is to outlive its transaction, which has not ended yet.
    pub(super) fn waits_to_be_held(&self) -> bool {
        self.hold && !self.committed
    }

    /// Whether it outlives its transaction, which ends now.
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

impl Prepared {
    fn command(&self) -> Option<&Command> {
        self.parsed.as_ref().map(|parsed| &parsed.command)
    }

    /// What pg_prepared_statements shows of it.
    pub(super) fn describe(&self) -> system::PreparedStatement {
        system::PreparedStatement {
            name: self.name.clone(),
            statement: self.text.to_string(),
            prepared: self.prepared,
            parameters: self.parameter_types(),
            from_sql: self.from_sql,
        }
    }

    /// True if it is run by a plan.
    fn is_planned(&self) -> bool {
        matches!(self.command(), Some(Command::Sql(statement, _)) if is_plannable(statement))
    }

    /// The command that a plan is made of: its own, or the one that it explains or declares a cursor for.
    fn planned_command(&self) -> Option<&Command> {
        let command = match self.command()? {
            Command::Explain { body, .. } | Command::Declare { body, .. } => &body.command,
            command => command,
        };
        matches!(command, Command::Sql(statement, _) if is_plannable(statement)).then_some(command)
    }

    /// The types of its parameters, as far as they are known.
    fn parameter_types(&self) -> Vec<Type> {
        self.plan.lock().as_ref().map_or_else(|| self.declared.clone(), |plan| plan.params.clone())
    }
}

impl Session {
    /// Prepares a statement (Parse). `name` empty is the unnamed one, which is replaced. `parameters` are the types
    /// that the client declared; those it left open, and those beyond them, are inferred.
    pub fn prepare(&mut self, name: &str, sql: &str, parameters: &[Option<Type>]) -> Result<()> {
        let result = self.prepare_text(name, sql, parameters);
        self.check_extended(result)
    }

    pub(super) fn prepare_text(&mut self, name: &str, sql: &str, parameters: &[Option<Type>]) -> Result<()> {
        let _alarm = self.start_statement()?;
        let (mut statements, memory) = self.parse(sql)?;
        if statements.len() > 1 {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let declared = parameters.iter().map(|ty| ty.unwrap_or(Type::Unknown)).collect();
        // What stays of it is counted by itself.
        drop(memory);
        self.add_statement(name, statements.pop(), declared, Some(sql))
            .map_err(|error| parse::locate(error, sql))
    }

    /// Adds a prepared statement; its plan is made at once, so that errors are found now. `text` is the protocol's;
    /// PREPARE has none.
    pub(super) fn add_statement(
        &mut self,
        name: &str,
        parsed: Option<Parsed>,
        declared: Vec<Type>,
        text: Option<&str>,
    ) -> Result<()> {
        if let Some(parsed) = &parsed {
            self.refuse_if_failed(&parsed.command)?;
        }
        if name.is_empty() {
            self.statements.remove("");
        } else if self.statements.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        if declared.len() > PARAMETERS_MAX {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a statement can have at most {PARAMETERS_MAX} parameters"),
            ));
        }
        let written: Arc<str> = match (text, parsed.as_ref().map(|parsed| &parsed.command)) {
            (Some(text), _) => text.into(),
            (None, Some(Command::Sql(statement, _))) => statement.to_string().into(),
            (None, _) => "".into(),
        };
        let bytes = STATEMENT_BYTES
            + 2 * name.len()
            + COPIES * written.len()
            + declared.len() * size_of::<Type>()
            + parsed.as_ref().map_or(0, Parsed::bytes);
        let prepared = Arc::new(Prepared {
            _memory: self.memory.hold(bytes)?,
            name: name.to_owned(),
            text: written,
            prepared: self.statement_time,
            from_sql: text.is_none(),
            parsed,
            declared,
            plan: Mutex::new(None),
        });
        if prepared.planned_command().is_some() {
            self.ensure_transaction();
            self.plan_of(&prepared)?;
            self.interrupt.check()?;
        }
        self.statements.insert(name.to_owned(), prepared);
        Ok(())
    }

    /// The plan of a prepared statement, made anew if the catalog changed. Its result must stay the same.
    fn plan_of(&mut self, prepared: &Prepared) -> Result<Arc<Plan>> {
        let kept = prepared.plan.lock().clone();
        if let Some(plan) = &kept
            && self.is_current(plan)
        {
            return Ok(plan.clone());
        }
        let (Some(parsed), Some(command)) = (&prepared.parsed, prepared.planned_command()) else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "the statement has no plan"));
        };
        let (statement, overriding) = plannable(command)?;
        // Types that were inferred once are what clients send from then on.
        let declared = kept.as_ref().map_or(&prepared.declared, |plan| &plan.params);
        let plan = on_fit_stack(parsed.nesting, || self.plan(statement, overriding, declared));
        let plan = plan.map_err(|error| match (&kept, prepared.from_sql) {
            (_, false) => parse::locate(error, &prepared.text),
            // The text that PREPARE stood in is no longer there.
            (Some(_), true) => error.unplaced(),
            (None, true) => error,
        })?;
        if let Some(kept) = &kept
            && prepared.is_planned()
            && !same_columns(kept.columns().as_deref(), plan.columns().as_deref())
        {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
            )
            .routine("RevalidateCachedQuery"));
        }
        *prepared.plan.lock() = Some(plan.clone());
        Ok(plan)
    }

    /// What Describe tells of a prepared statement.
    pub fn describe_statement(&mut self, name: &str) -> Result<StatementDescription> {
        let result = self.statement(name).and_then(|statement| self.describe(&statement));
        self.check_extended(result)
    }

    fn describe(&mut self, statement: &Arc<Prepared>) -> Result<StatementDescription> {
        if statement.is_planned() {
            if let Some(parsed) = &statement.parsed {
                self.refuse_if_failed(&parsed.command)?;
            }
            let plan = self.plan_of(statement)?;
            return Ok(StatementDescription {
                parameters: plan.params.clone(),
                columns: plan.columns().map(|columns| columns.to_vec()),
            });
        }
        if statement.planned_command().is_some() {
            self.plan_of(statement)?;
        }
        let columns = match statement.command() {
            Some(command) => self.command_columns(command)?,
            None => None,
        };
        Ok(StatementDescription { parameters: statement.parameter_types(), columns })
    }

    /// The columns that a command returns without a plan of its own.
    fn command_columns(&mut self, command: &Command) -> Result<Option<Vec<ResultColumn>>> {
        Ok(match command {
            Command::Show(name) => Some(self.show_columns(name.as_deref())?),
            Command::Explain { .. } => Some(vec![super::utility::text_column("QUERY PLAN")]),
            Command::Execute { name, .. } => {
                let statement = self.statement(name)?;
                self.describe(&statement)?.columns
            }
            Command::Fetch { name, discard: false, .. } => {
                self.portals.get(name).and_then(Portal::columns).map(|columns| columns.to_vec())
            }
            _ => None,
        })
    }

    /// Binds a portal to a prepared statement and its parameters (Bind); each is NULL or bytes in a format. `portal`
    /// empty is the unnamed one, which is replaced.
    pub fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: Vec<Option<(Format, Vec<u8>)>>,
    ) -> Result<()> {
        let result = self.bind_portal(portal, statement, &parameters, |context, value, ty| {
            decode(context, value.as_ref(), ty)
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

    /// How a portal that was not run yet was bound, if it is of a planned statement.
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

    /// Sets the formats in which the client wants the columns of a portal's rows, as Bind gave them.
    ///
    /// # Errors
    /// 53200.
    pub fn set_result_formats(&mut self, portal: &str, formats: Vec<Format>) -> Result<()> {
        match self.portals.get_mut(portal) {
            Some(portal) if !formats.is_empty() => {
                let set = portal.memory.grow(size_of_val(&formats[..]));
                portal.formats = formats.into();
                self.check_extended(set)
            }
            _ => Ok(()),
        }
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
            if let Ok(PortalState::Complete) = result {
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
                let Some(tag) = tag else { return Ok(PortalState::Suspended) };
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
            self.fetch(running, &portal.params, 0, &mut |_, row| rows.push(row))?;
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
                self.portals.insert(name, portal);
            }
        }
        Ok(())
    }

    /// How many prepared statements there are.
    pub fn statement_count(&self) -> usize {
        self.statements.len()
    }

    /// How many portals there are.
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

    pub(super) fn statement(&self, name: &str) -> Result<Arc<Prepared>> {
        self.statements.get(name).cloned().ok_or_else(|| {
            let message = if name.is_empty() {
                "unnamed prepared statement does not exist".to_owned()
            } else {
                format!("prepared statement \"{name}\" does not exist")
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    /// EXECUTE.
    pub(super) fn execute_prepared(
        &mut self,
        name: &str,
        arguments: &[sqlparser::ast::Expr],
        alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Tag> {
        let prepared = self.statement(name)?;
        if !prepared.is_planned() {
            return match prepared.command() {
                // EXECUTE cannot be prepared by name, so this does not go in circles.
                Some(command) if !matches!(command, Command::Execute { .. }) => {
                    self.run(command, alone, sink)
                }
                _ => Ok(Tag::new()),
            };
        }
        let plan = self.plan_of(&prepared)?;
        if arguments.len() != plan.params.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .detail(format!(
                "Expected {} parameters but got {}.",
                plan.params.len(),
                arguments.len()
            )));
        }
        let params = super::plan::bind_arguments(self, arguments, &plan.params)?;
        let nesting = prepared.parsed.as_ref().map_or(0, |parsed| parsed.nesting);
        on_fit_stack(nesting, || {
            let plan = self.begin_plan(plan, &mut |session| session.plan_of(&prepared))?;
            self.run_plan(&plan, &params, sink)
        })
    }

    /// DECLARE.
    pub(super) fn declare(
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
        // What it shows is as of now, whenever it is fetched.
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
    pub(super) fn fetch_cursor(
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
            self.engine_transaction(true, gnomon::Csn::default())?;
            let mut send = |context: &Context<'_>, row: &[Datum]| {
                if discard { Ok(()) } else { sink.row(context, row) }
            };
            self.advance(portal, max_rows, &mut send)?.0
        };
        tag(format!("{} {sent}", if discard { "MOVE" } else { "FETCH" }))
    }

    /// CLOSE.
    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> Result<Tag> {
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

fn same_columns(a: Option<&[ResultColumn]>, b: Option<&[ResultColumn]>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.ty == b.ty && a.name == b.name)
        }
        _ => false,
    }
}

/// A parameter as the client sent it.
fn decode(context: &Context<'_>, value: Option<&(Format, Vec<u8>)>, ty: Type) -> Result<Datum> {
    let target = ColumnType { ty, modifier: -1 };
    match value {
        None => Ok(Datum::Null),
        Some((Format::Binary, bytes)) => binary::receive(bytes, target),
        Some((Format::Text, bytes)) => text::input(context, binary::validate_text(bytes)?, target),
    }
}

/// A context for rows of plain text, which is written alike everywhere.
pub(super) fn plain_context<R>(f: impl FnOnce(&Context<'_>) -> R) -> R {
    let environment = FixedEnvironment::default();
    f(&Context::new(&environment))
}
