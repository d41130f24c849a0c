//! `logging/bytes`: how long the records of a transaction in the log are, by its kind (the paper's Figures 5-6 to 5-8).

use std::{cmp::Ordering, collections::BTreeMap};

use gnomon_bench::{
    procedure::{
        Calls, Settings,
        tpcc::{Kind, Tpcc},
        voter::Voter,
    },
    result::{Claim, Outcome, ResultTable, text::figure},
    store::Result,
    workspace::Workspace,
};
use serde::Serialize;

use super::bench::{BENCH_SETTINGS, Bench, COMMAND, How, INTERVAL, LOGS, PAPER, SERIAL_SETTINGS, VALUE};
use crate::experiment::{Experiment, Values, is_near, verdict, verdict_about};

const STATED: [&str; 4] = [
    "Voter: 55 bytes a command",
    "Voter: 81 bytes of values a transaction",
    "TPC-C: from 50 bytes (delivery) to 170 (new order) a command",
    "TPC-C: about 10 times as many bytes of values as of commands, on average of the three kinds that write",
];

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "logging/bytes",
    source: PAPER,
    measures: "bytes of the log a transaction by its kind, commands and values, Voter and TPC-C (Figures 5-6 to 5-8)",
    stated: &STATED,
    settings: &[&[INTERVAL], SERIAL_SETTINGS, BENCH_SETTINGS],
    terms: &["command, value: bytes of a record, without what a block of the log takes beside its records"],
    run,
};

/// The records of a kind of transactions.
#[derive(Clone, Debug, Serialize)]
struct Records {
    workload: &'static str,
    kind: String,
    command_bytes: f64,
    value_bytes: f64,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let mut bench = Bench::serial(settings, workspace)?;
    bench.base.group_commit_ms = settings.number(INTERVAL.name, 0.0, 1_000.0)?;
    bench.total = 2 * LOGS.len() as u64;
    let (voter, tpcc) = (bench.voter, bench.tpcc);
    let records = [measure(&mut bench, &voter)?, measure(&mut bench, &tpcc)?].concat();
    let mut differences = bench.differences();
    differences.push(
        "the time is a parameter of calls here, and they carry a checksum over what they have written; procedures have \
         numbers in the log, and numbers take as few bytes as they need"
            .into(),
    );
    Ok(Outcome {
        claims: claims(&records, bench.is_as_stated()),
        differences,
        tables: vec![table(&records)],
        figures: Vec::new(),
        data: serde_json::json!({ "records": records }),
    })
}

fn measure<W: Calls>(bench: &mut Bench<'_>, workload: &W) -> Result<Vec<Records>> {
    let base: Settings = bench.base.clone();
    let rounds = bench.compare(workload, &base, &LOGS, How::rounds(1))?;
    let of = |method| -> BTreeMap<String, f64> {
        let kinds = rounds.point(method).into_iter().flat_map(|point| &point.kinds);
        kinds.filter_map(|kind| Some((kind.name.clone(), kind.log_bytes?))).collect()
    };
    let (commands, values) = (of(COMMAND), of(VALUE));
    Ok(W::KINDS
        .iter()
        .filter_map(|(kind, _)| {
            Some(Records {
                workload: W::NAME,
                kind: (*kind).into(),
                command_bytes: *commands.get(*kind)?,
                value_bytes: *values.get(*kind)?,
            })
        })
        .collect())
}

