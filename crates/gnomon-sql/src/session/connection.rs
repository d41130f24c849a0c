//! A session as the two protocols of PostgreSQL use it.
//!
//! The simple protocol sends texts: their statements form one implicit transaction, which commits before the last
//! one is reported complete. The extended protocol prepares statements, binds portals and runs them; its implicit
//! transaction goes on to [`Session::sync`], which commits it or reports why not.

use std::{collections::HashMap, sync::Arc};

use gnomon::{Csn, Error, Interrupt, InterruptReason};

use super::{
    Format, PortalState, SessionOptions, Sink, StatementDescription,
    database::Shared,
    parse::{self, Command, Parsed, on_fit_stack},
    settings::Settings,
    transaction::{Current, State},
};
use crate::{Notice, Result, SqlError, SqlState, types::Type};

/// A session: what a connection talks to. Dropped, it rolls back what it has not committed.
pub struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) options: SessionOptions,
    pub(super) settings: Settings,
    pub(super) interrupt: Arc<Interrupt>,
    pub(super) current: Current,
    /// The last commit that this session was told of: its reads include it.
    pub(super) last_csn: Csn,
    pub(super) statements: HashMap<String, Arc<Prepared>>,
    pub(super) portals: HashMap<String, Portal>,
}

/// A prepared statement.
pub(super) struct Prepared {
    /// None for an empty text.
    pub(super) parsed: Option<Parsed>,
    pub(super) parameters: Vec<Type>,
}

/// A portal: a prepared statement with its parameters.
pub(super) struct Portal {
    pub(super) statement: Arc<Prepared>,
    pub(super) done: bool,
}

