//! Statements that steer the session: transactions, settings, cursors, maintenance; and the way to all others.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use sqlparser::ast::ObjectName;

use super::{
    ResultColumn, Session, Sink,
    connection::{Tag, tag},
    ddl::clauses::no_effect,
    parse::{Command, Discard, Mode, Parsed, hint_instead},
    plan::{Plan, plannable},
    portal::plain_context,
    settings::{Progress, Scope},
    transaction::State,
};
use crate::{
    Notice, Result, Severity, SqlError, SqlState,
    types::{ColumnType, Datum, Type, column_type},
};

/// A column of text in the result of a command.
pub(super) fn text_column(name: &str) -> ResultColumn {
    ResultColumn {
        name: name.into(),
        ty: ColumnType { ty: Type::Text, modifier: -1 },
        table: 0,
        attribute: 0,
    }
}

/// Tells that options of VACUUM or ANALYZE have no effect. VERBOSE, which has nothing to tell, is none of them, nor is
/// ANALYZE.
fn options_without_effect(statement: &str, options: &[String], notices: &mut Vec<Notice>) {
    let why = match statement {
        "VACUUM" => "space is reclaimed all the time",
        _ => "plans need no statistics",
    };
    for option in
        options.iter().filter(|option| !matches!(option.as_str(), "verbose" | "analyze" | "analyse"))
    {
        let what = format!("{statement} option {}", option.to_uppercase());
        no_effect(notices, &what, why);
    }
}

fn send_lines(column: &str, lines: Vec<String>, sink: &mut dyn Sink) -> Result<()> {
    sink.columns(&[text_column(column)])?;
    plain_context(|context| {
        lines.into_iter().try_for_each(|line| sink.row(context, &[Datum::Text(line.into())]))
    })
}

