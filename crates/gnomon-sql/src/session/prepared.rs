//! Prepared statements: those of the protocol and those of PREPARE, with their plans.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use gnomon_engine::sync::Mutex;
use gnomon_parser::{
    ast::{Query, Statement},
    general::GeneralText,
};

use super::{command::Command, explain::explained, measured, texts::PreparedText};
use crate::{
    Result, SqlError, SqlState,
    catalog::system,
    context::{Company, SessionContext},
    memory::Held,
    query::ResultColumn,
    sink::{Tag, tag},
    statement::{Plan, plan},
    syntax::{Parsed, is_planned, on_fit_stack},
    types::Type,
};

/// The most parameters that a statement may have.
const PARAMETERS_MAX: usize = 65535;
/// A literal is kept in the text, in the syntax tree and in the plan.
pub(super) const COPIES: usize = 3;

/// The memory of a prepared statement, beside its name, text and parameters, in bytes.
const STATEMENT_BYTES: usize = 8192;

/// The statement that is to be prepared.
pub(super) enum Source {
    /// None: the text is empty.
    Empty,
    /// One of its own.
    Own(Arc<Parsed>),
    /// That of a text which others may have been prepared by.
    Shared(Arc<PreparedText>),
}

/// A prepared statement.
pub(super) struct Prepared {
    pub(super) name: String,
    /// Its text: as it was given by the protocol, or PREPARE and all.
    pub(super) text: Arc<str>,
    /// When it was prepared, in microseconds since 2000-01-01 00:00 UTC.
    prepared: i64,
    from_sql: bool,
    /// None for an empty text.
    pub(super) parsed: Option<Arc<Parsed>>,
    /// Its text, where others may have been prepared by the same.
    shared: Option<Arc<PreparedText>>,
    /// The types of its parameters as declared; unknown where they were left open.
    declared: Vec<Type>,
    /// The plan made last.
    plan: Mutex<Option<Arc<Plan>>>,
    /// Its form in the statistics of statements, once it is asked for, unless its text is shared.
    form: OnceLock<Arc<GeneralText>>,
    /// The memory that all of this takes.
    _memory: Held,
}

impl Prepared {
    /// Returns what there is to run, without values for parameters; nothing of an empty text.
    pub(super) fn command(&self) -> Option<Command<'_>> {
        let parsed = self.parsed.as_ref()?;
        Some(Command { parsed, text: &self.text, company: Company::Pipeline, types: &[], values: &[] })
    }

    /// Returns the form of its statement; none if its text is empty.
    pub(super) fn form(&self) -> Option<&Arc<GeneralText>> {
        let parsed = self.parsed.as_ref()?;
        Some(match &self.shared {
            Some(shared) => shared.form(&self.text),
            None => self.form.get_or_init(|| measured::form(parsed, &self.text)),
        })
    }

    /// Returns its statement; none if its text is empty.
    pub(super) fn statement(&self) -> Option<&Statement> {
        self.parsed.as_ref().map(|parsed| &parsed.statement)
    }

    /// Returns its query.
    ///
    /// # Errors
    /// 42809 if it is another statement.
    pub(super) fn query(&self) -> Result<&Query> {
        self.statement().ok_or_else(no_query).and_then(query_of)
    }

    /// Returns the row of pg_prepared_statements.
    fn describe(&self) -> system::PreparedStatement {
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
        self.statement().is_some_and(is_planned)
    }

    /// The statement that a plan is made of: its own, or the one that it explains or declares a cursor for.
    pub(super) fn planned_statement(&self) -> Option<&Statement> {
        let statement = match self.statement()? {
            Statement::Explain(explain) => explained(explain),
            Statement::DeclareCursor(declare) => &declare.statement,
            statement => statement,
        };
        is_planned(statement).then_some(statement)
    }

    /// The types of its parameters, as far as they are known.
    pub(super) fn parameter_types(&self) -> Vec<Type> {
        self.plan.lock().as_ref().map_or_else(|| self.declared.clone(), |plan| plan.params.clone())
    }

    /// Its plan, made anew if the catalog changed. Its result must stay the same.
    pub(super) fn plan(&self, session: &mut SessionContext) -> Result<Arc<Plan>> {
        let kept = self.plan.lock().clone();
        if let Some(plan) = &kept
            && plan.is_current(session)
        {
            return Ok(plan.clone());
        }
        let (Some(parsed), Some(statement)) = (&self.parsed, self.planned_statement()) else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "the statement has no plan"));
        };
        let shared = self.shared.as_ref().filter(|_| kept.is_none());
        if let Some(plan) = shared.and_then(|shared| shared.plan(session)) {
            *self.plan.lock() = Some(plan.clone());
            return Ok(plan);
        }
        // Types that were inferred once are what clients send from then on.
        let declared = kept.as_ref().map_or(&self.declared, |plan| &plan.params);
        let plan = on_fit_stack(parsed.nesting, || plan(session, statement, declared));
        let plan = plan.map_err(|error| match (&kept, self.from_sql) {
            (_, false) => error.located_in(&self.text),
            // The text that PREPARE stood in is no longer there.
            (Some(_), true) => error.unplaced(),
            (None, true) => error,
        })?;
        if let Some(kept) = &kept
            && self.is_planned()
            && !same_columns(kept.columns().as_deref(), plan.columns().as_deref())
        {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
            )
            .routine("RevalidateCachedQuery"));
        }
        if let Some(shared) = shared {
            shared.keep(plan.clone());
        }
        *self.plan.lock() = Some(plan.clone());
        Ok(plan)
    }
}

