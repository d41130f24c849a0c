//! Counters: adding one to a counter that may not be there yet.
//!
//! The counters are chosen by Zipf's law, and at the beginning there are none. A transaction is one operation: add one
//! to the counter, or insert it with one.
//!
//! The invariant: the counters sum to the number of committed transactions.

use clap::{Args, value_parser};
use gnomon_engine::{env::Rng, sync::atomic::AtomicBool};
use gnomon_program::Progress;
use serde::Serialize;

use crate::{
    drive::{Client, Load, Measured, drive},
    report::Invariant,
    store::{Committed, Layout, Result, Store, Table, number_of},
    workload::{
        Workload,
        zipf::{Skew, Zipf},
    },
};

const COUNTERS: Table = 0;

/// The workload, with its settings.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Counter {
    /// Counters.
    ///
    /// So many there can be; each is inserted when it is first added to.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u64).range(1..=10_000_000))]
    pub keys: u64,
    /// How uneven the choice of counters is.
    #[command(flatten)]
    #[serde(flatten)]
    pub skew: Skew,
}

struct Counting<'a> {
    store: &'a dyn Store,
    zipf: &'a Zipf,
    one: &'a [u8],
    key: u64,
}

impl Client for Counting<'_> {
    fn choose(&mut self, rng: &mut Rng) {
        self.key = self.zipf.choose(rng);
    }

    fn attempt(&mut self) -> Result<Committed> {
        let key = self.key.to_be_bytes();
        self.store.run_one(&mut |operations| operations.add_or_insert(COUNTERS, &key, self.one))
    }
}

impl Workload for Counter {
    const NAME: &'static str = "counter";
    const TABLES: &'static [Layout] =
        &[Layout { name: "counter", key: &["id"], numbers: &["hits"], filler_bytes: 92 }];

    /// At the beginning there are no counters.
    fn load(&self, _: &dyn Store, _: &mut Progress, _: &AtomicBool) -> Result<()> {
        Ok(())
    }

    fn run(&self, store: &dyn Store, load: &Load, outstanding: usize) -> Result<Measured> {
        let (zipf, one) = (Zipf::new(self.keys, self.skew.zipf), Counter::TABLES[COUNTERS].value(&[1]));
        drive(store, load, outstanding, |_| Counting { store, zipf: &zipf, one: &one, key: 0 })
    }

    fn check(&self, store: &dyn Store, committed: u64) -> Result<Invariant> {
        let (mut counters, mut sum) = (0u64, 0i128);
        store.visit(COUNTERS, &mut |_, value| {
            counters += 1;
            sum += i128::from(number_of(value)?);
            Ok(())
        })?;
        let holds = sum == i128::from(committed);
        let detail = if holds {
            format!("{counters} counters sum to the {committed} transactions that were committed")
        } else {
            format!("{counters} counters sum to {sum} instead of {committed}")
        };
        Ok(Invariant { holds, detail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        store::GnomonStore,
        workload::{bench, short_run},
    };

    #[test]
    fn a_short_run_keeps_its_invariant_and_a_broken_one_is_noticed() {
        let counter = Counter { keys: 20, skew: Skew { zipf: 1.0 } };
        for semantic_locks in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let settings = short_run(Some(dir.path().into()), semantic_locks);
            let report = bench(&counter, &settings, 3, &mut Progress::silent(), &Default::default()).unwrap();
            assert!(report.invariant.holds && report.committed > 0, "{report}");
            assert!(report.invariant.detail.ends_with("also after reopening"), "{report}");
            let store = GnomonStore::open(dir.path(), 4 << 20).unwrap();
            assert!(counter.check(&store, 0).unwrap().detail.ends_with("instead of 0"));
        }
    }
}
