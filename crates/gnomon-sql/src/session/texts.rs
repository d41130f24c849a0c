//! Statements that a session has run before, by their texts without literals: parsed and planned once.
//!
//! The simple protocol sends a text for each statement, and many drivers put values into it. Texts that differ in their
//! literals only share an entry here. A literal that the plan does not depend on is a parameter of the plan
//! ([`LiftedLiterals`]); by the others an entry has a variant each. The first run of a text is an ordinary one; the
//! second plans the statement with parameters, and runs that plan, as do those that follow. Where that does not work (a
//! literal that is no value of its type, a statement that means something else with parameters) the statement is run as
//! it is written, so that errors are those of the text.
//!
//! Texts of the extended protocol have parameters of their own: Parse of the same text once more, which drivers send
//! that name no statement, gets the tree and the plan of the first.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use gnomon_engine::sync::Mutex;
use gnomon_parser::{Statement, general::GeneralText, literals::NormalizedText};

use super::{command::Command, measured, recent::Recent};
use crate::{
    Result,
    context::{Company, SessionContext},
    statement::{LiftedLiterals, Plan, plan},
    syntax::{Parsed, is_planned, on_fit_stack},
    types::{Datum, Type},
};

/// The longest text that is remembered, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// The memory of a text, beside itself and its tree, in bytes.
const STATEMENT_BYTES: usize = 4096;
/// A query that takes longer is run as it is written from then on: it has more to gain from constants in its plan.
const SHORT_RUN: Duration = Duration::from_millis(1);

/// The statements that a session has run.
#[derive(Default)]
pub(super) struct Texts {
    /// By their normalized texts.
    run: Recent<KnownStatement>,
    /// Those of Parse, by their texts.
    prepared: Recent<PreparedText>,
}

/// A statement of a text that was run before.
pub(super) struct KnownStatement {
    /// The statement, with parameters for some of its literals.
    pub(super) parsed: Parsed,
    literals: LiftedLiterals,
    /// The literals that are no parameters.
    left: Vec<Box<str>>,
    /// The plan made last.
    plan: Mutex<Option<Arc<Plan>>>,
    /// True if it is to be run as it is written.
    is_refused: AtomicBool,
    /// False if it is known that its plan computes nothing from literals alone.
    computes_literals: AtomicBool,
    /// Its form in the statistics of statements.
    pub(super) form: Arc<GeneralText>,
}

/// A text that was prepared before, with the types that were declared for its parameters.
pub(super) struct PreparedText {
    pub(super) parsed: Arc<Parsed>,
    declared: Vec<Type>,
    /// The plan made last.
    plan: Mutex<Option<Arc<Plan>>>,
    /// Its form in the statistics of statements, once it is asked for.
    form: OnceLock<Arc<GeneralText>>,
}

/// A text whose statement is known.
#[derive(Clone, Copy)]
pub(super) struct KnownText<'a> {
    pub(super) sql: &'a str,
    pub(super) text: &'a NormalizedText,
    pub(super) statement: &'a KnownStatement,
}

/// Returns the normalized form of a text that may be remembered.
pub(super) fn normalize(sql: &str) -> Option<NormalizedText> {
    (sql.len() <= TEXT_BYTES_MAX).then(|| NormalizedText::of(sql)).flatten()
}

/// True if a statement may be remembered.
fn is_remembered(statement: &Statement) -> bool {
    is_planned(statement) || matches!(statement, Statement::Transaction(_))
}

/// Returns about how much memory a statement takes that is remembered, in bytes.
fn bytes(sql: &str, parsed: &Parsed) -> usize {
    STATEMENT_BYTES + 3 * sql.len() + parsed.bytes()
}

impl Texts {
    /// Returns the statement of a text that was run before; none of one that is to be run as it is written.
    pub(super) fn find(&mut self, sql: &str, text: &NormalizedText) -> Option<Arc<KnownStatement>> {
        let known = self.run.find(&text.key, |known| known.is_of(sql, text));
        known.filter(|known| !known.is_refused.load(Ordering::Relaxed))
    }

    /// Remembers the statement of a text, unless it is known.
    pub(super) fn remember(
        &mut self,
        session: &SessionContext,
        sql: &str,
        text: &NormalizedText,
        parsed: &Parsed,
    ) {
        if is_remembered(&parsed.statement) && !self.run.has(&text.key, |known| known.is_of(sql, text)) {
            let statement = Arc::new(KnownStatement::new(sql, text, parsed));
            self.run.add(&session.memory, &text.key, bytes(sql, parsed), statement);
        }
    }

