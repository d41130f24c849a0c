//! EXPLAIN.

use std::time::Duration;

use gnomon_parser::ast::{Explain, Statement};

use super::{
    advice,
    command::Command,
    prepared::Prepared,
    setting::{plain_context, text_column},
};
use crate::{
    Notice, Result, SqlError, SqlState,
    context::SessionContext,
    ddl::{self, TableQuery, TableSource},
    query::{
        Estimator, Measures, Run,
        plan::{ExplainFormat, Node, NodeEstimate, NodeValue, millis},
    },
    sink::{Sink, Tag, tag},
    statement::{Executor, Kind, Plan, begin, plan},
    syntax::{option_is_on, option_text},
    types::Datum,
};

/// The options that EXPLAIN acts on.
struct Options {
    analyze: bool,
    /// False if estimates are left out.
    costs: bool,
    verbose: bool,
    summary: bool,
    /// False if times of nodes are left out.
    timing: bool,
    format: ExplainFormat,
}

impl Options {
    /// Reads the options. Those that are on and show nothing are told of.
    fn of(explain: &Explain, notices: &mut Vec<Notice>) -> Result<Options> {
        let (mut analyze, mut costs, mut verbose, mut summary, mut timing) = (false, true, false, None, None);
        let mut format = ExplainFormat::Text;
        let mut without_effect = Vec::new();
        for option in &explain.options {
            let name = &*option.name.name;
            match name {
                "analyze" | "analyse" => analyze = option_is_on(option)?,
                "summary" => summary = Some(option_is_on(option)?),
                "format" => match option_text(option)? {
                    "text" => format = ExplainFormat::Text,
                    "xml" => format = ExplainFormat::Xml,
                    "json" => format = ExplainFormat::Json,
                    "yaml" => format = ExplainFormat::Yaml,
                    other => {
                        return Err(SqlError::new(
                            SqlState::INVALID_PARAMETER_VALUE,
                            format!("unrecognized value for EXPLAIN option \"format\": \"{other}\""),
                        )
                        .at(option.name.position));
                    }
                },
                "timing" => timing = Some(option_is_on(option)?),
                "verbose" => verbose = option_is_on(option)?,
                "costs" => costs = option_is_on(option)?,
                "buffers" | "settings" | "wal" => {
                    without_effect.retain(|known| *known != name);
                    without_effect.extend(option_is_on(option)?.then_some(name));
                }
                _ => {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!("unrecognized EXPLAIN option \"{name}\""),
                    )
                    .at(option.name.position));
                }
            }
        }
        let of_running = match without_effect.contains(&"wal") {
            true => Some("WAL"),
            false => (timing == Some(true)).then_some("TIMING"),
        };
        if let Some(name) = of_running.filter(|_| !analyze) {
            let message = format!("EXPLAIN option {name} requires ANALYZE");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        notices.extend(without_effect.iter().map(|name| {
            let what = format!("EXPLAIN option {}", name.to_uppercase());
            Notice::no_effect(&what, "plans show no more than they do without")
        }));
        let (summary, timing) = (summary.unwrap_or(analyze), timing.unwrap_or(true));
        Ok(Options { analyze, costs, verbose, summary, timing, format })
    }
}

/// Returns the statement whose plan EXPLAIN shows: its own, or that of the cursor or table that its own makes.
pub(super) fn explained(explain: &Explain) -> &Statement {
    match &*explain.statement {
        Statement::DeclareCursor(declare) => &declare.statement,
        Statement::CreateTableAs(create) => &create.source,
        statement => statement,
    }
}

/// EXPLAIN of a statement.
pub(super) fn explain(
    executor: &mut Executor<'_>,
    explain: &Explain,
    command: Command<'_>,
    notices: &mut Vec<Notice>,
    sink: &mut dyn Sink,
) -> Result<Tag> {
    let options = Options::of(explain, notices)?;
    if let Statement::Unsupported(unsupported) = &*explain.statement {
        return Err(advice::unsupported(unsupported));
    }
    if !makes_table(executor.session, explain, notices)? {
        return show_no_plan(options.format, Some("CREATE TABLE AS"), sink);
    }
    let statement = explained(explain);
    let mut plan_it = |session: &mut SessionContext| plan(session, statement, command.types);
    let before = executor.session.shared.clock.now();
    let planned = plan_it(executor.session)?;
    let planning = executor.session.shared.clock.now().saturating_sub(before);
    planned.refuse_missing(command.values)?;
    let planned = begin(executor.session, planned, &mut plan_it)?;
    show(executor, &options, &planned, (command.values, planning), (explain, notices), sink)
}

/// EXPLAIN of EXECUTE: of the plan of a prepared statement, with the values of its parameters.
pub(super) fn explain_prepared(
    executor: &mut Executor<'_>,
    explain: &Explain,
    prepared: &Prepared,
    values: &[Datum],
    notices: &mut Vec<Notice>,
    sink: &mut dyn Sink,
) -> Result<Tag> {
    let options = Options::of(explain, notices)?;
    if !makes_table(executor.session, explain, notices)? {
        return show_no_plan(options.format, Some("CREATE TABLE AS"), sink);
    }
    if prepared.planned_statement().is_none() {
        return match (prepared.statement(), options.format) {
            (Some(_), ExplainFormat::Text) => {
                show_lines(vec!["Utility statements have no plan structure".to_owned()], sink)
            }
            (statement, format) => show_no_plan(format, statement.map(|_| "Utility Statement"), sink),
        };
    }
    let before = executor.session.shared.clock.now();
    let planned = prepared.plan(executor.session)?;
    let planning = executor.session.shared.clock.now().saturating_sub(before);
    let planned = begin(executor.session, planned, &mut |session| prepared.plan(session))?;
    show(executor, &options, &planned, (values, planning), (explain, notices), sink)
}

