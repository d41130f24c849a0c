//! The report of a workload: the same fields for people and as one JSON object.

use std::fmt;

use comfy_table::{Cell, CellAlignment, Table, presets};
use gnomon_engine::{PageSize, Stats};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::drive::Measured;

/// The headings of a table's columns that tell how fast a run was.
pub const SPEED_HEADINGS: [&str; 6] = ["tps", "p50 us", "p90 us", "p99 us", "p99.9 us", "max us"];

/// The report of one workload on one store.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The workload's name.
    pub workload: String,
    /// The store's name.
    pub store: String,
    /// Its settings: a JSON object.
    pub settings: serde_json::Value,
    /// Where random numbers began.
    pub seed: u64,
    /// The version of this program.
    pub version: String,
    /// How long was measured.
    pub seconds: f64,
    /// Transactions committed in that time; durably, unless the settings say that nothing survives a crash.
    pub committed: u64,
    /// Attempts that the client had to run again. Of calls of procedures there are none: what is in a deadlock the
    /// engine runs again, and does not tell.
    pub aborted: u64,
    /// Transactions that were refused (an overdraft, something sold out), and not run again.
    pub refused: u64,
    /// Calls of procedures that were given up, and not run again: there was no place for them in a queue, or they
    /// failed for now once too often.
    pub busy: u64,
    /// Of the clients' time, the part that they waited for locks, if the store tells.
    pub lock_wait_share: Option<f64>,
    /// Committed transactions a second.
    pub tps: f64,
    /// Latencies of the committed transactions.
    pub latency_us: Latency,
    /// Of a workload with several kinds of transactions, what was done of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindReport>,
    /// The bytes that the database has written and takes, if it is in this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// The comparison of the stored data with the committed transactions.
    pub invariant: Invariant,
    #[serde(skip)]
    histogram: Histogram<u64>,
}

/// The bytes that a database has written since it was made, loading included, up to a checkpoint after the run; and
/// those that it takes then.
#[derive(Clone, Debug, Serialize)]
pub struct Storage {
    /// Bytes of the keys and values that committed transactions changed.
    pub user_bytes: u64,
    /// Bytes written, by kind.
    pub written: WrittenBytes,
    /// Bytes written, of all kinds, for each byte changed; none if nothing was changed.
    pub write_amplification: Option<f64>,
    /// Bytes of pages read.
    pub read_bytes: u64,
    /// Commit batches, or units of a log of pages.
    pub batches: u64,
    /// Number of syncs of the pages' files.
    pub syncs: u64,
    /// Bytes of the pages in use.
    pub used_bytes: u64,
    /// Bytes of the pages' files.
    pub file_bytes: u64,
    /// Bytes of the log that opening would read.
    pub log_bytes: u64,
}

/// Bytes written, by kind. With a log of pages, pages that are written to their places count as other pages.
#[derive(Clone, Debug, Serialize)]
pub struct WrittenBytes {
    /// Logs.
    pub log: u64,
    /// Leaves of trees, large values and other data pages.
    pub leaves: u64,
    /// Inner nodes of trees.
    pub inner: u64,
    /// Nodes of the page table.
    pub page_table: u64,
    /// Bitmaps of space.
    pub bitmaps: u64,
    /// Superblocks.
    pub superblocks: u64,
    /// Copies of pages that the cleaner made.
    pub moved: u64,
    /// Zeros where files grew.
    pub zeros: u64,
}

