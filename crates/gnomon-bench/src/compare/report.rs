//! The report of a comparison: a table, sentences that are computed from it, JSON and a figure.
//!
//! It becomes a [`Report`] like those of experiments, without stated figures, so that their page has comparisons too.

use std::{cmp::Ordering, path::Path};

use serde::Serialize;

use super::{Comparison, Variant};
use crate::{
    result::{
        About, Listing, Outcome, Report, ResultTable,
        plot::{Axis, Curve, Figure, Panel, Scale},
        text::{figure, percent, quoted},
    },
    workspace::Workspace,
};

/// The figures of a variant in one round, or the medians over rounds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    /// Transactions that were committed while it was measured.
    pub committed: u64,
    /// The same a second.
    pub tps: f64,
    pub latency_ms_p50: f64,
    pub latency_ms_p90: f64,
    pub latency_ms_p99: f64,
    pub latency_ms_max: f64,
    pub retries_per_transaction: f64,
    /// Bytes written to the log, warm-up included; none if there is no log.
    pub log_bytes_per_transaction: Option<f64>,
    /// Bytes written to pages, warm-up included.
    pub page_bytes_per_transaction: f64,
    /// How long the log was at the crash, if there is one.
    pub log_mib: Option<f64>,
    /// How long opening took after the crash.
    pub recovery_ms: f64,
}

/// A column of the table: its heading, what is better, and its figure.
struct Column {
    heading: &'static str,
    better: Ordering,
    of: fn(&Figures) -> Option<f64>,
}

const COLUMNS: [Column; 10] = [
    Column { heading: "tx/s", better: Ordering::Greater, of: |figures| Some(figures.tps) },
    Column { heading: "p50 ms", better: Ordering::Less, of: |figures| Some(figures.latency_ms_p50) },
    Column { heading: "p90 ms", better: Ordering::Less, of: |figures| Some(figures.latency_ms_p90) },
    Column { heading: "p99 ms", better: Ordering::Less, of: |figures| Some(figures.latency_ms_p99) },
    Column { heading: "max ms", better: Ordering::Less, of: |figures| Some(figures.latency_ms_max) },
    Column {
        heading: "retries/tx",
        better: Ordering::Less,
        of: |figures| Some(figures.retries_per_transaction),
    },
    Column { heading: "log B/tx", better: Ordering::Less, of: |figures| figures.log_bytes_per_transaction },
    Column {
        heading: "pages B/tx",
        better: Ordering::Less,
        of: |figures| Some(figures.page_bytes_per_transaction),
    },
    Column { heading: "log MiB", better: Ordering::Less, of: |figures| figures.log_mib },
    Column { heading: "recovery ms", better: Ordering::Less, of: |figures| Some(figures.recovery_ms) },
];

const TERMS: &[&str] = &[
    "*: the best of its column among those that are durable",
    "locks: whether updates that commute share locks (gnomon.semantic_locks)",
    "tx/s: transactions a second; p50 to max: their latencies, retries included; retries/tx: tries again a transaction",
    "log B/tx, pages B/tx: bytes written to the log and to pages a transaction, warm-up included; without a log, all is \
     written to pages, and with one, pages are at checkpoints, which a short run may not come to",
    "log MiB: how long the log was at the crash; recovery ms: how long opening took after it; both grow with what was \
     committed, up to the bound of the log",
];

/// As the option has it.
pub(super) fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// A variant with what was measured in each round and the medians.
#[derive(Serialize)]
struct Row {
    recovery: &'static str,
    semantic_locks: bool,
    durable: bool,
    medians: Figures,
    rounds: Vec<Figures>,
}

