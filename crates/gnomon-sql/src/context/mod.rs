//! The context of a session's statements: its database, settings and memory, the transaction in progress and the
//! catalog that this sees.
//!
//! Whatever runs a statement (queries and DML, DDL, COPY, procedures, commands) works with a [`SessionContext`] and
//! knows nothing of the session: of its protocol, prepared statements and portals. What the client has opened is asked
//! for by one trait ([`ClientObjects`]), since the system catalog shows it.
//!
//! - [`transaction`]: begins, commits, savepoints; the catalog of a transaction that runs DDL;
//! - [`two_phase`]: transactions that are prepared;
//! - [`surroundings`]: what functions ask for beyond their arguments, and [`system`], what the system catalog shows;
//! - [`view`]: the catalog as a statement searches it.

mod surroundings;
mod system;
mod transaction;
pub(crate) mod two_phase;
mod view;

use std::{sync::Arc, time::Duration};

use gnomon_engine::{Commits, Csn, Error, Interrupt, InterruptReason, Transaction, env::Rng};
use gnomon_parser::ast::RelationName;

pub(crate) use transaction::{CallState, Company, Logged, State, Undone, setting_of};
pub(crate) use view::{Name, View, query_of, with_article};

use transaction::Current;

use crate::{
    Notice, Result, Severity, SqlError, SqlState,
    catalog::{
        Catalog,
        model::{Oid, Table},
        store,
        system::{Cursor, PreparedStatement},
    },
    database::{
        SessionOptions, Shared, advisory, progress::Shown, registry::Registered, sequences::Drawn,
        statistics::Counting, timer::Alarm,
    },
    memory::Account,
    query::Cursors,
    settings::{Settings, Source},
    sink::Sink,
};

/// The prepared statements and cursors of a session's client, as the system catalog shows them.
pub(crate) trait ClientObjects: Cursors + Send + Sync {
    /// The prepared statements that have names.
    fn prepared_statements(&self) -> Vec<PreparedStatement>;
    /// The portals and cursors.
    fn cursors(&self) -> Vec<Cursor>;
    /// True if the query of an open portal reads a table, or a partition by its own name.
    fn reads(&self, relation: Oid) -> bool;
}

/// No client: calls that are replayed.
impl ClientObjects for () {
    fn prepared_statements(&self) -> Vec<PreparedStatement> {
        Vec::new()
    }

    fn cursors(&self) -> Vec<Cursor> {
        Vec::new()
    }

    fn reads(&self, _: Oid) -> bool {
        false
    }
}

/// The part of a session that its statements work with.
pub(crate) struct SessionContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: SessionOptions,
    pub(crate) user: Arc<str>,
    pub(crate) database: Arc<str>,
    pub(crate) settings: Settings,
    pub(crate) interrupt: Arc<Interrupt>,
    /// The memory that the session takes.
    pub(crate) memory: Arc<Account>,
    /// The session's entry among all sessions.
    pub(crate) registered: Registered,
    /// Its counts of transactions and accesses.
    pub(crate) counting: Counting,
    /// When the present statement began, in microseconds since 2000-01-01 00:00 UTC.
    pub(crate) statement_time: i64,
    /// How long earlier runs of the present statement took, if it is run again.
    pub(crate) spent: Option<Duration>,
    /// Depth of calls that the statement is in.
    pub(crate) calls: usize,
    /// Number of effects that no rollback undoes: interrupts of other sessions, changes of the session's advisory locks.
    pub(crate) lasting_effects: u64,
    /// The transaction in progress.
    pub(crate) current: Current,
    pub(crate) client: Arc<dyn ClientObjects>,
    /// The last commit that the session was told of: its reads include it.
    last_csn: Csn,
    /// Values that it drew from sequences.
    drawn: Drawn,
    rng: Rng,
    /// The notices that are to be sent with the statement that runs.
    notices: Vec<Notice>,
    /// The advisory locks that it holds beyond its transaction.
    advisory: Vec<advisory::Guard>,
}

