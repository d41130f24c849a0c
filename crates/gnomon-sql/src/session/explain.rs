//! EXPLAIN.

use std::time::Duration;

use gnomon_parser::ast::{CreateTableAs, Explain, Statement};

use super::{
    advice,
    command::Command,
    prepared::{Prepared, query_of},
    setting::{plain_context, text_column},
};
use crate::{
    Notice, Result, SqlError, SqlState,
    context::SessionContext,
    ddl::{self, TableSource},
    query::plan::{ExplainFormat, Node, NodeValue},
    sink::{Sink, Tag, tag},
    statement::{Executor, Plan, begin, fetch, plan},
    syntax::{option_is_on, option_text},
    types::{Datum, Type},
};

/// The options that EXPLAIN acts on.
struct Options {
    analyze: bool,
    verbose: bool,
    summary: bool,
    /// False if times of nodes are left out.
    timing: bool,
    format: ExplainFormat,
}

impl Options {
    /// Reads the options. Those that are on and show nothing are told of.
    fn of(explain: &Explain, notices: &mut Vec<Notice>) -> Result<Options> {
        let (mut analyze, mut verbose, mut summary, mut timing) = (false, false, None, None);
        let mut format = ExplainFormat::Text;
        let mut of_running = None;
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
                "costs" | "buffers" | "settings" | "wal" => {
                    if option_is_on(option)? {
                        let what = format!("EXPLAIN option {}", name.to_uppercase());
                        notices.push(Notice::no_effect(&what, "plans show no more than they do without"));
                        if name == "wal" {
                            of_running = Some(what);
                        }
                    }
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
        if timing == Some(true) && of_running.is_none() {
            of_running = Some("EXPLAIN option TIMING".to_owned());
        }
        if let Some(what) = of_running.filter(|_| !analyze) {
            let message = format!("{what} requires ANALYZE");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let (summary, timing) = (summary.unwrap_or(analyze), timing.unwrap_or(true));
        Ok(Options { analyze, verbose, summary, timing, format })
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
        return show_lines(Vec::new(), sink);
    }
    let statement = explained(explain);
    let mut plan_it = |session: &mut SessionContext| plan(session, statement, command.types);
    let before = executor.session.shared.clock.now();
    let planned = plan_it(executor.session)?;
    let planning = executor.session.shared.clock.now().saturating_sub(before);
    planned.refuse_missing(command.values)?;
    let planned = begin(executor.session, planned, &mut plan_it)?;
    let table = NewTable::of(explain, statement, (command.types, command.values))?;
    show(executor, &options, &planned, (command.values, planning), (table, notices), sink)
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
        return show_lines(Vec::new(), sink);
    }
    let before = executor.session.shared.clock.now();
    let planned = prepared.plan(executor.session)?;
    let planning = executor.session.shared.clock.now().saturating_sub(before);
    let planned = begin(executor.session, planned, &mut |session| prepared.plan(session))?;
    let types = prepared.parameter_types();
    let table = match prepared.statement() {
        Some(statement) => NewTable::of(explain, statement, (&types, values))?,
        None => None,
    };
    show(executor, &options, &planned, (values, planning), (table, notices), sink)
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

/// The table that an explained statement makes.
struct NewTable<'a> {
    create: &'a CreateTableAs,
    source: TableSource<'a>,
}

impl<'a> NewTable<'a> {
    /// Returns the table that EXPLAIN's statement fills with a query; none of another statement.
    fn of(
        explain: &'a Explain,
        query: &'a Statement,
        (types, values): (&'a [Type], &'a [Datum]),
    ) -> Result<Option<NewTable<'a>>> {
        let Statement::CreateTableAs(create) = &*explain.statement else { return Ok(None) };
        Ok(Some(NewTable { create, source: TableSource { query: query_of(query)?, types, values } }))
    }
}

/// The outcome of running a statement: number of rows, and the time.
struct Ran {
    rows: u64,
    time: Duration,
    /// True if the topmost node shows its time.
    timing: bool,
}

/// Shows a plan whose statement has begun, and how long it took to make it; with ANALYZE, runs it.
fn show(
    executor: &mut Executor<'_>,
    options: &Options,
    planned: &Plan,
    (values, planning): (&[Datum], Duration),
    (table, notices): (Option<NewTable<'_>>, &mut Vec<Notice>),
    sink: &mut dyn Sink,
) -> Result<Tag> {
    let node = planned.explain(executor.session.settings.semantic_locks());
    let node = if options.verbose { node } else { node.map(Node::brief) };
    let mut ran = None;
    if options.analyze {
        let before = executor.session.shared.clock.now();
        let rows = match table {
            Some(table) => {
                rows_of(&ddl::create_table_as(executor.session, table.create, table.source, notices)?)
            }
            None => {
                let mut running = executor.start(planned, values)?;
                fetch(executor.session, &mut running, values, 0, &mut |_, _| Ok(()))?.0
            }
        };
        let time = executor.session.shared.clock.now().saturating_sub(before);
        ran = Some(Ran { rows, time, timing: options.timing });
    }
    executor.session.end_engine_statement()?;
    let planning = options.summary.then_some(planning);
    let execution = ran.as_ref().filter(|_| options.summary).map(|ran| ran.time);
    let times = [("Planning Time", planning), ("Execution Time", execution)];
    let texts = match options.format {
        ExplainFormat::Text => lines(node, ran.as_ref(), times),
        format => vec![document(node, ran.as_ref(), times).document(format)],
    };
    show_lines(texts, sink)
}

fn show_lines(lines: Vec<String>, sink: &mut dyn Sink) -> Result<Tag> {
    sink.columns(&[text_column("QUERY PLAN")])?;
    plain_context(|context| {
        lines.into_iter().try_for_each(|line| sink.row(context, &[Datum::Text(line.into())]))
    })?;
    tag("EXPLAIN")
}

/// The number of rows in the tag of a statement; none is 0.
fn rows_of(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|rows| rows.parse().ok()).unwrap_or(0)
}

/// Times of a statement, each with its name, as far as they are shown.
type Times = [(&'static str, Option<Duration>); 2];

fn lines(node: Option<Node>, ran: Option<&Ran>, times: Times) -> Vec<String> {
    let mut lines = node.map_or_else(Vec::new, |node| node.lines());
    lines.extend(ran.map(|ran| format!("Rows: {}", ran.rows)));
    let times = times.into_iter().filter_map(|(name, time)| Some((name, time?)));
    lines.extend(times.map(|(name, time)| format!("{name}: {} ms", millis(time))));
    lines
}

/// The values of the structured formats, in PostgreSQL's order. The run is that of the topmost node: those beneath are
/// not measured.
fn document(node: Option<Node>, ran: Option<&Ran>, [planning, execution]: Times) -> NodeValue {
    let actual = ran.map(|ran| {
        let time = ran.timing.then(|| ("Actual Total Time", NodeValue::Plain(millis(ran.time))));
        let rows = ("Actual Rows", NodeValue::Plain(ran.rows.to_string()));
        time.into_iter().chain([rows, ("Actual Loops", NodeValue::Plain("1".to_owned()))]).collect()
    });
    let actual = actual.unwrap_or_default();
    let mut values: Vec<_> = node.map(|node| ("Plan", node.group(actual))).into_iter().collect();
    let time = |(name, time): (_, Option<Duration>)| Some((name, NodeValue::Plain(millis(time?))));
    values.extend(time(planning));
    values.extend(ran.map(|_| ("Triggers", NodeValue::Groups("Trigger", Vec::new()))));
    values.extend(time(execution));
    NodeValue::Group(values)
}

fn millis(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}