/// The report of what was measured of each variant in each round.
pub(super) fn of(
    comparison: &Comparison,
    measured: Vec<(Variant, Vec<Figures>)>,
    notes: Vec<String>,
    workspace: &Workspace,
) -> Report {
    let rows: Vec<Row> = measured
        .into_iter()
        .map(|(variant, rounds)| Row {
            recovery: variant.method.name(),
            semantic_locks: variant.semantic_locks,
            durable: variant.is_durable(),
            medians: medians(&rounds),
            rounds,
        })
        .collect();
    let outcome = Outcome {
        claims: Vec::new(),
        differences: notes,
        data: serde_json::json!({ "variants": rows }),
        tables: vec![table(&rows)],
        figures: vec![plot(&rows)],
    };
    let settings = settings(comparison);
    let about = About {
        experiment: format!("compare/{}", stem(&comparison.script.name)),
        source: "transactions of one's own",
        measures: "a script under every recovery method, with and without semantic locks",
        terms: TERMS,
        quick: comparison.quick,
        seed: comparison.seed,
        command: command(comparison, &settings),
        settings: settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        machine: workspace.machine.clone(),
    };
    let script = (&comparison.script.name, &comparison.script.text);
    let files = [script].into_iter().chain(comparison.init.as_ref().map(|(name, text)| (name, text)));
    let listing = |(title, text): (&String, &String)| Listing { title: title.clone(), text: text.clone() };
    Report::new(about, outcome)
        .with_conclusions(conclusions(&rows))
        .with_listings(files.map(listing).collect())
}

/// Returns the name of a comparison: the path of its script, without the last dot and the rest.
fn stem(path: &str) -> String {
    let stem = Path::new(path).with_extension("");
    stem.to_string_lossy().trim_start_matches(['/', '.']).to_owned()
}

/// The words for all recovery methods, and for semantic locks on and off.
const ALL: &str = "all";
const BOTH: &str = "both";

/// The command that runs the same again, for a shell.
fn command(comparison: &Comparison, settings: &[(&'static str, String)]) -> String {
    let mut words = vec!["gnomon compare".to_owned()];
    if comparison.quick {
        words.push("--quick".to_owned());
    }
    words.push(format!("--seed {}", comparison.seed));
    for (name, value) in settings {
        match (*name, value.as_str()) {
            ("recovery", ALL) | ("semantic-locks", BOTH) => {}
            (DEFINE, _) => words.extend(
                comparison
                    .script
                    .defined()
                    .map(|(name, value)| format!("-D {}", quoted(&format!("{name}={value}")))),
            ),
            _ => words.push(format!("--{name} {}", quoted(value))),
        }
    }
    if let Some(directory) = &comparison.dir {
        words.push(format!("--dir {}", quoted(&directory.to_string_lossy())));
    }
    words.join(" ")
}

const DEFINE: &str = "define";

/// By the names of the options.
fn settings(comparison: &Comparison) -> Vec<(&'static str, String)> {
    let list = |names: Vec<&str>| names.join(",");
    let methods = comparison.methods.as_ref();
    let locks = comparison.semantic_locks.as_ref();
    let mut settings = vec![
        ("clients", comparison.clients.to_string()),
        ("file", comparison.script.name.clone()),
        ("isolation", comparison.isolation.name().to_owned()),
        ("pool-mib", comparison.pool_mib.to_string()),
        (
            "recovery",
            methods.map_or(ALL.into(), |all| list(all.iter().map(|method| method.name()).collect())),
        ),
        ("rounds", comparison.rounds.to_string()),
        ("scale", comparison.scale.to_string()),
        ("seconds", comparison.measured_seconds.to_string()),
        (
            "semantic-locks",
            locks.map_or(BOTH.into(), |locks| list(locks.iter().map(|&on| switch(on)).collect())),
        ),
        ("warm-up", comparison.warm_up_seconds.to_string()),
    ];
    settings.extend(comparison.init.as_ref().map(|(name, _)| ("init", name.clone())));
    let defined: Vec<String> =
        comparison.script.defined().map(|(name, value)| format!("{name}={value}")).collect();
    if !defined.is_empty() {
        settings.push((DEFINE, defined.join(",")));
    }
    settings
}

/// The middle one; of an even number, the lower one of the middle. None if there is none.
fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len().checked_sub(1)? / 2).copied()
}

