//! `semantics/readings`: how close each reading of what the study's text leaves open comes to its figures.

use gnomon_bench::{
    result::{Claim, Outcome, ResultTable},
    store::Result,
    workspace::Workspace,
};
use serde::Serialize;

use super::{
    granularity::TABLE_3,
    study::{
        COMMON, CPU_COMPRESS, DBMS_LOCKS, LENGTH, MACHINE, PAPER, Point, Runs, SKEW, SPLIT, differences,
        fixed, is_gap_met, is_throughput_met, parameters,
    },
};
use crate::{
    experiment::{Experiment, Setting, Values, verdict},
    semantics::parameters::{Level, LogDisk, LogWrite, Manager, Moved, Parameters, Readings, Search},
};

const STATED: [&str; 1] =
    ["(this project) of the readings tried, none meets more of the study's figures than the default one"];

/// What a reading has of its own.
type Change = fn(&mut Readings);
/// The readings that are tried.
const READINGS: [(&str, Change); 15] = [
    ("default", |_| ()),
    ("rewrite-index=no", |readings| readings.rewrite_changes_index = false),
    ("leaf-search=yes", |readings| readings.searches_changed_leaf = true),
    ("rewrite-index=no leaf-search=yes", |readings| {
        readings.rewrite_changes_index = false;
        readings.searches_changed_leaf = true;
    }),
    ("directory=no", |readings| readings.reads_directory = false),
    ("moved=behind", |readings| readings.moved = Moved::Behind),
    ("search=direct", |readings| readings.search = Search::Direct),
    ("os-log=commit", |readings| readings.os_log = LogWrite::AtCommit),
    ("dbms-log=action", |readings| readings.dbms_log = LogWrite::AtAction),
    ("log-disk=own", |readings| readings.log_disk = LogDisk::Own),
    ("os-header=0", |readings| readings.os_header_bytes = 0),
    ("os-header=20", |readings| readings.os_header_bytes = 20),
    ("os-header=100", |readings| readings.os_header_bytes = 100),
    ("cpu-index-page=1000", |readings| readings.cpu_index_page = 1000.0),
    ("cpu-index-page=5000", |readings| readings.cpu_index_page = 5000.0),
];
const COUNT: Setting = Setting {
    name: "readings",
    help: "how many of the list, from its beginning, which is the default",
    full: "15",
    quick: "2",
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "semantics/readings",
    source: PAPER,
    measures: "all stated figures by the reading of what the text leaves open, simulated",
    stated: &STATED,
    settings: &[&[COUNT, DBMS_LOCKS, SKEW, SPLIT, CPU_COMPRESS], MACHINE, COMMON, LENGTH],
    terms: &[
        "a row is a reading by what it has other than the default, in the names of the settings; the first row is what \
         the study states",
        "100, 200, 1024, 2048: the OS manager's throughput by the bytes of a granule (Table 3)",
        "MPL 15, MPL 20: the gap on 2 disks, in %; 0.8: with the log compressed by 80 %",
        "8 disks: the gap with 2000 and 200 instructions a lock",
        "L3: the gap at level 3, with 2000 and 200 instructions on 2 and on 8 disks",
        "there is one time for an action here, the middle one that is set, and each point has the least number of \
         replications of half the length: figures are rougher than in the other experiments",
        "met: figures that are as close as is asked for: gaps within 5 percentage points, throughputs within 10 %",
    ],
    run,
};

/// What the study states, in the order of the columns: throughputs by their granule, then gaps.
const FIGURES: [(&str, Kind, f64); 13] = [
    ("100", Kind::Throughput(TABLE_3[0].0), TABLE_3[0].1),
    ("200", Kind::Throughput(TABLE_3[1].0), TABLE_3[1].1),
    ("1024", Kind::Throughput(TABLE_3[2].0), TABLE_3[2].1),
    ("2048", Kind::Throughput(TABLE_3[3].0), TABLE_3[3].1),
    ("MPL 15", Kind::Gap(At { mpl: 15, ..AT }), 27.0),
    ("MPL 20", Kind::Gap(AT), 27.0),
    ("0.8", Kind::Gap(At { compression: 0.8, ..AT }), 10.0),
    ("8 disks 2000", Kind::Gap(At { disks: 8, ..AT }), 54.0),
    ("8 disks 200", Kind::Gap(At { disks: 8, cpu_lock: 200.0, ..AT }), 30.0),
    ("L3 2000 2", Kind::Gap(At { level: Level::NoIndexLog, ..AT }), 7.0),
    ("L3 2000 8", Kind::Gap(At { level: Level::NoIndexLog, disks: 8, ..AT }), 35.0),
    ("L3 200 2", Kind::Gap(At { level: Level::NoIndexLog, cpu_lock: 200.0, ..AT }), 7.0),
    ("L3 200 8", Kind::Gap(At { level: Level::NoIndexLog, disks: 8, cpu_lock: 200.0, ..AT }), 7.0),
];

#[derive(Clone, Copy)]
enum Kind {
    /// Of the OS manager, with granules of so many bytes.
    Throughput(u32),
    /// Between both.
    Gap(At),
}

