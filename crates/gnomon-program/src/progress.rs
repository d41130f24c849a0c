//! Progress of long work: a bar on a terminal, a line now and then elsewhere, both on standard error.

use std::{io::IsTerminal, time::Duration};

use gnomon_engine::env::{Clock, SystemClock};
use indicatif::{ProgressBar, ProgressStyle};

/// How often a line is written where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows how far a piece of work is.
pub struct Progress(Shown);

enum Shown {
    Nothing,
    Bar(ProgressBar),
    Lines { what: String, clock: SystemClock, last: Duration },
}

impl Progress {
    /// Shows nothing.
    pub fn silent() -> Progress {
        Progress(Shown::Nothing)
    }

    /// Shows progress of `what` on standard error.
    pub fn on_stderr(what: &str) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress(Shown::Lines {
                what: what.into(),
                clock: SystemClock::new(),
                last: Duration::ZERO,
            });
        }
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {eta}") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Progress(Shown::Bar(bar))
    }

    /// `done` of `total` is done.
    pub fn set(&mut self, done: u64, total: u64) {
        match &mut self.0 {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                bar.set_length(total);
                bar.set_position(done);
            }
            Shown::Lines { what, clock, last } => {
                let now = clock.now();
                if now - *last >= LINE_INTERVAL {
                    *last = now;
                    eprintln!("{what}: {done} of {total}");
                }
            }
        }
    }
}

impl Progress {
    /// Says something that stays on the screen above the bar, on a line of its own.
    pub fn note(&self, text: &str) {
        match &self.0 {
            Shown::Nothing => {}
            Shown::Bar(bar) => bar.suspend(|| eprintln!("{text}")),
            Shown::Lines { what, .. } => eprintln!("{what}: {text}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
