//! Running a statement again that others were ahead of, at a member of a cluster.
//!
//! Members certify what they have done at the same time, and of two that change one row the second to be ordered fails with
//! 40001. A statement that is alone in its transaction, and of which the client has heard nothing yet, is run again by the
//! session itself, as often as `gnomon.retries` says: in a transaction of its own each time, with a new snapshot, whatever
//! the isolation level, so that it is as if the client had sent it again. Under READ COMMITTED that is what PostgreSQL does
//! with a row that another transaction has changed.
//!
//! Output that was sent cannot be taken back ([`Sink::take_back`]): a result that is larger than the output buffer, rows
//! of a COPY, or what came before a Flush. Then the error goes to the client. Values that were drawn from sequences
//! stay drawn, as after any rollback. A statement that has interrupted other sessions, or changed its session's advisory
//! locks, is not run again. A time limit on
//! the statement and a request to cancel it hold for all runs together.
//!
//! The pause before each run is random and grows, so that members that have met once do not meet again.

use std::time::Duration;

use gnomon_engine::sync::{Arc, thread};
use gnomon_parser::ast::Statement;

use super::{Format, PortalState, Session, portal::Bound};
use crate::{
    Result, SqlError, SqlState,
    context::State,
    sink::{Mark, Sink},
    syntax::is_planned,
};

/// The longest pause before the second run, and before any.
const PAUSE_MIN: Duration = Duration::from_micros(500);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// The runs of a statement.
#[derive(Clone, Copy, Debug)]
struct Runs {
    /// The output before its result.
    before: Mark,
    /// When it was run first.
    begun: Duration,
    /// Number of times that it was run again.
    again: u32,
    /// Number of the session's effects before that no rollback undoes.
    lasting_effects: u64,
}

/// The portals that were run in the transaction in progress.
#[derive(Default)]
pub(super) struct Pipeline {
    /// Number of them.
    pub(super) portals_run: usize,
    /// The one that was run first and may be run again.
    pub(super) first: Option<Box<FirstPortal>>,
}

/// A portal that was the first thing of its transaction.
pub(super) struct FirstPortal {
    name: String,
    bound: Bound,
    max_rows: usize,
    runs: Runs,
    /// The output up to the end of its result.
    after: Option<Mark>,
}

/// True for what leaves nothing behind when its transaction is rolled back.
pub(super) fn leaves_nothing(statement: &Statement) -> bool {
    use Statement as S;
    is_planned(statement)
        || matches!(
            statement,
            S::Execute(_)
                | S::Truncate(_)
                | S::CreateTable(_)
                | S::CreateTableAs(_)
                | S::CreateIndex(_)
                | S::CreateView(_)
                | S::CreateSchema(_)
                | S::AlterTable(_)
                | S::Rename(_)
        )
}

impl Session {
    /// Returns where a statement of a member begins that may be run again; none if it may not: in a transaction with
    /// others.
    fn first_run(&self, sink: &mut dyn Sink) -> Option<Runs> {
        let may = self.context.current.state != State::Block
            && self.context.current.state != State::Failed
            && self.pipeline.portals_run == 0
            && self.context.calls == 0
            && self.context.settings.retries() > 0;
        let before = if may { sink.mark() } else { None };
        let (begun, lasting_effects) = (self.context.shared.clock.now(), self.context.lasting_effects);
        before.map(|before| Runs { before, begun, again: 0, lasting_effects })
    }

    /// Runs a statement, and again while others are ahead of it.
    pub(super) fn run_until_first<T>(
        &mut self,
        sink: &mut dyn Sink,
        mut run: impl FnMut(&mut Session, &mut dyn Sink) -> Result<T>,
    ) -> Result<T> {
        if !self.context.shared.engine.is_member() {
            return run(self, sink);
        }
        let mut runs = self.first_run(sink);
        let done = loop {
            let done = run(self, sink);
            match (&done, &mut runs) {
                (Err(error), Some(runs)) => match self.prepare_again(error, runs, sink) {
                    Ok(true) => {}
                    Ok(false) => break done,
                    Err(error) => break Err(error),
                },
                _ => break done,
            }
        };
        self.context.spent = None;
        done
    }

