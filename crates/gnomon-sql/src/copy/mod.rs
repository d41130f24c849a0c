//! COPY: rows in and out in bulk, as text, CSV or PostgreSQL's binary form.
//!
//! Only STDIN and STDOUT are served: a database has no business with the files of its host.

mod lines;
mod options;
mod read;
mod write;

use std::sync::Arc;

use gnomon_engine::{Error, TreeLock};
use gnomon_parser::ast::{Copy, CopyEnd, CopySource, Ident, Query, RelationName, Statement};

pub(crate) use self::options::{Options, freezes};
use self::{options::DataFormat, read::Rows, write::Writer};
use crate::{
    Result, SqlError, SqlState,
    catalog::{Relation, model::Table},
    context::{Name, SessionContext, View},
    dml::{
        BoundCheck, Output, TableReader, TableWriter, bind_checks, default_of, missing_column,
        missing_column_of,
    },
    executor::VirtualTable,
    functions::quote_ident,
    query::{Binder, ExecContext, Expr, ResultColumn, Scope, into_clause, plan_query},
    sink::{Sink, Tag},
    syntax::parse_query,
    types::{ColumnType, Context, Datum, Row, Type, binary, encoding::Encoding, text},
};

/// The bytes that binary data begin with.
const BINARY_SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// Number of rows between two looks at the interrupt.
const ROWS_BETWEEN_CHECKS: u64 = 256;
/// Bytes of a value or a line that stand in the context of an error.
const CONTEXT_BYTES_MAX: usize = 100;

/// The table of a COPY FROM, bound.
struct Target {
    table: Arc<Table>,
    /// Its columns that the data have, in their order.
    positions: Vec<usize>,
    /// The values of the other columns.
    defaults: Vec<(usize, Expr)>,
    checks: Arc<[BoundCheck]>,
    filter: Option<Expr>,
    version: u64,
}

