//! What `multilevel/disjoint` and `multilevel/foreign` measure: the three strategies over the DMP, and at a DMP of 12
//! the readings of what the paper leaves open, with and without served time, and every recovery method.

use std::time::Duration;

use gnomon_bench::{
    objects::{Measured, Objects},
    recovery::{Recovery, SINGLE_LEVEL, TWO_LEVEL_DEFERRED},
    result::{
        Claim, ResultTable,
        plot::{Axis, Curve, Figure, Panel, Scale, Stated},
        text::{figure, percent},
    },
    store::Result,
};
use serde::Serialize;

use super::bench::{
    Bench, Length, ORDERS, Point, RETRIES, SKEWS, STATED_DMP, STRATEGIES, VICTIMS, at, paper_name,
    stated_figure,
};
use crate::experiment::{Setting, Values, verdict};

pub(super) const DMP: Setting = Setting {
    name: "dmp",
    help: "degrees of multiprogramming (clients that run transactions at once)",
    full: "1,2,4,8,12,16,20",
    quick: "1,4",
};
const READING_SECONDS: Setting = Setting {
    name: "reading-seconds",
    help: "measured at each point of the readings; without served time a third",
    full: "2",
    quick: "0.1",
};
pub(super) const READING_DMP: Setting =
    Setting { name: "reading-dmp", help: "of the readings and of all methods", full: "12", quick: "4" };

/// What [`Sweep::measure`] reads.
pub(super) const SWEEP_SETTINGS: &[Setting] = &[DMP, READING_SECONDS, READING_DMP];

/// Everything that was measured.
#[derive(Serialize)]
pub(super) struct Sweep {
    /// The strategies over the DMP.
    pub points: Vec<Point>,
    /// The readings.
    pub readings: Vec<Reading>,
    /// The same, with nothing but the engine's own work.
    pub unserved: Vec<Reading>,
    /// Every recovery method.
    pub methods: Vec<Point>,
}

/// A reading of what the paper leaves open.
#[derive(Serialize)]
pub(super) struct Reading {
    pub single_level: Point,
    pub deferred: Point,
}

impl Reading {
    fn throughput(&self) -> f64 {
        self.deferred.measured.tps / self.single_level.measured.tps
    }

    fn response(&self) -> f64 {
        self.single_level.measured.response.mean_ms / self.deferred.measured.response.mean_ms
    }
}

/// How many points a sweep has.
pub(super) fn count(settings: &Values) -> Result<usize> {
    let (levels, dmp) = (levels(settings)?, settings.number(READING_DMP.name, 1, 1024)?);
    // Shadow paging, and the strategies where they are not measured anyway.
    let methods = 1 + if levels.contains(&dmp) { 0 } else { STRATEGIES.len() };
    let readings = ORDERS.len() * VICTIMS.len() * RETRIES.len() + SKEWS.len() - 1;
    Ok(levels.len() * STRATEGIES.len() + 4 * readings + methods)
}

fn levels(settings: &Values) -> Result<Vec<usize>> {
    settings.list(DMP.name, 1, 1024)
}

/// What the paper states of S2/PS at DMP 12.
pub struct StatedGap {
    /// How many times the throughput of S1 it has.
    pub times: f64,
    /// How many times shorter than S1's its response times are.
    pub shorter: f64,
    /// Pages of its largest persistence sphere.
    pub sphere_pages_max: Option<f64>,
}

impl Sweep {
    /// Measures all of it.
    pub fn measure(settings: &Values, bench: &mut Bench<'_>) -> Result<Sweep> {
        let dmp: usize = settings.number(READING_DMP.name, 1, 1024)?;
        let least = Duration::from_secs_f64(settings.number(READING_SECONDS.name, 0.01, 86_400.0)?);
        let reading = Length { least, transactions: bench.length.transactions / 6 };
        let base = bench.base.clone();
        let mut points = Vec::new();
        for level in levels(settings)? {
            for method in STRATEGIES {
                points.push(bench.measure(method, level, &base, bench.length)?);
            }
        }
        let mut methods = Vec::new();
        for method in STRATEGIES.into_iter().chain([Recovery::Shadow]) {
            let known = points
                .iter()
                .find(|point: &&Point| (point.measured.method, point.measured.clients) == (method, dmp));
            methods.push(match known {
                Some(point) => point.clone(),
                None => bench.measure(method, dmp, &base, bench.length)?,
            });
        }
        let readings = readings_of(bench, dmp, &base, reading)?;
        let unserved = readings_of(
            bench,
            dmp,
            &Objects { service_ms: 0.0, ..base },
            Length { least: least / 3, ..reading },
        )?;
        Ok(Sweep { points, readings, unserved, methods })
    }

