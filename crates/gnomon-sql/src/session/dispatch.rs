//! The way from a statement to what carries it out.

use std::sync::Arc;

use gnomon_parser::ast::{Backup, Discard, Execute, Prepare, Statement, Transaction};

use super::{
    Session, advice, backup,
    command::Command,
    copy_returned, cursor, explain, maintenance,
    measured::measured,
    prepared::{Prepared, Source, query_of},
    setting,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    context::{Company, SessionContext, two_phase},
    copy,
    ddl::{self, TableQuery, TableSource},
    query::Measures,
    sink::{Sink, Tag, tag},
    statement::{begin, bind_arguments},
    syntax::on_fit_stack,
    types::{Datum, column_type},
};

impl Session {
    /// Runs a statement that is no query or DML.
    pub(super) fn dispatch(
        &mut self,
        command: Command<'_>,
        notices: &mut Vec<Notice>,
        sink: &mut dyn Sink,
    ) -> Result<Tag> {
        match &command.parsed.statement {
            Statement::Transaction(transaction) => self.transaction(transaction, command.company, notices),
            Statement::Set(set) => {
                setting::set(&mut self.context, set, command.company, notices)?;
                tag("SET")
            }
            Statement::Reset(name) => {
                setting::reset(&mut self.context, name)?;
                tag("RESET")
            }
            Statement::Show(name) => {
                setting::show(&mut self.context, name, sink)?;
                tag("SHOW")
            }
            Statement::Prepare(prepare) => self.prepare_named(prepare, command),
            Statement::Execute(execute) => self.execute_prepared(execute, command.company, sink),
            Statement::Deallocate(name) => {
                self.opened.statements.deallocate(name.as_ref().map(|name| &*name.name))
            }
            Statement::Discard(what) => self.discard(*what, command.company),
            Statement::DeclareCursor(declare) => {
                let opened = self.opened.clone();
                cursor::declare(&mut self.executor(), &opened.portals, declare, command)
            }
            Statement::Fetch(fetch) => {
                let opened = self.opened.clone();
                cursor::fetch(&mut self.executor(), &opened.portals, fetch, sink)
            }
            Statement::Close(name) => {
                cursor::close(&self.opened.portals, name.as_ref().map(|name| &*name.name))
            }
            Statement::Copy(copy) => {
                if copy::freezes(copy)? {
                    notices.push(Notice::no_effect("FREEZE", "rows need no freezing"));
                }
                match copy_returned::source(copy) {
                    Some(change) => {
                        copy_returned::copy_returned(&mut self.executor(), copy, change, command, sink)
                    }
                    None => copy::copy(&mut self.context, copy, sink),
                }
            }
            Statement::Vacuum(vacuum) => {
                self.context.refuse_in_transaction("VACUUM", command.company)?;
                maintenance::vacuum(&mut self.context, vacuum, notices)
            }
            Statement::Reindex(reindex) => {
                if let Some(what) = ddl::reindex_words_in_block(reindex)? {
                    self.context.refuse_in_transaction(&what, command.company)?;
                }
                define(&mut self.context, &command.parsed.statement, notices)
            }
            Statement::Cluster(cluster) => {
                if cluster.table.is_none() {
                    self.context.refuse_in_transaction("CLUSTER", command.company)?;
                }
                define(&mut self.context, &command.parsed.statement, notices)
            }
            Statement::Analyze(analyze) => maintenance::analyze(&mut self.context, analyze, notices),
            Statement::Checkpoint => maintenance::checkpoint(&self.context, notices),
            Statement::Lock(lock) => maintenance::lock_tables(&mut self.context, lock, command.company),
            Statement::Backup(backup) => self.back_up(backup, command.company, sink),
            Statement::CreateTableAs(create) => match &create.source {
                Statement::Execute(execute) => {
                    let (prepared, values) = self.bound(execute)?;
                    let types = prepared.parameter_types();
                    let query = TableQuery::Written(prepared.query()?, &types);
                    let source = TableSource { query, values: &values, measures: Measures::default() };
                    ddl::create_table_as(&mut self.context, create, source, notices)
                }
                source => {
                    let query = TableQuery::Written(query_of(source)?, &[]);
                    let source = TableSource { query, values: &[], measures: Measures::default() };
                    ddl::create_table_as(&mut self.context, create, source, notices)
                }
            },
            Statement::Explain(explain) => match explain::explained(explain) {
                Statement::Execute(execute) => {
                    let (prepared, values) = self.bound(execute)?;
                    let executor = &mut self.executor();
                    explain::explain_prepared(executor, explain, &prepared, &values, notices, sink)
                }
                _ => explain::explain(&mut self.executor(), explain, command, notices, sink),
            },
            // There is no channel that a session could listen to.
            Statement::Unlisten(_) => tag("UNLISTEN"),
            Statement::Unsupported(unsupported) => Err(advice::unsupported(unsupported)),
            Statement::CreateIndex(create) if create.is_concurrent => {
                self.context.refuse_in_transaction("CREATE INDEX CONCURRENTLY", command.company)?;
                define(&mut self.context, &command.parsed.statement, notices)
            }
            Statement::Drop(drop) if drop.is_concurrent => {
                self.context.refuse_in_transaction("DROP INDEX CONCURRENTLY", command.company)?;
                define(&mut self.context, &command.parsed.statement, notices)
            }
            statement => define(&mut self.context, statement, notices),
        }
    }

