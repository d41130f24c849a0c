//! The list of recovery methods, with their names.

use crate::{Error, Result, access::directory_damage, store::page_wal::Strategy};

/// The recovery method of a database. It is chosen when the database is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Changed pages go to free space, and become the database's by a new root: no log, nothing to be undone (Shadows,
    /// 1995).
    Shadow,
    /// Pages as with shadow paging, and a log of commits behind the last commit batch, which is its checkpoint (Malviya
    /// 2012). Such a database has one disk.
    CommitLog(Records),
    /// Pages are changed in their places behind a log of them, and transactions are undone by operations (Hasse and
    /// Weikum, 1991). Such a database has one disk, and no backups while it is open.
    PageLog(Strategy),
}

/// The kind of records in a log of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// The values that each commit has written: `value-log`.
    Values,
    /// Of a call of a [procedure](crate::Procedure), its name and parameters; of other commits, the values:
    /// `command-log`.
    Calls,
    /// Of a call, whichever is estimated to take less time to log and to replay: `adaptive`.
    Cheaper,
}

impl Recovery {
    /// All of them.
    pub const ALL: [Recovery; 7] = [
        Recovery::Shadow,
        Recovery::CommitLog(Records::Values),
        Recovery::CommitLog(Records::Calls),
        Recovery::CommitLog(Records::Cheaper),
        Recovery::PageLog(Strategy::SingleLevel),
        Recovery::PageLog(Strategy::TwoLevel),
        Recovery::PageLog(Strategy::TwoLevelDeferred),
    ];

    /// Returns its name: `shadow`, that of its log of commits, or that of the strategy.
    pub fn name(self) -> &'static str {
        match self {
            Recovery::Shadow => "shadow",
            Recovery::CommitLog(Records::Values) => "value-log",
            Recovery::CommitLog(Records::Calls) => "command-log",
            Recovery::CommitLog(Records::Cheaper) => "adaptive",
            Recovery::PageLog(strategy) => strategy.name(),
        }
    }

    /// Returns the method of a name; `page-log` is the one with the default strategy.
    ///
    /// # Errors
    /// [`Error::BadOption`] if there is none.
    pub fn from_name(name: &str) -> Result<Recovery> {
        if name == "page-log" {
            return Ok(Recovery::PageLog(Strategy::default()));
        }
        Recovery::ALL.into_iter().find(|recovery| recovery.name() == name).ok_or_else(|| {
            let names = Recovery::ALL.map(Recovery::name).join(", ");
            Error::BadOption(format!(
                "there is no recovery method '{name}': there are {names}, and page-log, which is {}",
                Strategy::default().name()
            ))
        })
    }

    /// Returns the code of it in the directory of trees; none if the store itself tells.
    pub(super) fn code(self) -> Option<u8> {
        match self {
            Recovery::CommitLog(Records::Values) => Some(1),
            Recovery::CommitLog(Records::Calls) => Some(2),
            Recovery::CommitLog(Records::Cheaper) => Some(3),
            Recovery::Shadow | Recovery::PageLog(_) => None,
        }
    }

    pub(super) fn of_code(code: u8) -> Result<Recovery> {
        let found = Recovery::ALL.into_iter().find(|recovery| recovery.code() == Some(code));
        found.ok_or_else(|| directory_damage(format!("there is no recovery method {code}")))
    }

    /// True if its pages are found by a page table, so that they can move.
    pub fn has_page_table(self) -> bool {
        matches!(self, Recovery::Shadow | Recovery::CommitLog(_))
    }

    /// Returns what its log is one of; none if it has none.
    pub fn log_kind(self) -> Option<&'static str> {
        match self {
            Recovery::Shadow => None,
            Recovery::CommitLog(_) => Some("commits"),
            Recovery::PageLog(_) => Some("pages"),
        }
    }

    /// Returns the kind of records in its log of commits, if it has one.
    pub fn records(self) -> Option<Records> {
        match self {
            Recovery::CommitLog(records) => Some(records),
            Recovery::Shadow | Recovery::PageLog(_) => None,
        }
    }
}

/// When a commit is acknowledged. Whichever, a crash leaves the state after some commit, with all before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commits {
    /// When it is durable.
    #[default]
    Synchronous,
    /// At once; it is durable a moment later. A crash may lose what was acknowledged in that moment.
    Asynchronous,
    /// At once; it is durable when the database is closed, or memory is short, or a thread waits for it
    /// ([`Database::wait_durable`](crate::Database::wait_durable)). Only with shadow paging.
    Unforced,
}
