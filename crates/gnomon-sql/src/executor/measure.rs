//! The runs of a plan's nodes, for EXPLAIN ANALYZE, and their estimates.
//!
//! A node is known by the address of what it keeps ([`Measured`]), which stays while its plan does. A source is
//! measured around each row that is asked of it, with what is beneath it; one that is opened again has one more loop.

use std::{collections::HashMap, fmt, time::Duration};

use gnomon_engine::{
    env::Clock,
    sync::{Arc, Mutex},
};

use super::{
    RowSource,
    context::ExecContext,
    plan::{Cte, NodeEstimate, Plan},
};
use crate::{Result, types::Row};

/// Estimates of nodes.
pub trait Estimates: Send {
    /// Returns the estimate of a node.
    fn of_node(&mut self, plan: &Plan) -> NodeEstimate;
    /// Takes note of common table expressions, for the plans that name them.
    fn note_tables(&mut self, tables: &[Cte]);
}

/// The runs of nodes, if they are measured, and their estimates, if these are shown.
#[derive(Clone, Default)]
pub struct Measures {
    board: Option<Arc<Board>>,
    estimates: Option<Arc<Mutex<dyn Estimates>>>,
}

struct Board {
    /// None if times are left out.
    clock: Option<Arc<dyn Clock>>,
    runs: Mutex<HashMap<usize, Run>>,
}

/// The runs of a node, all together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// True if its times are known.
    pub is_timed: bool,
    /// Number of times that it began.
    pub loops: u64,
    /// The rows that it has returned.
    pub rows: u64,
    /// The rows that its condition has removed.
    pub removed: u64,
    /// The time until its first rows.
    pub startup: Duration,
    /// The whole time.
    pub total: Duration,
}

impl Measures {
    /// Measures nodes, with times if there is a clock.
    pub fn new(clock: Option<Arc<dyn Clock>>) -> Measures {
        let board = Some(Arc::new(Board { clock, runs: Mutex::default() }));
        Measures { board, estimates: None }
    }

    /// Returns these with the estimates of nodes.
    pub fn with_estimates(self, estimates: impl Estimates + 'static) -> Measures {
        Measures { estimates: Some(Arc::new(Mutex::new(estimates))), ..self }
    }

    /// Returns the estimate of a node, if estimates are shown.
    pub fn estimate(&self, plan: &Plan) -> Option<NodeEstimate> {
        self.estimates.as_ref().map(|estimates| estimates.lock().of_node(plan))
    }

    /// Takes note of common table expressions for the estimates of plans that name them.
    pub fn estimate_tables(&self, tables: &[Cte]) {
        if let Some(estimates) = &self.estimates {
            estimates.lock().note_tables(tables);
        }
    }

    /// Returns the runs of a node; none if nodes are not measured.
    pub fn of(&self, plan: &Plan) -> Option<Run> {
        let board = self.board.as_ref()?;
        let run = board.runs.lock().get(&plan.address()).copied().unwrap_or_default();
        Some(Run { is_timed: board.clock.is_some(), ..run })
    }

    /// Returns a source of a node's rows that measures them, if nodes are measured.
    pub(super) fn around(&self, plan: &Plan, source: Box<dyn RowSource>) -> Box<dyn RowSource> {
        match self.measured(plan, source) {
            Ok(measured) => Box::new(measured),
            Err(source) => source,
        }
    }

    /// Returns a source that measures another, or that itself if nodes are not measured.
    pub(super) fn measured<S>(&self, plan: &Plan, source: S) -> std::result::Result<MeasuredSource<S>, S> {
        match &self.board {
            Some(board) => Ok(MeasuredSource::new(source, plan, board)),
            None => Err(source),
        }
    }

    /// Returns the time now, for [`Measures::note`].
    pub fn now(&self) -> Duration {
        self.board.as_ref().map_or(Duration::ZERO, |board| board.now())
    }

    /// Notes loops and rows of a node that has no source, which took the time since `began`.
    pub fn note(&self, plan: &Plan, loops: u64, rows: u64, began: Duration) {
        if let Some(board) = &self.board {
            let took = board.now().saturating_sub(began);
            let mut runs = board.runs.lock();
            let run = runs.entry(plan.address()).or_default();
            run.loops += loops;
            run.rows += rows;
            run.total += took;
            if run.rows <= rows {
                run.startup += took;
            }
        }
    }

    /// Notes that the condition of a node has removed a row.
    pub(super) fn note_removed(&self, node: &impl Measured) {
        self.note_removed_rows(node, 1);
    }

    /// Notes that the condition of a node has removed rows.
    pub(super) fn note_removed_rows(&self, node: &impl Measured, rows: usize) {
        if let Some(board) = &self.board {
            board.runs.lock().entry(node.address()).or_default().removed += rows as u64;
        }
    }
}

/// A node of a plan, or what it keeps.
pub trait Measured {
    /// The address of what the node keeps.
    fn address(&self) -> usize;
}

impl<T> Measured for Arc<T> {
    fn address(&self) -> usize {
        Arc::as_ptr(self).addr()
    }
}

impl fmt::Debug for Measures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Measures").field(&self.board.is_some()).finish()
    }
}

impl Board {
    fn now(&self) -> Duration {
        self.clock.as_ref().map_or(Duration::ZERO, |clock| clock.now())
    }
}

/// A source that is measured.
pub(super) struct MeasuredSource<S> {
    source: S,
    node: usize,
    board: Arc<Board>,
    has_begun: bool,
    has_rows: bool,
}

impl<S> MeasuredSource<S> {
    fn new(source: S, plan: &Plan, board: &Arc<Board>) -> MeasuredSource<S> {
        let (node, board) = (plan.address(), board.clone());
        MeasuredSource { source, node, board, has_begun: false, has_rows: false }
    }

    /// Asks the source, and notes how many rows it has given and how long that took.
    pub(super) fn measured<R>(&mut self, ask: impl FnOnce(&mut S) -> R, rows: impl FnOnce(&R) -> usize) -> R {
        let before = self.board.now();
        let answer = ask(&mut self.source);
        let took = self.board.now().saturating_sub(before);
        let rows = rows(&answer);
        let mut runs = self.board.runs.lock();
        let run = runs.entry(self.node).or_default();
        run.loops += u64::from(!self.has_begun);
        run.rows += rows as u64;
        run.total += took;
        if !self.has_rows {
            run.startup += took;
        }
        (self.has_begun, self.has_rows) = (true, self.has_rows || rows > 0);
        answer
    }
}

impl RowSource for MeasuredSource<Box<dyn RowSource>> {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        self.measured(|source| source.next(ctx), |row| usize::from(matches!(row, Ok(Some(_)))))
    }
}
