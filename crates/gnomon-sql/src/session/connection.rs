//! A session, and the simple protocol: texts of statements, run one after another.
//!
//! The statements of a text form one implicit transaction, unless it has BEGIN in it. The transaction commits before
//! its last statement is reported complete.

use std::{collections::HashMap, sync::Arc, time::Duration};

use gnomon_engine::{Commits, Csn, Error, Interrupt, InterruptReason, env::Rng};

use super::{
    SessionOptions, Sink, advisory, again,
    call::AllCompiled,
    database::Shared,
    parse::{self, Command, Written, on_fit_stack},
    plan,
    portal::{Portal, Prepared},
    registry::{Registered, shown_query},
    sequences::Drawn,
    settings::Settings,
    timer::Alarm,
    transaction::{Current, State},
};
use crate::{
    Notice, Result, Severity, SqlError, SqlState,
    catalog::Catalog,
    memory::{Account, Held},
    types::{Datum, Type},
};

/// A session: what a connection talks to. Dropped, it rolls back what it has not committed.
pub struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) options: SessionOptions,
    pub(super) user: Arc<str>,
    pub(super) database: Arc<str>,
    pub(super) settings: Settings,
    pub(super) interrupt: Arc<Interrupt>,
    pub(super) current: Current,
    /// The last commit that this session was told of: its reads include it.
    pub(super) last_csn: Csn,
    /// Values that it drew from sequences.
    pub(super) drawn: Drawn,
    pub(super) rng: Rng,
    /// When the present statement began, in microseconds since 2000-01-01 00:00 UTC.
    pub(super) statement_time: i64,
    pub(super) statements: HashMap<String, Arc<Prepared>>,
    pub(super) portals: HashMap<String, Portal>,
    /// Number of portals so far.
    pub(super) portals_opened: u64,
    /// The procedures that it has called.
    pub(super) procedures: AllCompiled,
    /// Depth of calls that it is in.
    pub(super) calls: usize,
    /// How long earlier runs of the present statement took, if it is run again.
    pub(super) spent: Option<Duration>,
    /// The notices that are to be sent with the statement that runs.
    pub(super) notices: Vec<Notice>,
    /// Number of times that it has interrupted others.
    pub(super) interrupted: u64,
    /// The memory that it takes.
    pub(super) memory: Arc<Account>,
    /// Its entry among all sessions.
    pub(super) registered: Registered,
    /// Its number as an owner of advisory locks, and those that it holds beyond its transaction.
    pub(super) advisory_owner: u64,
    pub(super) advisory: Vec<advisory::Guard>,
}

/// The command tag that a statement reports when it is done.
pub(super) type Tag = String;

/// The result of a statement that is done.
pub(super) fn tag(tag: impl Into<Tag>) -> Result<Tag> {
    Ok(tag.into())
}

impl Session {
    /// `defaults` says what settings are in new sessions.
    pub(super) fn new(shared: Arc<Shared>, options: SessionOptions, defaults: &Catalog) -> Result<Session> {
        let mut settings = Settings::new(&options.user);
        let prepared_max = shared.engine.prepared_max().to_string();
        settings.set_fixed("max_prepared_transactions", &prepared_max)?;
        if shared.engine.commits() != Commits::Synchronous {
            settings.set_initial("synchronous_commit", "off")?;
        }
        for (name, value) in &options.facts {
            settings.set_fixed(name, value)?;
        }
        for (name, value) in defaults.settings_of("").chain(defaults.settings_of(&options.user)) {
            // A value that a newer program does not take any more must not prevent sessions.
            let _ = settings.set_initial(name, value);
        }
        for (name, value) in &options.settings {
            settings.set_initial(name, value)?;
        }
        let interrupt = Arc::<Interrupt>::default();
        let started = super::environment::clock(&shared);
        let registered = shared.registry.register(&options, started, interrupt.clone());
        let limits = shared.memory_limits.read().clone();
        let memory = Account::new(shared.memory.clone(), limits);
        settings.count_in(memory.clone());
        Ok(Session {
            memory,
            registered,
            advisory_owner: shared.advisory.new_owner(),
            advisory: Vec::new(),
            user: options.user.as_str().into(),
            database: options.database.as_str().into(),
            shared,
            options,
            settings,
            interrupt,
            current: Current::default(),
            last_csn: Csn::default(),
            drawn: Drawn::default(),
            rng: Rng::from_entropy(),
            statement_time: 0,
            statements: HashMap::new(),
            portals: HashMap::new(),
            portals_opened: 0,
            procedures: AllCompiled::new(),
            calls: 0,
            spent: None,
            notices: Vec::new(),
            interrupted: 0,
        })
    }

