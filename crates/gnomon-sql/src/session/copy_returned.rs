//! COPY of the rows that an INSERT, UPDATE or DELETE returns.

use gnomon_parser::ast::{Copy, CopySource, Statement};

use super::command::Command;
use crate::{
    Result, SqlError, SqlState,
    context::SessionContext,
    copy,
    sink::{Sink, Tag, tag},
    statement::{Executor, begin, plan},
};

/// Returns the change whose rows a COPY sends, if its source is one.
pub(super) fn source(copy: &Copy) -> Option<&Statement> {
    match &copy.source {
        CopySource::Query(statement) if !matches!(**statement, Statement::Query(_)) => Some(&**statement),
        _ => None,
    }
}

/// Runs the change, and sends what it returns.
pub(super) fn copy_returned(
    executor: &mut Executor<'_>,
    copy: &Copy,
    change: &Statement,
    command: Command<'_>,
    sink: &mut dyn Sink,
) -> Result<Tag> {
    let options = copy::Options::of(copy, executor.session.settings.encoding())?;
    let mut plan_it = |session: &mut SessionContext| plan(session, change, command.types);
    let planned = plan_it(executor.session)?;
    let planned = begin(executor.session, planned, &mut plan_it)?;
    let Some(columns) = planned.columns() else {
        let message = "COPY query must have a RETURNING clause";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    };
    let mut rows = copy::Out::of(options, &columns, sink)?;
    executor.run_into(&planned, command.values, &mut rows)?;
    tag(format!("COPY {}", rows.finish()?))
}
