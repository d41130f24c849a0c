//! `logging/truncated`: whether what values cost more than commands is the processor's time, or the disk's.
//!
//! The paper writes value records of TPC-C cut short, so that the bytes are those of commands (its Figure 5-9). The
//! engine writes no log that could not be replayed. Here the same load runs on a database in memory, where no record
//! waits for a disk, whatever its length: if value logging is as far behind there, it is not for the disk.

use gnomon_bench::{
    result::{Claim, Outcome, ResultTable, text::percent},
    store::Result,
    workspace::Workspace,
};
use serde::Serialize;

use super::bench::{
    BENCH_SETTINGS, Bench, COMMAND, How, INTERVAL, MODES, PAPER, ROUNDS, Rounds, SERIAL_SETTINGS, TERMS,
    VALUE, is_close, table,
};
use crate::experiment::{Experiment, Values, verdict};

const STATED: [&str; 1] = [
    "with value records cut to 50 or 100 bytes a transaction, value logging is behind by nearly the same factor",
];
/// Below that, value logging is behind at all.
const BEHIND: f64 = 0.95;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "logging/truncated",
    source: PAPER,
    measures: "TPC-C on a disk and in memory: whether values cost a processor or a disk (instead of Figure 5-9)",
    stated: &STATED,
    settings: &[&[INTERVAL, ROUNDS], SERIAL_SETTINGS, BENCH_SETTINGS],
    terms: TERMS,
    run,
};

/// The same load on a disk and without one.
#[derive(Clone, Debug, Serialize)]
struct Data {
    on_disk: Rounds,
    in_memory: Rounds,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let mut bench = Bench::serial(settings, workspace)?;
    let how = How::rounds(settings.number(ROUNDS.name, 1, 100)?);
    bench.base.group_commit_ms = settings.number(INTERVAL.name, 0.0, 1_000.0)?;
    bench.total = 2 * how.rounds * MODES.len() as u64;
    let (tpcc, base) = (bench.tpcc, bench.base.clone());
    let data = Data {
        on_disk: bench.compare(&tpcc, &base, &MODES, how)?,
        in_memory: bench.compare(&tpcc, &base, &MODES, How { in_memory: true, ..how })?,
    };
    let mut differences = bench.differences();
    differences.push(
        "records are whole, and the disk is left out; there, they were cut short, and so could not be replayed. In \
         memory a record is still copied, and commits still wait for the interval of group commit"
            .into(),
    );
    Ok(Outcome {
        claims: claims(&data, bench.is_as_stated()),
        differences,
        tables: vec![data.table()],
        figures: Vec::new(),
        data: serde_json::to_value(&data).expect("figures are plain fields"),
    })
}

impl Data {
    fn table(&self) -> ResultTable {
        let rows =
            [("disk", &self.on_disk), ("memory", &self.in_memory)].into_iter().flat_map(|(log, rounds)| {
                let points = MODES.iter().filter_map(|method| rounds.point(*method));
                points.map(move |point| (vec![log.to_owned()], point))
            });
        table("With and without a disk", &["database"], rows)
    }
}

fn claims(data: &Data, comparable: bool) -> Vec<Claim> {
    let [disk, memory] = [&data.on_disk, &data.in_memory].map(|rounds| rounds.speed(VALUE, COMMAND));
    vec![Claim {
        figure: "value logging",
        stated: STATED[0],
        measured: format!("{} of command logging, {} in memory", percent(disk, 1), percent(memory, 1)),
        verdict: verdict(comparable && disk < BEHIND, Some(is_close(memory, disk))),
    }]
}

#[cfg(test)]
mod tests {
    use super::{
        super::bench::tests::{quick, round},
        *,
    };
    use gnomon_bench::result::Verdict::{DoesNotHold, Holds, NotComparable};

    #[test]
    fn a_quick_run_is_on_a_disk_and_in_memory() {
        let report = quick(&EXPERIMENT);
        for point in ["on_disk", "in_memory"].map(|field| &report.data[field][0]).iter().flat_map(|round| {
            let points = round.as_array().unwrap();
            assert_eq!(points.len(), MODES.len());
            points
        }) {
            assert!(point["tps"].as_f64() > Some(0.0), "{point}");
        }
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let of = |value| round(&[(COMMAND, 100.0, 1.0), (VALUE, value, 1.0)]);
        let verdict = |disk, memory, comparable| {
            claims(&Data { on_disk: of(disk), in_memory: of(memory) }, comparable)[0].verdict
        };
        assert_eq!(verdict(66.0, 70.0, true), Holds);
        assert_eq!(verdict(66.0, 90.0, true), DoesNotHold);
        assert_eq!(verdict(99.0, 99.0, true), NotComparable, "there is nothing to be explained");
        assert_eq!(verdict(66.0, 70.0, false), NotComparable);
    }
}
