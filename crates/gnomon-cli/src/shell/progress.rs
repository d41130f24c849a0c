//! How far a long statement is, on standard error: a line that changes on a terminal, a line now and then elsewhere.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use gnomon::{
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

#[derive(Default)]
struct State {
    ended: bool,
    /// When the present statement was begun, and when it was first seen here.
    seen: Option<(i64, Duration)>,
    /// When it was shown last.
    shown: Option<Duration>,
}

/// Shows how far a session's statements are, as long as it lives.
pub struct Watch {
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watch {
    pub fn new(board: ProgressBoard) -> Watch {
        let shared = Arc::<(Mutex<State>, Condvar)>::default();
        let thread = thread::spawn({
            let shared = shared.clone();
            move || run(&shared, &board)
        });
        Watch { shared, thread: Some(thread) }
    }

    /// Takes away what is shown of a statement that has ended, before something else is printed.
    pub fn clear(&self) {
        let mut state = self.shared.0.lock();
        if state.shown.take().is_some() && std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
        state.seen = None;
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
    let terminal = std::io::stderr().is_terminal();
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
        let interval = if terminal { INTERVAL } else { LINE_INTERVAL };
        let is_due = state.shown.is_none_or(|shown| now - shown >= interval);
        if now - since >= SHOWN_AFTER && is_due {
            state.shown = Some(now);
            let line = line(&progress, now - since);
            match terminal {
                true => eprint!("\r\x1b[K{line}"),
                false => eprintln!("{line}"),
            }
            let _ = std::io::stderr().flush();
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

    #[test]
    fn a_line_tells_rows_and_speed() {
        let progress =
            Progress { command: "INSERT", table: 5, table_name: "accounts".into(), rows: 3000, started: 0 };
        assert_eq!(line(&progress, Duration::from_secs(2)), "INSERT accounts: 3000 rows, 1500 a second");
    }
}
