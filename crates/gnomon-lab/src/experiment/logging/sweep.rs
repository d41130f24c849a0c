//! One workload under each method: at saturation, and with calls that come at a rate.

use gnomon_bench::{
    procedure::{Calls, Settings},
    recovery::Method,
    result::{
        ResultTable,
        plot::{Axis, Curve, Figure, Panel, Scale, Stated},
        text::{figure, percent},
    },
    store::Result,
};
use serde::Serialize;

use super::bench::{BENCH_SETTINGS, Bench, How, INTERVAL, MODES, ROUNDS, Rounds, SERIAL_SETTINGS, table};
use crate::experiment::{Setting, Values};

const RATES: Setting = Setting {
    name: "rates",
    help: "at which calls come, in % of what no logging saturates at",
    full: "20,40,60,80,100",
    quick: "40",
};

/// What [`Sweep::measure`] and its bench read.
pub(super) const SWEEP_SETTINGS: &[&[Setting]] =
    &[&[RATES, INTERVAL, ROUNDS], SERIAL_SETTINGS, BENCH_SETTINGS];

/// Calls at a rate.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Offered {
    /// Of what no logging saturates at, in %.
    pub percent: u32,
    /// Calls a second.
    pub rate: f64,
    pub rounds: Rounds,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sweep {
    pub saturated: Rounds,
    pub offered: Vec<Offered>,
}

impl Sweep {
    pub fn measure<W: Calls>(settings: &Values, bench: &mut Bench<'_>, workload: &W) -> Result<Sweep> {
        let rates: Vec<u32> = settings.list(RATES.name, 1, 1_000)?;
        let how = How::rounds(settings.number(ROUNDS.name, 1, 100)?);
        bench.base.group_commit_ms = settings.number(INTERVAL.name, 0.0, 1_000.0)?;
        bench.total = how.rounds * (MODES.len() * (rates.len() + 1)) as u64;
        let base = bench.base.clone();
        let saturated = bench.compare(workload, &base, &MODES, how)?;
        let most = saturated.tps(Method::None);
        let mut offered = Vec::new();
        for percent in rates {
            let rate = Bench::rate(most, f64::from(percent) / 100.0);
            let settings = Settings { rate: Some(rate), ..base.clone() };
            offered.push(Offered { percent, rate, rounds: bench.compare(workload, &settings, &MODES, how)? });
        }
        Ok(Sweep { saturated, offered })
    }

    /// What a method saturates at, as a share of what no logging does; and the same for people.
    pub fn share(&self, method: Method) -> (f64, String) {
        let share = self.saturated.speed(method, Method::None);
        let tps = figure(self.saturated.tps(method));
        (share, format!("{} of no logging: {tps} transactions/s", percent(share, 1)))
    }

    /// Loads below a share of what no logging saturates at, in %.
    pub fn below(&self, percent: u32) -> impl Iterator<Item = &Rounds> {
        self.offered.iter().filter(move |one| one.percent < percent).map(|one| &one.rounds)
    }

    pub fn table(&self) -> ResultTable {
        let rows = |load: String, rate: String, rounds| {
            let rounds: &Rounds = rounds;
            let points = MODES.iter().filter_map(|method| rounds.point(*method));
            points.map(|point| (vec![load.clone(), rate.clone()], point)).collect::<Vec<_>>()
        };
        let offered = self
            .offered
            .iter()
            .flat_map(|one| rows(format!("{} %", one.percent), format!("{:.0}", one.rate), &one.rounds));
        let saturated = rows("saturated".into(), String::new(), &self.saturated);
        table("Throughput and latency by load", &["load", "calls/s"], saturated.into_iter().chain(offered))
    }

    /// What the paper states that some methods saturate at, over all rates of calls, on its machine.
    pub fn saturation(&self, stated: &[(Method, f64)]) -> Vec<Stated> {
        let most = self.offered.iter().map(|one| one.rate).fold(0.0, f64::max);
        let line = |&(method, tps): &(Method, f64)| Stated {
            label: format!("{}: {tps} at saturation", method.name()),
            points: vec![(0.0, tps), (most, tps)],
            throughout: true,
        };
        stated.iter().map(line).collect()
    }

    /// Throughput and latency over the rate of calls, with what is stated of each.
    pub fn figures(&self, throughput: Vec<Stated>, latency: Vec<Stated>) -> Vec<Figure> {
        let one = |name: &str, title: &str, label, of: fn(&Rounds, Method) -> f64, stated| Figure {
            name: name.into(),
            title: title.into(),
            panels: vec![Panel {
                x: Axis { label: "calls a second", scale: Scale::Linear },
                y: Axis { label, scale: Scale::Linear },
                curves: MODES
                    .iter()
                    .map(|method| Curve {
                        label: method.name().into(),
                        points: self.offered.iter().map(|one| (one.rate, of(&one.rounds, *method))).collect(),
                    })
                    .collect(),
                stated,
            }],
        };
        vec![
            one(
                "throughput",
                "Throughput by the rate of calls",
                "transactions a second",
                Rounds::tps,
                throughput,
            ),
            one("latency", "Latency by the rate of calls", "mean latency, ms", Rounds::mean_ms, latency),
        ]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{
        super::bench::tests::{quick, round},
        *,
    };
    use crate::experiment::Experiment;
    use gnomon_bench::result::Report;

    /// Throughputs of [`MODES`] at saturation, and their latencies at rates in percent.
    pub fn sweep(saturated: [f64; 3], offered: &[(u32, [f64; 3])]) -> Sweep {
        let rounds = |tps: [f64; 3], ms: [f64; 3]| {
            let points: Vec<_> = (0..3).map(|mode| (MODES[mode], tps[mode], ms[mode])).collect();
            round(&points)
        };
        let load = |&(percent, ms): &(u32, [f64; 3])| Offered {
            percent,
            rate: f64::from(percent),
            rounds: rounds([1.0; 3], ms),
        };
        Sweep { saturated: rounds(saturated, [1.0; 3]), offered: offered.iter().map(load).collect() }
    }

    /// A quick run, of which every point has committed something.
    pub fn quick_sweep(experiment: &'static Experiment) -> Report {
        let report = quick(experiment);
        let rounds = [&report.data["saturated"], &report.data["offered"][0]["rounds"]];
        for (mode, round) in rounds.iter().flat_map(|rounds| (0..3).map(|mode| (mode, &rounds[0]))) {
            let point = &round[mode];
            assert_eq!(point["settings"]["recovery"], MODES[mode].name());
            assert!(point["tps"].as_f64() > Some(0.0) && point["mean_ms"].as_f64() > Some(0.0), "{point}");
        }
        report
    }
}
