//! Prepared statements: Parse, PREPARE and EXECUTE, their plans, and what is told of them.

use std::sync::Arc;

use gnomon_engine::sync::Mutex;

use super::{COPIES, PARAMETERS_MAX, Portal};
use crate::{
    Result, SqlError, SqlState,
    catalog::system,
    memory::Held,
    session::{
        ResultColumn, Session, Sink, StatementDescription,
        connection::Tag,
        parse::{self, Command, Parsed, on_fit_stack},
        plan::{self, Plan, is_plannable, plannable},
        utility,
    },
    types::Type,
};

/// The memory of a prepared statement, beside its name, text and parameters, in bytes.
const STATEMENT_BYTES: usize = 8192;

/// A prepared statement.
pub(in crate::session) struct Prepared {
    pub(in crate::session) name: String,
    /// Its text, as it was given by the protocol; what PREPARE prepared is written anew.
    pub(super) text: Arc<str>,
    /// When it was prepared, in microseconds since 2000-01-01 00:00 UTC.
    prepared: i64,
    from_sql: bool,
    /// None for an empty text.
    pub(in crate::session) parsed: Option<Parsed>,
    /// The types of its parameters as declared; unknown where they were left open.
    declared: Vec<Type>,
    /// The plan made last.
    plan: Mutex<Option<Arc<Plan>>>,
    /// The memory that all of this takes.
    _memory: Held,
}

impl Prepared {
    pub(super) fn command(&self) -> Option<&Command> {
        self.parsed.as_ref().map(|parsed| &parsed.command)
    }

    /// Returns the row of pg_prepared_statements.
    pub(in crate::session) fn describe(&self) -> system::PreparedStatement {
        system::PreparedStatement {
            name: self.name.clone(),
            statement: self.text.to_string(),
            prepared: self.prepared,
            parameters: self.parameter_types(),
            from_sql: self.from_sql,
        }
    }

    /// True if it is run by a plan.
    pub(super) fn is_planned(&self) -> bool {
        matches!(self.command(), Some(Command::Sql(statement, _)) if is_plannable(statement))
    }

    /// The command that a plan is made of: its own, or the one that it explains or declares a cursor for.
    pub(super) fn planned_command(&self) -> Option<&Command> {
        let command = match self.command()? {
            Command::Explain { body, .. } | Command::Declare { body, .. } => &body.command,
            command => command,
        };
        matches!(command, Command::Sql(statement, _) if is_plannable(statement)).then_some(command)
    }

    /// The types of its parameters, as far as they are known.
    pub(super) fn parameter_types(&self) -> Vec<Type> {
        self.plan.lock().as_ref().map_or_else(|| self.declared.clone(), |plan| plan.params.clone())
    }
}

impl Session {
    /// Prepares a statement (Parse). `name` empty is the unnamed one, which is replaced. `parameters` are the types
    /// that the client declared; those it left open, and those beyond them, are inferred.
    pub fn prepare(&mut self, name: &str, sql: &str, parameters: &[Option<Type>]) -> Result<()> {
        let result = self.prepare_text(name, sql, parameters);
        self.check_extended(result)
    }

