//! `multilevel/logs`: one physical log for both levels against two, and the log of pages over several files. The paper
//! names both and has neither (sections 2 and 3.3).

use gnomon_bench::{
    objects::Objects,
    recovery::{TWO_LEVEL, TWO_LEVEL_DEFERRED},
    result::{Claim, Outcome, ResultTable, text::figure},
    store::Result,
    workspace::Workspace,
};
use serde::Serialize;

use super::bench::{BENCH_SETTINGS, Bench, DMP, OBJECT_SETTINGS, OWN, Point, TERMS, paper_name};
use crate::experiment::{Experiment, Setting, Values, verdict};

const STATED: [&str; 1] =
    ["(this project) with one log a transaction of S2 or S2/PS has fewer log I/Os than with two"];
const FILES: Setting = Setting {
    name: "files",
    help: "numbers of files that the log of pages is spread over",
    full: "1,2,4",
    quick: "1,2",
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "multilevel/logs",
    source: "A Performance Evaluation of Multi-Level Transaction Management (Hasse and Weikum 1991), sections 2 and 3.3",
    measures: "one log or two, of one or several files, for S2 and S2/PS, with and without served time",
    stated: &STATED,
    settings: &[&[FILES, DMP, OWN], OBJECT_SETTINGS, BENCH_SETTINGS],
    terms: TERMS,
    run,
};

/// Everything that was measured.
#[derive(Serialize)]
struct Data {
    points: Vec<Point>,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let dmp = settings.number(DMP.name, 1, 1024)?;
    let own = settings.number(OWN.name, 0, 1_000)?;
    let files: Vec<u32> = settings.list(FILES.name, 1, 16)?;
    let mut bench = Bench::new(settings, workspace, own, 0, 2 * 2 * 2 * files.len())?;
    let mut points = Vec::new();
    for service_ms in [bench.base.service_ms, 0.0] {
        for method in [TWO_LEVEL, TWO_LEVEL_DEFERRED] {
            for shared_log in [false, true] {
                for log_files in &files {
                    let one = Objects { service_ms, shared_log, log_files: *log_files, ..bench.base.clone() };
                    points.push(bench.measure(method, dmp, &one, bench.length)?);
                }
            }
        }
    }
    let forces = |point: &Point| {
        point.measured.page_log.per_transaction + point.measured.operation_log.per_transaction
    };
    let pairs = || {
        let two = points.iter().filter(|point| !point.settings.shared_log);
        two.filter_map(|two| {
            let is_same = |one: &&Point| {
                one.settings.shared_log
                    && (one.measured.method, one.settings.log_files)
                        == (two.measured.method, two.settings.log_files)
                    && one.settings.service_ms == two.settings.service_ms
            };
            Some((points.iter().find(is_same)?, two))
        })
    };
    let ratios: Vec<String> = pairs().map(|(one, two)| figure(forces(one) / forces(two))).collect();
    let fewer = pairs().all(|(one, two)| forces(one) < forces(two));
    Ok(Outcome {
        claims: vec![Claim {
            figure: "log I/Os",
            stated: STATED[0],
            measured: ratios.join(", ") + " times as many",
            verdict: verdict(bench.is_as_stated(10, 0), Some(fewer)),
        }],
        differences: bench.differences(),
        tables: vec![table(&points)],
        figures: Vec::new(),
        data: serde_json::to_value(&Data { points }).expect("figures are plain fields"),
    })
}

fn table(points: &[Point]) -> ResultTable {
    let row = |Point { settings, measured }: &Point| {
        [
            paper_name(measured.method).to_owned(),
            figure(settings.service_ms),
            if settings.shared_log { "one" } else { "two" }.to_owned(),
            settings.log_files.to_string(),
            measured.committed.to_string(),
        ]
        .into_iter()
        .chain(
            [
                measured.tps,
                measured.response.p50_ms,
                measured.response.p99_ms,
                measured.page_log.per_transaction,
                measured.operation_log.per_transaction,
                measured.pages_logged,
            ]
            .map(figure),
        )
        .collect()
    };
    ResultTable {
        title: "One log for both levels, or two; the log of pages in several files".into(),
        headings: vec![
            "method",
            "service ms",
            "logs",
            "files",
            "committed",
            "tps",
            "p50 ms",
            "p99 ms",
            "L0/txn",
            "L1/txn",
            "pages/txn",
        ],
        rows: points.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Request, run};
    use gnomon_engine::sync::Arc;
    use gnomon_program::Progress;

    #[test]
    fn a_quick_run_measures_one_log_beside_two() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let points = report.data["points"].as_array().unwrap();
        assert_eq!(points.len(), 16);
        for point in points {
            let forces = &point["measured"]["page_log"]["per_transaction"];
            assert!(forces.as_f64() > Some(0.0), "{point}");
        }
    }
}