fn medians(rounds: &[Figures]) -> Figures {
    let optional = |of: fn(&Figures) -> Option<f64>| median(rounds.iter().filter_map(of));
    let of = |of: fn(&Figures) -> f64| median(rounds.iter().map(of)).unwrap_or(f64::NAN);
    Figures {
        committed: of(|figures| figures.committed as f64) as u64,
        tps: of(|figures| figures.tps),
        latency_ms_p50: of(|figures| figures.latency_ms_p50),
        latency_ms_p90: of(|figures| figures.latency_ms_p90),
        latency_ms_p99: of(|figures| figures.latency_ms_p99),
        latency_ms_max: of(|figures| figures.latency_ms_max),
        retries_per_transaction: of(|figures| figures.retries_per_transaction),
        log_bytes_per_transaction: optional(|figures| figures.log_bytes_per_transaction),
        page_bytes_per_transaction: of(|figures| figures.page_bytes_per_transaction),
        log_mib: optional(|figures| figures.log_mib),
        recovery_ms: of(|figures| figures.recovery_ms),
    }
}

fn table(rows: &[Row]) -> ResultTable {
    let mut cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let durable = if row.durable { "" } else { " (not durable)" };
            vec![format!("{}{durable}", row.recovery), switch(row.semantic_locks).to_owned()]
        })
        .collect();
    for Column { better, of, .. } in &COLUMNS {
        let texts: Vec<String> =
            rows.iter().map(|row| of(&row.medians).map_or_else(|| "-".into(), figure)).collect();
        let best = rows
            .iter()
            .zip(&texts)
            .filter(|(row, _)| row.durable)
            .filter_map(|(row, text)| Some((of(&row.medians)?, text)))
            .max_by(|(one, _), (other, _)| match better {
                Ordering::Greater => one.total_cmp(other),
                _ => other.total_cmp(one),
            })
            .map(|(_, text)| text);
        let durable = || rows.iter().zip(&texts).filter(|(row, text)| row.durable && *text != "-");
        // Of figures that do not differ none is the best.
        let differ = durable().any(|(_, text)| Some(text) != best);
        for ((row, cells), text) in rows.iter().zip(&mut cells).zip(&texts) {
            let is_best = differ && row.durable && Some(text) == best;
            cells.push(if is_best { format!("* {text}") } else { text.clone() });
        }
    }
    ResultTable {
        title: "Transactions by recovery method and locks".into(),
        headings: ["recovery", "locks"].into_iter().chain(COLUMNS.map(|column| column.heading)).collect(),
        rows: cells,
    }
}

fn plot(rows: &[Row]) -> Figure {
    let panel = |semantic_locks: bool, y: &'static str| Panel {
        x: Axis { label: "recovery, ms", scale: Scale::Logarithmic(10) },
        y: Axis { label: y, scale: Scale::Linear },
        curves: rows
            .iter()
            .filter(|row| row.semantic_locks == semantic_locks)
            .map(|row| Curve {
                label: row.recovery.into(),
                points: vec![(row.medians.recovery_ms, row.medians.tps)],
            })
            .collect(),
        stated: Vec::new(),
    };
    let panels = [
        panel(true, "transactions/s, semantic locks on"),
        panel(false, "transactions/s, semantic locks off"),
    ];
    Figure {
        name: "compare".into(),
        title: "Throughput by the time that recovery takes".into(),
        panels: panels.into_iter().filter(|panel| !panel.curves.is_empty()).collect(),
    }
}

/// Differences below this cannot be told from those between two runs of the same, of one round or two and of more.
const NOTABLE: [f64; 2] = [4.0 / 3.0, 1.1];
/// So many rounds are more.
pub(super) const ROUNDS_SOME: usize = 3;