    /// Returns the account of the memory that the session takes, for what its connection holds for it.
    pub fn memory(&self) -> &Arc<Account> {
        &self.memory
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
        self.note_statement(sql);
        let result = self.execute_text(sql, sink).map_err(|error| parse::locate(error, sql));
        if result.is_err() {
            self.fail();
        }
        self.note_rest();
        result
    }

    /// Returns the board that shows the progress of its statements.
    pub fn progress_board(&self) -> super::ProgressBoard {
        self.registered.progress().clone()
    }

    /// Shows other sessions that a statement begins.
    pub(super) fn note_statement(&mut self, text: &str) {
        let text = shown_query(text).into();
        let now = self.clock();
        let application_name = self.settings.application_name();
        let transaction_started = self.in_block().then_some(self.current.time);
        self.registered.note(|present| {
            present.query = text;
            present.application_name = application_name;
            present.state = "active";
            present.state_changed = now;
            present.statement_started = Some(now);
            present.transaction_started = transaction_started.or(Some(now));
        });
    }

    /// Shows other sessions that this one waits for its client.
    pub(super) fn note_rest(&mut self) {
        let now = self.clock();
        let state = match self.current.state {
            State::Idle => "idle",
            State::Implicit | State::Block => "idle in transaction",
            State::Failed => "idle in transaction (aborted)",
        };
        let started = (self.current.state != State::Idle).then_some(self.current.time);
        let transaction = self.current.engine.as_ref().map(gnomon_engine::Transaction::id);
        self.registered.note(|present| {
            present.state = state;
            present.state_changed = now;
            present.transaction_started = started;
            present.transaction = transaction;
        });
    }

    fn execute_text(&mut self, sql: &str, sink: &mut dyn Sink) -> Result<()> {
        let (statements, _memory) = {
            let _alarm = self.start_statement()?;
            self.parse(sql)?
        };
        if statements.is_empty() {
            if self.current.state == State::Implicit {
                self.commit()?;
            }
            return sink.empty();
        }
        match &statements[..] {
            [Written::Parsed(one)]
                if self.current.state == State::Idle && again::leaves_nothing(&one.command) =>
            {
                self.run_until_first(sink, |session, sink| session.run_all(sql, &statements, sink))
            }
            _ => self.run_all(sql, &statements, sink),
        }
    }

    /// Runs the statements of a text.
    fn run_all(&mut self, sql: &str, statements: &[Written], sink: &mut dyn Sink) -> Result<()> {
        // They are in one transaction with what a client has begun by the extended protocol.
        self.current.first = None;
        let last = statements.len() - 1;
        for (i, statement) in statements.iter().enumerate() {
            let statement = statement.parsed(sql)?;
            let before = self.settings.clone();
            let tag = on_fit_stack(statement.nesting, || self.run(&statement.command, last == 0, sink))?;
            if i == last && self.current.state == State::Implicit {
                self.commit()?;
            }
            self.report(&tag, &before, sink)?;
        }
        Ok(())
    }

