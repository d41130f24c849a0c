//! Tells of failed logins, in a bounded number of lines: clients that are not let in must not fill a disk.

use std::time::Duration;

use gnomon_engine::sync::Mutex;

use crate::options::Log;

/// Lines in a second of the server's clock.
const LINES_PER_SECOND: u32 = 20;

/// The log of failed logins.
pub(crate) struct LoginLog {
    write: Log,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The second of the last line.
    second: u64,
    /// Lines told in it.
    told: u32,
    /// Failures that were not told since the last line.
    untold: u64,
}

impl LoginLog {
    pub(crate) fn new(write: Log) -> LoginLog {
        LoginLog { write, state: Mutex::default() }
    }

    /// Tells of a failure at the time `now`, unless there were too many in this second: of these, the first line of a
    /// later second tells the number.
    pub(crate) fn tell(&self, now: Duration, line: &str) {
        let mut state = self.state.lock();
        if now.as_secs() != state.second {
            *state = State { second: now.as_secs(), told: 0, untold: state.untold };
        }
        if state.told >= LINES_PER_SECOND {
            state.untold += 1;
            return;
        }
        state.told += 1;
        let untold = std::mem::take(&mut state.untold);
        drop(state);
        if untold > 0 {
            (self.write)(&format!("{untold} more failed logins"));
        }
        (self.write)(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn a_flood_is_counted_and_not_told() {
        let log = LoginLog::new(|line| LINES.lock().push(line.to_owned()));
        let take = || std::mem::take(&mut *LINES.lock());
        for number in 0..50 {
            log.tell(Duration::from_millis(5000 + number), "failed");
        }
        assert_eq!(take(), vec!["failed"; 20]);
        log.tell(Duration::from_secs(7), "failed");
        log.tell(Duration::from_secs(7), "failed");
        assert_eq!(take(), ["30 more failed logins", "failed", "failed"]);
    }
}