    /// A strategy at the DMP for which most is stated.
    pub fn at_stated(&self, method: Recovery) -> Option<&Measured> {
        at(&self.points, method, STATED_DMP)
    }

    /// The points of a method, by DMP.
    pub fn of(&self, method: Recovery) -> impl Iterator<Item = &Measured> {
        self.points.iter().map(|point| &point.measured).filter(move |point| point.method == method)
    }

    /// For every DMP, how many times as fast a method is as the other.
    pub fn throughput(&self, method: Recovery, other: Recovery) -> Vec<f64> {
        self.of(method).zip(self.of(other)).map(|(a, b)| a.tps / b.tps).collect()
    }

    /// The same over all of them: of one point alone, chance decides about a few percent.
    pub fn throughput_overall(&self, method: Recovery, other: Recovery) -> f64 {
        let sum = |method| self.of(method).map(|point| point.tps).sum::<f64>();
        sum(method) / sum(other)
    }

    /// For every DMP, how many times shorter a method's response time is than the other's.
    pub fn response(&self, method: Recovery, other: Recovery) -> Vec<f64> {
        let pairs = self.of(method).zip(self.of(other));
        pairs.map(|(a, b)| b.response.mean_ms / a.response.mean_ms).collect()
    }

    pub fn tables(&self) -> Vec<ResultTable> {
        let points: Vec<&Measured> = self.points.iter().map(|point| &point.measured).collect();
        let methods: Vec<&Measured> = self.methods.iter().map(|point| &point.measured).collect();
        let dmp = methods.first().map_or(0, |point| point.clients);
        vec![
            speed_table("Throughput, response times (ms), lock waits".into(), &points),
            log_table("Log I/Os, persistence spheres, pages".into(), &points),
            reading_table(format!("Readings of what the paper leaves open, DMP {dmp}"), &self.readings),
            reading_table(
                format!("The same without served time, DMP {dmp}: this machine's processors"),
                &self.unserved,
            ),
            speed_table(format!("Every recovery method, DMP {dmp}"), &methods),
            log_table("The same: log I/Os (of shadow paging batches), pages".into(), &methods),
        ]
    }

    /// A curve for each strategy over the DMP.
    pub fn figures(&self, name: &str, title: &str, stated: &StatedGap) -> Vec<Figure> {
        let StatedGap { times, shorter, sphere_pages_max } = stated;
        let single = self.at_stated(SINGLE_LEVEL);
        let deferred = paper_name(TWO_LEVEL_DEFERRED);
        // Ratios are drawn from what S1 does here.
        let ring = |what: &str, figure: Option<f64>| {
            let points = figure.map(|figure| (STATED_DMP as f64, figure)).into_iter().collect();
            Stated { label: format!("{deferred}{what}"), points, throughout: false }
        };
        let throughput =
            ring(&format!(": {times} times the throughput of S1"), single.map(|single| times * single.tps));
        let response = ring(
            &format!(": {shorter} times shorter than S1"),
            single.map(|single| single.response.mean_ms / shorter),
        );
        let panel = |y: &'static str, stated: Option<Stated>, figure: fn(&Measured) -> f64| Panel {
            x: Axis { label: "degree of multiprogramming", scale: Scale::Linear },
            y: Axis { label: y, scale: Scale::Linear },
            curves: STRATEGIES
                .into_iter()
                .map(|method| Curve {
                    label: paper_name(method).into(),
                    points: self.of(method).map(|point| (point.clients as f64, figure(point))).collect(),
                })
                .collect(),
            stated: stated.into_iter().filter(|stated| !stated.points.is_empty()).collect(),
        };
        vec![Figure {
            name: name.into(),
            title: title.into(),
            panels: vec![
                panel("transactions/s", Some(throughput), |point| point.tps),
                panel("response time, ms", Some(response), |point| point.response.mean_ms),
                panel("lock waits of a transaction, ms", None, Measured::wait_ms),
                panel("page-level log I/Os a second", None, |point| point.page_log.per_second),
                panel("average persistence sphere, pages", None, |point| point.sphere_pages),
                panel(
                    "largest persistence sphere, pages",
                    sphere_pages_max.map(|pages| ring("", Some(pages))),
                    |point| point.sphere_pages_max.map_or(f64::NAN, |pages| pages as f64),
                ),
            ],
        }]
    }
}

pub(super) const PAGES_STATED: &str =
    "(this project) S2/PS at DMP 12: within 10 % of S1 in pages written for a transaction";