    /// After an error: takes back what the statement has done, and waits a moment, if it is to be run again. Fails if it is
    /// interrupted.
    fn prepare_again(&mut self, error: &SqlError, runs: &mut Runs, sink: &mut dyn Sink) -> Result<bool> {
        if error.state() != SqlState::SERIALIZATION_FAILURE {
            return Ok(false);
        }
        let counts = self.context.shared.retries.clone();
        let is_undone = self.context.lasting_effects == runs.lasting_effects;
        if runs.again >= self.context.settings.retries() || !is_undone || !sink.take_back(runs.before) {
            counts.count_given_up();
            return Ok(false);
        }
        self.roll_back();
        runs.again += 1;
        counts.count_again();
        self.context.interrupt.check()?;
        let longest = PAUSE_MAX.min(PAUSE_MIN * 2_u32.pow(runs.again.min(16) - 1));
        thread::sleep(longest.mul_f64(self.context.random_unit()));
        self.context.interrupt.check()?;
        self.context.spent = Some(self.context.shared.clock.now().saturating_sub(runs.begun));
        Ok(true)
    }

    /// Runs a portal of a member, and again while others are ahead of it. If it is the first thing of its transaction, it
    /// is kept: the transaction may end with it.
    pub(super) fn run_portal_until_first(
        &mut self,
        name: &str,
        max_rows: usize,
        sink: &mut dyn Sink,
    ) -> Result<PortalState> {
        let first = self.first_run(sink).and_then(|runs| {
            let bound = self.opened.portals.fresh(name)?;
            Some(FirstPortal { name: name.to_owned(), bound, max_rows, runs, after: None })
        });
        let mut result = self.run_portal(name, max_rows, sink);
        if let Some(mut first) = first {
            if let Err(error) = result {
                result = self.run_first_again(&mut first, error, sink);
                self.context.spent = None;
            }
            if result.is_ok() {
                first.after = sink.mark();
                self.pipeline.first = Some(Box::new(first));
            }
        }
        result
    }

    /// Runs a portal again, as its client has bound it, while others are ahead of it.
    fn run_first_again(
        &mut self,
        first: &mut FirstPortal,
        mut failed: SqlError,
        sink: &mut dyn Sink,
    ) -> Result<PortalState> {
        while self.prepare_again(&failed, &mut first.runs, sink)? {
            match self.rebind_and_run(first, sink) {
                Err(error) => failed = error,
                done => return done,
            }
        }
        Err(failed)
    }

    fn rebind_and_run(&mut self, first: &FirstPortal, sink: &mut dyn Sink) -> Result<PortalState> {
        self.rebind(&first.name, &first.bound)?;
        if let Some(columns) = self.columns_of_rows(&first.name) {
            sink.columns(&columns)?;
        }
        self.run_portal(&first.name, first.max_rows, sink)
    }

    /// As [`Session::sync`]; a statement that is alone in its transaction and fails now, since others were ahead of it, is
    /// run again. The sink is that of its portal ([`Session::formats_alone`]).
    ///
    /// # Errors
    /// As there.
    pub fn sync_or_run_again(&mut self, sink: &mut dyn Sink) -> Result<()> {
        let first = self.pipeline.first.take().filter(|first| self.is_alone(first, sink));
        let Some(mut first) = first else { return self.sync() };
        let mut done = self.sync();
        while let Err(error) = done {
            done = self.run_first_again(&mut first, error, sink).map(drop);
            match done {
                Ok(()) => done = self.sync(),
                Err(_) => {
                    self.fail();
                    break;
                }
            }
        }
        self.context.spent = None;
        self.note_rest();
        done
    }

    /// True if nothing has come behind a portal's result, and nothing else has run.
    fn is_alone(&self, first: &FirstPortal, sink: &mut dyn Sink) -> bool {
        self.context.current.state == State::Implicit
            && self.pipeline.portals_run == 1
            && first.after.is_some()
            && sink.mark() == first.after
    }

    /// The formats of the portal that was the only thing of its transaction up to now; none unless it may have to be run
    /// again, at [`Session::sync_or_run_again`].
    pub fn formats_alone(&self) -> Option<Arc<[Format]>> {
        self.pipeline.first.as_ref().map(|first| first.bound.formats.clone())
    }
}