    pub(in crate::session) fn prepare_text(
        &mut self,
        name: &str,
        sql: &str,
        parameters: &[Option<Type>],
    ) -> Result<()> {
        let _alarm = self.start_statement()?;
        let (mut statements, memory) = self.parse(sql)?;
        if statements.len() > 1 {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let declared = parameters.iter().map(|ty| ty.unwrap_or(Type::Unknown)).collect();
        // The part of it that stays is counted by itself.
        drop(memory);
        let parsed = statements.pop().map(|one| one.into_parsed(sql)).transpose()?;
        self.add_statement(name, parsed, declared, Some(sql)).map_err(|error| parse::locate(error, sql))
    }

    /// Adds a prepared statement; its plan is made at once, so that errors are found now. `text` is the protocol's;
    /// PREPARE has none.
    pub(in crate::session) fn add_statement(
        &mut self,
        name: &str,
        parsed: Option<Parsed>,
        declared: Vec<Type>,
        text: Option<&str>,
    ) -> Result<()> {
        if let Some(parsed) = &parsed {
            self.refuse_if_failed(&parsed.command)?;
        }
        if name.is_empty() {
            self.statements.remove("");
        } else if self.statements.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        if declared.len() > PARAMETERS_MAX {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a statement can have at most {PARAMETERS_MAX} parameters"),
            ));
        }
        let written: Arc<str> = match (text, parsed.as_ref().map(|parsed| &parsed.command)) {
            (Some(text), _) => text.into(),
            (None, Some(Command::Sql(statement, _))) => statement.to_string().into(),
            (None, _) => "".into(),
        };
        let bytes = STATEMENT_BYTES
            + 2 * name.len()
            + COPIES * written.len()
            + declared.len() * size_of::<Type>()
            + parsed.as_ref().map_or(0, Parsed::bytes);
        let prepared = Arc::new(Prepared {
            _memory: self.memory.hold(bytes)?,
            name: name.to_owned(),
            text: written,
            prepared: self.statement_time,
            from_sql: text.is_none(),
            parsed,
            declared,
            plan: Mutex::new(None),
        });
        if prepared.planned_command().is_some() {
            self.ensure_transaction();
            self.plan_of(&prepared)?;
            self.interrupt.check()?;
        }
        self.statements.insert(name.to_owned(), prepared);
        Ok(())
    }

    /// The plan of a prepared statement, made anew if the catalog changed. Its result must stay the same.
    pub(super) fn plan_of(&mut self, prepared: &Prepared) -> Result<Arc<Plan>> {
        let kept = prepared.plan.lock().clone();
        if let Some(plan) = &kept
            && self.is_current(plan)
        {
            return Ok(plan.clone());
        }
        let (Some(parsed), Some(command)) = (&prepared.parsed, prepared.planned_command()) else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "the statement has no plan"));
        };
        let (statement, overriding) = plannable(command)?;
        // Types that were inferred once are what clients send from then on.
        let declared = kept.as_ref().map_or(&prepared.declared, |plan| &plan.params);
        let plan = on_fit_stack(parsed.nesting, || self.plan(statement, overriding, declared));
        let plan = plan.map_err(|error| match (&kept, prepared.from_sql) {
            (_, false) => parse::locate(error, &prepared.text),
            // The text that PREPARE stood in is no longer there.
            (Some(_), true) => error.unplaced(),
            (None, true) => error,
        })?;
        if let Some(kept) = &kept
            && prepared.is_planned()
            && !same_columns(kept.columns().as_deref(), plan.columns().as_deref())
        {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
            )
            .routine("RevalidateCachedQuery"));
        }
        *prepared.plan.lock() = Some(plan.clone());
        Ok(plan)
    }

    /// Describes a prepared statement (Describe).
    pub fn describe_statement(&mut self, name: &str) -> Result<StatementDescription> {
        let result = self.statement(name).and_then(|statement| self.describe(&statement));
        self.check_extended(result)
    }

    fn describe(&mut self, statement: &Arc<Prepared>) -> Result<StatementDescription> {
        if statement.is_planned() {
            if let Some(parsed) = &statement.parsed {
                self.refuse_if_failed(&parsed.command)?;
            }
            let plan = self.plan_of(statement)?;
            return Ok(StatementDescription {
                parameters: plan.params.clone(),
                columns: plan.columns().map(|columns| columns.to_vec()),
            });
        }
        if statement.planned_command().is_some() {
            self.plan_of(statement)?;
        }
        let columns = match statement.command() {
            Some(command) => self.command_columns(command)?,
            None => None,
        };
        Ok(StatementDescription { parameters: statement.parameter_types(), columns })
    }

    /// The columns that a command returns without a plan of its own.
    pub(super) fn command_columns(&mut self, command: &Command) -> Result<Option<Vec<ResultColumn>>> {
        Ok(match command {
            Command::Show(name) => Some(self.show_columns(name.as_deref())?),
            Command::Explain { .. } => Some(vec![utility::text_column("QUERY PLAN")]),
            Command::Execute { name, .. } => {
                let statement = self.statement(name)?;
                self.describe(&statement)?.columns
            }
            Command::Fetch { name, discard: false, .. } => {
                self.portals.get(name).and_then(Portal::columns).map(|columns| columns.to_vec())
            }
            _ => None,
        })
    }

    pub(in crate::session) fn statement(&self, name: &str) -> Result<Arc<Prepared>> {
        self.statements.get(name).cloned().ok_or_else(|| {
            let message = if name.is_empty() {
                "unnamed prepared statement does not exist".to_owned()
            } else {
                format!("prepared statement \"{name}\" does not exist")
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    /// EXECUTE.
    pub(in crate::session) fn execute_prepared(
        &mut self,
        name: &str,
        arguments: &[sqlparser::ast::Expr],
        alone: bool,
        sink: &mut dyn Sink,
    ) -> Result<Tag> {
        let prepared = self.statement(name)?;
        if !prepared.is_planned() {
            return match prepared.command() {
                // EXECUTE cannot be prepared by name, so this does not go in circles.
                Some(command) if !matches!(command, Command::Execute { .. }) => {
                    self.run(command, alone, sink)
                }
                _ => Ok(Tag::new()),
            };
        }
        let plan = self.plan_of(&prepared)?;
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
        let params = plan::bind_arguments(self, arguments, &plan.params)?;
        let nesting = prepared.parsed.as_ref().map_or(0, |parsed| parsed.nesting);
        on_fit_stack(nesting, || {
            let plan = self.begin_plan(plan, &mut |session| session.plan_of(&prepared))?;
            self.run_plan(&plan, &params, sink)
        })
    }
}

fn same_columns(a: Option<&[ResultColumn]>, b: Option<&[ResultColumn]>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.ty == b.ty && a.name == b.name)
        }
        _ => false,
    }
}
