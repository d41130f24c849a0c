//! The extended protocol: Parse, Bind, Describe, Execute, Close and Sync.
//!
//! Statements share an implicit transaction that goes on to [`Session::sync`].

use std::sync::Arc;

use gnomon_engine::Csn;

use super::{
    Format, PortalState, Session, StatementDescription,
    command::Command,
    measured::{Measure, is_tracked, rows_of},
    portal::{Body, Bound, Portal},
    prepared::{Prepared, Source},
};
use crate::{
    Result, SqlError, SqlState,
    context::State,
    query::ResultColumn,
    settings::PlanCacheMode,
    sink::{Sink, Tag},
    syntax::on_fit_stack,
    types::{ColumnType, Context, Datum, Type, binary, encoding::Encoding, text},
};

impl Session {
    /// Prepares a statement (Parse). `name` empty is the unnamed one, which is replaced. `parameters` are the types
    /// that the client declared; those it left open, and those beyond them, are inferred.
    pub fn prepare(&mut self, name: &str, sql: &str, parameters: &[Option<Type>]) -> Result<()> {
        let result = self.prepare_text(name, sql, parameters);
        self.check_extended(result)
    }

    pub(super) fn prepare_text(&mut self, name: &str, sql: &str, parameters: &[Option<Type>]) -> Result<()> {
        let _alarm = self.context.start_statement()?;
        let declared: Vec<Type> = parameters.iter().map(|ty| ty.unwrap_or(Type::Unknown)).collect();
        let settings = &self.context.settings;
        let shares =
            settings.plan_cache_mode() != PlanCacheMode::Custom && settings.string_rules().is_usual();
        let known = if shares { self.texts.find_prepared(sql, &declared) } else { None };
        let source = match known {
            Some(text) => Source::Shared(text),
            None => self.source(sql, &declared, shares)?,
        };
        let added = self.opened.statements.add(&mut self.context, name, source, declared, sql, false);
        added.map_err(|error| error.located_in(sql))
    }

    /// Parses the text of a statement that is to be prepared, and remembers it if it `shares` its plan.
    fn source(&mut self, sql: &str, declared: &[Type], shares: bool) -> Result<Source> {
        // The part of it that stays is counted by itself.
        let (mut statements, _memory) = self.parse(sql)?;
        if statements.len() > 1 {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let Some(written) = statements.pop() else { return Ok(Source::Empty) };
        let parsed = Arc::new(written.into_parsed(sql)?);
        let shared = match shares && !self.context.has_left_notices() {
            true => self.texts.remember_prepared(&self.context, sql, declared, parsed.clone()),
            false => None,
        };
        Ok(shared.map_or(Source::Own(parsed), Source::Shared))
    }

    /// Describes a prepared statement (Describe).
    pub fn describe_statement(&mut self, name: &str) -> Result<StatementDescription> {
        let Session { context, opened, .. } = self;
        let result = opened.statements.get(name).and_then(|statement| opened.describe(context, &statement));
        self.check_extended(result)
    }

    /// Binds a portal to a prepared statement and its parameters (Bind); each is NULL or bytes in a format. `portal`
    /// empty is the unnamed one, which is replaced.
    pub fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: &[Option<(Format, &[u8])>],
    ) -> Result<()> {
        let result = self.bind_bytes(portal, statement, parameters);
        self.check_extended(result)
    }

    fn bind_bytes(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: &[Option<(Format, &[u8])>],
    ) -> Result<()> {
        let _alarm = self.context.start_statement()?;
        let unbound = self.opened.unbound(&mut self.context, portal, statement, parameters.len())?;
        let mut params = Vec::with_capacity(parameters.len());
        if !parameters.is_empty() {
            let encoding = self.context.settings.encoding();
            let scope = self.context.binding_scope();
            let context = &scope.types();
            for (number, (value, ty)) in (1..).zip(parameters.iter().zip(&*unbound.types())) {
                params.push(decode(context, encoding, number, *value, *ty)?);
            }
        }
        self.context.interrupt.check()?;
        self.opened.portals.open(&self.context, portal, unbound, params)
    }

    /// Opens a portal anew, as it was bound.
    pub(super) fn rebind(&mut self, name: &str, bound: &Bound) -> Result<()> {
        let _alarm = self.context.start_statement()?;
        self.context.ensure_transaction();
        let plan = bound.statement.plan(&mut self.context)?;
        let body = Body::Plan { statement: Some(bound.statement.clone()), plan, running: None };
        let (portals, text) = (&self.opened.portals, bound.statement.text.clone());
        let mut opened = portals.make(&self.context, name, body, bound.params.clone(), text)?;
        opened.formats = bound.formats.clone();
        portals.insert(name, opened);
        Ok(())
    }

    /// The columns of a portal's result; none if it returns no rows.
    pub fn describe_portal(&mut self, name: &str) -> Result<Option<Vec<ResultColumn>>> {
        let result = self.opened.portal_columns(&mut self.context, name);
        self.check_extended(result)
    }