    /// Returns a text that was prepared before with these types of parameters.
    pub(super) fn find_prepared(&mut self, sql: &str, declared: &[Type]) -> Option<Arc<PreparedText>> {
        self.prepared.find(sql, |known| known.declared == declared)
    }

    /// Remembers a text that is prepared, if it may be.
    pub(super) fn remember_prepared(
        &mut self,
        session: &SessionContext,
        sql: &str,
        declared: &[Type],
        parsed: Arc<Parsed>,
    ) -> Option<Arc<PreparedText>> {
        if sql.len() > TEXT_BYTES_MAX || !is_remembered(&parsed.statement) {
            return None;
        }
        let bytes = bytes(sql, &parsed) + size_of_val(declared);
        let (plan, form) = (Mutex::new(None), OnceLock::new());
        let text = Arc::new(PreparedText { parsed, declared: declared.into(), plan, form });
        self.prepared.add(&session.memory, sql, bytes, text.clone());
        Some(text)
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.run.clear();
        self.prepared.clear();
    }
}

impl PreparedText {
    /// Returns the form of its statement, whose text is `sql`.
    pub(super) fn form(&self, sql: &str) -> &Arc<GeneralText> {
        self.form.get_or_init(|| measured::form(&self.parsed, sql))
    }

    /// Returns the plan made last, if it is what one would be that is made now.
    pub(super) fn plan(&self, session: &SessionContext) -> Option<Arc<Plan>> {
        self.plan.lock().clone().filter(|plan| plan.is_same_again(session))
    }

    /// Keeps a plan.
    pub(super) fn keep(&self, plan: Arc<Plan>) {
        *self.plan.lock() = Some(plan);
    }
}

impl KnownStatement {
    /// Returns a statement as it is remembered.
    fn new(sql: &str, text: &NormalizedText, parsed: &Parsed) -> KnownStatement {
        let form = measured::form(parsed, sql);
        let mut parsed = parsed.part(&parsed.statement);
        let literals = match is_planned(&parsed.statement) {
            true => {
                on_fit_stack(parsed.nesting, || LiftedLiterals::lift(&mut parsed.statement, &text.literals))
            }
            false => LiftedLiterals::none(&text.literals),
        };
        KnownStatement {
            left: literals.left(sql, text).map(Box::from).collect(),
            literals,
            parsed,
            plan: Mutex::new(None),
            is_refused: AtomicBool::new(false),
            computes_literals: AtomicBool::new(true),
            form,
        }
    }

    /// True if this is the statement of a text with the same normalized form.
    fn is_of(&self, sql: &str, text: &NormalizedText) -> bool {
        self.literals.fit(text) && self.literals.left(sql, text).eq(self.left.iter().map(|left| &**left))
    }

    /// Lets the texts of this statement be run as they are written.
    pub(super) fn refuse(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }

    /// Notes how long a query took.
    pub(super) fn note_run(&self, took: Duration) {
        if took > SHORT_RUN {
            self.refuse();
        }
    }

    /// Returns its plan, made anew if the catalog or settings changed.
    pub(super) fn plan(&self, session: &mut SessionContext) -> Result<Arc<Plan>> {
        if let Some(plan) = &*self.plan.lock()
            && plan.is_same_again(session)
        {
            return Ok(plan.clone());
        }
        let plan = plan(session, &self.parsed.statement, &self.literals.types)?;
        *self.plan.lock() = Some(plan.clone());
        self.computes_literals.store(true, Ordering::Relaxed);
        Ok(plan)
    }
}

impl<'a> KnownText<'a> {
    /// Returns the command, without values for its literals.
    pub(super) fn command(self) -> Command<'a> {
        Command {
            parsed: &self.statement.parsed,
            text: self.sql,
            company: Company::Alone,
            types: &[],
            values: &[],
        }
    }

    /// Returns the values of a plan's parameters.
    ///
    /// # Errors
    /// Those of a literal that is no value of its type, and of what cannot be computed from literals.
    pub(super) fn values(self, session: &mut SessionContext, plan: &Plan) -> Result<Vec<Datum>> {
        let KnownStatement { literals, computes_literals, .. } = self.statement;
        if literals.types.is_empty() {
            return Ok(Vec::new());
        }
        let scope = session.binding_scope();
        let values = literals.values(&scope.types(), self.sql, self.text, &plan.params)?;
        if computes_literals.load(Ordering::Relaxed) {
            let computes = plan.check_constants(&scope.types(), &values)?;
            computes_literals.store(computes, Ordering::Relaxed);
        }
        Ok(values)
    }
}
