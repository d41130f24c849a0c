//! A session, and the way of any statement through it.

use std::sync::Arc;

use gnomon_parser::ast::{Statement, Transaction};

use super::{again::Pipeline, command::Command, measured::measured, opened::Opened, simple, texts::Texts};
use crate::{
    Result,
    context::{SessionContext, State},
    database::{SessionOptions, SqlDatabase, progress::ProgressBoard, registry::shown_query},
    memory::{Account, Held},
    settings::Settings,
    sink::{Sink, Tag},
    statement::{Executor, Procedures, begin, plan},
    syntax::{self, Written, is_planned},
    types::encoding::Encoding,
};

/// A session: what a connection talks to. Dropped, it rolls back what it has not committed.
pub struct Session {
    /// The part that statements work with.
    pub(super) context: SessionContext,
    /// Prepared statements and portals.
    pub(super) opened: Arc<Opened>,
    /// The procedures that it has called.
    pub(super) procedures: Procedures,
    /// The statements of texts that it has run.
    pub(super) texts: Texts,
    /// The portals that were run in the transaction in progress.
    pub(super) pipeline: Pipeline,
    /// The settings as the client knows them, once it was told.
    told: Option<Settings>,
}

impl SqlDatabase {
    /// Begins a session. Fails if one of the settings does not exist or does not take its value.
    pub fn session(&self, options: SessionOptions) -> Result<Session> {
        let opened = Arc::<Opened>::default();
        Ok(Session {
            context: SessionContext::new(self.0.clone(), options, &self.catalog(), opened.clone())?,
            opened,
            procedures: Procedures::default(),
            texts: Texts::default(),
            pipeline: Pipeline::default(),
            told: None,
        })
    }
}

