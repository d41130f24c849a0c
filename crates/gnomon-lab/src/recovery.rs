//! Recovery methods: as the engine names them in reports, and as the paper of 1991 does.

pub use gnomon::Recovery;

use gnomon::{Records, Strategy};
use serde::Serializer;

/// S1: page locks until the transaction ends; its pages are logged then.
pub const SINGLE_LEVEL: Recovery = Recovery::PageLog(Strategy::SingleLevel);
/// S2: page locks until an operation ends; its pages are logged then.
pub const TWO_LEVEL: Recovery = Recovery::PageLog(Strategy::TwoLevel);
/// S2/PS: page locks until an operation ends; its pages are logged when a transaction ends.
pub const TWO_LEVEL_DEFERRED: Recovery = Recovery::PageLog(Strategy::TwoLevelDeferred);
/// Those of the paper.
pub const STRATEGIES: [Recovery; 3] = [SINGLE_LEVEL, TWO_LEVEL, TWO_LEVEL_DEFERRED];

/// What commits write is logged.
pub const VALUE_LOG: Recovery = Recovery::CommitLog(Records::Values);
/// Those that differ where no procedures are called.
pub const METHODS: [Recovery; 5] = [Recovery::Shadow, VALUE_LOG, SINGLE_LEVEL, TWO_LEVEL, TWO_LEVEL_DEFERRED];

/// The name that the paper gives it, if it has it.
pub fn paper_name(recovery: Recovery) -> &'static str {
    match recovery {
        SINGLE_LEVEL => "S1",
        TWO_LEVEL => "S2",
        TWO_LEVEL_DEFERRED => "S2/PS",
        Recovery::Shadow | Recovery::CommitLog(_) => recovery.name(),
    }
}

/// Serializes it by its name.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(recovery: &Recovery, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(recovery.name())
}
