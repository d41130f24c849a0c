//! The way from a command to what carries it out.

use super::{
    Session, backup, commands, cursor,
    parse::{Command, Discard, hint_instead, on_fit_stack},
};
use crate::{
    Notice, Result, Severity, SqlError, SqlState,
    context::two_phase,
    copy, ddl,
    sink::{Sink, Tag, tag},
    statement::{begin, bind_arguments, plannable},
    types::{Datum, Type, column_type},
};

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
                self.context.begin(modes, notices)?;
                tag(*of_command)
            }
            Command::Commit { chain } => self.end_block(true, *chain, notices).and_then(tag),
            Command::Rollback { chain } => self.end_block(false, *chain, notices).and_then(tag),
            Command::PrepareTransaction(gid) => self.prepare_transaction(gid, notices),
            Command::EndPrepared { gid, commit } => two_phase::end(&mut self.context, gid, *commit, alone),
            Command::Savepoint(name) => {
                self.context.set_savepoint(name, self.opened.portals.opened())?;
                tag("SAVEPOINT")
            }
            Command::Release(name) => {
                self.context.release_savepoint(name)?;
                tag("RELEASE")
            }
            Command::RollbackTo(name) => {
                self.roll_back_to(name)?;
                tag("ROLLBACK")
            }
            Command::SetTransaction { session, modes } => {
                commands::set_transaction(&mut self.context, *session, modes, notices)?;
                tag("SET")
            }
            Command::Set { local, name, values } => {
                if *local && !self.context.in_block() && alone {
                    notices.push(
                        SqlError::new(
                            SqlState::NO_ACTIVE_SQL_TRANSACTION,
                            "SET LOCAL can only be used in transaction blocks",
                        )
                        .severity(Severity::Warning),
                    );
                }
                commands::set(&mut self.context, name, values.as_deref(), *local)?;
                if let Some((name, why)) = self.context.settings.lack_of_effect(name) {
                    notices.push(Notice::no_effect(&format!("setting \"{name}\""), why));
                }
                tag("SET")
            }
            // The session's user is the only role that it can be.
            Command::SetRole(role) => match role {
                Some(role) if **role != *self.context.user => Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("role \"{role}\" does not exist"),
                )),
                _ => tag("SET"),
            },
            Command::Reset(name) => {
                match name {
                    Some(name) => commands::set(&mut self.context, name, None, false)?,
                    None => commands::reset_all(&mut self.context),
                }
                tag("RESET")
            }
            Command::Show(name) => {
                commands::show(&mut self.context, name.as_deref(), sink)?;
                tag("SHOW")
            }
            Command::Prepare { name, types, body } => {
                plannable(&body.command)?;
                let declared =
                    types.iter().map(|ty| column_type(ty).map(|ty| ty.ty)).collect::<Result<_>>()?;
                let body = Some((**body).clone());
                self.opened.statements.add(&mut self.context, name, body, declared, None)?;
                tag("PREPARE")
            }
            Command::Execute { name, arguments } => self.execute_prepared(name, arguments, alone, sink),
            Command::Deallocate(name) => self.opened.statements.deallocate(name.as_deref()),
            Command::Discard(what) => self.discard(*what, alone),
            Command::Declare { name, hold, body } => {
                let opened = self.opened.clone();
                cursor::declare(&mut self.executor(), &opened.portals, (name, *hold), body, parameters)
            }
            Command::Fetch { name, count, discard } => {
                let opened = self.opened.clone();
                cursor::fetch(&mut self.executor(), &opened.portals, name, (*count, *discard), sink)
            }
            Command::Close(name) => cursor::close(&self.opened.portals, name.as_deref()),
            Command::Copy(copy) => {
                if copy.freezes()? {
                    notices.push(Notice::no_effect("FREEZE", "rows need no freezing"));
                }
                copy::copy(&mut self.context, copy, sink)
            }
            Command::Vacuum(names, options) => {
                self.context.refuse_in_transaction("VACUUM", alone)?;
                commands::find_tables(&self.context, names)?;
                commands::options_without_effect("VACUUM", options, notices);
                tag("VACUUM")
            }
            Command::Analyze(names, options) => {
                commands::find_tables(&self.context, names)?;
                commands::options_without_effect("ANALYZE", options, notices);
                tag("ANALYZE")
            }
            Command::Checkpoint => commands::checkpoint(&self.context, notices),
            Command::Backup(since) => {
                self.context.refuse_in_transaction("BACKUP", alone)?;
                backup::backup(&self.context, since.as_deref(), sink)
            }
            Command::Lock { names, mode, nowait } => {
                commands::lock_tables(&mut self.context, names, mode, *nowait)
            }
            Command::Explain { analyze, summary, ignored, body } => {
                for option in ignored {
                    notices.push(Notice::no_effect(
                        &format!("EXPLAIN option {option}"),
                        "plans show no more than they do without",
                    ));
                }
                commands::explain(&mut self.executor(), (*analyze, *summary), body, parameters, sink)
            }
            Command::Unsupported(what) => {
                let error = SqlError::unsupported(what);
                Err(match hint_instead(what) {
                    Some(hint) => error.hint(hint),
                    None => error,
                })
            }
            Command::Sql(statement, _) => match ddl::run(&mut self.context, statement, notices)? {
                Some(outcome) => Ok(outcome),
                None => {
                    let words: Vec<String> =
                        statement.to_string().split_whitespace().take(2).map(str::to_owned).collect();
                    Err(SqlError::unsupported(format!("the statement {} ...", words.join(" "))))
                }
            },
            other => match ddl::run_command(&mut self.context, other, notices)? {
                Some(outcome) => Ok(outcome),
                None => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a command has no implementation")),
            },
        }
    }

    /// EXECUTE.
    fn execute_prepared(
        &mut self,
        name: &str,
        arguments: &[sqlparser::ast::Expr],
        alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Tag> {
        let prepared = self.opened.statements.get(name)?;
        if !prepared.is_planned() {
            return match prepared.command() {
                // EXECUTE cannot be prepared by name, so this does not go in circles.
                Some(command) if !matches!(command, Command::Execute { .. }) => {
                    self.run(command, alone, sink)
                }
                _ => Ok(Tag::new()),
            };
        }
        let plan = prepared.plan(&mut self.context)?;
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
        let params = bind_arguments(&mut self.context, arguments, &plan.params)?;
        let nesting = prepared.parsed.as_ref().map_or(0, |parsed| parsed.nesting);
        on_fit_stack(nesting, || {
            let plan = begin(&mut self.context, plan, &mut |session| prepared.plan(session))?;
            self.executor().run(&plan, &params, sink)
        })
    }

    /// DISCARD.
    fn discard(&mut self, what: Discard, alone: bool) -> Result<Tag> {
        match what {
            Discard::All => {
                self.context.refuse_in_transaction("DISCARD ALL", alone)?;
                self.opened.portals.clear();
                self.opened.statements.clear();
                self.procedures.clear();
                self.context.forget_drawn();
                self.context.release_advisory_locks();
                commands::reset_all(&mut self.context);
                tag("DISCARD ALL")
            }
            // Those of prepared statements are made anew when they must be.
            Discard::Plans => {
                self.procedures.clear();
                tag("DISCARD PLANS")
            }
            Discard::Sequences => {
                self.context.forget_drawn();
                tag("DISCARD SEQUENCES")
            }
            Discard::Temp => tag("DISCARD TEMP"),
        }
    }
}