impl Session {
    /// The executor of plans in this session.
    pub(super) fn executor(&mut self) -> Executor<'_> {
        Executor { session: &mut self.context, procedures: &mut self.procedures }
    }

    /// Returns the account of the memory that the session takes, for what its connection holds for it.
    pub fn memory(&self) -> &Arc<Account> {
        &self.context.memory
    }

    /// The value of a setting, such as `server_version`, as SHOW prints it.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.context.settings.show(name).ok().map(|(_, value)| value)
    }

    /// The encoding of the texts that the client sends and gets.
    pub fn client_encoding(&self) -> Encoding {
        self.context.settings.encoding()
    }

    /// Returns the settings that the client is to be told of, names and values: at first all that clients are told of,
    /// then those of them that have changed since this was asked last.
    pub fn untold_parameters(&mut self) -> Vec<(&'static str, String)> {
        let settings = &self.context.settings;
        let untold = match &self.told {
            Some(told) => settings.changes_since(told),
            None => settings.reported().collect(),
        };
        self.told = Some(settings.clone());
        untold
    }

    /// Runs a text of statements, as the simple protocol does. After an error the rest of them is not run, and the
    /// session goes on: a block has failed, an implicit transaction is rolled back.
    pub fn execute(&mut self, sql: &str, sink: &mut dyn Sink) -> Result<()> {
        self.close_portal("");
        self.note_statement(sql);
        let result = simple::execute(self, sql, sink).map_err(|error| error.located_in(sql));
        if result.is_err() {
            self.fail();
        }
        self.note_rest();
        result
    }

    /// Returns the board that shows the progress of its statements.
    pub fn progress_board(&self) -> ProgressBoard {
        self.context.registered.progress().clone()
    }

    /// Shows other sessions that a statement begins.
    pub(super) fn note_statement(&mut self, text: &str) {
        let text = shown_query(text).into();
        let now = self.context.shared.now();
        let application_name = self.context.settings.application_name();
        let transaction_started = self.context.in_block().then_some(self.context.current.time);
        self.context.registered.note(|present| {
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
        let now = self.context.shared.now();
        let state = match self.context.current.state {
            State::Idle => "idle",
            State::Implicit | State::Block => "idle in transaction",
            State::Failed => "idle in transaction (aborted)",
        };
        let started = (self.context.current.state != State::Idle).then_some(self.context.current.time);
        let transaction = self.context.transaction_id();
        self.context.registered.note(|present| {
            present.state = state;
            present.state_changed = now;
            present.transaction_started = started;
            present.transaction = transaction;
        });
    }

    /// Parses a text. Returns the memory too that its statements take until they have run. Notices are left to be sent.
    pub(super) fn parse(&mut self, sql: &str) -> Result<(Vec<Written>, Held)> {
        let mut memory = self.context.memory.hold(0)?;
        let mut notices = Vec::new();
        let rules = self.context.settings.string_rules();
        let mut watch = |tokens| {
            self.context.interrupt.check()?;
            memory.set(syntax::parsing_bytes(sql, tokens))
        };
        let parsed = syntax::parse(sql, rules, &mut watch, &mut notices);
        self.context.leave_notices(notices);
        Ok((parsed.map_err(|error| error.located_in(sql))?, memory))
    }

    /// Reports a statement complete, whose results had the encoding from before it.
    pub(super) fn report(&mut self, tag: &Tag, before: &Settings, sink: &mut dyn Sink) -> Result<()> {
        sink.complete(tag)?;
        let encoding = self.context.settings.encoding();
        if encoding != before.encoding() {
            sink.encoding(encoding);
        }
        Ok(())
    }

    /// Runs one statement.
    pub(super) fn run(&mut self, command: Command<'_>, sink: &mut dyn Sink) -> Result<Tag> {
        measured(self, command, |session| run_any(session, command, sink))
    }
}

/// Runs one statement, counted or not.
fn run_any(session: &mut Session, command: Command<'_>, sink: &mut dyn Sink) -> Result<Tag> {
    let _alarm = session.context.start_statement()?;
    let statement = &command.parsed.statement;
    session.context.refuse_if_failed(statement)?;
    if is_planned(statement) {
        session.opened.portals.settle(&mut session.context, None)?;
        let mut plan_it = |session: &mut SessionContext| plan(session, statement, command.types);
        let planned = plan_it(&mut session.context)?;
        planned.refuse_missing(command.values)?;
        let planned = begin(&mut session.context, planned, &mut plan_it)?;
        return session.executor().run(&planned, command.values, sink);
    }
    // The end of a transaction closes its portals, and reads those to their end that stay.
    if !matches!(
        statement,
        Statement::Fetch(_)
            | Statement::Transaction(Transaction::Commit { .. } | Transaction::Rollback { .. })
    ) {
        session.opened.portals.settle(&mut session.context, None)?;
    }
    let mut notices = Vec::new();
    let done = session.dispatch(command, &mut notices, sink);
    session.context.send(notices, sink)?;
    done
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use gnomon_engine::{Database, Options};

    use crate::{
        Result,
        session::{Rows, SessionOptions, SqlDatabase},
    };

    #[test]
    fn a_panic_gives_a_session_back_what_its_statement_had() {
        let engine = Database::in_memory(Options::default()).expect("a database");
        let db = SqlDatabase::open(engine).expect("an empty catalog");
        let mut session = db.session(SessionOptions::default()).expect("a session");
        let setup = "CREATE TABLE t (a int PRIMARY KEY); CREATE SEQUENCE s";
        session.execute(setup, &mut Rows::default()).expect(setup);
        let before = "BEGIN; INSERT INTO t VALUES (1); SELECT nextval('s'), pg_try_advisory_lock(7)";
        session.execute(before, &mut Rows::default()).expect(before);
        let context = &mut session.context;
        let panics = [
            catch_unwind(AssertUnwindSafe(|| {
                context.with_types(|_, _| -> Result<()> { panic!("on purpose") })
            })),
            catch_unwind(AssertUnwindSafe(|| {
                context.with_context(&[], |_, _| -> Result<()> { panic!("on purpose") })
            })),
        ];
        assert!(panics.iter().all(std::result::Result::is_err));
        let mut rows = Rows::default();
        let after = "COMMIT; SELECT a, currval('s'), pg_advisory_unlock(7) FROM t";
        session.execute(after, &mut rows).expect(after);
        assert_eq!(rows.texts, [["1", "1", "t"].map(|text| Some(text.to_owned()))]);
    }

    #[test]
    fn a_session_forgets_procedures_that_are_gone() {
        let engine = Database::in_memory(Options::default()).expect("a database");
        let db = SqlDatabase::open(engine).expect("an empty catalog");
        let mut session = db.session(SessionOptions::default()).expect("a session");
        let mut known_after = |sql: &str| {
            session.execute(sql, &mut Rows::default()).expect(sql);
            session.procedures.len()
        };
        let create = |name: &str| format!("CREATE PROCEDURE {name}() LANGUAGE SQL AS ''; CALL {name}()");
        assert_eq!(known_after(&create("a")), 1);
        assert_eq!(known_after(&create("b")), 2);
        known_after("DROP PROCEDURE a");
        known_after(&format!("BEGIN; {}; ROLLBACK", create("c")));
        assert_eq!(known_after(&create("d")), 2, "b and d");
        for discard in ["DISCARD PLANS", "DISCARD ALL"] {
            assert_eq!(known_after(discard), 0);
            assert_eq!(known_after("CALL b()"), 1);
        }
    }
}
