//! A client of a script: a session that runs it again and again.
//!
//! Promises: a transaction is one run of the script. One that fails with SQLSTATE 40001 or 40P01 is rolled back and run
//! again as a whole, with the variables and random numbers that it had, as pgbench does it by `--max-tries`. Any other
//! error ends the run with the statement, its line and the SQLSTATE. Statements are prepared once for each session.

use std::time::Duration;

use gnomon_engine::{
    env::{Clock, Rng, SystemClock},
    sync::thread,
};
use gnomon_sql::{
    SqlError, SqlState,
    session::{Format, ResultColumn, Rows, Session, TransactionStatus},
};

use super::{
    STEP,
    expression::{Variables, undefined},
    plain::{Ignored, told},
    script::{Action, Command, Kept, Script, Statement},
    value::Value,
};
use crate::{
    drive::Client,
    store::{Committed, Result, StoreError},
};

/// A session that runs a script.
pub struct ScriptClient<'a> {
    script: &'a Script,
    session: Session,
    variables: Variables,
    /// Where the random numbers of the present transaction begin.
    seed: u64,
    /// Which commands are prepared.
    prepared: Vec<bool>,
}

/// Why a transaction ends early.
enum Failed {
    /// It is to be run again.
    Retry,
    /// It cannot be run.
    Script(String),
}

impl<'a> ScriptClient<'a> {
    /// A client that begins with these variables.
    pub fn new(script: &'a Script, session: Session, variables: Variables) -> ScriptClient<'a> {
        let prepared = vec![false; script.commands.len()];
        ScriptClient { script, session, variables, seed: 0, prepared }
    }

    /// Runs the script from its beginning to its end.
    fn run(&mut self, variables: &mut Variables) -> Result<(), Failed> {
        let script = self.script;
        let mut rng = Rng::from_seed(self.seed);
        let mut next = 0;
        while let Some(Command { line, action }) = script.commands.get(next) {
            let at = |error| Failed::Script(format!("{}:{line}: {error}", script.name));
            let names = &script.names;
            next += 1;
            match action {
                Action::Run(statement) => self.statement(next - 1, *line, statement, variables)?,
                Action::Set(number, expression) => {
                    let value = expression.evaluate(names, variables, &mut rng);
                    variables[*number] = Some(value.map_err(at)?);
                }
                Action::Sleep(pause) => self.sleep(pause.duration(names, variables).map_err(at)?)?,
                Action::Jump(to) => next = *to,
                Action::JumpUnless(condition, to) => {
                    if !condition.evaluate(names, variables, &mut rng).map_err(at)?.is_true() {
                        next = *to;
                    }
                }
            }
        }
        match self.session.status() {
            TransactionStatus::Idle => Ok(()),
            _ => Err(Failed::Script(format!(
                "{}: the script ends within a transaction: end it with END or ROLLBACK",
                script.name
            ))),
        }
    }

    /// Sleeps, unless the session is interrupted.
    fn sleep(&self, time: Duration) -> Result<(), Failed> {
        let (clock, interrupt) = (SystemClock::new(), self.session.interrupt());
        loop {
            interrupt.check().map_err(|error| Failed::Script(error.to_string()))?;
            let left = time.saturating_sub(clock.now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(STEP));
        }
    }

    fn statement(
        &mut self,
        number: usize,
        line: usize,
        statement: &Statement,
        variables: &mut Variables,
    ) -> Result<(), Failed> {
        let script = self.script;
        let named = |error: String| Failed::Script(format!("{}:{line}: {error}", script.name));
        let failed = |error: SqlError, sent: &str| match error.state() {
            SqlState::SERIALIZATION_FAILURE | SqlState::DEADLOCK_DETECTED => Failed::Retry,
            _ => {
                let source = statement.source(&script.names);
                let told = told(&script.name, line, sent, &source, &error);
                let is_untyped =
                    [SqlState::AMBIGUOUS_FUNCTION, SqlState::INDETERMINATE_DATATYPE].contains(&error.state());
                Failed::Script(match is_untyped && statement.is_prepared {
                    true => {
                        format!("{told} (variables have no types of their own here: write :name::integer)")
                    }
                    false => told,
                })
            }
        };
        if !statement.is_prepared {
            let sent = statement.filled(&script.names, variables).map_err(named)?;
            let mut rows = Rows::default();
            return match &statement.kept {
                None => self.session.execute(&sent, &mut Ignored::default()),
                Some(_) => self.session.execute(&sent, &mut rows),
            }
            .map_err(|error| failed(error, &sent))
            .and_then(|()| match &statement.kept {
                None => Ok(()),
                Some(kept) => {
                    let columns = std::mem::take(&mut rows.columns);
                    keep(script, kept, &columns, rows, variables).map_err(named)
                }
            });
        }
        let failed = |error| failed(error, &statement.parameterized());
        let mut parameters = Vec::new();
        for variable in statement.variables() {
            let Some(value) = &variables[variable] else {
                return Err(named(undefined(script.names.name(variable))));
            };
            parameters.push((*value != Value::Null).then(|| value.to_string()));
        }
        let name = format!("command {number}");
        if !self.prepared[number] {
            self.session.prepare(&name, &statement.parameterized(), &[]).map_err(failed)?;
            self.prepared[number] = true;
        }
        let bound: Vec<_> =
            parameters.iter().map(|text| text.as_ref().map(|text| (Format::Text, text.as_bytes()))).collect();
        self.session.bind("", &name, &bound).map_err(failed)?;
        match &statement.kept {
            None => {
                self.session.execute_portal("", 0, &mut Ignored::default()).map_err(failed)?;
            }
            Some(kept) => {
                let columns = self.session.describe_portal("").map_err(failed)?.unwrap_or_default();
                let mut rows = Rows::default();
                self.session.execute_portal("", 0, &mut rows).map_err(failed)?;
                keep(script, kept, &columns, rows, variables).map_err(named)?;
            }
        }
        self.session.close_portal("");
        self.session.sync().map_err(failed)
    }
}

impl Client for ScriptClient<'_> {
    fn choose(&mut self, rng: &mut Rng) {
        self.seed = rng.next_u64();
    }

    fn attempt(&mut self) -> Result<Committed> {
        let mut variables = self.variables.clone();
        match self.run(&mut variables) {
            Ok(()) => {
                self.variables = variables;
                Ok(Committed::Durable)
            }
            Err(Failed::Script(error)) => Err(StoreError::unexpected(error)),
            Err(Failed::Retry) => {
                if self.session.status() != TransactionStatus::Idle {
                    let rolled_back = self.session.execute("ROLLBACK", &mut Ignored::default());
                    rolled_back.map_err(|error| StoreError::Failed(error.into()))?;
                }
                Err(StoreError::Retry)
            }
        }
    }
}

/// Keeps a row in variables, as texts. Those that the script does not use are left out.
fn keep(
    script: &Script,
    kept: &Kept,
    columns: &[ResultColumn],
    rows: Rows,
    variables: &mut Variables,
) -> Result<(), String> {
    if kept.is_one && rows.texts.len() != 1 {
        return Err(format!("{kept} takes one row, and the query returned {}", rows.texts.len()));
    }
    let Some(row) = rows.texts.into_iter().next_back() else { return Ok(()) };
    for (column, text) in columns.iter().zip(row) {
        if let Some(number) = script.names.find(&format!("{}{}", kept.prefix, column.name)) {
            variables[number] = Some(text.map_or(Value::Null, Value::Text));
        }
    }
    Ok(())
}