impl SessionContext {
    /// `defaults` says what settings are in new sessions.
    pub(crate) fn new(
        shared: Arc<Shared>,
        options: SessionOptions,
        defaults: &Catalog,
        client: Arc<dyn ClientObjects>,
    ) -> Result<SessionContext> {
        let mut settings = Settings::new(&options.user);
        let prepared_max = shared.engine.prepared_max().to_string();
        settings.set_fixed("max_prepared_transactions", &prepared_max)?;
        if shared.engine.commits() != Commits::Synchronous {
            settings.set_initial("synchronous_commit", "off", Source::CommandLine)?;
        }
        for (name, value) in &options.facts {
            settings.set_fixed(name, value)?;
        }
        if options.connection.is_some() {
            settings.allow_conversion();
        }
        for (role, source) in [("", Source::Global), (options.user.as_str(), Source::User)] {
            for (name, value) in defaults.settings_of(role) {
                // A value that a newer program does not take any more must not prevent sessions.
                let _ = settings.set_initial(name, value, source);
            }
        }
        for (name, value) in &options.settings {
            settings.set_initial(name, value, Source::Client)?;
        }
        let interrupt = Arc::<Interrupt>::default();
        let registered = shared.registry.register(&options, shared.now(), interrupt.clone());
        let limits = shared.memory_limits.read().clone();
        let memory = Account::new(shared.memory.clone(), limits);
        settings.count_in(memory.clone());
        Ok(SessionContext {
            memory,
            registered,
            counting: shared.statistics.session(),
            advisory: Vec::new(),
            user: options.user.as_str().into(),
            database: options.database.as_str().into(),
            shared,
            options,
            settings,
            interrupt,
            current: Current::default(),
            client,
            last_csn: Csn::default(),
            drawn: Drawn::default(),
            rng: Rng::from_entropy(),
            statement_time: 0,
            spent: None,
            calls: 0,
            lasting_effects: 0,
            notices: Vec::new(),
        })
    }

    /// Begins a statement: clears what interrupted an earlier one (a shutdown stays), reads the clock, sets the
    /// alarm of statement_timeout.
    pub(crate) fn start_statement(&mut self) -> Result<Option<Alarm>> {
        match self.interrupt.check() {
            Err(Error::Interrupted(InterruptReason::Shutdown)) => {
                return Err(Error::Interrupted(InterruptReason::Shutdown).into());
            }
            // An interrupt since the first run is meant for this statement.
            Err(error) if self.spent.is_some() => return Err(error.into()),
            Err(_) => self.interrupt.clear(),
            Ok(()) => {}
        }
        self.statement_time = self.shared.now();
        let timeout = self.time_left();
        Ok(timeout.map(|timeout| self.shared.timer.set(timeout, self.interrupt.clone())))
    }

    /// Returns how long the present statement may take from now on.
    fn time_left(&self) -> Option<Duration> {
        let timeout = self.settings.statement_timeout()?;
        Some(timeout.saturating_sub(self.spent.unwrap_or_default()))
    }