/// What a statement reports when it is done.
pub(super) enum Outcome {
    /// A command tag.
    Tag(String),
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, options: SessionOptions) -> Result<Session> {
        let mut settings = Settings::new(&options.user);
        for (name, value) in &options.settings {
            settings.set_initial(name, value)?;
        }
        Ok(Session {
            shared,
            options,
            settings,
            interrupt: Arc::default(),
            current: Current::default(),
            last_csn: Csn::default(),
            statements: HashMap::new(),
            portals: HashMap::new(),
        })
    }

    /// The value of a setting, such as `server_version`, as SHOW prints it.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.settings.show(name).ok().map(|(_, value)| value)
    }

    /// The settings that a client is told of when it connects: names and values.
    pub fn reported_parameters(&self) -> Vec<(&'static str, String)> {
        self.settings.reported().collect()
    }

    /// Runs a text of statements, as the simple protocol does. After an error the rest of them is not run, and the
    /// session goes on: a block has failed, an implicit transaction is rolled back.
    pub fn execute(&mut self, sql: &str, sink: &mut dyn Sink) -> Result<()> {
        self.close_portal("");
        let result = self.execute_text(sql, sink);
        if result.is_err() {
            self.fail();
        }
        result
    }

    fn execute_text(&mut self, sql: &str, sink: &mut dyn Sink) -> Result<()> {
        let statements = parse::parse(sql)?;
        if statements.is_empty() {
            if self.current.state == State::Implicit {
                self.commit()?;
            }
            return sink.empty();
        }
        let last = statements.len() - 1;
        for (i, statement) in statements.into_iter().enumerate() {
            let before = self.settings.clone();
            let nesting = statement.nesting;
            let outcome = on_fit_stack(nesting, || self.run(&statement.command, last == 0, sink))?;
            if i == last && self.current.state == State::Implicit {
                self.commit()?;
            }
            self.report(outcome, &before, sink)?;
        }
        Ok(())
    }

    fn report(&mut self, outcome: Outcome, before: &Settings, sink: &mut dyn Sink) -> Result<()> {
        for (name, value) in self.settings.changes_since(before) {
            sink.parameter_status(name, &value)?;
        }
        match outcome {
            Outcome::Tag(tag) => sink.complete(&tag),
        }
    }

    /// Runs one command. `alone` tells that no other statement is in its text.
    fn run(&mut self, command: &Command, alone: bool, sink: &mut dyn Sink) -> Result<Outcome> {
        self.start_statement()?;
        if self.current.state == State::Failed
            && !matches!(command, Command::Commit { .. } | Command::Rollback { .. })
        {
            return Err(SqlError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        let mut notices = Vec::new();
        let outcome = self.dispatch(command, alone, &mut notices, sink);
        self.send(notices, sink)?;
        outcome
    }

    fn send(&self, notices: Vec<Notice>, sink: &mut dyn Sink) -> Result<()> {
        for notice in notices {
            let warning = notice.report().severity == crate::Severity::Warning;
            if self.settings.sends_notices(warning) {
                sink.notice(notice)?;
            }
        }
        Ok(())
    }

    /// Clears what interrupted an earlier statement; a shutdown stays.
    fn start_statement(&mut self) -> Result<()> {
        match self.interrupt.check() {
            Err(Error::Interrupted(InterruptReason::Shutdown)) => {
                Err(Error::Interrupted(InterruptReason::Shutdown).into())
            }
            Err(_) => {
                self.interrupt.clear();
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Prepares a statement (Parse). `name` empty is the unnamed one, which is replaced. `parameters` are the types
    /// that the client declared; those it left open, and those beyond them, are inferred.
    pub fn prepare(&mut self, name: &str, sql: &str, parameters: &[Option<Type>]) -> Result<()> {
        let result = self.prepare_text(name, sql, parameters);
        if result.is_err() {
            self.fail_extended();
        }
        result
    }

    fn prepare_text(&mut self, name: &str, sql: &str, parameters: &[Option<Type>]) -> Result<()> {
        let mut statements = parse::parse(sql)?;
        if statements.len() > 1 {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        if !name.is_empty() && self.statements.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        let parameters = parameters.iter().map(|ty| ty.unwrap_or(Type::Unknown)).collect();
        let prepared = Prepared { parsed: statements.pop(), parameters };
        self.statements.insert(name.to_owned(), Arc::new(prepared));
        Ok(())
    }

    /// What Describe tells of a prepared statement.
    pub fn describe_statement(&mut self, name: &str) -> Result<StatementDescription> {
        let statement = self.statement(name)?;
        Ok(StatementDescription { parameters: statement.parameters.clone(), columns: None })
    }

    /// Binds a portal to a prepared statement and its parameters (Bind); each is NULL or bytes in a format. `portal`
    /// empty is the unnamed one, which is replaced.
    pub fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameters: Vec<Option<(Format, Vec<u8>)>>,
    ) -> Result<()> {
        let _ = parameters;
        let statement = self.statement(statement)?;
        self.portals.insert(portal.to_owned(), Portal { statement, done: false });
        Ok(())
    }

    /// The columns of a portal's result; none if it returns no rows.
    pub fn describe_portal(&mut self, name: &str) -> Result<Option<Vec<super::ResultColumn>>> {
        self.portal(name).map(|_| None)
    }

    /// Runs a portal (Execute) until it is complete or has returned `max_rows` rows (0 for all).
    pub fn execute_portal(
        &mut self,
        name: &str,
        max_rows: usize,
        sink: &mut dyn Sink,
    ) -> Result<PortalState> {
        let _ = max_rows;
        let result = self.run_portal(name, sink);
        if result.is_err() {
            self.fail_extended();
        }
        result
    }

    fn run_portal(&mut self, name: &str, sink: &mut dyn Sink) -> Result<PortalState> {
        let statement = self.portal(name)?.statement.clone();
        match &statement.parsed {
            None => sink.empty()?,
            Some(parsed) => {
                let before = self.settings.clone();
                let outcome = on_fit_stack(parsed.nesting, || self.run(&parsed.command, false, sink))?;
                self.report(outcome, &before, sink)?;
            }
        }
        if let Some(portal) = self.portals.get_mut(name) {
            portal.done = true;
        }
        Ok(PortalState::Complete)
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
            self.portals.clear();
            return self.commit();
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

    fn fail_extended(&mut self) {
        self.fail();
        self.portals.clear();
    }

    fn statement(&self, name: &str) -> Result<Arc<Prepared>> {
        self.statements.get(name).cloned().ok_or_else(|| {
            let message = if name.is_empty() {
                "unnamed prepared statement does not exist".to_owned()
            } else {
                format!("prepared statement \"{name}\" does not exist")
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    fn portal(&self, name: &str) -> Result<&Portal> {
        self.portals.get(name).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
        })
    }
}