/// True unless the table that EXPLAIN's statement would make is there, and need not be new.
fn makes_table(session: &SessionContext, explain: &Explain, notices: &mut Vec<Notice>) -> Result<bool> {
    match &*explain.statement {
        Statement::CreateTableAs(create) => {
            Ok(ddl::free_name(session, &create.name, create.if_not_exists, notices)?.is_some())
        }
        _ => Ok(true),
    }
}

/// Shows a plan whose statement has begun, and how long it took to make it; with ANALYZE, runs it.
fn show(
    executor: &mut Executor<'_>,
    options: &Options,
    planned: &Plan,
    (values, planning): (&[Datum], Duration),
    (explain, notices): (&Explain, &mut Vec<Notice>),
    sink: &mut dyn Sink,
) -> Result<Tag> {
    let clock = executor.session.shared.clock.clone();
    let measures = match options.analyze {
        true => Measures::new(options.timing.then(|| clock.clone())),
        false => Measures::default(),
    };
    let shown =
        if options.costs { measures.clone().with_estimates(Estimator::default()) } else { measures.clone() };
    let mut execution = None;
    let mut rows = 0;
    if options.analyze {
        let before = clock.now();
        match (&*explain.statement, &planned.kind) {
            (Statement::CreateTableAs(create), Kind::Query(query)) => {
                let query = TableQuery::Planned(query);
                let source = TableSource { query, values, measures: measures.clone() };
                ddl::create_table_as(executor.session, create, source, notices)?;
            }
            _ => rows = executor.run_measured(planned, values, &measures)?,
        }
        execution = Some(clock.now().saturating_sub(before));
    }
    let mut node = planned.explain(executor.session.settings.semantic_locks(), &shown);
    if let (Some(node), true, false) = (&mut node, options.costs, planned.is_query()) {
        node.estimate = Some(of_change(node, planned.columns().is_some()));
    }
    if let (Some(node), Some(took), false) = (&mut node, execution, planned.is_query()) {
        // A change is no plan: its node is the run of the statement.
        let (startup, total) = (took, took);
        node.run = Some(Run { is_timed: options.timing, loops: 1, rows, startup, total, ..Run::default() });
    }
    let node = if options.verbose { node } else { node.map(Node::brief) };
    executor.session.end_engine_statement()?;
    let planning = options.summary.then_some(planning);
    let times = [("Planning Time", planning), ("Execution Time", execution.filter(|_| options.summary))];
    let texts = match options.format {
        ExplainFormat::Text => lines(node, times),
        format => vec![document(node, options.analyze, times).document(format)],
    };
    show_lines(texts, sink)
}

/// Returns the estimate of a change of the rows that come from the last node beneath it.
fn of_change(node: &Node, returns: bool) -> NodeEstimate {
    let source = node.children.iter().rev().find(|child| child.name.is_none());
    let found = source.and_then(|child| child.node.estimate);
    let found = found.unwrap_or(NodeEstimate { total: 0.01, rows: 1.0, ..NodeEstimate::default() });
    match returns {
        true => found,
        false => NodeEstimate { rows: 0.0, width: 0.0, ..found },
    }
}

/// Shows that there is no plan: a document of the structured formats has the kind of the statement, if there is one.
fn show_no_plan(format: ExplainFormat, kind: Option<&str>, sink: &mut dyn Sink) -> Result<Tag> {
    match format {
        ExplainFormat::Text => show_lines(Vec::new(), sink),
        format => show_lines(vec![NodeValue::document_without_plan(kind, format)], sink),
    }
}

fn show_lines(lines: Vec<String>, sink: &mut dyn Sink) -> Result<Tag> {
    sink.columns(&[text_column("QUERY PLAN")])?;
    plain_context(|context| {
        lines.into_iter().try_for_each(|line| sink.row(context, &[Datum::Text(line.into())]))
    })?;
    tag("EXPLAIN")
}

/// Times of a statement, each with its name, as far as they are shown.
type Times = [(&'static str, Option<Duration>); 2];

fn lines(node: Option<Node>, times: Times) -> Vec<String> {
    let mut lines = node.map_or_else(Vec::new, |node| node.lines());
    let times = times.into_iter().filter_map(|(name, time)| Some((name, time?)));
    lines.extend(times.map(|(name, time)| format!("{name}: {} ms", millis(time))));
    lines
}

/// The values of the structured formats, in PostgreSQL's order.
fn document(node: Option<Node>, has_run: bool, [planning, execution]: Times) -> NodeValue {
    let mut values: Vec<_> = node.map(|node| ("Plan", node.group())).into_iter().collect();
    let time = |(name, time): (_, Option<Duration>)| Some((name, NodeValue::Plain(millis(time?))));
    values.extend(time(planning));
    values.extend(has_run.then(|| ("Triggers", NodeValue::Groups("Trigger", Vec::new()))));
    values.extend(time(execution));
    NodeValue::Group(values)
}