/// Returns sentences that help to choose. Each method counts with the locks that are faster with it.
fn conclusions(rows: &[Row]) -> Vec<String> {
    let durable = || rows.iter().filter(|row| row.durable);
    let faster = |one: &&Row, other: &&Row| one.medians.tps.total_cmp(&other.medians.tps);
    let mut methods: Vec<&Row> = durable()
        .filter(|row| {
            durable()
                .filter(|other| other.recovery == row.recovery)
                .max_by(faster)
                .is_some_and(|best| std::ptr::eq(best, *row))
        })
        .collect();
    methods.sort_by(|one, other| faster(other, one));
    let Some(&fastest) = methods.first() else { return Vec::new() };
    let name = |row: &Row| format!("{} with semantic locks {}", row.recovery, switch(row.semantic_locks));
    let mut said = Vec::new();
    if let Some(next) = methods.get(1) {
        said.push(format!(
            "Fastest is {}: {} transactions/s, {} times the next method ({}).",
            name(fastest),
            figure(fastest.medians.tps),
            figure(fastest.medians.tps / next.medians.tps),
            name(next)
        ));
    }
    said.extend(gain_of_locks(fastest.recovery, &durable().collect::<Vec<_>>()));
    let soonest =
        durable().min_by(|one, other| one.medians.recovery_ms.total_cmp(&other.medians.recovery_ms));
    if let Some(soonest) = soonest.filter(|_| methods.len() > 1) {
        let opens_ms = figure(soonest.medians.recovery_ms);
        said.push(match std::ptr::eq(soonest, fastest) {
            true => format!("It is also open soonest after a crash, in {opens_ms} ms."),
            false => format!(
                "Soonest open after a crash is {}, in {opens_ms} ms, where {} takes {} ms; its throughput is {} of that.",
                name(soonest),
                name(fastest),
                figure(fastest.medians.recovery_ms),
                percent(soonest.medians.tps / fastest.medians.tps, 0)
            ),
        });
    }
    said
}

