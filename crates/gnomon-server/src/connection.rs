//! One client's connection: reads messages, has the session carry them out, answers.
//!
//! The rules of the extended protocol stand here: after an error everything up to the next Sync is skipped; results
//! stay in the buffer until an error, Sync or Flush (or until it is full); COPY messages outside a COPY are ignored,
//! because a client may still be sending them when it learns that its COPY failed. A message whose content is malformed
//! is answered by an error like any other; a length that cannot be or an unknown type ends the connection with 08P01,
//! since the bytes that follow cannot be trusted to be messages.
//!
//! Nothing is sent to an idle client unasked, but the error that ends its connection: the thread waits for the next
//! message, and only the end of the connection wakes it up.
//!
//! A panic below ends this connection only: the session is dropped, which rolls its transaction back and releases
//! its locks, and the client is told XX000.

use std::{
    convert::Infallible,
    panic::{AssertUnwindSafe, catch_unwind},
};

use gnomon_engine::{Interrupt, sync::Arc};
use gnomon_sql::{
    Severity, SqlError, SqlState,
    session::{IdleLimit, Session, SessionOptions, Sink as _},
    types::{Type, encoding::Encoding},
};

use crate::{
    message::{self, Message, Target, fatal, put},
    metrics::count,
    server::{Peer, Phase, Registered, Shared},
    sink::WireSink,
    startup::{self, Startup},
    wire::{End, Frame, Socket, Wire},
};

/// Serves a client until it or the server has had enough.
pub(crate) fn serve(shared: &Shared, mut registered: Registered, socket: Socket) {
    let mut wire = Wire::new(socket);
    let end = match contain(|| run(shared, &mut registered, &mut wire)) {
        Some(Err(end)) => end,
        None => {
            count(&shared.counters.panics);
            // A message may have been under construction.
            wire.output().clear();
            End::Fatal(fatal(SqlState::INTERNAL_ERROR, "internal error: the connection is closed"))
        }
    };
    match end {
        // To end a connection the server closes the reading side, which wakes the thread up.
        End::Gone | End::TimedOut if shared.is_stopping() || registered.peer.is_terminated() => {
            report(shared, &mut wire, &shutdown_notice(shared));
        }
        End::Gone | End::TimedOut => {
            if let Some(error) = displaced(&registered.peer) {
                report(shared, &mut wire, &error);
            }
        }
        End::Fatal(error) => report(shared, &mut wire, &error),
    }
    wire.close();
}