impl WrittenBytes {
    /// Returns the kinds in order, with their names.
    fn kinds(&self) -> [(&'static str, u64); 8] {
        [
            ("log", self.log),
            ("leaves", self.leaves),
            ("inner", self.inner),
            ("page table", self.page_table),
            ("bitmaps", self.bitmaps),
            ("superblocks", self.superblocks),
            ("moved", self.moved),
            ("zeros", self.zeros),
        ]
    }
}

impl Storage {
    /// Takes the figures of a database whose trees have pages of the default size.
    pub fn of(stats: &Stats) -> Storage {
        let (done, unit) = (&stats.activity, stats.page_size_min.bytes() as u64);
        let bytes = |pages: u64| pages * PageSize::DEFAULT.bytes() as u64;
        let mut written = WrittenBytes {
            log: done.log_bytes_written,
            leaves: 0,
            inner: bytes(done.inner_pages),
            page_table: bytes(done.table_pages),
            bitmaps: bytes(done.bitmap_pages),
            superblocks: bytes(done.root_pages),
            moved: bytes(done.moved_pages),
            zeros: done.zeroed_pages * unit,
        };
        let others: u64 = written.kinds()[1..].iter().map(|(_, bytes)| bytes).sum();
        written.leaves = done.bytes_written.saturating_sub(others);
        let all = (done.bytes_written + done.log_bytes_written) as f64;
        Storage {
            user_bytes: done.bytes_changed,
            written,
            write_amplification: (done.bytes_changed > 0).then(|| all / done.bytes_changed as f64),
            read_bytes: done.bytes_read,
            batches: done.batches,
            syncs: done.syncs,
            used_bytes: stats.used_pages * unit,
            file_bytes: stats.file_pages * unit,
            log_bytes: stats.log_bytes,
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let each = |bytes: u64| bytes as f64 / self.user_bytes.max(1) as f64;
        if let Some(amplification) = self.write_amplification {
            let kinds = self.written.kinds().map(|(name, bytes)| format!("{name} {:.2}", each(bytes)));
            writeln!(f, "bytes written for each byte changed: {amplification:.2} ({})", kinds.join(", "))?;
        }
        write!(
            f,
            "MiB: changed {:.1}, read {:.1}, in use {:.1}, files {:.1}, log to replay {:.1}; {} batches, {} syncs",
            mib(self.user_bytes),
            mib(self.read_bytes),
            mib(self.used_bytes),
            mib(self.file_bytes),
            mib(self.log_bytes),
            self.batches,
            self.syncs
        )
    }
}

/// The measurements of one kind of transactions.
#[derive(Clone, Debug, Serialize)]
pub struct KindReport {
    /// Its name.
    pub name: String,
    /// Transactions committed in the time that was measured.
    pub committed: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Latencies of the committed transactions.
    pub latency_us: Latency,
    /// The bytes of the log that a transaction takes on average, of those that write any.
    pub log_bytes: Option<f64>,
}

impl KindReport {
    /// The measurements of a kind, without the bytes of a log.
    pub fn new(name: &str, measured: &Measured) -> KindReport {
        KindReport {
            name: name.into(),
            committed: measured.committed,
            refused: measured.refused,
            latency_us: Latency::of(&measured.latency_us),
            log_bytes: None,
        }
    }
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: u64,
    /// 90 of 100 are not above.
    pub p90: u64,
    /// 99 of 100 are not above.
    pub p99: u64,
    /// 999 of 1,000 are not above.
    pub p999: u64,
    /// The largest.
    pub max: u64,
}

impl Latency {
    /// Summarises a histogram of microseconds.
    pub fn of(histogram: &Histogram<u64>) -> Latency {
        Latency {
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }
}

/// The comparison of the stored data with the committed transactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Invariant {
    /// It holds.
    pub holds: bool,
    /// The values that were compared; if it does not hold, the differences.
    pub detail: String,
}

impl Report {
    /// The report of a run. `settings` becomes a JSON object.
    pub fn new(
        workload: &str,
        store: &str,
        settings: &impl Serialize,
        seed: u64,
        measured: &Measured,
        invariant: Invariant,
    ) -> Report {
        Report {
            workload: workload.into(),
            store: store.into(),
            settings: serde_json::to_value(settings).expect("settings are plain fields"),
            seed,
            version: env!("CARGO_PKG_VERSION").into(),
            seconds: measured.seconds,
            committed: measured.committed,
            aborted: measured.aborted,
            refused: measured.refused,
            busy: measured.busy,
            lock_wait_share: measured.lock_wait_share,
            tps: measured.committed as f64 / measured.seconds,
            latency_us: Latency::of(&measured.latency_us),
            kinds: Vec::new(),
            storage: None,
            invariant,
            histogram: measured.latency_us.clone(),
        }
    }