fn claims(records: &[Records], comparable: bool) -> Vec<Claim> {
    let of = |workload, procedure: &str, kinds: &[(&str, &str)]| {
        let name = kinds.iter().find(|kind| kind.1 == procedure).map(|kind| kind.0);
        records.iter().find(|one| one.workload == workload && Some(&*one.kind) == name)
    };
    let vote = of(Voter::NAME, gnomon_bench::procedure::voter::VOTE, Voter::KINDS);
    let tpcc = |kind: Kind| of(Tpcc::NAME, kind.name(), Tpcc::KINDS);
    let ends = tpcc(Kind::Delivery).zip(tpcc(Kind::NewOrder));
    let ends = ends.map(|(delivery, new_order)| (delivery.command_bytes, new_order.command_bytes));
    let (commands, values) = records
        .iter()
        .filter(|one| one.workload == Tpcc::NAME)
        .fold((0.0, 0.0), |(commands, values), one| (commands + one.command_bytes, values + one.value_bytes));
    let bytes =
        |bytes: Option<f64>| bytes.map_or_else(String::new, |bytes| format!("{} bytes", figure(bytes)));
    let [command, value] = [vote.map(|one| one.command_bytes), vote.map(|one| one.value_bytes)];
    vec![
        Claim {
            figure: "Voter, command",
            stated: STATED[0],
            measured: bytes(command),
            verdict: verdict_about(true, command, 55.0, Ordering::Less),
        },
        Claim {
            figure: "Voter, value",
            stated: STATED[1],
            measured: bytes(value),
            verdict: verdict_about(true, value, 81.0, Ordering::Less),
        },
        Claim {
            figure: "TPC-C, command",
            stated: STATED[2],
            measured: ends.map_or_else(String::new, |(delivery, new_order)| {
                format!("{} bytes to {}", figure(delivery), figure(new_order))
            }),
            verdict: verdict_about(comparable, ends.map(|ends| ends.0), 50.0, Ordering::Less)
                .max(verdict_about(comparable, ends.map(|ends| ends.1), 170.0, Ordering::Less)),
        },
        Claim {
            figure: "TPC-C, value",
            stated: STATED[3],
            measured: format!("{} times", figure(values / commands)),
            verdict: verdict(comparable, Some(is_near(values / commands, 10.0))),
        },
    ]
}

fn table(records: &[Records]) -> ResultTable {
    let row = |one: &Records| {
        let ratio = one.value_bytes / one.command_bytes;
        [one.workload.to_owned(), one.kind.clone()]
            .into_iter()
            .chain([one.command_bytes, one.value_bytes, ratio].map(figure))
            .collect()
    };
    ResultTable {
        title: "Bytes of the log a transaction".into(),
        headings: vec!["workload", "transaction", "command", "value", "value : command"],
        rows: records.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::bench::tests::quick, *};
    use gnomon_bench::result::Verdict::{DoesNotHold, Holds, NotComparable, Surpassed};

    #[test]
    fn a_quick_run_finds_the_records_of_all_kinds_that_write() {
        let report = quick(&EXPERIMENT);
        let records = report.data["records"].as_array().unwrap();
        let kinds: Vec<_> = records.iter().map(|one| one["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["vote", "new order", "payment", "delivery"]);
        for one in records {
            let [command, value] = ["command_bytes", "value_bytes"].map(|field| one[field].as_f64().unwrap());
            assert!(10.0 < command && command < value, "{one}");
        }
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let record = |workload, kind: &str, command_bytes, value_bytes| Records {
            workload,
            kind: kind.into(),
            command_bytes,
            value_bytes,
        };
        let verdicts = |records: &[Records], comparable| {
            claims(records, comparable).iter().map(|claim| claim.verdict).collect::<Vec<_>>()
        };
        let stated = [
            record("voter", "vote", 55.0, 81.0),
            record("tpcc", "new order", 170.0, 2000.0),
            record("tpcc", "delivery", 50.0, 300.0),
        ];
        assert_eq!(verdicts(&stated, true), [Holds; 4]);
        assert_eq!(verdicts(&stated, false), [Holds, Holds, NotComparable, NotComparable]);
        let other = stated.clone().map(|one| Records { command_bytes: 400.0, value_bytes: 400.0, ..one });
        assert_eq!(verdicts(&other, true), [DoesNotHold; 4]);
        let shorter = stated.map(|one| Records { command_bytes: 20.0, value_bytes: 20.0, ..one });
        assert_eq!(verdicts(&shorter, true), [Surpassed, Surpassed, Surpassed, DoesNotHold]);
        assert_eq!(verdicts(&[], false), [NotComparable; 4]);
    }
}