/// Returns the reason why a connection was ended before it had authenticated, if it was.
fn displaced(peer: &Peer) -> Option<SqlError> {
    if peer.is(Phase::Late) {
        Some(fatal(SqlState::QUERY_CANCELED, "canceling authentication due to timeout"))
    } else if peer.is(Phase::Displaced) {
        Some(fatal(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already"))
    } else {
        None
    }
}

/// Tells a client that the system has no place for it, and why.
pub(crate) fn refuse(socket: Socket, why: &str) {
    let mut wire = Wire::new(socket);
    message::put_error(wire.output(), Encoding::UTF8, &fatal(SqlState::TOO_MANY_CONNECTIONS, why));
    wire.refuse();
}

/// Runs `f`; none if it panics. What it borrows may then be half changed: here the buffers, which are emptied.
fn contain<T>(f: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(f)).ok()
}

fn shutdown_notice(shared: &Shared) -> SqlError {
    match shared.failure() {
        Some(error) => SqlError::from(error.clone()).severity(Severity::Fatal),
        None => fatal(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command"),
    }
}

/// An administrator's command or a failure of the database, which is what interrupted the statement, ends the connection
/// too.
fn end_if_terminated(shared: &Shared, error: &SqlError) -> Result<(), End> {
    match error.state() {
        // A statement that the server interrupted, since the database has stopped, knows of the interruption only.
        SqlState::ADMIN_SHUTDOWN if shared.failure().is_some() => Err(End::Fatal(shutdown_notice(shared))),
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN => Err(End::by(error.clone())),
        _ => Ok(()),
    }
}

fn report(shared: &Shared, wire: &mut Wire, error: &SqlError) {
    count(&shared.counters.errors);
    let encoding = wire.encoding();
    message::put_error(wire.output(), encoding, error);
}

fn run(shared: &Shared, registered: &mut Registered, wire: &mut Wire) -> Result<Infallible, End> {
    let Some(startup) = startup::start(shared, wire)? else { return Err(End::Gone) };
    if !registered.admit() {
        return Err(End::Fatal(fatal(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already")));
    }
    let peer = registered.peer.clone();
    let session = open_session(shared, startup, peer.id, wire)?;
    let interrupt = session.interrupt();
    peer.interrupt.get_or_init(|| interrupt.clone());
    if !peer.begin() {
        return Err(End::Gone);
    }
    wire.set_idle_timeout(shared.options.idle_timeout)?;
    wire.count_input(session.memory().hold(0).map_err(End::Fatal)?);
    let mut connection =
        Connection { shared, peer: &peer, wire, session, interrupt, is_skipping: false, is_ready: false };
    connection.greet()?;
    connection.converse()
}

fn open_session(shared: &Shared, startup: Startup, process_id: i32, wire: &Wire) -> Result<Session, End> {
    let options = SessionOptions {
        user: startup.user,
        database: startup.database,
        process_id,
        is_owner: false,
        settings: startup.settings,
        connection: Some(wire.connected_by()?),
        encryption: wire.encryption(),
        facts: vec![
            ("max_connections", shared.options.connections_max.to_string()),
            ("ssl", if shared.options.tls.is_some() { "on" } else { "off" }.into()),
        ],
    };
    shared.database.session(options).map_err(End::by)
}

struct Connection<'a> {
    shared: &'a Shared,
    peer: &'a Peer,
    wire: &'a mut Wire,
    session: Session,
    interrupt: Arc<Interrupt>,
    /// True after an error in the extended protocol, until Sync.
    is_skipping: bool,
    /// True if the client was told so, and has sent nothing since.
    is_ready: bool,
}

impl Connection<'_> {
    /// Tells the client what it needs to know before its first statement.
    fn greet(&mut self) -> Result<(), End> {
        self.tell_settings()?;
        let peer = self.peer;
        put(self.wire.output(), b'K', |out| {
            out.extend_from_slice(&peer.id.to_be_bytes());
            out.extend_from_slice(&peer.secret);
        });
        self.ready()
    }

    /// The error of a session that was idle for too long: by its own limit, or by that of the server.
    fn idle_error(&self, limit: Option<IdleLimit>) -> SqlError {
        let of_server = self.shared.options.idle_timeout;
        match limit {
            Some(limit) if of_server.is_none_or(|server| limit.after <= server) => limit.error,
            _ => fatal(SqlState::IDLE_SESSION_TIMEOUT, "terminating connection due to idle-session timeout"),
        }
    }

    /// Tells the client of its settings, later of those that have changed, also if an error has undone a change.
    fn tell_settings(&mut self) -> Result<(), End> {
        let encoding = self.session.client_encoding();
        self.wire.set_encoding(encoding);
        for (name, value) in self.session.untold_parameters() {
            message::put_parameter_status(self.wire.output(), encoding, name, &value).map_err(End::by)?;
        }
        Ok(())
    }

    fn ready(&mut self) -> Result<(), End> {
        self.is_ready = true;
        self.tell_settings()?;
        message::put_ready(self.wire.output(), self.session.status());
        self.wire.flush()
    }

    fn converse(&mut self) -> Result<Infallible, End> {
        loop {
            // Between two messages of the extended protocol, before Sync, the session is not idle.
            let limit = if self.is_ready { self.session.idle_limit() } else { None };
            self.wire.limit_idle(limit.as_ref().map(|limit| limit.after))?;
            let frame = match self.wire.read(self.shared.options.message_bytes_max) {
                Err(End::TimedOut) => return Err(End::Fatal(self.idle_error(limit))),
                other => other?,
            };
            self.is_ready = false;
            if self.shared.is_stopping() {
                return Err(End::Fatal(shutdown_notice(self.shared)));
            }
            self.peer.enter(Phase::Busy);
            self.take(&frame)?;
            if self.peer.enter(Phase::Idle) {
                return Err(End::Gone);
            }
        }
    }

    /// Carries one message out.
    fn take(&mut self, frame: &Frame) -> Result<(), End> {
        let rules = message::rules(frame.kind);
        if self.is_skipping && rules.is_some_and(|rules| !rules.ends_skipping) {
            return Ok(());
        }
        let encoding = self.wire.encoding();
        let body = self.wire.body(frame);
        let message = match body.and_then(|body| message::decode(frame.kind, body, encoding)) {
            Ok(message) => message,
            Err(error) if error.report().severity == Severity::Fatal => return Err(End::Fatal(error)),
            // The COPY is over: nothing is asked of what the client still sends of it.
            Err(_) if rules.is_some_and(|rules| rules.is_of_copy) => return Ok(()),
            Err(error) if rules.is_some_and(|rules| rules.ends_with_ready) => {
                self.is_skipping = false;
                return self.reject_query(&error);
            }
            Err(error) => return self.reject(&error),
        };
        match message {
            Message::Query(sql) => self.query(&sql),
            Message::Parse { name, sql, parameter_types } => self.parse(&name, &sql, &parameter_types),
            Message::Bind(bind) => {
                let bound = self
                    .shared
                    .check_count(&bind.portal, self.session.open_counts().1, "portals")
                    .and_then(|()| {
                        self.session.bind(&bind.portal, &bind.statement, &bind.parameters)?;
                        self.session.set_result_formats(&bind.portal, bind.result_formats)
                    });
                self.answer(bound, b'2')
            }
            Message::Describe(target, name) => self.describe(target, &name),
            Message::Execute { portal, rows_max } => self.execute(&portal, rows_max),
            Message::Close(target, name) => {
                match target {
                    Target::Statement => self.session.close_statement(&name),
                    Target::Portal => self.session.close_portal(&name),
                }
                self.answer(Ok(()), b'3')
            }
            Message::Flush => self.wire.flush(),
            Message::Sync => {
                self.is_skipping = false;
                self.sync()
            }
            Message::FunctionCall => self.reject_query(&SqlError::unsupported("the function call protocol")),
            Message::Copy => Ok(()),
            Message::Terminate => Err(End::Gone),
        }
    }

    /// Ends the transaction of the messages before.
    fn sync(&mut self) -> Result<(), End> {
        let done = match self.session.formats_alone() {
            None => self.session.sync(),
            Some(formats) => {
                let mut sink =
                    WireSink::new(self.wire, &self.shared.options, &self.interrupt).undescribed(&formats);
                let done = self.session.sync_or_run_again(&mut sink);
                if let Some(end) = sink.end {
                    return Err(end);
                }
                done
            }
        };
        if let Err(error) = done {
            self.report(&error);
        }
        self.ready()
    }

    fn report(&mut self, error: &SqlError) {
        report(self.shared, self.wire, error);
    }

    /// Answers an error to a message of the extended protocol.
    fn reject(&mut self, error: &SqlError) -> Result<(), End> {
        end_if_terminated(self.shared, error)?;
        self.is_skipping = true;
        self.session.fail();
        self.report(error);
        // A client may wait for it without having sent Sync or Flush, as PostgreSQL lets it.
        self.wire.flush()
    }

    /// Answers an error to a simple query.
    fn reject_query(&mut self, error: &SqlError) -> Result<(), End> {
        end_if_terminated(self.shared, error)?;
        self.session.fail();
        self.report(error);
        self.ready()
    }

    /// Answers success by the empty message of type `kind`, or the error.
    fn answer(&mut self, result: gnomon_sql::Result<()>, kind: u8) -> Result<(), End> {
        match result {
            Ok(()) => {
                put(self.wire.output(), kind, |_| ());
                self.wire.pace()
            }
            Err(error) => self.reject(&error),
        }
    }

    fn query(&mut self, sql: &str) -> Result<(), End> {
        count(&self.shared.counters.statements);
        if let Err(error) = self.shared.check_length(sql) {
            return self.reject_query(&error);
        }
        self.session.close_statement("");
        self.session.close_portal("");
        let mut sink = WireSink::new(self.wire, &self.shared.options, &self.interrupt);
        let done = self.session.execute(sql, &mut sink);
        if let Some(end) = sink.end {
            return Err(end);
        }
        match done {
            Ok(()) => self.ready(),
            Err(error) => self.reject_query(&error),
        }
    }

    fn parse(&mut self, name: &str, sql: &str, parameter_types: &[u32]) -> Result<(), End> {
        let shared = self.shared;
        let parsed = shared
            .check_length(sql)
            .and_then(|()| shared.check_count(name, self.session.open_counts().0, "prepared statements"))
            .and_then(|()| self.session.prepare(name, sql, &types(parameter_types)?));
        self.answer(parsed, b'1')
    }

    fn describe(&mut self, target: Target, name: &str) -> Result<(), End> {
        let (columns, formats) = match target {
            Target::Statement => match self.session.describe_statement(name) {
                Ok(description) => {
                    message::put_parameter_description(self.wire.output(), &description.parameters);
                    (description.columns, Arc::default())
                }
                Err(error) => return self.reject(&error),
            },
            Target::Portal => match self.session.describe_portal(name) {
                Ok(columns) => (columns, self.session.result_formats(name)),
                Err(error) => return self.reject(&error),
            },
        };
        let (encoding, out) = (self.wire.encoding(), self.wire.output());
        let described = match columns {
            Some(columns) => message::put_row_description(out, encoding, &columns, &formats),
            None => {
                put(out, b'n', |_| ());
                Ok(())
            }
        };
        match described {
            Ok(()) => self.wire.pace(),
            Err(error) => self.reject(&error),
        }
    }

    fn execute(&mut self, portal: &str, rows_max: usize) -> Result<(), End> {
        count(&self.shared.counters.statements);
        let formats = self.session.result_formats(portal);
        let mut sink = WireSink::new(self.wire, &self.shared.options, &self.interrupt).undescribed(&formats);
        let told = match self.session.columns_of_rows(portal) {
            Some(columns) => sink.columns(&columns),
            None => Ok(()),
        };
        let done = told.and_then(|()| self.session.execute_portal(portal, rows_max, &mut sink));
        if let Some(end) = sink.end {
            return Err(end);
        }
        match done {
            Ok(_) => Ok(()),
            Err(error) => self.reject(&error),
        }
    }
}

impl Shared {
    /// Refuses a statement that is too long.
    fn check_length(&self, sql: &str) -> gnomon_sql::Result<()> {
        let limit = self.options.statement_bytes_max;
        if sql.len() <= limit {
            return Ok(());
        }
        Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("a statement of {} bytes exceeds the limit of {limit}", sql.len()),
        ))
    }

    /// Refuses one more of `what`, of which a session has `count`. The unnamed one takes its own place.
    fn check_count(&self, name: &str, count: usize, what: &str) -> gnomon_sql::Result<()> {
        let limit = self.options.prepared_max;
        if name.is_empty() || count < limit {
            return Ok(());
        }
        Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("a session cannot have more than {limit} {what}"),
        )
        .hint("Close those that are not needed any more."))
    }
}

/// The types that a client declared for parameters; 0 and `unknown` leave one open.
fn types(oids: &[u32]) -> gnomon_sql::Result<Vec<Option<Type>>> {
    oids.iter()
        .map(|oid| match oid {
            0 => Ok(None),
            _ => match Type::from_oid(*oid) {
                Some(Type::Unknown) => Ok(None),
                Some(ty) => Ok(Some(ty)),
                None => Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("type with OID {oid} does not exist"),
                )),
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_goes_no_further() {
        assert_eq!(contain(|| 1), Some(1));
        assert_eq!(contain(|| -> u8 { panic!("on purpose") }), None);
    }
}