    /// The columns of the rows that running a portal of a query or of DML returns, for its sink: texts depend on their
    /// types. Other commands tell the sink themselves.
    pub fn columns_of_rows(&self, portal: &str) -> Option<Arc<[ResultColumn]>> {
        self.opened.portals.columns(portal)
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
            && let Some(columns) = self.opened.portal_columns(&mut self.context, name)?
            && columns.len() != formats.len()
        {
            let (formats, columns) = (formats.len(), columns.len());
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("bind message has {formats} result formats but query has {columns} columns"),
            ));
        }
        let given = self.opened.portals.with(name, |portal| {
            portal.memory.grow(size_of_val(&formats[..]))?;
            portal.formats = formats.into();
            Ok(())
        });
        given.unwrap_or(Ok(()))
    }

    /// The formats in which the client wants the columns of a portal's rows: empty if all are text.
    pub fn result_formats(&self, portal: &str) -> Arc<[Format]> {
        self.opened.portals.with(portal, |portal| portal.formats.clone()).unwrap_or_default()
    }

    /// Runs a portal (Execute) until it is complete or has returned `max_rows` rows (0 for all). The sink is not
    /// told the columns, see [`Session::columns_of_rows`].
    pub fn execute_portal(
        &mut self,
        name: &str,
        max_rows: usize,
        sink: &mut dyn Sink,
    ) -> Result<PortalState> {
        let result = if self.context.shared.engine.is_member() {
            self.run_portal_until_first(name, max_rows, sink)
        } else {
            self.run_portal(name, max_rows, sink)
        };
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
        let mut portal = self.opened.portals.take_to_run("portal", name)?;
        self.note_statement(&portal.text.clone());
        self.pipeline.portals_run += 1;
        let sent = self.context.send_left_notices(sink);
        let ran = sent.and_then(|()| match &portal.body {
            Body::Empty => sink.empty().map(|()| PortalState::Complete),
            Body::Command(statement) => self.run_command(statement, &portal.params, sink),
            Body::Plan { .. } => {
                self.opened.portals.start(&mut self.context, name, &portal).and_then(|_alarm| {
                    if portal.is_held() {
                        // Its rows need no transaction, but what they are sent by does.
                        self.context.engine_transaction(true, Csn::default())?;
                    }
                    let before = self.context.settings.clone();
                    let mut send = |context: &Context<'_>, row: &[Datum]| sink.row(context, row);
                    let tag = advance(self, &mut portal, max_rows, &mut send)?;
                    let Some(tag) = tag else {
                        sink.suspended()?;
                        return Ok(PortalState::Suspended);
                    };
                    self.report(&tag, &before, sink)?;
                    Ok(PortalState::Complete)
                })
            }
        });
        // A command such as CLOSE ALL or COMMIT ends the portals, its own among them.
        let keeps = matches!(portal.body, Body::Plan { .. })
            && (portal.is_held() || self.context.current.state != State::Idle);
        if keeps || matches!(portal.body, Body::Empty) {
            self.opened.portals.insert(name, portal);
        }
        ran
    }

    /// Runs a portal of a command that has no plan.
    fn run_command(
        &mut self,
        statement: &Prepared,
        values: &[Datum],
        sink: &mut dyn Sink,
    ) -> Result<PortalState> {
        let Some(command) = statement.command() else { return Ok(PortalState::Complete) };
        let before = self.context.settings.clone();
        let types = statement.parameter_types();
        let command = Command { types: &types, values, ..command };
        let tag = on_fit_stack(command.parsed.nesting, || self.run(command, sink))?;
        self.report(&tag, &before, sink)?;
        Ok(PortalState::Complete)
    }

    /// Returns how many prepared statements and how many portals there are.
    pub fn open_counts(&self) -> (usize, usize) {
        (self.opened.statements.len(), self.opened.portals.len())
    }

    /// Forgets a prepared statement; no error if there is none.
    pub fn close_statement(&mut self, name: &str) {
        self.opened.statements.remove(name);
    }

    /// Forgets a portal; no error if there is none.
    pub fn close_portal(&mut self, name: &str) {
        self.opened.portals.take(name);
    }

    /// Ends the implicit transaction of the extended protocol (Sync): commits it and waits until it is durable.
    /// After an error in one of the calls above it has been rolled back already.
    pub fn sync(&mut self) -> Result<()> {
        if self.context.current.state == State::Implicit {
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

/// Runs a planned portal on, and counts it. Returns its command tag, once it is at its end.
fn advance(
    session: &mut Session,
    portal: &mut Portal,
    max_rows: usize,
    send: &mut dyn FnMut(&Context<'_>, &[Datum]) -> Result<()>,
) -> Result<Option<Tag>> {
    if portal.measure.is_none() && !portal.done {
        portal.measure = measure(session, portal);
    }
    let begun = session.context.shared.clock.now();
    let advanced = portal.execute(&mut session.executor(), max_rows, send);
    if let Some(measure) = &mut portal.measure {
        match &advanced {
            Ok((sent, tag)) => {
                let took = session.context.shared.clock.now().saturating_sub(begun);
                let changed = portal.tag.as_deref().filter(|_| *sent == 0).map_or(0, rows_of);
                measure.add(took, (*sent).max(changed));
                if tag.is_some() {
                    portal.measure = None;
                }
            }
            Err(_) => measure.fail(),
        }
    }
    advanced.map(|(_, tag)| tag)
}

/// Returns the measure of a portal that is about to run; none if it is not counted.
fn measure(session: &Session, portal: &Portal) -> Option<Measure> {
    let Body::Plan { statement: Some(statement), .. } = &portal.body else { return None };
    let is_tracked = statement.statement().is_some_and(|one| is_tracked(&session.context.settings, one));
    let form = statement.form().filter(|_| is_tracked)?;
    Some(Measure::new(session.context.shared.statements.clone(), form.clone()))
}

/// A parameter as the client sent it, and its number.
fn decode(
    context: &Context<'_>,
    encoding: Encoding,
    number: usize,
    value: Option<(Format, &[u8])>,
    ty: Type,
) -> Result<Datum> {
    let target = ColumnType { ty, modifier: -1 };
    match value {
        None => Ok(Datum::Null),
        Some((Format::Binary, bytes)) => binary::receive_parameter(bytes, target, encoding, number),
        Some((Format::Text, bytes)) => text::input(context, &encoding.decode(bytes)?, target),
    }
}