impl Session {
    /// Runs a command that is no query or DML.
    pub(super) fn dispatch(
        &mut self,
        command: &Command,
        alone: bool,
        parameters: (&[Type], &[Datum]),
        notices: &mut Vec<Notice>,
        sink: &mut dyn Sink,
    ) -> Result<Tag> {
        match command {
            Command::Begin { modes, tag: of_command } => {
                self.begin(modes, notices)?;
                tag(*of_command)
            }
            Command::Commit { chain } => self.end_block(true, *chain, notices).and_then(tag),
            Command::Rollback { chain } => self.end_block(false, *chain, notices).and_then(tag),
            Command::PrepareTransaction(gid) => self.prepare_transaction(gid, notices),
            Command::EndPrepared { gid, commit } => self.end_prepared(gid, *commit, alone),
            Command::Savepoint(name) => {
                self.set_savepoint(name)?;
                tag("SAVEPOINT")
            }
            Command::Release(name) => {
                self.release_savepoint(name)?;
                tag("RELEASE")
            }
            Command::RollbackTo(name) => {
                self.roll_back_to(name)?;
                tag("ROLLBACK")
            }
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
                if let Some((name, why)) = self.settings.lack_of_effect(name) {
                    no_effect(notices, &format!("setting \"{name}\""), why);
                }
                tag("SET")
            }
            // The session's user is the only role that it can be.
            Command::SetRole(role) => match role {
                Some(role) if **role != *self.user => Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("role \"{role}\" does not exist"),
                )),
                _ => tag("SET"),
            },
            Command::Reset(name) => {
                match name {
                    Some(name) => self.set(name, None, false)?,
                    None => {
                        self.reset_all();
                    }
                }
                tag("RESET")
            }
            Command::Show(name) => {
                self.show(name.as_deref(), sink)?;
                tag("SHOW")
            }
            Command::Prepare { name, types, body } => {
                plannable(&body.command)?;
                let declared =
                    types.iter().map(|ty| column_type(ty).map(|ty| ty.ty)).collect::<Result<_>>()?;
                self.add_statement(name, Some((**body).clone()), declared, None)?;
                tag("PREPARE")
            }
            Command::Execute { name, arguments } => self.execute_prepared(name, arguments, alone, sink),
            Command::Deallocate(name) => self.deallocate(name.as_deref()),
            Command::Discard(what) => self.discard(*what, alone),
            Command::Declare { name, hold, body } => self.declare(name, *hold, body, parameters),
            Command::Fetch { name, count, discard } => self.fetch_cursor(name, *count, *discard, sink),
            Command::Close(name) => self.close_cursor(name.as_deref()),
            Command::Copy(copy) => {
                if copy.freezes()? {
                    no_effect(notices, "FREEZE", "rows need no freezing");
                }
                self.copy(copy, sink)
            }
            Command::Vacuum(names, options) => {
                self.refuse_in_transaction("VACUUM", alone)?;
                self.find_tables(names)?;
                options_without_effect("VACUUM", options, notices);
                tag("VACUUM")
            }
            Command::Analyze(names, options) => {
                self.find_tables(names)?;
                options_without_effect("ANALYZE", options, notices);
                tag("ANALYZE")
            }
            Command::Checkpoint => {
                match self.shared.engine.checkpoint() {
                    Err(gnomon_engine::Error::Unsupported(_)) => {
                        let why = "a database with a log of pages takes checkpoints as its log grows";
                        no_effect(notices, "CHECKPOINT", why);
                    }
                    done => done?,
                }
                tag("CHECKPOINT")
            }
            Command::Backup(since) => {
                self.refuse_in_transaction("BACKUP", alone)?;
                self.backup(since.as_deref(), sink)
            }
            Command::Lock { names, mode, nowait } => self.lock_command(names, mode, *nowait),
            Command::Explain { analyze, summary, ignored, body } => {
                for option in ignored {
                    no_effect(
                        notices,
                        &format!("EXPLAIN option {option}"),
                        "plans show no more than they do without",
                    );
                }
                self.explain((*analyze, *summary), body, parameters, sink)
            }
            Command::Unsupported(what) => {
                let error = SqlError::unsupported(what);
                Err(match hint_instead(what) {
                    Some(hint) => error.hint(hint),
                    None => error,
                })
            }
            Command::Sql(statement, _) => match self.run_ddl(statement, notices)? {
                Some(outcome) => Ok(outcome),
                None => {
                    let words: Vec<String> =
                        statement.to_string().split_whitespace().take(2).map(str::to_owned).collect();
                    Err(SqlError::unsupported(format!("the statement {} ...", words.join(" "))))
                }
            },
            other => match self.run_ddl_command(other, notices)? {
                Some(outcome) => Ok(outcome),
                None => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a command has no implementation")),
            },
        }
    }

    fn set(&mut self, name: &str, values: Option<&[String]>, local: bool) -> Result<()> {
        self.ensure_transaction();
        let scope = if local { Scope::Local } else { Scope::Session };
        let progress = self.progress();
        self.settings.set(name, values, scope, progress)?;
        self.follow_settings();
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
                Mode::Deferrable(true) => ("default_transaction_deferrable", "on"),
                Mode::Deferrable(false) => ("default_transaction_deferrable", "off"),
            };
            self.settings.set(name, Some(&[value.to_owned()]), Scope::Session, Progress::Begun)?;
        }
        Ok(())
    }

    /// The columns of SHOW.
    pub(super) fn show_columns(&self, name: Option<&str>) -> Result<Vec<ResultColumn>> {
        Ok(match name {
            Some(name) => vec![text_column(&self.settings.show(name)?.0)],
            None => ["name", "setting", "description"].map(text_column).to_vec(),
        })
    }

    fn show(&mut self, name: Option<&str>, sink: &mut dyn Sink) -> Result<()> {
        // Whose characteristics it may show.
        self.ensure_transaction();
        let columns = self.show_columns(name)?;
        sink.columns(&columns)?;
        plain_context(|context| match name {
            Some(name) => sink.row(context, &[Datum::Text(self.settings.show(name)?.1.into())]),
            None => self.settings.show_all().try_for_each(|(name, value, description)| {
                sink.row(
                    context,
                    &[name.to_owned(), value, description.to_owned()].map(|text| Datum::Text(text.into())),
                )
            }),
        })
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<Tag> {
        match name {
            Some(name) => match self.statements.remove(name) {
                Some(_) => tag("DEALLOCATE"),
                None => Err(SqlError::new(
                    SqlState::INVALID_SQL_STATEMENT_NAME,
                    format!("prepared statement \"{name}\" does not exist"),
                )),
            },
            None => {
                self.statements.clear();
                tag("DEALLOCATE ALL")
            }
        }
    }

    /// RESET ALL.
    fn reset_all(&mut self) {
        self.ensure_transaction();
        self.settings.reset_all();
        self.follow_settings();
    }

    fn discard(&mut self, what: Discard, alone: bool) -> Result<Tag> {
        match what {
            Discard::All => {
                self.refuse_in_transaction("DISCARD ALL", alone)?;
                self.portals.clear();
                self.statements.clear();
                self.procedures.clear();
                self.drawn = Default::default();
                self.advisory.clear();
                self.reset_all();
                tag("DISCARD ALL")
            }
            // Those of prepared statements are made anew when they must be.
            Discard::Plans => {
                self.procedures.clear();
                tag("DISCARD PLANS")
            }
            Discard::Sequences => {
                self.drawn = Default::default();
                tag("DISCARD SEQUENCES")
            }
            Discard::Temp => tag("DISCARD TEMP"),
        }
    }

    /// Fails for statements that cannot be part of a larger transaction.
    pub(super) fn refuse_in_transaction(&self, what: &str, alone: bool) -> Result<()> {
        if self.in_block() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot run inside a transaction block"),
            ));
        }
        if !alone && self.current.engine.is_some() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot be executed within a pipeline"),
            ));
        }
        Ok(())
    }

    /// Fails if one of the tables does not exist.
    fn find_tables(&self, names: &[ObjectName]) -> Result<()> {
        let view = self.view();
        names.iter().try_for_each(|name| view.table(&self.name(name)?).map(drop))
    }

    /// LOCK TABLE. The engine's locks on trees conflict as PostgreSQL's modes do.
    fn lock_command(&mut self, names: &[ObjectName], mode: &str, nowait: bool) -> Result<Tag> {
        if !self.in_block() {
            return Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        }
        let lock = match mode {
            "access share" => TreeLock::Access,
            "row share" => TreeLock::IntentionShared,
            "row exclusive" => TreeLock::IntentionExclusive,
            "share update exclusive" => TreeLock::Maintenance,
            "share" => TreeLock::Shared,
            "share row exclusive" => TreeLock::SharedAlone,
            "exclusive" => TreeLock::Escalated,
            "access exclusive" => TreeLock::Exclusive,
            other => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("syntax error at or near \"{other}\""),
                ));
            }
        };
        for name in names {
            let name = self.name(name)?;
            loop {
                let view = self.view();
                let table = view.table(&name)?;
                self.engine_transaction(false, view.catalog.csn)?;
                let timeout = self.settings.lock_timeout();
                let engine = self.engine()?;
                if nowait {
                    engine.set_lock_timeout(Some(std::time::Duration::ZERO));
                }
                let locked = table.trees().try_for_each(|tree| engine.lock_tree(tree, lock));
                engine.set_lock_timeout(timeout);
                let unchanged = Arc::ptr_eq(&self.catalog(), &view.catalog);
                match locked {
                    Ok(()) if unchanged => break,
                    Ok(()) => {}
                    Err(gnomon_engine::Error::NoSuchTree(_)) if !unchanged => {}
                    Err(gnomon_engine::Error::LockTimeout) if nowait => {
                        return Err(SqlError::new(
                            SqlState::LOCK_NOT_AVAILABLE,
                            format!("could not obtain lock on relation \"{}\"", table.name),
                        ));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        tag("LOCK TABLE")
    }

    fn explain(
        &mut self,
        (analyze, summary): (bool, bool),
        body: &Parsed,
        (types, values): (&[Type], &[Datum]),
        sink: &mut dyn Sink,
    ) -> Result<Tag> {
        let (statement, overriding) = plannable(&body.command)?;
        let plan = self.plan(statement, overriding, types)?;
        plan.refuse_missing(values)?;
        let plan = self.begin_plan(plan, &mut |session| session.plan(statement, overriding, types))?;
        let mut lines = Plan::explain(&plan, self.settings.semantic_locks());
        if analyze {
            let before = self.shared.clock.now();
            let mut running = self.start_plan(&plan, values)?;
            let (rows, _) = self.fetch(&mut running, values, 0, &mut |_, _| Ok(()))?;
            let elapsed = self.shared.clock.now().saturating_sub(before);
            lines.push(format!("Rows: {rows}"));
            if summary {
                lines.push(format!("Execution Time: {:.3} ms", elapsed.as_secs_f64() * 1e3));
            }
        }
        self.end_engine_statement()?;
        send_lines("QUERY PLAN", lines, sink)?;
        tag("EXPLAIN")
    }
}
