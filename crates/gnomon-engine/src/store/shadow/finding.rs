//! Findings: what is wrong with pages, as verification and repair tell it.

/// Something wrong with a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file's name within the database directory.
    pub file: String,
    /// The physical page number: its offset in the file is this times the size of a physical page, 4 KiB unless the
    /// database was created with another.
    pub page: u64,
    /// The fault, in words.
    pub detail: String,
    /// The consequence for the data.
    pub severity: Severity,
}

/// The consequence of a finding for the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing: a crash leaves it, where no data is.
    Trace,
    /// Nothing is lost, since no data was there or a copy is whole; but something damaged what was written.
    Spare,
    /// Data may be lost.
    Data,
}