/// Returns the gain by semantic locks, with the fastest method and with all.
fn gain_of_locks(fastest: &str, rows: &[&Row]) -> Option<String> {
    let of = |recovery: &str, on: bool| {
        rows.iter()
            .find(|row| row.recovery == recovery && row.semantic_locks == on)
            .map(|row| row.medians.tps)
    };
    let gain = |recovery: &'static str| Some((of(recovery, true)? / of(recovery, false)?, recovery));
    let mut gains: Vec<(f64, &str)> =
        rows.iter().filter(|row| row.semantic_locks).filter_map(|row| gain(row.recovery)).collect();
    gains.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (with_fastest, _) = *gains.iter().find(|(_, recovery)| *recovery == fastest)?;
    let has_some = rows.iter().all(|row| row.rounds.len() >= ROUNDS_SOME);
    let notable = NOTABLE[usize::from(has_some)];
    let verdict = match with_fastest {
        gain if gain >= notable => "gain",
        gain if gain <= 1.0 / notable => "cost",
        _ => "make no difference",
    };
    let over_all = match gains[..] {
        [(least, with_least), .., (most, with_most)] => format!(
            " (over all methods {} times, with {with_least}, to {} times, with {with_most})",
            figure(least),
            figure(most)
        ),
        _ => String::new(),
    };
    let times = figure(with_fastest);
    Some(format!(
        "Semantic locks {verdict} with {fastest}: {times} times the throughput without them{over_all}."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(recovery: &'static str, semantic_locks: bool, tps: f64, recovery_ms: f64) -> Row {
        let figures = Figures {
            committed: 10,
            tps,
            latency_ms_p50: 1.0,
            latency_ms_p90: 1.0,
            latency_ms_p99: 1.0,
            latency_ms_max: 1.0,
            retries_per_transaction: 0.0,
            log_bytes_per_transaction: (recovery == "value-log").then_some(100.0),
            page_bytes_per_transaction: 4096.0,
            log_mib: None,
            recovery_ms,
        };
        Row {
            recovery,
            semantic_locks,
            durable: recovery != "none",
            medians: figures.clone(),
            rounds: vec![figures],
        }
    }

    #[test]
    fn the_best_of_those_that_are_durable_is_marked_where_they_differ() {
        let rows = [
            row("none", true, 900.0, 1.0),
            row("shadow", true, 100.0, 5.0),
            row("value-log", true, 300.0, 40.0),
            row("value-log", false, 300.0, 5.0),
        ];
        let table = table(&rows);
        let column = |heading: &str| -> Vec<&str> {
            let at = table.headings.iter().position(|known| *known == heading).unwrap();
            table.rows.iter().map(|row| row[at].as_str()).collect()
        };
        assert_eq!(column("recovery"), ["none (not durable)", "shadow", "value-log", "value-log"]);
        assert_eq!(column("tx/s"), ["900", "100", "* 300", "* 300"]);
        assert_eq!(column("recovery ms"), ["1.00", "* 5.00", "40.0", "* 5.00"]);
        assert_eq!(column("p50 ms"), ["1.00"; 4]);
        assert_eq!(column("log B/tx"), ["-", "-", "100", "100"]);
        assert!(table.rows.iter().all(|row| row.len() == table.headings.len()));
    }

    #[test]
    fn sentences_follow_the_figures() {
        let rows = [
            row("none", true, 900.0, 1.0),
            row("shadow", true, 100.0, 5.5),
            row("shadow", false, 80.0, 5.0),
            row("value-log", true, 300.0, 40.0),
            row("value-log", false, 100.0, 3.0),
        ];
        assert_eq!(
            conclusions(&rows),
            [
                "Fastest is value-log with semantic locks on: 300 transactions/s, 3.00 times the next method (shadow with \
                 semantic locks on).",
                "Semantic locks gain with value-log: 3.00 times the throughput without them (over all methods 1.25 times, with shadow, to \
                 3.00 times, with value-log).",
                "Soonest open after a crash is value-log with semantic locks off, in 3.00 ms, where value-log with semantic \
                 locks on takes 40.0 ms; its throughput is 33 % of that.",
            ]
        );
        let same = [row("shadow", true, 100.0, 5.0), row("shadow", false, 101.0, 5.0)];
        assert_eq!(
            conclusions(&same),
            ["Semantic locks make no difference with shadow: 0.99 times the throughput without them."]
        );
        let costs = [row("shadow", true, 50.0, 5.0), row("shadow", false, 100.0, 5.0)];
        assert!(conclusions(&costs)[0].starts_with("Semantic locks cost with shadow: 0.50 times"));
        let best = [row("shadow", true, 50.0, 5.0), row("value-log", true, 40.0, 9.0)];
        assert_eq!(conclusions(&best)[1], "It is also open soonest after a crash, in 5.00 ms.");
        assert!(conclusions(&[row("none", true, 1.0, 1.0)]).is_empty());
    }

    #[test]
    fn medians_are_of_each_figure() {
        let rounds: Vec<Figures> = [(3.0, 1.0), (1.0, 3.0), (2.0, 9.0)]
            .map(|(tps, ms)| row("value-log", true, tps, ms).medians)
            .into();
        let medians = medians(&rounds);
        assert_eq!((medians.tps, medians.recovery_ms, medians.committed), (2.0, 3.0, 10));
        assert_eq!((medians.log_bytes_per_transaction, medians.log_mib), (Some(100.0), None));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median(std::iter::empty()), None);
    }

    #[test]
    fn the_figure_has_a_point_for_each_variant() {
        let rows = [
            row("shadow", true, 100.0, 5.0),
            row("value-log", true, 300.0, 40.0),
            row("none", false, 1.0, 2.0),
        ];
        let curves: Vec<usize> = plot(&rows).panels.iter().map(|panel| panel.curves.len()).collect();
        assert_eq!(curves, [2, 1]);
        // Once more each in the legends.
        assert_eq!(plot(&rows).to_svg().matches("class=\"mark\"").count(), 2 * 3);
        assert_eq!(plot(&rows[..2]).panels.len(), 1);
    }
}