    /// With what the database has written.
    pub fn with_storage(self, storage: Option<Storage>) -> Report {
        Report { storage, ..self }
    }

    /// With what was done of each kind of transactions.
    pub fn with_kinds(self, kinds: Vec<KindReport>) -> Report {
        Report { kinds, ..self }
    }

    /// The cells below [`SPEED_HEADINGS`].
    pub fn speed_cells(&self) -> [String; SPEED_HEADINGS.len()] {
        let Latency { p50, p90, p99, p999, max } = self.latency_us;
        [
            format!("{:.0}", self.tps),
            p50.to_string(),
            p90.to_string(),
            p99.to_string(),
            p999.to_string(),
            max.to_string(),
        ]
    }
}

/// The state of a database that an earlier run has left.
#[derive(Clone, Debug, Serialize)]
pub struct Recovered {
    /// The workload's name.
    pub workload: String,
    /// The settings of that run, as far as they matter, and how the database was opened: a JSON object.
    pub settings: serde_json::Value,
    /// The version of this program.
    pub version: String,
    /// How long opening took, and with it recovery.
    pub open_seconds: f64,
    /// The check of the stored data.
    pub invariant: Invariant,
}

impl Recovered {
    /// The state that was found. `settings` becomes a JSON object.
    pub fn new(
        workload: &str,
        settings: &impl Serialize,
        open_seconds: f64,
        invariant: Invariant,
    ) -> Recovered {
        Recovered {
            workload: workload.into(),
            settings: serde_json::to_value(settings).expect("settings are plain fields"),
            version: env!("CARGO_PKG_VERSION").into(),
            open_seconds,
            invariant,
        }
    }
}

/// The findings of a command, for people ([`fmt::Display`]) and for programs.
pub trait Findings: fmt::Display + Serialize {
    /// The check of the stored data.
    fn invariant(&self) -> &Invariant;

    /// One JSON object on one line.
    fn to_json(&self) -> String {
        serde_json::to_string(self).expect("findings have string keys only")
    }
}

impl Findings for Report {
    fn invariant(&self) -> &Invariant {
        &self.invariant
    }
}

impl Findings for Recovered {
    fn invariant(&self) -> &Invariant {
        &self.invariant
    }
}

/// Settings as a line of text.
fn settings_line(settings: &serde_json::Value) -> String {
    match settings {
        serde_json::Value::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.holds { "holds" } else { "IS BROKEN" };
        write!(f, "invariant {verdict}: {}", self.detail)
    }
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "gnomon {}: {} as it was left", self.version, self.workload)?;
        writeln!(f, "settings: {}", settings_line(&self.settings))?;
        writeln!(f, "opened and recovered in {:.3} s", self.open_seconds)?;
        self.invariant.fmt(f)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "gnomon {}: {} on {}", self.version, self.workload, self.store)?;
        writeln!(f, "settings: {}, seed {}", settings_line(&self.settings), self.seed)?;
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let headings = ["committed", "aborted", "refused", "busy", "lock wait", "seconds"];
        table.set_header(SPEED_HEADINGS.into_iter().chain(headings));
        let others = [
            self.committed.to_string(),
            self.aborted.to_string(),
            self.refused.to_string(),
            self.busy.to_string(),
            self.lock_wait_share.map_or_else(|| "unknown".into(), |share| format!("{:.1} %", share * 100.0)),
            format!("{:.1}", self.seconds),
        ];
        table.add_row(
            self.speed_cells()
                .into_iter()
                .chain(others)
                .map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right)),
        );
        writeln!(f, "{table}")?;
        if !self.kinds.is_empty() {
            writeln!(f, "{}", table_of(&self.kinds))?;
        }
        write_histogram(f, &self.histogram)?;
        if let Some(storage) = &self.storage {
            writeln!(f, "{storage}")?;
        }
        self.invariant.fmt(f)
    }
}

