//! `multilevel/foreign`: operations that access foreign subobjects only (the paper's section 3.3 and Figure 9).

use gnomon_bench::{
    objects::{Measured, Objects},
    recovery::{SINGLE_LEVEL, TWO_LEVEL, TWO_LEVEL_DEFERRED},
    result::{
        Claim, Outcome,
        text::{figure, figures},
    },
    store::Result,
    workspace::Workspace,
};
use serde::Serialize;

use super::{
    bench::{BENCH_SETTINGS, Bench, OBJECT_SETTINGS, Point, STATED_DMP, TERMS, stated_figure},
    sweep::{self, PAGES_STATED, READING_DMP, SWEEP_SETTINGS, StatedGap, Sweep, pages_claim},
};
use crate::experiment::{Experiment, Setting, Values, is_near, verdict};

const STATED: [&str; 7] = [
    "S2/PS at DMP 12: 16 times the throughput of S1",
    "S2/PS at DMP 12: 10 times shorter response times than S1",
    "S1: considerably more deadlocks than with disjoint objects (here: twice as many a transaction or more)",
    "the average persistence sphere is not much affected by the DMP (here: within a quarter)",
    "the largest persistence sphere grows with the DMP, to about 95 pages at DMP 12",
    "S2 is always outperformed by S2/PS (here: over all DMPs together)",
    PAGES_STATED,
];
const FOREIGN: Setting =
    Setting { name: "foreign", help: "subobjects that an operation accesses (f)", full: "10", quick: "4" };

const STATED_GAP: StatedGap = StatedGap { times: 16.0, shorter: 10.0, sphere_pages_max: Some(95.0) };

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "multilevel/foreign",
    source: "A Performance Evaluation of Multi-Level Transaction Management (Hasse and Weikum 1991), section 3.3, Figure 9",
    measures: "transactions on referentially shared subobjects by DMP, for S1, S2 and S2/PS: the same as disjoint",
    stated: &STATED,
    settings: &[SWEEP_SETTINGS, &[FOREIGN], OBJECT_SETTINGS, BENCH_SETTINGS],
    terms: TERMS,
    run,
};

/// Everything that was measured.
#[derive(Serialize)]
struct Data {
    #[serde(flatten)]
    sweep: Sweep,
    /// S1 with as many own subobjects instead.
    disjoint: Point,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let foreign = settings.number(FOREIGN.name, 0, 100)?;
    let mut bench = Bench::new(settings, workspace, 0, foreign, sweep::count(settings)? + 1)?;
    let sweep = Sweep::measure(settings, &mut bench)?;
    let own = Objects { own: foreign, foreign: 0, ..bench.base.clone() };
    let dmp = settings.number(READING_DMP.name, 1, 1024)?;
    let disjoint = bench.measure(SINGLE_LEVEL, dmp, &own, bench.length)?;
    let data = Data { sweep, disjoint };
    Ok(Outcome {
        claims: claims(&data, bench.is_as_stated(0, 10)),
        differences: bench
            .differences()
            .into_iter()
            .chain(["S2, which the paper leaves out here, is shown too".into()])
            .collect(),
        tables: data.sweep.tables(),
        figures: data.sweep.figures(
            "foreign",
            "Referentially shared subobjects (the paper's Figure 9)",
            &STATED_GAP,
        ),
        data: serde_json::to_value(&data).expect("figures are plain fields"),
    })
}

fn claims(data: &Data, comparable: bool) -> Vec<Claim> {
    let Data { sweep, disjoint } = data;
    let stated = sweep.at_stated(TWO_LEVEL_DEFERRED).zip(sweep.at_stated(SINGLE_LEVEL));
    let throughput = stated.map(|(deferred, single)| deferred.tps / single.tps);
    let response = stated.map(|(deferred, single)| single.response.mean_ms / deferred.response.mean_ms);
    let disjoint = disjoint.measured.restarts();
    let foreign = sweep.at_stated(SINGLE_LEVEL).map(Measured::restarts);
    let spheres: Vec<f64> = sweep.of(TWO_LEVEL_DEFERRED).map(|point| point.sphere_pages).collect();
    let (smallest, largest) =
        spheres.iter().fold((f64::INFINITY, 0.0), |(min, max), pages| (pages.min(min), pages.max(max)));
    let maxima: Vec<(usize, u64)> = sweep
        .of(TWO_LEVEL_DEFERRED)
        .map(|point| (point.clients, point.sphere_pages_max.unwrap_or_default()))
        .collect();
    let at_stated = maxima.iter().find(|point| point.0 == STATED_DMP).map(|point| point.1);
    let over_two = sweep.throughput(TWO_LEVEL_DEFERRED, TWO_LEVEL);
    let overall = sweep.throughput_overall(TWO_LEVEL_DEFERRED, TWO_LEVEL);
    let claim = |index: usize, figure, measured, holds| Claim {
        figure,
        stated: STATED[index],
        measured,
        verdict: verdict(comparable, holds),
    };
    vec![
        claim(
            0,
            "throughput",
            stated_figure(throughput, " times"),
            throughput.map(|times| is_near(times, STATED_GAP.times)),
        ),
        claim(
            1,
            "response time",
            stated_figure(response, " times"),
            response.map(|times| is_near(times, STATED_GAP.shorter)),
        ),
        claim(
            2,
            "deadlocks of S1",
            format!(
                "{}, {} with disjoint objects",
                stated_figure(foreign, " restarts a transaction"),
                figure(disjoint)
            ),
            foreign.map(|foreign| foreign >= 2.0 * disjoint),
        ),
        claim(3, "average sphere", figures(spheres.iter().copied()), Some(largest <= 1.25 * smallest)),
        claim(
            4,
            "largest sphere",
            figures(maxima.iter().map(|point| point.1 as f64)),
            at_stated.map(|pages| {
                is_near(pages as f64, 95.0) && maxima.first().is_some_and(|first| first.1 < pages)
            }),
        ),
        claim(
            5,
            "S2/PS over S2",
            format!("{overall:.3} times; by DMP {}", figures(over_two.iter().copied())),
            Some(overall >= 1.0),
        ),
        pages_claim(sweep, comparable),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Request, run};
    use gnomon_bench::result::Verdict;
    use gnomon_engine::sync::Arc;
    use gnomon_program::Progress;

    #[test]
    fn a_quick_run_measures_foreign_accesses_beside_own_ones() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let list = |part: &str| report.data[part].as_array().unwrap().clone();
        assert_eq!((list("points").len(), list("readings").len(), list("methods").len()), (6, 19, 4));
        for point in list("points").iter().chain(&list("methods")) {
            assert_eq!((&point["settings"]["own"], &point["settings"]["foreign"]), (&0.into(), &4.into()));
            assert!(point["measured"]["tps"].as_f64() > Some(0.0), "{point}");
        }
        assert_eq!(report.data["disjoint"]["settings"]["own"], 4);
        assert_eq!(report.claims.len(), STATED.len());
        assert!(report.claims.iter().all(|claim| claim.verdict == Verdict::NotComparable));
    }
}
