//! `gnomon sql`: a shell on a database in this process, in the manner of psql.
//!
//! Promises: `-c` and `--file` stop at the first error with exit code 1 and say where it was; at a terminal the shell
//! goes on. A script's COPY FROM STDIN takes its data from the lines that follow, up to `\.`. Ctrl-C cancels the
//! statement that runs and ends a script. A statement that writes rows for longer than two seconds tells how many.

mod copy;
mod describe;
mod input;
mod output;
mod progress;

use std::{
    io::{BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use gnomon_engine::{
    env::{Clock, SystemClock},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use gnomon_program::{Failure, say, signals, tell};
use gnomon_sql::{
    Notice,
    session::{Session, SessionOptions, SqlDatabase, TransactionStatus},
    split::{Item, Splitter},
};

use self::{
    describe::Kinds,
    input::{EditedLines, Line, Lines, StdinLines, TextLines},
    output::{CopyFile, Format, Printer, Style},
    progress::{Instead, Watch},
};
use crate::storage::Storage;

const COMMANDS: &str = "  \\copy T FROM 'FILE' [WITH ...]
                read rows of a table from a file; T may have columns: t (a, b)
  \\copy T TO 'FILE' [WITH ...]
                write a table into a file, or a query: (SELECT ...)
  \\d            tables, sequences and views; \\dt \\di \\ds \\dv only one kind
  \\d NAME       columns, indexes and constraints of a table
  \\dn           schemas
  \\g            run the statement so far, as a semicolon does; alone, the last one again
  \\gx           as \\g, a line a value
  \\i FILE       run a script
  \\l            databases
  \\r            forget the statement so far
  \\timing       show how long statements take, or no longer
  \\x            a line a value, or a line a row again
  \\q            end (quit, exit and Ctrl-D too)";

/// The text that `help` prints at a terminal.
const HELP: &str = "A semicolon ends a statement of SQL and runs it. \\? lists commands, \\q ends.";

/// The query behind \\l, as psql asks it.
const DATABASES: &str = r#"SELECT datname AS "Name", pg_get_userbyid(datdba) AS "Owner",
    pg_encoding_to_char(encoding) AS "Encoding", datcollate AS "Collate", datctype AS "Ctype",
    coalesce(array_to_string(datacl, ', '), '') AS "Access privileges" FROM pg_database ORDER BY 1"#;

/// The query behind \\dn.
const SCHEMAS: &str = r#"SELECT nspname AS "Name", pg_get_userbyid(nspowner) AS "Owner"
    FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY 1"#;

/// Runs SQL on a database in this process; the database is made if there is none. No other process may have it open.
///
/// At a terminal it is a shell with editing and history; `\?` lists its commands. With -c or --file, or with SQL on
/// standard input, it stops at the first error with exit code 1.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gnomon sql bank.gnomon
  gnomon sql bank.gnomon --file examples/bank.sql
  gnomon sql bank.gnomon -c 'SELECT * FROM accounts' --format csv
  echo 'SELECT 1;' | gnomon sql bank.gnomon")]
pub struct Sql {
    /// The database's directory.
    ///
    /// It is made if there is none. No other process may have it open.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// SQL to run, or one backslash command; before any file.
    ///
    /// May be given several times. The statements of one text are one transaction, unless it has BEGIN in it.
    #[arg(short, long = "command", value_name = "SQL")]
    commands: Vec<String>,
    /// A script to run; `-` is standard input.
    ///
    /// May be given several times. Each statement is a transaction of its own outside of BEGIN and COMMIT. The first
    /// error ends everything; its file and line are told.
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How rows are printed.
    ///
    /// CSV and JSON go out row by row, so that a result may be larger than memory; a table is printed as a whole.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Print no command tags.
    ///
    /// Those are lines such as `INSERT 0 3`. Rows and errors are printed all the same.
    #[arg(short, long)]
    quiet: bool,
    /// The buffer pool, in MiB.
    ///
    /// Pages are kept there; what does not fit is read again.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pool_mib: u32,
    #[command(flatten)]
    storage: Storage,
}

/// Why a script does not go on. What there is to say has been said.
enum Stop {
    /// `\q`.
    Quit,
    /// An error.
    Failed,
}

/// How many lines a statement took as COPY data, and whether a script goes on after it.
type Done = (usize, Result<(), Stop>);

struct Shell {
    database: SqlDatabase,
    session: Session,
    style: Style,
    timing: bool,
    /// The statement that ran last.
    last: String,
    clock: SystemClock,
    watch: Watch,
    canceled: Arc<AtomicBool>,
    /// Scripts that run scripts.
    depth: usize,
}

/// Scripts that run each other end somewhere.
const DEPTH_MAX: usize = 32;

pub fn run(arguments: &Sql) -> Result<ExitCode, Failure> {
    let directory = &arguments.directory;
    let engine = arguments.storage.open(directory, arguments.pool_mib)?;
    let of_sql = |error| Failure::new(directory.display(), error);
    let database = SqlDatabase::open(engine.clone()).map_err(of_sql)?;
    let options = SessionOptions { is_owner: true, ..SessionOptions::default() };
    let session = database.session(options).map_err(of_sql)?;
    let watch = Watch::new(session.progress_board());
    let canceled = Arc::new(AtomicBool::new(false));
    let (interrupt, flag) = (session.interrupt(), canceled.clone());
    signals::on_interrupt(move || {
        flag.store(true, Ordering::Release);
        interrupt.raise(gnomon_engine::InterruptReason::Cancel);
    })
    .map_err(|error| Failure::new("cannot listen to signals", error))?;
    let mut shell = Shell {
        database,
        session,
        style: Style { format: arguments.format, expanded: false, quiet: arguments.quiet },
        timing: false,
        last: String::new(),
        clock: SystemClock::new(),
        watch,
        canceled,
        depth: 0,
    };
    let stop = shell.run_all(arguments)?;
    let open = shell.session.status() != TransactionStatus::Idle;
    drop(shell);
    engine.close().map_err(|error| Failure::of_engine(directory, &error))?;
    if open {
        tell!("WARNING:  the transaction that was open has been rolled back");
    }
    Ok(if matches!(stop, Err(Stop::Failed)) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Shell {
    fn run_all(&mut self, arguments: &Sql) -> Result<Result<(), Stop>, Failure> {
        if arguments.commands.is_empty() && arguments.files.is_empty() {
            return if std::io::stdin().is_terminal() {
                self.interactive(&arguments.directory).map(Ok)
            } else {
                self.script(None, &mut StdinLines)
            };
        }
        for command in &arguments.commands {
            let stop = match command.trim_start().strip_prefix('\\') {
                Some(command) => self.command(command.trim(), &mut StdinLines)?.1,
                // As one text: its statements are one transaction.
                None => self.statement(command, false, None, &mut StdinLines).1,
            };
            if stop.is_err() {
                return Ok(stop);
            }
        }
        for file in &arguments.files {
            let stop = self.file(file)?;
            if stop.is_err() {
                return Ok(stop);
            }
        }
        Ok(Ok(()))
    }

    fn file(&mut self, path: &Path) -> Result<Result<(), Stop>, Failure> {
        if path == Path::new("-") {
            return self.script(None, &mut StdinLines);
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("cannot read the script {}", path.display()), error))?;
        self.script(Some(path), &mut TextLines::new(&text))
    }

    /// Runs lines to their end or to the first error.
    fn script(&mut self, path: Option<&Path>, lines: &mut dyn Lines) -> Result<Result<(), Stop>, Failure> {
        let mut splitter = Splitter::default();
        self.follow_strings(&mut splitter);
        loop {
            let mut last = None;
            let ended = match lines.next("")? {
                Line::Text(line) => {
                    splitter.begin_line(&line);
                    false
                }
                Line::Canceled => true,
                Line::End => {
                    last = splitter.finish();
                    true
                }
            };
            while let Some(item) = last.take().or_else(|| splitter.next_item()) {
                if self.canceled.load(Ordering::Acquire) {
                    tell!("canceled");
                    return Ok(Err(Stop::Failed));
                }
                let (taken, stop) = self.item(item, &mut splitter, Some(path), lines)?;
                (0..taken).for_each(|_| splitter.skip_line());
                if stop.is_err() {
                    return Ok(stop);
                }
            }
            if ended {
                return Ok(Ok(()));
            }
        }
    }

    fn interactive(&mut self, directory: &Path) -> Result<(), Failure> {
        say!("gnomon {} on {}. \\? lists commands.", env!("CARGO_PKG_VERSION"), directory.display());
        let mut lines = EditedLines::new()?;
        let mut splitter = Splitter::default();
        self.follow_strings(&mut splitter);
        let mut typed = String::new();
        loop {
            let line = match lines.next(&self.prompt(splitter.open()))? {
                Line::Text(line) => line,
                Line::Canceled => {
                    splitter.reset();
                    typed.clear();
                    continue;
                }
                Line::End => return Ok(()),
            };
            match (word(&line), splitter.open()) {
                (Some(Word::Help), None) => {
                    say!("{HELP}");
                    continue;
                }
                (Some(Word::Quit), None) => return Ok(()),
                // The line may belong to the statement, or the user may want to get out of it.
                (Some(Word::Help), Some('-' | '(')) => say!("Use \\? for help, \\r to begin anew."),
                (Some(Word::Quit), Some('-' | '(')) => say!("Use \\q to quit."),
                (Some(_), Some(_)) => say!("Use Ctrl-C to begin anew, then \\q to quit."),
                (None, _) => {}
            }
            if !typed.is_empty() {
                typed.push('\n');
            }
            typed.push_str(&line);
            splitter.begin_line(&line);
            while let Some(item) = splitter.next_item() {
                self.canceled.store(false, Ordering::Release);
                match self.item(item, &mut splitter, None, &mut lines) {
                    Ok((_, Err(Stop::Quit))) => return Ok(()),
                    Ok(_) => {}
                    Err(Failure(message)) => tell!("{message}"),
                }
            }
            if splitter.open().is_none() && !typed.trim().is_empty() {
                lines.remember(&typed);
                typed.clear();
            }
        }
    }

    fn prompt(&self, open: Option<char>) -> String {
        let state = match self.session.status() {
            TransactionStatus::Idle => "",
            TransactionStatus::InTransaction => "*",
            TransactionStatus::Failed => "!",
        };
        format!("gnomon{}{state}> ", open.unwrap_or('='))
    }

    /// Lets a splitter read backslashes in strings as the session does.
    fn follow_strings(&self, splitter: &mut Splitter) {
        let is_on = self.session.parameter("standard_conforming_strings").is_none_or(|value| value == "on");
        splitter.set_standard_strings(is_on);
    }

    /// Runs what a line brought: a statement or a command, also one that ends the statement before it. Returns how many
    /// lines it took as COPY data. `script`: where it stands, if anywhere; none in there is standard input.
    fn item(
        &mut self,
        item: Item,
        splitter: &mut Splitter,
        script: Option<Option<&Path>>,
        lines: &mut dyn Lines,
    ) -> Result<Done, Failure> {
        let done = self.item_of(item, splitter, script, lines);
        self.follow_strings(splitter);
        done
    }

    fn item_of(
        &mut self,
        item: Item,
        splitter: &mut Splitter,
        script: Option<Option<&Path>>,
        lines: &mut dyn Lines,
    ) -> Result<Done, Failure> {
        let at = |line| script.map(|path| (path, line));
        match item {
            Item::Statement { text, line } => Ok(self.statement(&text, false, at(line), lines)),
            Item::Command { text, .. } if text == "r" => {
                splitter.reset();
                Ok((0, Ok(())))
            }
            Item::Command { text: command, line } if command == "g" || command == "gx" => {
                let (text, line) = match splitter.finish() {
                    Some(Item::Statement { text, line }) => (text, line),
                    _ => (String::new(), line),
                };
                Ok(self.statement(&text, command == "gx", at(line), lines))
            }
            Item::Command { text, .. } if text.starts_with("g ") || text.starts_with("gx ") => {
                Err(Failure("nothing stands behind \\g and \\gx here".into()))
            }
            Item::Command { text, line } => self.command(&text, lines).map_err(|error| match script {
                Some(path) => Failure::new(place(path, line), error.0),
                None => error,
            }),
        }
    }

    /// Runs a statement, the last one if it is empty. Returns how many lines it took as COPY data. `place` is the
    /// script and its line.
    fn statement(
        &mut self,
        sql: &str,
        expanded: bool,
        place: Option<(Option<&Path>, usize)>,
        lines: &mut dyn Lines,
    ) -> Done {
        if !sql.is_empty() {
            sql.clone_into(&mut self.last);
        }
        let sql = std::mem::take(&mut self.last);
        let style = Style { expanded: expanded || self.style.expanded, ..self.style };
        let done = self.execute(&sql, place, lines, style, None, None);
        self.last = sql;
        done
    }

    /// Runs SQL, and prints with a title above the table, or with a file as the other end of COPY.
    fn execute(
        &mut self,
        sql: &str,
        place: Option<(Option<&Path>, usize)>,
        lines: &mut dyn Lines,
        style: Style,
        title: Option<&'static str>,
        file: Option<CopyFile>,
    ) -> Done {
        let began = self.clock.now();
        // Standard output itself writes line by line.
        let mut out = BufWriter::new(Instead { watch: &self.watch, out: std::io::stdout().lock() });
        let mut printer = Printer::new(&mut out, lines, &self.watch, style, title, file);
        let result = self.session.execute(sql, &mut printer);
        self.watch.end();
        let taken = printer.lines_taken;
        // What was printed before an error is seen before it.
        let _ = out.flush();
        if self.timing {
            // To standard error as far as programs read the rest.
            let elapsed_ms = (self.clock.now() - began).as_secs_f64() * 1e3;
            match self.style.format {
                Format::Table => say!("Time: {elapsed_ms:.3} ms"),
                _ => tell!("Time: {elapsed_ms:.3} ms"),
            }
        }
        let Err(error) = result else { return (taken, Ok(())) };
        let place = place.map(|(path, line)| {
            let inside = error.report().position.map_or(0, |position| {
                sql.chars().take(position.saturating_sub(1)).filter(|&c| c == '\n').count()
            });
            self::place(path, line + inside)
        });
        report(place.as_deref(), sql, &error);
        (taken, Err(Stop::Failed))
    }

    /// Runs a backslash command. Returns how many lines it took as COPY data.
    fn command(&mut self, text: &str, lines: &mut dyn Lines) -> Result<Done, Failure> {
        let (command, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let argument = argument.trim();
        match command {
            "q" | "quit" => return Ok((0, Err(Stop::Quit))),
            "copy" => return self.copy(argument, lines),
            "l" | "list" if argument.is_empty() => {
                return Ok(self.list("List of databases", DATABASES, lines));
            }
            "dn" if argument.is_empty() => return Ok(self.list("List of schemas", SCHEMAS, lines)),
            "?" | "h" | "help" => say!("{COMMANDS}"),
            "timing" => {
                self.timing = !self.timing;
                say!("Timing is {}.", if self.timing { "on" } else { "off" });
            }
            "x" => {
                self.style.expanded = !self.style.expanded;
                say!("Expanded display is {}.", if self.style.expanded { "on" } else { "off" });
            }
            "i" | "include" if !argument.is_empty() => {
                if self.depth == DEPTH_MAX {
                    return Err(Failure(format!("scripts run each other more than {DEPTH_MAX} deep")));
                }
                self.depth += 1;
                let stop = self.file(Path::new(argument));
                self.depth -= 1;
                return stop.map(|stop| (0, stop));
            }
            _ => self.describe(command, argument)?,
        }
        Ok((0, Ok(())))
    }

    /// Prints what a query of the catalog returns.
    fn list(&mut self, title: &'static str, query: &str, lines: &mut dyn Lines) -> Done {
        self.execute(query, None, lines, self.style, Some(title), None)
    }

    /// \\copy: COPY whose other end is a file here, or the shell's own input and output.
    fn copy(&mut self, argument: &str, lines: &mut dyn Lines) -> Result<Done, Failure> {
        let copy = copy::parse(argument).map_err(Failure)?;
        let file = match &copy.path {
            Some(path) => Some(
                CopyFile::open(path, copy.to)
                    .map_err(|error| Failure::new(format!("\\copy cannot open {path}"), error))?,
            ),
            None => None,
        };
        Ok(self.execute(&copy.sql, None, lines, self.style, None, file))
    }

    fn describe(&self, command: &str, argument: &str) -> Result<(), Failure> {
        let Some(kinds) = Kinds::of_command(command) else {
            return Err(Failure(format!("there is no command \\{command}: \\? lists what there is")));
        };
        let mut out = std::io::stdout().lock();
        let catalog = self.database.catalog();
        let done = if argument.is_empty() {
            describe::list(&catalog, kinds, &SessionOptions::default().user, &mut out).map(|()| true)
        } else {
            describe::describe(&catalog, argument, &mut out)
        };
        match done {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(Failure(format!("there is no table, sequence or view named {argument}: \\d lists them")))
            }
            Err(error) => Err(Failure::new("cannot write to standard output", error)),
        }
    }
}

/// A line of a script, or of standard input.
fn place(path: Option<&Path>, line: usize) -> String {
    let path = path.map_or("<stdin>".into(), |path| path.display().to_string());
    format!("{path}:{line}")
}

/// Words that a user may type instead of backslash commands.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    Help,
    Quit,
}

/// The word of which a line consists.
fn word(line: &str) -> Option<Word> {
    match line.trim().trim_end_matches(';').trim_end().to_ascii_lowercase().as_str() {
        "help" => Some(Word::Help),
        "quit" | "exit" => Some(Word::Quit),
        _ => None,
    }
}

/// Prints an error or notice of a statement, as psql does.
fn report(place: Option<&str>, sql: &str, error: &Notice) {
    let report = error.report();
    let severity = report.severity.word();
    let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
    tell!("{place}{severity}:  {}", report.message);
    if let Some(position) = report.position {
        let before: String = sql.chars().take(position.saturating_sub(1)).collect();
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let number = before.matches('\n').count();
        if let Some(line) = sql.lines().nth(number) {
            let label = format!("LINE {}: ", number + 1);
            let column = label.chars().count() + before[start..].chars().count();
            tell!("{label}{line}\n{:column$}^", "");
        }
    }
    if let Some(detail) = &report.detail {
        tell!("DETAIL:  {detail}");
    }
    if let Some(hint) = &report.hint {
        tell!("HINT:  {hint}");
    }
    if let Some(context) = &report.context {
        tell!("CONTEXT:  {context}");
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, Word, word};

    #[test]
    fn words_of_people_are_known_alone_on_their_line() {
        for (line, meant) in [
            ("help", Some(Word::Help)),
            (" HELP ; ", Some(Word::Help)),
            ("quit", Some(Word::Quit)),
            ("exit;", Some(Word::Quit)),
            ("exit now", None),
            ("SELECT quit", None),
            ("", None),
        ] {
            assert_eq!(word(line), meant, "{line}");
        }
    }

    #[test]
    fn commands_are_listed_in_columns() {
        assert!(COMMANDS.lines().all(|line| line.starts_with("  ")), "{COMMANDS}");
    }
}
