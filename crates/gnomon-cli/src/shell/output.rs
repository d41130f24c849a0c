//! Output of statements, for people (tables as psql prints them) and for programs (CSV, JSON lines).
//!
//! A table is printed when all its rows are there, since its columns are as wide as their widest value; CSV and JSON
//! go out row by row.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Write},
};

use clap::ValueEnum;
use comfy_table::{Cell, CellAlignment, ContentLineStyle, LineStyle, Table, TableStyle};
use gnomon_sql::{
    Notice, Result, SqlError, SqlState,
    session::{CopySource, ResultColumn, Sink},
    types::{Context, Datum, Type, text},
};

use super::{
    input::{Line, Lines},
    progress::Watch,
};

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people.
    Table,
    /// Comma-separated values, names first.
    Csv,
    /// A JSON object a row and line; of columns of one name the second is called name_2.
    Json,
}

/// How everything is printed.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub format: Format,
    /// A line a value instead of a line a row.
    pub expanded: bool,
    /// No command tags.
    pub quiet: bool,
}

/// A table as psql draws it.
const PSQL: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction('|'))
    .header_separator(LineStyle::none().fill('-').junction('+'))
    .content_lines(ContentLineStyle::none().junction('|'));

/// The longest piece of COPY data that is handed over at once, in bytes.
const COPY_PIECE_BYTES: usize = 64 << 10;

/// The rows of a table for people, which is printed when all are there.
pub struct Rows {
    pub names: Vec<String>,
    /// For each column, true if it is aligned to the right.
    pub right: Vec<bool>,
    /// None is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Printed above them, in the middle.
    pub title: Option<&'static str>,
}

impl Rows {
    /// Of text columns with these names.
    pub fn of_text(names: &[&str]) -> Rows {
        Rows {
            names: names.iter().map(|&name| name.into()).collect(),
            right: vec![false; names.len()],
            rows: Vec::new(),
            title: None,
        }
    }

    /// Prints a table and the number of its rows.
    pub fn print(&self, expanded: bool, out: &mut dyn Write) -> io::Result<()> {
        if expanded {
            return self.print_expanded(out);
        }
        self.print_table(out)?;
        self.print_count(out)
    }

    /// Prints a table alone.
    pub fn print_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new();
        table.load_style(PSQL);
        table.set_header(self.names.iter().enumerate().map(|(column, name)| self.heading(column, name)));
        for row in &self.rows {
            table.add_row(row.iter().zip(&self.right).map(|(value, right)| {
                let alignment = if *right { CellAlignment::Right } else { CellAlignment::Left };
                Cell::new(value.as_deref().unwrap_or("NULL")).set_alignment(alignment)
            }));
        }
        if !self.names.is_empty() {
            let lines: Vec<String> = table.lines().collect();
            if let Some(title) = self.title {
                let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
                let before = width.saturating_sub(title.chars().count()) / 2;
                writeln!(out, "{:before$}{title}", "")?;
            }
            for line in lines {
                writeln!(out, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }

    /// A name in the middle of its column, as psql has it: an odd blank stands behind.
    fn heading(&self, column: usize, name: &str) -> String {
        let values = self.rows.iter().filter_map(|row| row.get(column));
        let lines = values.flat_map(|value| value.as_deref().unwrap_or("NULL").split('\n'));
        let width = lines.map(|line| line.chars().count()).max().unwrap_or(0);
        let before = width.saturating_sub(name.chars().count()) / 2;
        format!("{:before$}{name}", "")
    }

    fn print_expanded(&self, out: &mut dyn Write) -> io::Result<()> {
        let width = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        if let Some(title) = self.title {
            writeln!(out, "{title}")?;
        }
        for (index, row) in self.rows.iter().enumerate() {
            writeln!(out, "-[ RECORD {} ]", index + 1)?;
            for (name, value) in self.names.iter().zip(row) {
                writeln!(out, "{name:width$} | {}", value.as_deref().unwrap_or("NULL"))?;
            }
        }
        self.print_count(out)
    }

    fn print_count(&self, out: &mut dyn Write) -> io::Result<()> {
        let count = self.rows.len();
        writeln!(out, "({count} {})\n", if count == 1 { "row" } else { "rows" })
    }
}

/// Prints what a statement produces.
pub struct Printer<'a> {
    out: &'a mut dyn Write,
    /// Where COPY FROM STDIN takes its data from.
    lines: &'a mut dyn Lines,
    watch: &'a Watch,
    style: Style,
    types: Vec<Type>,
    names: Vec<String>,
    rows: Option<Rows>,
    title: Option<&'static str>,
    /// The other end of COPY, if it is a file.
    file: Option<CopyFile>,
    /// How many lines COPY took.
    pub lines_taken: usize,
}

impl<'a> Printer<'a> {
    /// `title` stands above the table; `file` is the other end of COPY.
    pub fn new(
        out: &'a mut dyn Write,
        lines: &'a mut dyn Lines,
        watch: &'a Watch,
        style: Style,
        title: Option<&'static str>,
        file: Option<CopyFile>,
    ) -> Printer<'a> {
        Printer {
            out,
            lines,
            watch,
            style,
            types: Vec::new(),
            names: Vec::new(),
            rows: None,
            title,
            file,
            lines_taken: 0,
        }
    }

