//! `multilevel/disjoint`: operations that access own subobjects only (the paper's section 3.2 and Figure 7).

use gnomon_bench::{
    objects::Measured,
    recovery::{SINGLE_LEVEL, TWO_LEVEL, TWO_LEVEL_DEFERRED},
    result::{
        Claim, Outcome,
        text::{figure, figures, percent},
    },
    store::Result,
    workspace::Workspace,
};

use super::{
    bench::{BENCH_SETTINGS, Bench, OBJECT_SETTINGS, OWN, STATED_DMP, TERMS, stated_figure},
    sweep::{self, PAGES_STATED, SWEEP_SETTINGS, StatedGap, Sweep, pages_claim},
};
use crate::experiment::{Experiment, Values, is_near, verdict};

const STATED: [&str; 12] = [
    "S2 and S2/PS: up to 2.5 times the throughput of S1",
    "S2 and S2/PS: up to 2.4 times shorter response times than S1",
    "the highest throughput at DMP 12 (here: within 5 % of the highest)",
    "S1 at DMP 12: 1.6 % of lock requests wait",
    "S1 at DMP 12: 60 % of the response time is waited for locks (36 s)",
    "S2 and S2/PS at DMP 12: less than 3 s of lock waits, 12 % of their response times",
    "S2/PS slightly ahead of S2 (here: over all DMPs together)",
    "S2/PS at DMP 12: 2.7 times the page-level log I/Os of S1, at 2.5 times the throughput: 1.08 times a transaction",
    "S2: dramatically more log I/Os (here: three times as many as S2/PS or more)",
    "pages in a page-level log I/O at DMP 12: 19.9 (S2/PS), 22.3 (S1)",
    "the average persistence sphere shrinks as the DMP grows",
    PAGES_STATED,
];

const STATED_GAP: StatedGap = StatedGap { times: 2.5, shorter: 2.4, sphere_pages_max: None };

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "multilevel/disjoint",
    source: "A Performance Evaluation of Multi-Level Transaction Management (Hasse and Weikum 1991), section 3.2, Figure 7",
    measures: "transactions on disjoint objects by DMP, for S1, S2 and S2/PS: throughput, response, lock waits, log I/Os",
    stated: &STATED,
    settings: &[SWEEP_SETTINGS, &[OWN], OBJECT_SETTINGS, BENCH_SETTINGS],
    terms: TERMS,
    run,
};

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let own = settings.number(OWN.name, 0, 1_000)?;
    let mut bench = Bench::new(settings, workspace, own, 0, sweep::count(settings)?)?;
    let sweep = Sweep::measure(settings, &mut bench)?;
    Ok(Outcome {
        claims: claims(&sweep, bench.is_as_stated(10, 0)),
        differences: bench.differences(),
        tables: sweep.tables(),
        figures: sweep.figures("disjoint", "Disjoint complex objects (the paper's Figure 7)", &STATED_GAP),
        data: serde_json::to_value(&sweep).expect("figures are plain fields"),
    })
}

