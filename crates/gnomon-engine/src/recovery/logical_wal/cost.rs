//! The costs of logging a commit and of replaying it, for the choice between its writes and the call that made them.
//!
//! To log writes takes time for each key and each byte; to replay a call takes what it took to run it. Both kinds of
//! replay change the same pages, so that does not matter. The figures below were measured with `gnomon-lab run
//! logging/length`; that they are right to a factor of two is enough, since calls differ by orders of magnitude.

use crate::{recovery::Command, write_set::WriteSet};

/// Time to put a key into a record, to find its place when that is replayed, and the like.
const KEY_NS: f64 = 100.0;
/// Time to copy a byte, to have a checksum of it, and to write it.
const BYTE_NS: f64 = 2.0;

/// True if a commit takes less time as a call than as its writes. A second of replay counts `replay_weight` times one
/// of logging.
pub(super) fn is_call_cheaper(command: &Command, writes: &WriteSet, replay_weight: f64) -> bool {
    let values = writes.keys() as f64 * KEY_NS + writes.changed_bytes() as f64 * BYTE_NS;
    let call = command.params.len() as f64 * BYTE_NS + command.run_time.as_nanos() as f64 * replay_weight;
    call < values
}