    /// Begins, ends or marks a transaction.
    fn transaction(
        &mut self,
        transaction: &Transaction,
        company: Company,
        notices: &mut Vec<Notice>,
    ) -> Result<Tag> {
        match transaction {
            Transaction::Begin { modes, is_start } => {
                self.context.begin(modes, notices)?;
                tag(if *is_start { "START TRANSACTION" } else { "BEGIN" })
            }
            Transaction::Commit { chain } => self.end_block(true, *chain, notices).and_then(tag),
            Transaction::Rollback { chain } => self.end_block(false, *chain, notices).and_then(tag),
            Transaction::Prepare(gid) => self.prepare_transaction(gid, notices),
            Transaction::CommitPrepared(gid) => two_phase::end(&mut self.context, gid, true, company),
            Transaction::RollbackPrepared(gid) => two_phase::end(&mut self.context, gid, false, company),
            Transaction::Savepoint(name) => {
                self.context.set_savepoint(&name.name, self.opened.portals.next_number())?;
                tag("SAVEPOINT")
            }
            Transaction::Release(name) => {
                self.context.release_savepoint(&name.name)?;
                tag("RELEASE")
            }
            Transaction::RollbackTo(name) => {
                self.roll_back_to(&name.name)?;
                tag("ROLLBACK")
            }
            Transaction::SetModes { is_session, modes } => {
                setting::set_transaction(&mut self.context, *is_session, modes, company, notices)?;
                tag("SET")
            }
            Transaction::SetSnapshot(name) => {
                setting::set_snapshot(&mut self.context, name, company, notices)?;
                tag("SET")
            }
        }
    }

    /// PREPARE.
    fn prepare_named(&mut self, prepare: &Prepare, command: Command<'_>) -> Result<Tag> {
        if matches!(*prepare.statement, Statement::CreateTableAs(_)) {
            return Err(SqlError::unsupported("PREPARE of SELECT INTO"));
        }
        let types = prepare.types.iter().map(|ty| column_type(ty).map(|ty| ty.ty));
        let types = types.collect::<Result<_>>()?;
        let body = Source::Own(Arc::new(command.parsed.part(&prepare.statement)));
        let name = &prepare.name.name;
        self.opened.statements.add(&mut self.context, name, body, types, command.text, true)?;
        tag("PREPARE")
    }

    /// BACKUP.
    fn back_up(&mut self, backup: &Backup, company: Company, sink: &mut dyn Sink) -> Result<Tag> {
        if backup.file.is_some() {
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                "BACKUP to a file of the server is not supported",
            )
            .hint("Use BACKUP TO STDOUT, or `gnomon backup`, which keeps backups in a directory."));
        }
        self.context.refuse_in_transaction("BACKUP", company)?;
        backup::backup(&self.context, backup.since.as_deref(), sink)
    }

    /// EXECUTE.
    fn execute_prepared(&mut self, execute: &Execute, company: Company, sink: &mut dyn Sink) -> Result<Tag> {
        let (prepared, values) = self.bound(execute)?;
        // Its text is empty.
        let Some(command) = prepared.command() else { return tag("EXECUTE") };
        if !prepared.is_planned() {
            let types = prepared.parameter_types();
            return self.run(Command { company, types: &types, values: &values, ..command }, sink);
        }
        measured(self, command, |session| {
            on_fit_stack(command.parsed.nesting, || {
                let plan = prepared.plan(&mut session.context)?;
                let plan = begin(&mut session.context, plan, &mut |session| prepared.plan(session))?;
                session.executor().run(&plan, &values, sink)
            })
        })
    }

    /// Returns the prepared statement that EXECUTE names, with the values of its parameters.
    fn bound(&mut self, execute: &Execute) -> Result<(Arc<Prepared>, Vec<Datum>)> {
        let Execute { name, arguments } = execute;
        let prepared = self.opened.statements.to_execute(&name.name)?;
        let types = match prepared.is_planned() {
            true => prepared.plan(&mut self.context)?.params.clone(),
            false => prepared.parameter_types(),
        };
        if types.is_empty() {
            return Ok((prepared, Vec::new()));
        }
        if arguments.len() != types.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{}\"", name.name),
            )
            .detail(format!("Expected {} parameters but got {}.", types.len(), arguments.len())));
        }
        let values = bind_arguments(&mut self.context, arguments, &types)?;
        Ok((prepared, values))
    }

    /// DISCARD.
    fn discard(&mut self, what: Discard, company: Company) -> Result<Tag> {
        match what {
            Discard::All => {
                self.context.refuse_in_transaction("DISCARD ALL", company)?;
                self.opened.portals.clear();
                self.opened.statements.clear();
                self.procedures.clear();
                self.texts.clear();
                self.context.forget_drawn();
                self.context.release_advisory_locks();
                setting::reset_all(&mut self.context);
                tag("DISCARD ALL")
            }
            // Those of prepared statements are made anew when they must be.
            Discard::Plans => {
                self.procedures.clear();
                self.texts.clear();
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

/// Runs a DDL statement.
fn define(session: &mut SessionContext, statement: &Statement, notices: &mut Vec<Notice>) -> Result<Tag> {
    ddl::run(session, statement, notices)?
        .ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a statement has no implementation"))
}