fn table_of(kinds: &[KindReport]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["transaction", "committed", "refused", "p50 us", "p99 us", "max us", "log bytes"]);
    for kind in kinds {
        let cells = [
            kind.committed.to_string(),
            kind.refused.to_string(),
            kind.latency_us.p50.to_string(),
            kind.latency_us.p99.to_string(),
            kind.latency_us.max.to_string(),
            kind.log_bytes.map_or_else(String::new, |bytes| format!("{bytes:.0}")),
        ];
        let cells = cells.into_iter().map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right));
        table.add_row([Cell::new(&kind.name)].into_iter().chain(cells));
    }
    table
}

/// How values are spread over classes that double: the end of each class (exclusive) and how many values it has.
pub fn classes(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let mut classes: Vec<(u64, u64)> = Vec::new();
    for value in histogram.iter_recorded() {
        // The class of 0 and 1 ends below 2, the next below 4.
        let end = (value.value_iterated_to().max(1) + 1).next_power_of_two();
        match classes.last_mut() {
            Some((last, count)) if *last == end => *count += value.count_at_value(),
            _ => classes.push((end, value.count_at_value())),
        }
    }
    classes
}

/// Draws how latencies are spread, in classes that double.
fn write_histogram(f: &mut fmt::Formatter<'_>, histogram: &Histogram<u64>) -> fmt::Result {
    const WIDTH: usize = 50;
    let classes = classes(histogram);
    let most = classes.iter().map(|(_, count)| *count).max().unwrap_or(1);
    for (end, count) in classes {
        let width = (count as f64 / most as f64 * WIDTH as f64).round() as usize;
        let percent = count as f64 / histogram.len() as f64 * 100.0;
        writeln!(f, "{:>10} us {percent:6.2} % {}", format!("< {end}"), "#".repeat(width))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut latency_us = Histogram::new(3).unwrap();
        for value in [1, 1, 3, 4, 7, 100] {
            latency_us.record(value).unwrap();
        }
        let measured = Measured {
            seconds: 2.0,
            committed: 6,
            aborted: 1,
            refused: 2,
            busy: 3,
            committed_in_all: 9,
            latency_us,
            lock_wait_share: Some(0.25),
        };
        let settings = serde_json::json!({"clients": 2});
        let invariant = Invariant { holds: true, detail: "sums agree".into() };
        Report::new("tpcb", "gnomon", &settings, 5, &measured, invariant)
    }

    #[test]
    fn json_has_the_fields_of_every_workload() {
        let json: serde_json::Value = serde_json::from_str(&report().to_json()).unwrap();
        for field in ["workload", "settings", "seed", "version", "seconds", "committed", "aborted", "tps"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert_eq!(json["tps"], 3.0);
        assert_eq!((&json["refused"], &json["lock_wait_share"]), (&2.into(), &0.25.into()));
        assert_eq!((&json["aborted"], &json["busy"]), (&1.into(), &3.into()));
        assert_eq!(
            json["latency_us"],
            serde_json::json!({"p50": 3, "p90": 100, "p99": 100, "p999": 100, "max": 100})
        );
        assert_eq!(json["invariant"]["holds"], true);
    }

    #[test]
    fn people_see_a_histogram_whose_classes_double() {
        let text = report().to_string();
        assert!(text.contains(" 25.0 % "), "{text}");
        assert!(text.contains("< 2 us  33.33 % ##########"), "{text}");
        assert!(text.contains("< 4 us  16.67 %"), "{text}");
        assert!(text.contains("< 8 us  33.33 %"), "{text}");
        assert!(text.contains("< 128 us  16.67 %"), "{text}");
        assert!(text.ends_with("invariant holds: sums agree"), "{text}");
    }
}
