//! Statements that steer the session: transactions, settings, maintenance; and the way to all others.

use super::{
    ResultColumn, Session, Sink,
    connection::Outcome,
    parse::{Command, Discard, Mode},
    settings::Scope,
    transaction::State,
};
use crate::{
    Notice, Result, Severity, SqlError, SqlState,
    types::{ColumnType, Context, Datum, FixedEnvironment, Type},
};

fn text_column(name: &str) -> ResultColumn {
    ResultColumn {
        name: name.into(),
        ty: ColumnType { ty: Type::Text, modifier: -1 },
        table: 0,
        attribute: 0,
    }
}

fn tag(tag: impl Into<String>) -> Result<Outcome> {
    Ok(Outcome::Tag(tag.into()))
}

impl Session {
    pub(super) fn dispatch(
        &mut self,
        command: &Command,
        alone: bool,
        notices: &mut Vec<Notice>,
        sink: &mut dyn Sink,
    ) -> Result<Outcome> {
        match command {
            Command::Begin(modes) => {
                self.begin(modes, notices)?;
                tag("BEGIN")
            }
            Command::Commit { chain } => self.end_block(true, *chain, notices).and_then(tag),
            Command::Rollback { chain } => self.end_block(false, *chain, notices).and_then(tag),
            Command::SetTransaction { session, modes } => {
                self.set_transaction(*session, modes, notices)?;
                tag("SET")
            }
            Command::Set { local, name, values } => {
                if *local && !self.in_block() && alone {
                    notices.push(
                        SqlError::new(
                            SqlState::NO_ACTIVE_SQL_TRANSACTION,
                            "SET LOCAL can only be used in transaction blocks",
                        )
                        .severity(Severity::Warning),
                    );
                }
                self.set(name, values.as_deref(), *local)?;
                tag("SET")
            }
            Command::Reset(name) => {
                self.ensure_transaction();
                match name {
                    Some(name) => self.set(name, None, false)?,
                    None => self.settings.reset_all(true),
                }
                tag("RESET")
            }
            Command::Show(name) => {
                // Text is written alike in every context.
                let environment = FixedEnvironment::default();
                let context = Context::new(&environment);
                match name {
                    Some(name) => {
                        let (name, value) = self.settings.show(name)?;
                        sink.columns(&[text_column(name)])?;
                        sink.row(&context, &[Datum::Text(value.into())])?;
                    }
                    None => {
                        sink.columns(&["name", "setting", "description"].map(text_column))?;
                        for (name, value, description) in self.settings.show_all() {
                            sink.row(
                                &context,
                                &[name.to_owned(), value, description.to_owned()]
                                    .map(|text| Datum::Text(text.into())),
                            )?;
                        }
                    }
                }
                tag("SHOW")
            }
            Command::Deallocate(name) => match name {
                Some(name) => {
                    if self.statements.remove(name).is_none() {
                        return Err(SqlError::new(
                            SqlState::INVALID_SQL_STATEMENT_NAME,
                            format!("prepared statement \"{name}\" does not exist"),
                        ));
                    }
                    tag("DEALLOCATE")
                }
                None => {
                    self.statements.clear();
                    tag("DEALLOCATE ALL")
                }
            },
            Command::Discard(what) => match what {
                Discard::All => {
                    self.refuse_in_transaction("DISCARD ALL", alone)?;
                    self.portals.clear();
                    self.statements.clear();
                    self.settings.reset_all(false);
                    tag("DISCARD ALL")
                }
                Discard::Plans => tag("DISCARD PLANS"),
                Discard::Sequences => tag("DISCARD SEQUENCES"),
                Discard::Temp => tag("DISCARD TEMP"),
            },
            Command::Vacuum(_) => {
                self.refuse_in_transaction("VACUUM", alone)?;
                tag("VACUUM")
            }
            Command::Analyze(_) => tag("ANALYZE"),
            Command::Checkpoint => tag("CHECKPOINT"),
            Command::Unsupported(what) => Err(SqlError::unsupported(what)),
            other => {
                let _ = other;
                Err(SqlError::unsupported("this statement"))
            }
        }
    }

    fn set(&mut self, name: &str, values: Option<&[String]>, local: bool) -> Result<()> {
        self.ensure_transaction();
        let value = values.and_then(<[String]>::first).map(|value| value.to_lowercase());
        match (name, value.as_deref()) {
            ("transaction_isolation", Some(level)) => {
                let levels = ["serializable", "repeatable read", "read committed", "read uncommitted"];
                if let Some(level) = levels.into_iter().find(|known| *known == level) {
                    return self.set_modes(&[Mode::Isolation(level)]);
                }
            }
            ("transaction_read_only", Some(value)) => {
                if let Some(read_only) = super::settings::bool_word(value) {
                    return self.set_modes(&[Mode::ReadOnly(read_only)]);
                }
            }
            _ => {}
        }
        let scope = if local { Scope::Local } else { Scope::Session };
        self.settings.set(name, values, scope, true)?;
        if name.eq_ignore_ascii_case("lock_timeout")
            && let Some(engine) = &mut self.current.engine
        {
            engine.set_lock_timeout(self.settings.lock_timeout());
        }
        Ok(())
    }

    fn set_transaction(&mut self, session: bool, modes: &[Mode], notices: &mut Vec<Notice>) -> Result<()> {
        self.ensure_transaction();
        if !session {
            if self.current.state == State::Implicit {
                notices.push(
                    SqlError::new(
                        SqlState::NO_ACTIVE_SQL_TRANSACTION,
                        "SET TRANSACTION can only be used in transaction blocks",
                    )
                    .severity(Severity::Warning),
                );
            }
            return self.set_modes(modes);
        }
        for mode in modes {
            let (name, value) = match *mode {
                Mode::Isolation(level) => ("default_transaction_isolation", level),
                Mode::ReadOnly(true) => ("default_transaction_read_only", "on"),
                Mode::ReadOnly(false) => ("default_transaction_read_only", "off"),
                Mode::Deferrable => continue,
            };
            self.settings.set(name, Some(&[value.to_owned()]), Scope::Session, true)?;
        }
        Ok(())
    }

    /// Fails for statements that cannot be part of a larger transaction.
    fn refuse_in_transaction(&self, what: &str, alone: bool) -> Result<()> {
        if self.in_block() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot run inside a transaction block"),
            ));
        }
        if !alone && self.current.engine.is_some() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot be executed from a pipeline"),
            ));
        }
        Ok(())
    }
}
