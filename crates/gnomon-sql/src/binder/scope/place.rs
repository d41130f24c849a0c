//! Where an expression stands: its scope, its clause, and what is collected of it there.

use std::cell::RefCell;

use gnomon_parser::ast;

use super::Scope;
use crate::executor::plan::{AggregateCall, FrameMode, WindowCall};

/// Where an expression stands.
#[derive(Clone, Copy, Debug)]
pub struct Place<'s> {
    /// The names that it may use.
    pub scope: &'s Scope<'s>,
    /// The clause, for messages.
    pub clause: Clause,
    /// Where aggregates and window functions of the level are collected; none where they may not stand.
    pub calls: Option<&'s RefCell<Calls>>,
    /// WINDOW name AS (...) of the level.
    pub windows: &'s [NamedWindow<'s>],
    /// True if it stands within an aggregate's arguments.
    pub in_aggregate: bool,
    /// True if it stands within a window function's arguments.
    pub in_window: bool,
    /// CASE or COALESCE, if it stands within one.
    pub in_conditional: Option<&'static str>,
    /// True for what stands in a query further inside, and belongs to the level of the scope.
    pub is_lifted: bool,
}

/// An item of WINDOW: its name and definition.
pub type NamedWindow<'q> = (String, &'q ast::WindowDefinition);

/// The aggregates and window functions of a query level.
#[derive(Debug, Default)]
pub struct Calls {
    pub aggregates: Vec<AggregateCall>,
    pub windows: Vec<WindowCall>,
    /// True if GROUPING is called.
    pub has_grouping: bool,
}

/// The clauses that messages name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    Select,
    Where,
    JoinOn,
    GroupBy,
    Having,
    OrderBy,
    Limit,
    Offset,
    From,
    /// A query in FROM, of the level that it stands in.
    FromQuery,
    Values,
    /// The only row of VALUES that is inserted, which to PostgreSQL is a select list.
    SingleValues,
    Default,
    /// The default of a procedure's parameter.
    ParameterDefault,
    Check,
    Returning,
    Update,
    Filter,
    /// The values of CYCLE.
    Cycle,
    Window,
    /// The offsets of a window's frame.
    Frame(FrameMode),
    Call,
    Execute,
}

impl Clause {
    /// PostgreSQL's words for it.
    pub fn name(self) -> &'static str {
        match self {
            Clause::Select => "SELECT",
            Clause::Where => "WHERE",
            Clause::JoinOn => "JOIN conditions",
            Clause::GroupBy => "GROUP BY",
            Clause::Having => "HAVING",
            Clause::OrderBy => "ORDER BY",
            Clause::Limit => "LIMIT",
            Clause::Offset => "OFFSET",
            Clause::From => "functions in FROM",
            Clause::FromQuery => "FROM clause of their own query level",
            Clause::Values | Clause::SingleValues => "VALUES",
            Clause::Default => "DEFAULT expressions",
            Clause::Check => "check constraints",
            Clause::Returning => "RETURNING",
            Clause::Update => "UPDATE",
            Clause::Filter => "FILTER",
            Clause::Cycle => "CYCLE",
            Clause::Window => "window definitions",
            Clause::Frame(FrameMode::Rows) => "window ROWS",
            Clause::Frame(FrameMode::Range) => "window RANGE",
            Clause::Frame(FrameMode::Groups) => "window GROUPS",
            Clause::Call => "CALL arguments",
            Clause::Execute => "EXECUTE parameters",
            Clause::ParameterDefault => "DEFAULT expressions",
        }
    }
}

impl Clause {
    /// The clause, or of the offsets of a frame the window's: some messages do not tell them apart.
    pub fn of_frame(self) -> Clause {
        match self {
            Clause::Frame(_) => Clause::Window,
            clause => clause,
        }
    }
}

impl<'s> Place<'s> {
    /// A place where no aggregate may stand.
    pub fn new(scope: &'s Scope<'s>, clause: Clause) -> Place<'s> {
        Place {
            scope,
            clause,
            calls: None,
            windows: &[],
            in_aggregate: false,
            in_window: false,
            in_conditional: None,
            is_lifted: false,
        }
    }
}