/// Where a gap is measured.
#[derive(Clone, Copy)]
struct At {
    mpl: usize,
    disks: usize,
    cpu_lock: f64,
    compression: f64,
    level: Level,
}

const AT: At = At { mpl: 20, disks: 2, cpu_lock: 2000.0, compression: 0.0, level: Level::Physical };

impl Kind {
    /// Whether a figure is as close to the stated one as is asked for.
    fn is_met(self, figure: f64, stated: f64) -> bool {
        match self {
            Kind::Throughput(_) => is_throughput_met(figure, stated),
            Kind::Gap(_) => is_gap_met(figure, stated),
        }
    }

    /// The systems that it is measured of: the OS manager's, and of a gap the DBMS manager's.
    fn systems(self, base: &Parameters) -> Vec<Parameters> {
        match self {
            Kind::Throughput(sub_page_size) => {
                vec![Parameters { manager: Manager::Os(Level::Physical), sub_page_size, ..base.clone() }]
            }
            Kind::Gap(At { mpl, disks: numdisks, cpu_lock, compression: comp_ratio, level }) => {
                [Manager::Os(level), Manager::Dbms]
                    .map(|manager| Parameters {
                        manager,
                        mpl,
                        numdisks,
                        cpu_lock,
                        comp_ratio,
                        ..base.clone()
                    })
                    .to_vec()
            }
        }
    }

    fn figure(self, of: impl Fn(&Parameters) -> Point, base: &Parameters) -> f64 {
        let points: Vec<Point> = self.systems(base).iter().map(of).collect();
        match &points[..] {
            [os, dbms] => dbms.gap(os).mean,
            [os] => os.throughput.mean,
            _ => f64::NAN,
        }
    }
}

/// What a reading comes to.
#[derive(Clone, Debug, Serialize)]
struct Row {
    reading: &'static str,
    figures: Vec<f64>,
    met: usize,
}

fn run(settings: &Values, workspace: &mut Workspace) -> Result<Outcome> {
    let base = parameters(settings)?;
    let count = settings.number(COUNT.name, 1, READINGS.len())?;
    let readings: Vec<(&str, Parameters)> = READINGS[..count]
        .iter()
        .map(|(name, change)| {
            let mut parameters = base.clone();
            change(&mut parameters.readings);
            (*name, parameters)
        })
        .collect();
    let mut systems: Vec<Parameters> = Vec::new();
    for system in
        readings.iter().flat_map(|(_, base)| FIGURES.iter().flat_map(move |(_, kind, _)| kind.systems(base)))
    {
        if !systems.contains(&system) {
            systems.push(system);
        }
    }
    let points = Runs::rough(settings)?.measure(workspace, &systems)?;
    let point_of = |system: &Parameters| {
        let at = systems.iter().position(|known| known == system).expect("it was among those measured");
        points[at].clone()
    };
    let rows: Vec<Row> = readings
        .iter()
        .map(|(reading, base)| {
            let figures: Vec<f64> = FIGURES.iter().map(|(_, kind, _)| kind.figure(point_of, base)).collect();
            let met = FIGURES
                .iter()
                .zip(&figures)
                .filter(|((_, kind, stated), figure)| kind.is_met(**figure, *stated));
            Row { reading, met: met.count(), figures }
        })
        .collect();
    let others = rows[1..].iter().map(|row| row.met).max();
    let others =
        others.filter(|_| rows.iter().all(|row| row.figures.iter().all(|figure| figure.is_finite())));
    Ok(Outcome {
        claims: vec![Claim {
            figure: "figures met",
            stated: STATED[0],
            measured: others.map_or_else(String::new, |others| {
                format!("{} of {}, at most {others} by another", rows[0].met, FIGURES.len())
            }),
            verdict: verdict(true, others.map(|others| rows[0].met >= others)),
        }],
        differences: differences(),
        tables: vec![table(&rows)],
        figures: Vec::new(),
        data: serde_json::json!({ "readings": rows }),
    })
}

fn table(rows: &[Row]) -> ResultTable {
    let headings = ["reading"].into_iter().chain(FIGURES.iter().map(|(name, ..)| *name)).chain(["met"]);
    let text = |(kind, figure): (&Kind, f64)| match kind {
        Kind::Throughput(_) => fixed(figure, 2),
        Kind::Gap(_) => fixed(figure, 1),
    };
    let row = |name: &str, figures: &[f64], met: String| {
        let cells = FIGURES.iter().map(|(_, kind, _)| kind).zip(figures.iter().copied()).map(text);
        [name.to_owned()].into_iter().chain(cells).chain([met]).collect()
    };
    let stated: Vec<f64> = FIGURES.iter().map(|(_, _, stated)| *stated).collect();
    ResultTable {
        title: "The study's figures by reading".to_owned(),
        headings: headings.collect(),
        rows: [row("stated", &stated, String::new())]
            .into_iter()
            .chain(rows.iter().map(|Row { reading, figures, met }| row(reading, figures, met.to_string())))
            .collect(),
    }
}