    /// The catalog as the session's transaction sees it.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        match &self.current.own_catalog {
            Some(own) => own.now.clone(),
            None => self.shared.catalog(),
        }
    }

    /// The version of that catalog.
    pub(crate) fn catalog_version(&self) -> u64 {
        match &self.current.own_catalog {
            Some(own) => own.now.version,
            None => self.shared.catalog.read().version,
        }
    }

    /// The catalog that a statement binds against.
    pub(crate) fn view(&self) -> View {
        View::new(self.catalog(), self.settings.search_path().clone(), self.database.clone())
    }

    /// A name as a statement has it.
    pub(crate) fn name(&self, name: &RelationName) -> Result<Name> {
        Name::of(name, &self.database)
    }

    /// The engine's transaction, which has been begun.
    pub(crate) fn engine(&mut self) -> Result<&mut Transaction> {
        self.current.engine.as_mut().ok_or_else(|| {
            SqlError::new(SqlState::INTERNAL_ERROR, "a statement runs outside of a transaction")
        })
    }

    /// Looks names up in the catalog; in a member of a cluster, once more if one is not there, when the member has all that
    /// this session wants to see.
    pub(crate) fn look_up<T>(&mut self, look: impl Fn(&mut SessionContext) -> Result<T>) -> Result<T> {
        match look(self) {
            Err(error) if error.state().tells_of_names() && self.freshen_catalog()? => look(self),
            found => found,
        }
    }

    /// Waits until the catalog is as new as this session wants it to be. False if there is nothing to wait for.
    pub(crate) fn freshen_catalog(&mut self) -> Result<bool> {
        let Some(age_max) = self.settings.age_max() else { return Ok(false) };
        if !self.shared.engine.is_member() || self.current.own_catalog.is_some() {
            return Ok(false);
        }
        self.shared.engine.freshen(age_max, Some(&self.interrupt))?;
        Ok(true)
    }

    /// Makes a statement that has begun depend on its tables, which are of a version of the catalog: in a member of a
    /// cluster, locks do not keep other members from changing them. So its snapshot is fixed before the catalog is
    /// looked at, and if it writes, it counts on tables that stay as they are. False if the catalog is another one by
    /// now, and then it is to begin again.
    pub(crate) fn rest_on_tables<'t>(
        &mut self,
        tables: impl Iterator<Item = &'t Arc<Table>>,
        version: u64,
        writes: bool,
    ) -> Result<bool> {
        if !self.shared.engine.is_member() {
            return Ok(true);
        }
        self.engine()?.fix_snapshot()?;
        let shared = self.shared.clone();
        // Waits while a commit that changes the catalog is applied.
        let catalog = shared.catalog.read();
        if self.current.own_catalog.is_none() && catalog.version != version {
            return Ok(false);
        }
        if writes {
            let engine = self.engine()?;
            for table in tables {
                // A partition is a part of its table's entry, as numbers of rows are its table's.
                store::rest_on_table(engine, table.numbered().oid)?;
            }
        }
        Ok(true)
    }

    /// Before a statement that has begun reads tables: what it sees of rows that this transaction has updated without
    /// seeing them is to be final.
    pub(crate) fn observe<'t>(&mut self, tables: impl Iterator<Item = &'t Arc<Table>>) -> Result<()> {
        let engine = self.engine()?;
        for table in tables {
            table.trees().try_for_each(|tree| engine.observe_tree(tree))?;
        }
        Ok(())
    }

    /// Lets the engine forget what only the statement needed.
    pub(crate) fn end_engine_statement(&mut self) -> Result<()> {
        Ok(self.current.engine.as_mut().map_or(Ok(()), |engine| engine.end_statement())?)
    }

    /// Shows the progress of a statement that writes the rows of a table, until what is returned goes.
    pub(crate) fn show_progress(&self, command: &'static str, table: &Table) -> Shown {
        self.registered.progress().show(command, table, self.statement_time)
    }

    /// Sends notices, as far as the client wants them.
    pub(crate) fn send(&self, notices: Vec<Notice>, sink: &mut dyn Sink) -> Result<()> {
        for notice in notices {
            let warning = notice.report().severity == Severity::Warning;
            if self.settings.sends_notices(warning) {
                sink.notice(notice)?;
            }
        }
        Ok(())
    }

    /// Leaves notices to be sent where there is a sink.
    pub(crate) fn leave_notices(&mut self, notices: Vec<Notice>) {
        self.notices.extend(notices);
    }

    /// True if notices wait to be sent.
    pub(crate) fn has_left_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Sends the notices that functions of the statement have left.
    pub(crate) fn send_left_notices(&mut self, sink: &mut dyn Sink) -> Result<()> {
        let notices = std::mem::take(&mut self.notices);
        self.send(notices, sink)
    }

    /// A random number from 0 to 1.
    pub(crate) fn random_unit(&mut self) -> f64 {
        self.rng.unit()
    }

    /// Forgets the values drawn from sequences: DISCARD SEQUENCES.
    pub(crate) fn forget_drawn(&mut self) {
        self.drawn = Drawn::default();
    }

    /// Gives back the advisory locks that the session holds beyond its transaction.
    pub(crate) fn release_advisory_locks(&mut self) {
        self.advisory.clear();
    }
}
