//! `gnomon sql`: a shell on a database in this process, in the manner of psql.
//!
//! Promises: `-c` and `--file` stop at the first error with exit code 1 and say where it was; at a terminal the shell
//! goes on. A script's COPY FROM STDIN takes its data from the lines that follow, up to `\.`. Ctrl-C cancels the
//! statement that runs and ends a script.

mod describe;
mod input;
mod output;
mod split;

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use gnomon::{
    env::{Clock, SystemClock},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use gnomon_sql::{
    Notice, Severity,
    session::{Session, SessionOptions, SqlDatabase, TransactionStatus},
};

use self::{
    describe::Kinds,
    input::{EditedLines, Line, Lines, StdinLines, TextLines},
    output::{Format, Printer, Style},
    split::{Item, Splitter},
};
use crate::{Failure, failure, signals};

const COMMANDS: &str = "\
  \\d            tables, sequences and views; \\dt \\di \\ds \\dv only one kind
  \\d NAME       columns, indexes and constraints of a table
  \\g            run the statement so far, as a semicolon does
  \\i FILE       run a script
  \\r            forget the statement so far
  \\timing       show how long statements take, or no longer
  \\x            a line a value, or a line a row again
  \\q            end (Ctrl-D too)";

/// Runs SQL on a database in this process; the database is made if there is none. Nobody else may have it open.
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
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// SQL to run, or one backslash command; before any file.
    #[arg(short, long = "command", value_name = "SQL")]
    commands: Vec<String>,
    /// A script to run; `-` is standard input.
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How rows are printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Print no command tags.
    #[arg(short, long)]
    quiet: bool,
    /// The buffer pool, in MiB.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pool_mib: u32,
}

/// Why a script does not go on. What there is to say has been said.
enum Stop {
    /// `\q`.
    Quit,
    /// An error.
    Failed,
}

struct Shell {
    database: SqlDatabase,
    session: Session,
    style: Style,
    timing: bool,
    clock: SystemClock,
    canceled: Arc<AtomicBool>,
    /// Scripts that run scripts.
    depth: usize,
}

/// Scripts that run each other end somewhere.
const DEPTH_MAX: usize = 32;