/// Runs a COPY. Returns the command tag.
pub(crate) fn copy(session: &mut SessionContext, copy: &Copy, sink: &mut dyn Sink) -> Result<Tag> {
    let options = Options::of(copy, session.settings.encoding())?;
    if let CopySource::Query(statement) = &copy.source
        && let Statement::Query(query) = &**statement
        && into_clause(&query.body).is_some()
    {
        let message = "COPY (SELECT INTO) is not supported";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    if copy.end != CopyEnd::Standard {
        return Err(SqlError::unsupported("COPY to or from a file or program of the server")
            .hint("Use COPY ... STDIN or STDOUT; psql's \\copy works for files of the client."));
    }
    let count = match &copy.source {
        source if copy.is_to => copy_to(session, source, options, sink)?,
        CopySource::Table { name, columns } => copy_from(session, copy, name, columns, options, sink)?,
        // The grammar has no COPY (query) FROM.
        CopySource::Query(_) => return Err(SqlError::unsupported("COPY FROM with a query")),
    };
    Ok(format!("COPY {count}"))
}

fn copy_from(
    session: &mut SessionContext,
    copy: &Copy,
    name: &RelationName,
    columns: &[Ident],
    options: Options,
    sink: &mut dyn Sink,
) -> Result<u64> {
    session.ensure_transaction();
    session.refuse_read_only("COPY FROM")?;
    let target = loop {
        let name = session.name(name)?;
        let target = session.look_up(|session| {
            session.with_types(|types, view| {
                let table = copied_table(view, &name, "to")?;
                bind_target(types, view, table, columns, copy)
            })
        })?;
        session.engine_transaction(false, session.catalog().csn)?;
        match session.engine()?.lock_tree(target.table.tree, TreeLock::IntentionExclusive) {
            Ok(()) if session.catalog_version() == target.version => {
                session.engine()?.start_statement()?;
                if session.rest_on_tables([&target.table].into_iter(), target.version, true)? {
                    break target;
                }
            }
            Err(Error::NoSuchTree(_)) if session.catalog_version() != target.version => {}
            Err(error) => return Err(error.into()),
            Ok(()) => {}
        }
    };
    let interrupt = session.interrupt.clone();
    let _shown = session.show_progress("COPY FROM", &target.table);
    let count = session.with_context(&[], |shared, ctx| {
        let table = target.table.clone();
        let names: Vec<String> = target.positions.iter().map(|i| table.columns[*i].name.clone()).collect();
        let writer = TableWriter::new(shared, ctx.txn, table.clone(), target.checks.clone())?;
        let is_binary = options.format == DataFormat::Binary;
        let source = sink.copy_in(is_binary, names.len())?;
        let mut rows = Rows::new(source, options, &names)?;
        let mut row: Row = Vec::with_capacity(table.columns.len());
        let mut count = 0;
        loop {
            match rows.next(&names) {
                Ok(true) => {}
                Ok(false) => return Ok(count),
                Err(error) => return Err(at_line(error, &table, &rows)),
            }
            if rows.line % ROWS_BETWEEN_CHECKS == 0 {
                interrupt.check()?;
            }
            row.clear();
            row.resize(table.columns.len(), Datum::Null);
            read_row(ctx.types, &table, &target.positions, &rows, &mut row)?;
            let here = |error| at_line(error, &table, &rows);
            for (position, default) in &target.defaults {
                row[*position] = default.eval(&[], ctx).map_err(here)?;
            }
            if let Some(filter) = &target.filter
                && !filter.is_true(&row, ctx).map_err(here)?
            {
                continue;
            }
            writer.check(ctx, &row).map_err(here)?;
            let key = writer
                .insert(ctx.txn, ctx.types, &row)
                .map_err(|error| error.context(place(&table, rows.line)))?;
            writer.accesses(ctx, &key)?.inserted += 1;
            ctx.row_done();
            count += 1;
        }
    })?;
    session.end_engine_statement()?;
    Ok(count)
}

fn copy_to(
    session: &mut SessionContext,
    source: &CopySource,
    options: Options,
    sink: &mut dyn Sink,
) -> Result<u64> {
    let count = match source {
        CopySource::Query(statement) => match &**statement {
            Statement::Query(query) => copy_query(session, query, options, sink)?,
            _ => return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a change is copied as a query")),
        },
        CopySource::Table { name, columns } => match session.name(name)?.of_system() {
            Some(table) if table.kind() == "table" => {
                let query = query_of_system(&*table, columns)?;
                copy_query(session, &query, options, sink)?
            }
            _ => copy_table(session, name, columns, options, sink)?,
        },
    };
    session.end_engine_statement()?;
    Ok(count)
}

/// The query of the rows that COPY of a table of the system has.
fn query_of_system(table: &dyn VirtualTable, columns: &[Ident]) -> Result<Query> {
    let is_known = |name: &Ident| table.columns().iter().any(|column| *column.name == *name.name);
    if let Some(missing) = columns.iter().find(|name| !is_known(name)) {
        return Err(missing_column_of(table.name(), &missing.name));
    }
    let names: Vec<String> = columns.iter().map(|column| quote_ident(&column.name)).collect();
    let names = if names.is_empty() { "*".to_owned() } else { names.join(", ") };
    parse_query(&format!("SELECT {names} FROM {}.{}", quote_ident(table.schema()), quote_ident(table.name())))
}

fn copy_query(
    session: &mut SessionContext,
    query: &Query,
    options: Options,
    sink: &mut dyn Sink,
) -> Result<u64> {
    loop {
        let (planned, tables, version) = session.with_types(|types, view| {
            let planned = plan_query(query, view, types, &[])?;
            planned.refuse_failing_constants(types)?;
            Ok((planned, view.tables(), view.catalog.version))
        })?;
        if !lock_for_copy(session, &tables, version, planned.locks_rows())? {
            continue;
        }
        return session.with_context(&[], |_, ctx| {
            let mut output = Out::of(options, &planned.columns, sink)?;
            let mut rows = planned.open();
            while let Some(row) = rows.next(ctx)? {
                output.row(ctx.types, &row)?;
            }
            output.finish()
        });
    }
}

fn copy_table(
    session: &mut SessionContext,
    name: &RelationName,
    columns: &[Ident],
    options: Options,
    sink: &mut dyn Sink,
) -> Result<u64> {
    let name = session.name(name)?;
    loop {
        session.ensure_transaction();
        let (view, table) = session.look_up(|session| {
            let view = session.view();
            let table = copied_table(&view, &name, "from")?;
            Ok((view, table))
        })?;
        let positions = positions(&table, columns)?;
        if !lock_for_copy(session, std::slice::from_ref(&table), view.catalog.version, false)? {
            continue;
        }
        let names: Vec<String> = positions.iter().map(|i| table.columns[*i].name.clone()).collect();
        let types: Vec<Type> = positions.iter().map(|i| table.columns[*i].ty.ty).collect();
        return session.with_context(&[], |_, ctx| {
            let mut output = Out::new(options, &names, types, sink)?;
            let mut rows = TableReader::new(table.clone());
            while let Some((_, mut row)) = rows.next(ctx.txn)? {
                let row: Row =
                    positions.iter().map(|i| std::mem::replace(&mut row[*i], Datum::Null)).collect();
                output.row(ctx.types, &row)?;
            }
            output.finish()
        });
    }
}

/// Locks what a COPY TO reads; false if the catalog changed meanwhile.
fn lock_for_copy(
    session: &mut SessionContext,
    tables: &[Arc<Table>],
    version: u64,
    locks_rows: bool,
) -> Result<bool> {
    session.engine_transaction(!locks_rows, session.catalog().csn)?;
    for table in tables {
        match session.engine()?.lock_tree(table.tree, TreeLock::Access) {
            Err(Error::NoSuchTree(_)) if session.catalog_version() != version => return Ok(false),
            locked => locked?,
        }
    }
    if session.catalog_version() != version {
        return Ok(false);
    }
    session.engine()?.start_statement()?;
    if !session.rest_on_tables(tables.iter(), version, locks_rows)? {
        return Ok(false);
    }
    session.observe(tables.iter())?;
    Ok(true)
}

/// The table of a COPY.
fn copied_table(view: &View, name: &Name, direction: &str) -> Result<Arc<Table>> {
    match view.find(name) {
        Some(Relation::Table(table)) => Ok(table),
        // Not opened at all.
        Some(Relation::Index(..)) => {
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is an index", name.name)))
        }
        Some(other) => Err(not_copied(name, direction, other.kind())),
        None => Err(match name.of_system() {
            Some(system) if system.kind() == "view" => not_copied(name, direction, "view"),
            Some(system) => system.not_changed(),
            None => view.missing(name, "relation"),
        }),
    }
}

/// Returns the error for a relation of a kind whose rows COPY does not read or write.
fn not_copied(name: &Name, direction: &str, kind: &str) -> SqlError {
    let message = format!("cannot copy {direction} {kind} \"{}\"", name.name);
    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
    match (direction, kind) {
        ("from", "view") => error.hint("Try the COPY (SELECT ...) TO variant."),
        (_, "view") => error.hint("To enable copying to a view, provide an INSTEAD OF INSERT trigger."),
        _ => error,
    }
}

/// The positions of the columns that COPY lists, or of all.
fn positions(table: &Table, columns: &[Ident]) -> Result<Vec<usize>> {
    if columns.is_empty() {
        return Ok(table.live_columns().map(|(i, _)| i).collect());
    }
    let mut positions = Vec::with_capacity(columns.len());
    for column in columns {
        let name = &*column.name;
        let position = table.column(name).ok_or_else(|| missing_column(table, name))?;
        if positions.contains(&position) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        positions.push(position);
    }
    Ok(positions)
}

fn bind_target(
    types: &Context<'_>,
    view: &View,
    table: Arc<Table>,
    columns: &[Ident],
    copy: &Copy,
) -> Result<Target> {
    let positions = positions(&table, columns)?;
    let mut binder = Binder::new(view, types, &[]);
    let mut defaults = Vec::new();
    for (i, column) in table.live_columns().filter(|(i, _)| !positions.contains(i)) {
        if let Some(default) = default_of(column)? {
            defaults.push((i, binder.assign(&default, &Scope::empty(), &column.name, column.ty)?));
        }
    }
    let checks = bind_checks(&mut binder, &table)?;
    let scope = Scope::of_table(&table, None);
    let filter = copy.filter.as_ref().map(|filter| binder.condition(filter, &scope, false)).transpose()?;
    Ok(Target { table, positions, defaults, checks, filter, version: view.catalog.version })
}

/// The values of the present row.
fn read_row(
    context: &Context<'_>,
    table: &Table,
    positions: &[usize],
    rows: &Rows<'_>,
    row: &mut Row,
) -> Result<()> {
    if rows.width() > positions.len() {
        let error = SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, "extra data after last expected column");
        return Err(at_line(error, table, rows));
    }
    for (i, &position) in positions.iter().enumerate() {
        let column = &table.columns[position];
        if i >= rows.width() {
            let error = SqlError::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                format!("missing data for column \"{}\"", column.name),
            );
            return Err(at_line(error, table, rows));
        }
        let Some(bytes) = rows.field(i) else { continue };
        let value = read_value(context, bytes, column.ty, rows.binary_encoding());
        row[position] = value.map_err(|error| {
            let value = if rows.binary_encoding().is_some() {
                String::new()
            } else {
                format!(": \"{}\"", shown(bytes))
            };
            error.context(format!("{}, column {}{value}", place(table, rows.line), column.name))
        })?;
    }
    Ok(())
}