    fn print_rows(&mut self) -> Result<bool> {
        let Some(rows) = self.rows.take() else { return Ok(false) };
        if self.style.format == Format::Table {
            rows.print(self.style.expanded, self.out).map_err(lost)?;
        }
        Ok(true)
    }
}

impl Sink for Printer<'_> {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.types = columns.iter().map(|column| column.ty.ty).collect();
        self.names = columns.iter().map(|column| column.name.clone()).collect();
        self.rows = Some(Rows {
            names: self.names.clone(),
            right: self.types.iter().map(|ty| is_number(*ty)).collect(),
            rows: Vec::new(),
            title: self.title,
        });
        if self.style.format == Format::Json {
            self.names = keys(&self.names);
        }
        if self.style.format == Format::Csv {
            let names: Vec<String> = self.names.iter().map(|name| csv(name)).collect();
            writeln!(self.out, "{}", names.join(",")).map_err(lost)?;
        }
        Ok(())
    }

    fn row(&mut self, context: &Context<'_>, row: &[Datum]) -> Result<()> {
        let texts: Vec<Option<String>> = row
            .iter()
            .zip(&self.types)
            .map(|(datum, ty)| (!datum.is_null()).then(|| text::output(context, datum, *ty)).transpose())
            .collect::<Result<_>>()?;
        match (self.style.format, &mut self.rows) {
            (Format::Table, Some(rows)) => rows.rows.push(texts),
            (Format::Table, None) => {}
            (Format::Csv, _) => {
                let fields: Vec<String> =
                    texts.iter().map(|text| text.as_deref().map(csv).unwrap_or_default()).collect();
                writeln!(self.out, "{}", fields.join(",")).map_err(lost)?;
            }
            (Format::Json, _) => {
                // In the order of the select list, which a map would not keep.
                let values = row.iter().zip(texts).map(to_json);
                let fields: Vec<String> = self
                    .names
                    .iter()
                    .zip(values)
                    .map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name.as_str())))
                    .collect();
                writeln!(self.out, "{{{}}}", fields.join(",")).map_err(lost)?;
            }
        }
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        let returned_rows = self.print_rows()?;
        // Of a query the rows say it all; of a change that returns rows the tag counts what it changed.
        let tells = !returned_rows
            || ["INSERT", "UPDATE", "DELETE", "MERGE"].iter().any(|verb| tag.starts_with(verb));
        if tells && !self.style.quiet && self.style.format == Format::Table {
            writeln!(self.out, "{tag}").map_err(lost)?;
        }
        self.out.flush().map_err(lost)
    }

    fn empty(&mut self) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, notice: Notice) -> Result<()> {
        // What was printed before it is seen before it.
        self.out.flush().map_err(lost)?;
        self.watch.instead(|| super::report(None, "", &notice));
        Ok(())
    }

    fn copy_out(&mut self, _: bool, _: usize) -> Result<()> {
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        match &mut self.file {
            Some(CopyFile::To(file)) => file.write_all(data).map_err(not_written),
            _ => self.out.write_all(data).map_err(lost),
        }
    }

    fn copy_done(&mut self) -> Result<()> {
        if let Some(CopyFile::To(file)) = &mut self.file {
            return file.flush().map_err(not_written);
        }
        // The tag would be taken for data.
        self.style.quiet = true;
        Ok(())
    }

    fn copy_in(&mut self, binary: bool, _: usize) -> Result<Box<dyn CopySource + '_>> {
        if let Some(CopyFile::From(file)) = &mut self.file {
            return Ok(Box::new(CopyPieces(file)));
        }
        if binary {
            return Err(SqlError::unsupported("COPY FROM STDIN in binary form from a script"));
        }
        Ok(Box::new(CopyLines { lines: self.lines, taken: &mut self.lines_taken, ended: false }))
    }
}

/// A file of the user's that COPY reads or writes.
pub enum CopyFile {
    From(File),
    To(BufWriter<File>),
}

impl CopyFile {
    /// Opens the file to copy to, which is made or emptied, or to copy from.
    #[expect(clippy::disallowed_methods, reason = "a file of the user's, not of a database")]
    pub fn open(path: &str, to: bool) -> io::Result<CopyFile> {
        Ok(match to {
            true => CopyFile::To(BufWriter::new(File::create(path)?)),
            false => CopyFile::From(File::open(path)?),
        })
    }
}

/// COPY data from a file.
struct CopyPieces<'a>(&'a mut File);

