//! How far a long statement is, on standard error: a line that changes on a terminal, a line now and then elsewhere.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use gnomon_engine::{
    env::{Clock, SystemClock},
    sync::{Arc, Condvar, Mutex, thread},
};
use gnomon_sql::session::{Progress, ProgressBoard};

/// A statement that is done within this is not shown.
const SHOWN_AFTER: Duration = Duration::from_secs(2);
/// How often the line changes.
const INTERVAL: Duration = Duration::from_millis(500);
/// How often a line is written where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

struct State {
    /// Where lines go.
    out: Box<dyn Write + Send>,
    /// True if a line there can be written over.
    terminal: bool,
    ended: bool,
    /// When the present statement was begun, and when it was first seen here.
    seen: Option<(i64, Duration)>,
    /// The time when it was shown last.
    shown: Option<Duration>,
}

/// Shows how far a session's statements are, as long as it lives.
pub struct Watch {
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Option<thread::JoinHandle<()>>,
}

impl State {
    /// Takes away what is shown.
    fn clear(&mut self) {
        if self.shown.take().is_some() && self.terminal {
            // Nothing depends on it.
            let _ = write!(self.out, "\r\x1b[K").and_then(|()| self.out.flush());
        }
    }

    fn show(&mut self, line: &str, now: Duration) {
        self.shown = Some(now);
        let _ = match self.terminal {
            true => write!(self.out, "\r\x1b[K{line}"),
            false => writeln!(self.out, "{line}"),
        };
        let _ = self.out.flush();
    }
}

impl Watch {
    pub fn new(board: ProgressBoard) -> Watch {
        Watch::on(board, Box::new(std::io::stderr()), std::io::stderr().is_terminal())
    }

    fn on(board: ProgressBoard, out: Box<dyn Write + Send>, terminal: bool) -> Watch {
        let state = State { out, terminal, ended: false, seen: None, shown: None };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let thread = thread::spawn({
            let shared = shared.clone();
            move || run(&shared, &board)
        });
        Watch { shared, thread: Some(thread) }
    }

    /// Takes away what is shown of a statement that has ended.
    pub fn end(&self) {
        let mut state = self.shared.0.lock();
        state.clear();
        state.seen = None;
    }

    /// Prints something else, in the place of what is shown.
    pub fn instead<R>(&self, print: impl FnOnce() -> R) -> R {
        let mut state = self.shared.0.lock();
        state.clear();
        print()
    }
}

/// Output of statements, on the terminal that progress is shown on: each piece takes the place of what is shown.
pub struct Instead<'a, W> {
    pub watch: &'a Watch,
    pub out: W,
}

impl<W: Write> Write for Instead<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.watch.instead(|| self.out.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.0.lock().ended = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // It prints, and nothing else depends on it.
            let _ = thread.join();
        }
    }
}

fn run(shared: &(Mutex<State>, Condvar), board: &ProgressBoard) {
    let clock = SystemClock::new();
    let mut state = shared.0.lock();
    while !state.ended {
        shared.1.wait_for(&mut state, INTERVAL);
        let Some(progress) = board.progress() else { continue };
        let now = clock.now();
        let since = match state.seen {
            Some((started, since)) if started == progress.started => since,
            _ => {
                state.seen = Some((progress.started, now));
                now
            }
        };
        let interval = if state.terminal { INTERVAL } else { LINE_INTERVAL };
        let is_due = state.shown.is_none_or(|shown| now - shown >= interval);
        if now - since >= SHOWN_AFTER && is_due {
            state.show(&line(&progress, now - since), now);
        }
    }
}

fn line(progress: &Progress, elapsed: Duration) -> String {
    let Progress { command, table_name, rows, .. } = progress;
    let a_second = *rows as f64 / elapsed.as_secs_f64().max(0.001);
    format!("{command} {table_name}: {rows} rows, {a_second:.0} a second")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A screen that a test and the progress write to.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_is_shown_gives_way_to_output() {
        for (terminal, expected) in
            [(true, "\r\x1b[Kline\r\x1b[KINSERT 0 3\nmore\n"), (false, "line\nINSERT 0 3\nmore\n")]
        {
            let screen = Screen::default();
            let watch = Watch::on(ProgressBoard::default(), Box::new(screen.clone()), terminal);
            watch.shared.0.lock().show("line", Duration::from_secs(3));
            let mut out = std::io::BufWriter::new(Instead { watch: &watch, out: screen.clone() });
            writeln!(out, "INSERT 0 3").unwrap();
            out.flush().unwrap();
            watch.end();
            writeln!(out, "more").unwrap();
            out.flush().unwrap();
            assert_eq!(String::from_utf8_lossy(&screen.0.lock()), expected);
        }
    }

    #[test]
    fn a_line_tells_rows_and_speed() {
        let progress =
            Progress { command: "INSERT", table: 5, table_name: "accounts".into(), rows: 3000, started: 0 };
        assert_eq!(line(&progress, Duration::from_secs(2)), "INSERT accounts: 3000 rows, 1500 a second");
    }
}
