//! What steps of an execution cost, in PostgreSQL's unit: the hundredth of a row of a sequential scan.
//!
//! Measured in this program (see decision 0095); pages are not told apart, since the engine reads most from its cache.

/// A row of a scan in the order of keys, sequential or of a range.
pub const ROW: f64 = 0.01;
/// The descent to a key of a tree.
pub const DESCENT: f64 = 0.012;
/// The fetch of a row by an entry of a secondary index.
pub const FETCH: f64 = 0.01;
/// The opening of the inner side of a nested loop for another outer row.
pub const RESCAN: f64 = 0.005;
/// A row put into a hash table.
pub const HASH_BUILD: f64 = 0.004;
/// A byte of such a row: memory is what a statement runs out of.
const HASH_BYTE: f64 = 2e-5;
/// A row looked up in a hash table.
pub const HASH_PROBE: f64 = 0.0025;
/// A pair of rows that a join makes.
pub const PAIR: f64 = 0.005;
/// The evaluation of a condition or a column on a row.
pub const EVALUATE: f64 = 0.0025;
/// A comparison of a sort.
pub const COMPARISON: f64 = 0.0003;

/// Returns the cost of sorting rows, of which only the first `kept` are asked for.
pub fn sort_cost(rows: f64, kept: f64) -> f64 {
    COMPARISON * rows * rows.min(kept).max(2.0).log2()
}

/// Returns the cost of a hash table of rows of so many bytes.
pub fn hash_cost(rows: f64, width: f64) -> f64 {
    rows * (HASH_BUILD + width * HASH_BYTE)
}