/// Returns the query that a statement is.
///
/// # Errors
/// 42809 if it is another one.
pub(super) fn query_of(statement: &Statement) -> Result<&Query> {
    match statement {
        Statement::Query(query) => Ok(query),
        _ => Err(no_query()),
    }
}

fn no_query() -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, "prepared statement is not a SELECT")
}

/// The prepared statements of a session, by name; the empty name is that of the unnamed statement.
#[derive(Default)]
pub(super) struct Statements(Mutex<HashMap<String, Arc<Prepared>>>);

impl Statements {
    /// The prepared statement of this name.
    pub(super) fn get(&self, name: &str) -> Result<Arc<Prepared>> {
        self.0.lock().get(name).cloned().ok_or_else(|| {
            let message = if name.is_empty() {
                "unnamed prepared statement does not exist".to_owned()
            } else {
                format!("prepared statement \"{name}\" does not exist")
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    /// The prepared statement that EXECUTE names.
    ///
    /// # Errors
    /// 26000 if there is none; 0A000 if it is an EXECUTE itself, which only Parse makes.
    pub(super) fn to_execute(&self, name: &str) -> Result<Arc<Prepared>> {
        let statement = self.get(name)?;
        match statement.statement() {
            Some(Statement::Execute(_)) => Err(SqlError::unsupported("EXECUTE of a prepared EXECUTE")),
            _ => Ok(statement),
        }
    }

    /// Adds a prepared statement; its plan is made at once, so that errors are found now. `from_sql` tells that `text`
    /// is a PREPARE.
    pub(super) fn add(
        &self,
        session: &mut SessionContext,
        name: &str,
        source: Source,
        declared: Vec<Type>,
        text: &str,
        from_sql: bool,
    ) -> Result<()> {
        let (parsed, shared) = match source {
            Source::Empty => (None, None),
            Source::Own(parsed) => (Some(parsed), None),
            Source::Shared(text) => (Some(text.parsed.clone()), Some(text)),
        };
        if let Some(parsed) = &parsed {
            session.refuse_if_failed(&parsed.statement)?;
        }
        if name.is_empty() {
            self.remove("");
        } else if self.0.lock().contains_key(name) {
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
        let bytes = STATEMENT_BYTES
            + 2 * name.len()
            + COPIES * text.len()
            + declared.len() * size_of::<Type>()
            + parsed.as_ref().map_or(0, |parsed| parsed.bytes());
        let prepared = Arc::new(Prepared {
            _memory: session.memory.hold(bytes)?,
            name: name.to_owned(),
            text: text.into(),
            prepared: session.statement_time,
            from_sql,
            parsed,
            shared,
            declared,
            plan: Mutex::new(None),
            form: OnceLock::new(),
        });
        if prepared.planned_statement().is_some() {
            session.ensure_transaction();
            prepared.plan(session)?;
            session.interrupt.check()?;
        }
        self.0.lock().insert(name.to_owned(), prepared);
        Ok(())
    }

    /// Forgets a statement. False if there is none of this name.
    pub(super) fn remove(&self, name: &str) -> bool {
        let removed = self.0.lock().remove(name);
        removed.is_some()
    }

    /// Forgets all of them.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// DEALLOCATE. Returns the command tag.
    pub(super) fn deallocate(&self, name: Option<&str>) -> Result<Tag> {
        match name {
            Some(name) if self.remove(name) => tag("DEALLOCATE"),
            Some(name) => Err(SqlError::new(
                SqlState::INVALID_SQL_STATEMENT_NAME,
                format!("prepared statement \"{name}\" does not exist"),
            )),
            None => {
                self.clear();
                tag("DEALLOCATE ALL")
            }
        }
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Returns the rows of pg_prepared_statements.
    pub(super) fn describe(&self) -> Vec<system::PreparedStatement> {
        let statements = self.0.lock();
        let named = statements.values().filter(|statement| !statement.name.is_empty());
        named.map(|statement| statement.describe()).collect()
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