impl CopySource for CopyPieces<'_> {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let mut piece = Vec::new();
        let mut file = Read::by_ref(self.0).take(COPY_PIECE_BYTES as u64);
        file.read_to_end(&mut piece)
            .map_err(|error| SqlError::new(SqlState::IO_ERROR, format!("cannot read the file: {error}")))?;
        Ok((!piece.is_empty()).then_some(piece))
    }
}

/// COPY data among the lines of a script, up to a line of `\.` or the end.
struct CopyLines<'a> {
    lines: &'a mut dyn Lines,
    taken: &'a mut usize,
    ended: bool,
}

impl CopySource for CopyLines<'_> {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let mut piece = Vec::new();
        while !self.ended && piece.len() < COPY_PIECE_BYTES {
            let line = self
                .lines
                .next(">> ")
                .map_err(|failure| SqlError::new(SqlState::CONNECTION_FAILURE, failure.0))?;
            *self.taken += 1;
            match line {
                Line::Text(line) if line == "\\." => self.ended = true,
                Line::Text(line) => {
                    piece.extend_from_slice(line.as_bytes());
                    piece.push(b'\n');
                }
                Line::Canceled => {
                    return Err(SqlError::new(SqlState::QUERY_CANCELED, "canceled on request"));
                }
                Line::End => self.ended = true,
            }
        }
        Ok((!piece.is_empty()).then_some(piece))
    }
}

fn not_written(error: io::Error) -> SqlError {
    SqlError::new(SqlState::IO_ERROR, format!("cannot write the file: {error}"))
}

fn lost(error: io::Error) -> SqlError {
    SqlError::new(SqlState::CONNECTION_FAILURE, format!("cannot write to standard output: {error}"))
}

fn is_number(ty: Type) -> bool {
    matches!(
        ty,
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Float4 | Type::Float8 | Type::Numeric | Type::Oid
    )
}

/// A field as COPY would write it: quoted where it must be; an empty text, since NULL is nothing at all.
fn csv(text: &str) -> String {
    if text.is_empty() || text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The keys of columns in an object: a name that was there before gets a number, from 2, that makes it another.
fn keys(names: &[String]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::with_capacity(names.len());
    for (position, name) in names.iter().enumerate() {
        let is_taken = |key: &String| keys.contains(key) || (names.contains(key) && key != name);
        let repeated = names[..position].contains(name);
        let numbered = (2..).map(|number| format!("{name}_{number}")).find(|key| !is_taken(key));
        keys.push(if repeated { numbered.unwrap_or_default() } else { name.clone() });
    }
    keys
}

/// Numbers and truth values as JSON has them, everything else as text. numeric is text too: its digits are exact.
fn to_json((datum, text): (&Datum, Option<String>)) -> serde_json::Value {
    match datum {
        Datum::Null => serde_json::Value::Null,
        Datum::Bool(value) => (*value).into(),
        Datum::Int2(value) => (*value).into(),
        Datum::Int4(value) => (*value).into(),
        Datum::Int8(value) => (*value).into(),
        Datum::Float8(value) if value.is_finite() => (*value).into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        Rows {
            names: vec!["id".into(), "name".into()],
            right: vec![true, false],
            rows: vec![
                vec![Some("1".into()), Some("Ada".into())],
                vec![Some("10".into()), None],
                vec![None, Some("two\nlines".into())],
            ],
            title: None,
        }
    }

    #[test]
    fn tables_look_as_in_psql() {
        let mut out = Vec::new();
        rows().print(false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "  id  | name\n------+-------\n    1 | Ada\n   10 | NULL\n NULL | two\n      | lines\n(3 rows)\n\n"
        );
    }

    #[test]
    fn expanded_rows_have_a_line_a_value() {
        let mut out = Vec::new();
        let mut rows = rows();
        rows.rows.truncate(1);
        rows.print(true, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "-[ RECORD 1 ]\nid   | 1\nname | Ada\n(1 row)\n\n");
    }

    #[test]
    fn keys_of_json_are_distinct() {
        for (names, expected) in [
            (vec!["a", "b"], vec!["a", "b"]),
            (vec!["a", "a", "a"], vec!["a", "a_2", "a_3"]),
            (vec!["a", "a", "a_2"], vec!["a", "a_3", "a_2"]),
            (vec!["a_2", "a", "a"], vec!["a_2", "a", "a_3"]),
            (vec!["a", "a_2", "a", "a_2"], vec!["a", "a_2", "a_3", "a_2_2"]),
            (vec!["?column?", "?column?"], vec!["?column?", "?column?_2"]),
        ] {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            assert_eq!(keys(&names), expected);
        }
    }

    #[test]
    fn csv_quotes_what_it_must() {
        assert_eq!(["a", "", "a,b", "say \"x\""].map(csv), ["a", "\"\"", "\"a,b\"", "\"say \"\"x\"\"\""]);
    }
}