/// What is found of it.
pub(super) fn pages_claim(sweep: &Sweep, comparable: bool) -> Claim {
    let points = sweep.at_stated(TWO_LEVEL_DEFERRED).zip(sweep.at_stated(SINGLE_LEVEL));
    let ratio = points.map(|(deferred, single)| deferred.pages_written / single.pages_written);
    Claim {
        figure: "pages written",
        stated: PAGES_STATED,
        measured: stated_figure(ratio, " times"),
        verdict: verdict(comparable, ratio.map(|times| (0.9..=1.1).contains(&times))),
    }
}

fn readings_of(bench: &mut Bench<'_>, dmp: usize, base: &Objects, length: Length) -> Result<Vec<Reading>> {
    let reading = |(order, victim, retry)| Objects { order, victim, retry, ..base.clone() };
    let all = ORDERS.into_iter().flat_map(|(_, order)| {
        VICTIMS.into_iter().flat_map(move |(_, victim)| RETRIES.map(|(_, retry)| (order, victim, retry)))
    });
    let skews = SKEWS.into_iter().map(|(_, skew)| Objects { skew, ..base.clone() });
    let other_skews = skews.filter(|settings| settings.skew != base.skew);
    let mut readings = Vec::new();
    for settings in all.map(reading).chain(other_skews) {
        readings.push(Reading {
            single_level: bench.measure(SINGLE_LEVEL, dmp, &settings, length)?,
            deferred: bench.measure(TWO_LEVEL_DEFERRED, dmp, &settings, length)?,
        });
    }
    Ok(readings)
}

fn speed_table(title: String, points: &[&Measured]) -> ResultTable {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".into(), |rate| percent(rate, 2));
    let rows = points.iter().map(|point| {
        vec![
            paper_name(point.method).to_owned(),
            point.clients.to_string(),
            point.committed.to_string(),
            figure(point.tps),
            figure(point.response.mean_ms),
            figure(point.response.p50_ms),
            figure(point.response.p99_ms),
            point.pages.map_or_else(|| "-".into(), |pages| figure(pages.wait_ms)),
            figure(point.objects.wait_ms),
            rate(point.pages.and_then(|pages| pages.conflict_rate)),
            rate(point.objects.conflict_rate),
            point
                .pages
                .and_then(|pages| pages.deadlocks)
                .map_or_else(|| "-".into(), |deadlocks| deadlocks.to_string()),
            point.objects.deadlocks.map_or_else(|| "-".into(), |deadlocks| deadlocks.to_string()),
            point.restarted.to_string(),
        ]
    });
    ResultTable {
        title,
        headings: vec![
            "method",
            "DMP",
            "committed",
            "tps",
            "mean",
            "p50",
            "p99",
            "page waits",
            "object waits",
            "page conflicts",
            "object conflicts",
            "page deadlocks",
            "object deadlocks",
            "restarts",
        ],
        rows: rows.collect(),
    }
}

fn log_table(title: String, points: &[&Measured]) -> ResultTable {
    let rows = points.iter().map(|point| {
        vec![
            paper_name(point.method).to_owned(),
            point.clients.to_string(),
            figure(point.page_log.per_second),
            figure(point.page_log.per_transaction),
            figure(point.operation_log.per_second),
            figure(point.operation_log.per_transaction),
            point.units.to_string(),
            figure(point.pages_per_force),
            figure(point.sphere_pages),
            point.sphere_pages_max.map_or_else(|| "-".into(), |pages| pages.to_string()),
            figure(point.pages_logged),
            figure(point.pages_written),
        ]
    });
    ResultTable {
        title,
        headings: vec![
            "method",
            "DMP",
            "L0/s",
            "L0/txn",
            "L1/s",
            "L1/txn",
            "units",
            "pages/L0",
            "sphere",
            "largest",
            "logged/txn",
            "written/txn",
        ],
        rows: rows.collect(),
    }
}

fn reading_table(title: String, readings: &[Reading]) -> ResultTable {
    let rows = readings.iter().map(|reading| {
        let (settings, single) = (&reading.single_level.settings, &reading.single_level.measured);
        let deferred = &reading.deferred.measured;
        vec![
            settings.order.name().to_owned(),
            settings.victim.name().to_owned(),
            settings.retry.name().to_owned(),
            settings.skew.name().to_owned(),
            figure(single.tps),
            figure(deferred.tps),
            figure(reading.throughput()),
            figure(single.response.mean_ms),
            figure(deferred.response.mean_ms),
            figure(reading.response()),
            figure(single.restarts()),
            figure(deferred.restarts()),
        ]
    });
    ResultTable {
        title,
        headings: vec![
            "order",
            "victim",
            "retry",
            "skew",
            "S1 tps",
            "S2/PS tps",
            "ratio",
            "S1 ms",
            "S2/PS ms",
            "ratio",
            "S1 restarts/txn",
            "S2/PS restarts/txn",
        ],
        rows: rows.collect(),
    }
}