    /// Parses a text. Returns the memory too that its statements take until they have run.
    pub(super) fn parse(&mut self, sql: &str) -> Result<(Vec<Written>, Held)> {
        let mut memory = self.memory.hold(0)?;
        let statements = parse::parse(sql, &mut |tokens| {
            self.interrupt.check()?;
            memory.set(parse::parsing_bytes(sql, tokens))
        })?;
        Ok((statements, memory))
    }

    /// Reports a statement complete, with the settings that it changed.
    pub(super) fn report(&mut self, tag: &Tag, before: &Settings, sink: &mut dyn Sink) -> Result<()> {
        for (name, value) in self.settings.changes_since(before) {
            sink.parameter_status(name, &value)?;
        }
        sink.complete(tag)
    }

    /// Begins a statement: clears what interrupted an earlier one (a shutdown stays), reads the clock, sets the
    /// alarm of statement_timeout.
    pub(super) fn start_statement(&mut self) -> Result<Option<Alarm>> {
        match self.interrupt.check() {
            Err(Error::Interrupted(InterruptReason::Shutdown)) => {
                return Err(Error::Interrupted(InterruptReason::Shutdown).into());
            }
            // An interrupt since the first run is meant for this statement.
            Err(error) if self.spent.is_some() => return Err(error.into()),
            Err(_) => self.interrupt.clear(),
            Ok(()) => {}
        }
        self.statement_time = self.clock();
        let timeout = self.time_left();
        Ok(timeout.map(|timeout| self.shared.timer.set(timeout, self.interrupt.clone())))
    }

    /// Returns how long the present statement may take from now on.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let timeout = self.settings.statement_timeout()?;
        Some(timeout.saturating_sub(self.spent.unwrap_or_default()))
    }

    /// Fails in a failed block, except for what ends it or goes back to before it failed.
    pub(super) fn refuse_if_failed(&self, command: &Command) -> Result<()> {
        match command {
            Command::Commit { .. }
            | Command::Rollback { .. }
            | Command::RollbackTo(_)
            | Command::PrepareTransaction(_) => Ok(()),
            _ => self.refuse_any_if_failed(),
        }
    }

    /// Fails in a failed block.
    pub(super) fn refuse_any_if_failed(&self) -> Result<()> {
        if self.current.state == State::Failed {
            return Err(SqlError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        Ok(())
    }

    /// Runs one command. `alone` tells that no other statement is in its text.
    pub(super) fn run(&mut self, command: &Command, alone: bool, sink: &mut dyn Sink) -> Result<Tag> {
        self.run_with(command, alone, (&[], &[]), sink)
    }

    /// Runs a command whose parameters, if it is one that has some, are of these types and values.
    pub(super) fn run_with(
        &mut self,
        command: &Command,
        alone: bool,
        parameters: (&[Type], &[Datum]),
        sink: &mut dyn Sink,
    ) -> Result<Tag> {
        let _alarm = self.start_statement()?;
        self.refuse_if_failed(command)?;
        if let Command::Sql(statement, overriding) = command
            && plan::is_plannable(statement)
        {
            self.settle_portals(None)?;
            let plan = self.plan(statement, *overriding, &[])?;
            if !plan.params.is_empty() {
                return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"));
            }
            let plan = self.begin_plan(plan, &mut |session| session.plan(statement, *overriding, &[]))?;
            return self.run_plan(&plan, &[], sink);
        }
        // The end of a transaction closes its portals, and reads those to their end that stay.
        if !matches!(command, Command::Fetch { .. } | Command::Commit { .. } | Command::Rollback { .. }) {
            self.settle_portals(None)?;
        }
        let mut notices = Vec::new();
        let done = self.dispatch(command, alone, parameters, &mut notices, sink);
        self.send(notices, sink)?;
        done
    }

    pub(super) fn send(&self, notices: Vec<Notice>, sink: &mut dyn Sink) -> Result<()> {
        for notice in notices {
            let warning = notice.report().severity == Severity::Warning;
            if self.settings.sends_notices(warning) {
                sink.notice(notice)?;
            }
        }
        Ok(())
    }
}