fn read_value(
    context: &Context<'_>,
    bytes: &[u8],
    ty: ColumnType,
    binary: Option<Encoding>,
) -> Result<Datum> {
    if let Some(encoding) = binary {
        binary::receive(bytes, ty, encoding)
    } else {
        text::input(context, binary::validate_text(bytes)?, ty)
    }
}

fn place(table: &Table, line: u64) -> String {
    format!("COPY {}, line {line}", table.name)
}

/// An error with the line of the data at which it came up.
fn at_line(error: SqlError, table: &Table, rows: &Rows<'_>) -> SqlError {
    let text = rows.line_text().map(|text| format!(": \"{}\"", shown(text)));
    error.context(place(table, rows.line) + text.as_deref().unwrap_or_default())
}

/// The beginning of a value or a line.
fn shown(bytes: &[u8]) -> String {
    if bytes.len() <= CONTEXT_BYTES_MAX {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let cut = match std::str::from_utf8(&bytes[..CONTEXT_BYTES_MAX]) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => CONTEXT_BYTES_MAX,
    };
    format!("{}...", String::from_utf8_lossy(&bytes[..cut]))
}

/// Rows on their way to the client.
pub(crate) struct Out<'a> {
    writer: Writer,
    sink: &'a mut dyn Sink,
    count: u64,
}