pub fn run(arguments: &Sql) -> Result<ExitCode, Failure> {
    let directory = &arguments.directory;
    let engine = failure::open(directory, arguments.pool_mib as usize)?;
    let of_sql = |error| Failure::new(directory.display(), error);
    let database = SqlDatabase::open(engine.clone()).map_err(of_sql)?;
    let session = database.session(SessionOptions::default()).map_err(of_sql)?;
    let canceled = Arc::new(AtomicBool::new(false));
    let (interrupt, flag) = (session.interrupt(), canceled.clone());
    signals::on_interrupt(move || {
        flag.store(true, Ordering::Release);
        interrupt.raise(gnomon::InterruptReason::Cancel);
    })
    .map_err(|error| Failure::new("cannot listen to signals", error))?;
    let mut shell = Shell {
        database,
        session,
        style: Style { format: arguments.format, expanded: false, quiet: arguments.quiet },
        timing: false,
        clock: SystemClock::new(),
        canceled,
        depth: 0,
    };
    let stop = shell.run_all(arguments)?;
    let open = shell.session.status() != TransactionStatus::Idle;
    drop(shell);
    engine.close().map_err(|error| Failure::of_engine(directory, &error))?;
    if open {
        eprintln!("WARNING:  the transaction that was open has been rolled back");
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
                Some(command) => self.command(command.trim())?,
                // As one text: its statements are one transaction.
                None => self.statement(command, None, &mut StdinLines).1,
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
        loop {
            let (items, ended) = match lines.next("")? {
                Line::Text(line) => (splitter.line(&line), false),
                Line::Canceled => (Vec::new(), true),
                Line::End => (splitter.finish().into_iter().collect(), true),
            };
            for item in items {
                if self.canceled.load(Ordering::Acquire) {
                    eprintln!("canceled");
                    return Ok(Err(Stop::Failed));
                }
                let stop = match item {
                    Item::Command { text, .. } => self.command(&text)?,
                    Item::Statement { text, line } => {
                        let (taken, stop) = self.statement(&text, Some((path, line)), lines);
                        (0..taken).for_each(|_| splitter.skip_line());
                        stop
                    }
                };
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
        println!("gnomon {} on {}. \\? lists commands.", env!("CARGO_PKG_VERSION"), directory.display());
        let mut lines = EditedLines::new()?;
        let mut splitter = Splitter::default();
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
            if !typed.is_empty() {
                typed.push('\n');
            }
            typed.push_str(&line);
            let items = splitter.line(&line);
            if splitter.open().is_none() && !typed.trim().is_empty() {
                lines.remember(&typed);
                typed.clear();
            }
            for item in items {
                self.canceled.store(false, Ordering::Release);
                let stop = match item {
                    Item::Command { text, .. } => match self.command(&text) {
                        Ok(stop) => stop,
                        Err(Failure(message)) => {
                            eprintln!("{message}");
                            Ok(())
                        }
                    },
                    Item::Statement { text, .. } => self.statement(&text, None, &mut lines).1,
                };
                if matches!(stop, Err(Stop::Quit)) {
                    return Ok(());
                }
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

    /// Runs a statement. Returns how many lines it took as COPY data. `place` is the script and its line.
    fn statement(
        &mut self,
        sql: &str,
        place: Option<(Option<&Path>, usize)>,
        lines: &mut dyn Lines,
    ) -> (usize, Result<(), Stop>) {
        let began = self.clock.now();
        let mut out = std::io::stdout().lock();
        let mut printer = Printer::new(&mut out, lines, self.style);
        let result = self.session.execute(sql, &mut printer);
        let taken = printer.lines_taken;
        if self.timing {
            // To standard error as far as programs read the rest.
            let elapsed_ms = (self.clock.now() - began).as_secs_f64() * 1e3;
            match self.style.format {
                Format::Table => println!("Time: {elapsed_ms:.3} ms"),
                _ => eprintln!("Time: {elapsed_ms:.3} ms"),
            }
        }
        let Err(error) = result else { return (taken, Ok(())) };
        // What was printed before the error is seen before it.
        let _ = out.flush();
        let place = place.map(|(path, line)| {
            let path = path.map_or("<stdin>".into(), |path| path.display().to_string());
            let inside = error.report().position.map_or(0, |position| {
                sql.chars().take(position.saturating_sub(1)).filter(|&c| c == '\n').count()
            });
            format!("{path}:{}", line + inside)
        });
        report(place.as_deref(), sql, &error);
        (taken, Err(Stop::Failed))
    }

    /// Runs a backslash command.
    fn command(&mut self, text: &str) -> Result<Result<(), Stop>, Failure> {
        let (command, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let argument = argument.trim();
        match command {
            "q" | "quit" => return Ok(Err(Stop::Quit)),
            "?" | "h" | "help" => println!("{COMMANDS}"),
            "timing" => {
                self.timing = !self.timing;
                println!("Timing is {}.", if self.timing { "on" } else { "off" });
            }
            "x" => {
                self.style.expanded = !self.style.expanded;
                println!("Expanded display is {}.", if self.style.expanded { "on" } else { "off" });
            }
            "i" | "include" if !argument.is_empty() => {
                if self.depth == DEPTH_MAX {
                    return Err(Failure(format!("scripts run each other more than {DEPTH_MAX} deep")));
                }
                self.depth += 1;
                let stop = self.file(Path::new(argument));
                self.depth -= 1;
                return stop;
            }
            _ => return self.describe(command, argument),
        }
        Ok(Ok(()))
    }

    fn describe(&self, command: &str, argument: &str) -> Result<Result<(), Stop>, Failure> {
        let Some(kinds) = Kinds::of_command(command) else {
            return Err(Failure(format!("there is no command \\{command}: \\? lists what there is")));
        };
        let mut out = std::io::stdout().lock();
        let catalog = self.database.catalog();
        let done = if argument.is_empty() {
            describe::list(&catalog, kinds, &mut out).map(|()| true)
        } else {
            describe::describe(&catalog, argument, &mut out)
        };
        match done {
            Ok(true) => Ok(Ok(())),
            Ok(false) => {
                Err(Failure(format!("there is no table, sequence or view named {argument}: \\d lists them")))
            }
            Err(error) => Err(Failure::new("cannot write to standard output", error)),
        }
    }
}

/// Prints an error or notice of a statement, as psql does.
fn report(place: Option<&str>, sql: &str, error: &Notice) {
    let report = error.report();
    let severity = match report.severity {
        Severity::Debug => "DEBUG",
        Severity::Info => "INFO",
        Severity::Notice => "NOTICE",
        Severity::Warning => "WARNING",
        Severity::Error => "ERROR",
        Severity::Fatal => "FATAL",
    };
    let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
    eprintln!("{place}{severity}:  {}", report.message);
    if let Some(position) = report.position {
        let before: String = sql.chars().take(position.saturating_sub(1)).collect();
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let number = before.matches('\n').count();
        if let Some(line) = sql.lines().nth(number) {
            let label = format!("LINE {}: ", number + 1);
            let column = label.chars().count() + before[start..].chars().count();
            eprintln!("{label}{line}\n{:column$}^", "");
        }
    }
    if let Some(detail) = &report.detail {
        eprintln!("DETAIL:  {detail}");
    }
    if let Some(hint) = &report.hint {
        eprintln!("HINT:  {hint}");
    }
}
