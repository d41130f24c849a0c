//! Recovery methods, as options and reports name them.

pub use gnomon_engine::Recovery;

use gnomon_engine::{Commits, Records, Strategy};
use serde::{Serialize, Serializer};

/// S1: page locks until the transaction ends; its pages are logged then.
pub const SINGLE_LEVEL: Recovery = Recovery::PageLog(Strategy::SingleLevel);
/// S2: page locks until an operation ends; its pages are logged then.
pub const TWO_LEVEL: Recovery = Recovery::PageLog(Strategy::TwoLevel);
/// S2/PS: page locks until an operation ends; its pages are logged when a transaction ends.
pub const TWO_LEVEL_DEFERRED: Recovery = Recovery::PageLog(Strategy::TwoLevelDeferred);

/// The writes of commits are logged.
pub const VALUE_LOG: Recovery = Recovery::CommitLog(Records::Values);
/// Calls of procedures are logged as calls.
pub const COMMAND_LOG: Recovery = Recovery::CommitLog(Records::Calls);
/// Calls of procedures are logged as calls, or as what they write.
pub const ADAPTIVE_LOG: Recovery = Recovery::CommitLog(Records::Cheaper);

/// Returns the methods that differ where no procedures are called.
pub fn without_calls() -> impl Iterator<Item = Recovery> {
    let logs_calls =
        |recovery: Recovery| matches!(recovery.records(), Some(Records::Calls | Records::Cheaper));
    Recovery::ALL.into_iter().filter(move |recovery| !logs_calls(*recovery))
}

/// A recovery method, or none, to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Commits are acknowledged at once, and made durable when the database is closed.
    None,
    /// One of the engine's.
    Of(Recovery),
}

impl Method {
    /// `none`, or the name of a recovery method.
    ///
    /// # Errors
    /// What is no such name.
    pub fn from_name(name: &str) -> Result<Method, gnomon_engine::Error> {
        match name {
            "none" => Ok(Method::None),
            name => Recovery::from_name(name).map(Method::Of),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Method::None => "none",
            Method::Of(recovery) => recovery.name(),
        }
    }

    /// How the database recovers that the method is measured with.
    pub fn recovery(self) -> Recovery {
        match self {
            Method::None => Recovery::Shadow,
            Method::Of(recovery) => recovery,
        }
    }

    /// When that acknowledges commits.
    pub fn commits(self) -> Commits {
        match self {
            Method::None => Commits::Unforced,
            Method::Of(_) => Commits::Synchronous,
        }
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Serializes it by its name.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(recovery: &Recovery, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(recovery.name())
}