impl<'a> Out<'a> {
    /// Begins to send rows of these columns.
    pub(crate) fn of(options: Options, columns: &[ResultColumn], sink: &'a mut dyn Sink) -> Result<Out<'a>> {
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let types: Vec<Type> = columns.iter().map(|column| column.ty.ty).collect();
        Out::new(options, &names, types, sink)
    }

    fn new(options: Options, names: &[String], types: Vec<Type>, sink: &'a mut dyn Sink) -> Result<Out<'a>> {
        let is_binary = options.format == DataFormat::Binary;
        let writer = Writer::new(options, names, types)?;
        sink.copy_out(is_binary, names.len())?;
        Ok(Out { writer, sink, count: 0 })
    }

    fn row(&mut self, context: &Context<'_>, row: &[Datum]) -> Result<()> {
        // Sends the start before the first row; in binary form it goes with that row, as PostgreSQL sends it.
        if self.count == 0 && !self.writer.is_binary() {
            self.send()?;
        }
        self.writer.row(context, row)?;
        self.count += 1;
        self.send()
    }

    fn send(&mut self) -> Result<()> {
        if !self.writer.buffer.is_empty() {
            self.sink.copy_data(&self.writer.encoded()?)?;
            self.writer.buffer.clear();
        }
        Ok(())
    }

    /// Ends the rows. Returns how many they were.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.send()?;
        self.writer.finish();
        self.send()?;
        self.sink.copy_done()?;
        Ok(self.count)
    }
}

impl Output for Out<'_> {
    fn row(&mut self, row: Row, ctx: &mut ExecContext<'_>) -> Result<()> {
        Out::row(self, ctx.types, &row)
    }
}
