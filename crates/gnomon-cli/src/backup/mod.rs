//! `gnomon backup` and `gnomon restore`.

mod remote;
mod restore;
mod set;
mod take;

pub use remote::{connect, stream, target};
pub use restore::{Restore, no_room_message, run as run_restore};
pub use take::{Backup, run};

use std::time::Duration;

use gnomon_engine::{BackupHeader, Error};
use gnomon_sql::types::datetime::{DateStyle, write_timestamp};
use serde_json::{Value, json};

/// From 1970-01-01 to 2000-01-01, in seconds.
const EPOCH_SECONDS: i64 = 946_684_800;

/// Returns the time when a backup was begun, in UTC.
fn time_text(begun: Duration) -> String {
    let mut text = String::new();
    let seconds = i64::try_from(begun.as_secs()).unwrap_or_default() - EPOCH_SECONDS;
    write_timestamp(&mut text, seconds.saturating_mul(1_000_000), DateStyle::ISO);
    text + " UTC"
}

/// A number of bytes, in the unit that people use.
fn size_text(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// Returns the kind of a backup, as users see it.
fn kind_text(header: &BackupHeader) -> &'static str {
    if header.since.is_some() { "incremental" } else { "full" }
}

fn header_json(header: &BackupHeader) -> Value {
    json!({
        "id": header.id.to_string(),
        "kind": kind_text(header),
        "since": header.since.map(|since| since.to_string()),
        "csn": header.csn.0,
        "begun": time_text(header.begun),
    })
}

/// Returns the message for an error of a backup; `name` names the backup with a number.
pub fn explain(error: &Error, name: impl Fn(usize) -> String) -> String {
    match error {
        Error::BackupDamaged { backup, offset, detail } => format!(
            "{} is damaged at byte {offset}: {detail}: restore an earlier backup, or another copy of this one",
            name(*backup)
        ),
        Error::TooNew { .. } => "the backup was made by a newer program: use that one".into(),
        Error::TooOld { .. } => "the backup was made by a program from before the first release".into(),
        _ => error.to_string(),
    }
}