fn claims(sweep: &Sweep, comparable: bool) -> Vec<Claim> {
    let at = |method| sweep.at_stated(method);
    let most = |ratios: [Vec<f64>; 2]| ratios.concat().into_iter().fold(f64::NAN, f64::max);
    let throughput =
        most([TWO_LEVEL, TWO_LEVEL_DEFERRED].map(|method| sweep.throughput(method, SINGLE_LEVEL)));
    let response = most([TWO_LEVEL, TWO_LEVEL_DEFERRED].map(|method| sweep.response(method, SINGLE_LEVEL)));
    let single = at(SINGLE_LEVEL);
    let (two, deferred) = (at(TWO_LEVEL), at(TWO_LEVEL_DEFERRED));
    let share = |point: Option<&Measured>| point.map(|point| point.wait_ms() / point.response.mean_ms);
    let shares = [share(two), share(deferred)];
    let ratio = |a: Option<&Measured>, b: Option<&Measured>, figure: fn(&Measured) -> f64| {
        a.zip(b).map(|(a, b)| figure(a) / figure(b))
    };
    let ahead = sweep.throughput_overall(TWO_LEVEL_DEFERRED, TWO_LEVEL);
    let ahead_by_dmp = sweep.throughput(TWO_LEVEL_DEFERRED, TWO_LEVEL);
    let forces = ratio(deferred, single, |point| point.page_log.per_transaction);
    let more = ratio(two, deferred, |point| point.page_log.per_second + point.operation_log.per_second);
    let pages = [deferred, single].map(|point| point.map(|point| point.pages_per_force));
    let spheres: Vec<f64> = sweep.of(TWO_LEVEL_DEFERRED).map(|point| point.sphere_pages).collect();
    let fastest = sweep.of(TWO_LEVEL_DEFERRED).max_by(|a, b| a.tps.total_cmp(&b.tps));
    let share_text =
        |number: Option<f64>| number.map_or_else(|| "other settings".into(), |share| percent(share, 1));
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
            format!("{} times at most", figure(throughput)),
            Some(is_near(throughput, STATED_GAP.times)),
        ),
        claim(
            1,
            "response time",
            format!("{} times at most", figure(response)),
            Some(is_near(response, STATED_GAP.shorter)),
        ),
        claim(
            2,
            "best DMP",
            fastest.map_or_else(String::new, |best| {
                let at_12 = deferred.map_or_else(|| "-".into(), |point| figure(point.tps));
                format!("{at_12} tps at {STATED_DMP}, at most {} at {}", figure(best.tps), best.clients)
            }),
            fastest.zip(deferred).map(|(best, point)| point.tps >= 0.95 * best.tps),
        ),
        claim(
            3,
            "conflict rate of S1",
            share_text(single.and_then(Measured::conflict_rate)),
            single.and_then(Measured::conflict_rate).map(|rate| is_near(rate, 0.016)),
        ),
        claim(
            4,
            "lock waits of S1",
            share_text(share(single)),
            share(single).map(|share| is_near(share, 0.6)),
        ),
        claim(
            5,
            "lock waits of S2, S2/PS",
            shares.map(share_text).join(", "),
            shares[0].zip(shares[1]).map(|(two, deferred)| two.max(deferred) < 0.12),
        ),
        claim(
            6,
            "S2/PS over S2",
            format!("{ahead:.3} times; by DMP {}", figures(ahead_by_dmp)),
            Some((1.0..1.25).contains(&ahead)),
        ),
        claim(
            7,
            "log I/Os of S2/PS over S1",
            stated_figure(forces, " times a transaction"),
            forces.map(|forces| is_near(forces, 1.08)),
        ),
        claim(8, "log I/Os of S2 over S2/PS", stated_figure(more, " times"), more.map(|more| more >= 3.0)),
        claim(
            9,
            "pages in a log I/O",
            format!("{}, {}", stated_figure(pages[0], " (S2/PS)"), stated_figure(pages[1], " (S1)")),
            pages[0].zip(pages[1]).map(|(deferred, single)| {
                is_near(deferred, 19.9) && is_near(single, 22.3) && deferred < single
            }),
        ),
        claim(
            10,
            "average sphere",
            figures(spheres.iter().copied()),
            match spheres[..] {
                [first, .., last] => Some(last < first),
                _ => None,
            },
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
    fn a_quick_run_measures_every_strategy_reading_and_method() {
        let request = Request { quick: true, seed: 5, ..Request::default() };
        let report = run(&EXPERIMENT, &request, Progress::silent(), &Arc::default()).unwrap();
        let list = |part: &str| report.data[part].as_array().unwrap().clone();
        let points = list("points");
        assert_eq!(points.len(), 6);
        for point in points.iter().chain(&list("methods")) {
            let measured = &point["measured"];
            assert!(measured["tps"].as_f64() > Some(0.0), "{point}");
            assert!(measured["page_log"]["per_transaction"].as_f64() > Some(0.0), "{point}");
            assert!(measured["response"]["mean_ms"].as_f64() > Some(2.0), "12 accesses of 0.2 ms: {point}");
        }
        let methods: Vec<_> =
            list("methods").iter().map(|point| point["measured"]["method"].clone()).collect();
        assert_eq!(methods, ["single-level", "two-level", "two-level-deferred", "shadow"]);
        assert_eq!((list("readings").len(), list("unserved").len()), (19, 19));
        // S2 forces the log when each operation ends, the others when the transaction does.
        let forces =
            |point: &serde_json::Value| point["measured"]["page_log"]["per_transaction"].as_f64().unwrap();
        assert!(forces(&points[1]) > 1.5 * forces(&points[0]), "{} and {}", points[1], points[0]);
        assert_eq!(report.claims.len(), STATED.len());
        assert!(report.claims.iter().all(|claim| claim.verdict == Verdict::NotComparable));
        assert!(report.to_string().contains("S2/PS restarts/txn"), "{report}");
    }
}
