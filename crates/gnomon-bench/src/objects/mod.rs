//! Complex objects: the benchmark of "A Performance Evaluation of Multi-Level Transaction Management" (Hasse and Weikum
//! 1991, section 3.1) as a workload.
//!
//! The database is objects with own subobjects and references to foreign ones ([`Place`], on every recovery method). A
//! transaction is `c` operations, each on another object, and each accessing `o` own and `f` foreign subobjects, of
//! which it changes some (`choose.rs`). Clients run transactions in a closed loop for a given time ([`measure`], and
//! [`bench()`] from the database to the report).
//!
//! Each access takes a service time, which is slept while the operation has its pages; at most so many sleep at a time
//! as there are processors. So a few real processors show what many would, as long as the engine's own work is little
//! beside that time.
//!
//! The invariant: each change adds one to a counter in the subobject. After the run each subobject has what committed
//! transactions have added to it, no more and no less.
//!
//! Points that the paper leaves open are settings: the order of a transaction's objects, the victim of a deadlock, the
//! reaction to a deadlock, and the linear transformation of a normal distribution.

mod bench;
pub mod choose;
pub mod place;
mod run;

use clap::{Args, ValueEnum, value_parser};
use gnomon_program::argument::parse_time;
use serde::Serialize;

use crate::store::{Result, StoreError};

pub use bench::bench;
pub use place::{Loaded, Place, object_options};
pub use run::{Enough, Level, Measured, Response, Tally, measure};

/// The benchmark, with its settings.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Objects {
    /// Objects.
    ///
    /// With the default settings each takes 20 KiB.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub objects: u32,
    /// Own subobjects of each object.
    ///
    /// One has 16 bytes. 1000 of them fill nine pages of 2 KiB beside that of the header.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u32).range(1..=5_000))]
    pub subobjects: u32,
    /// References of each object to foreign subobjects.
    ///
    /// Their objects are chosen by an 80-20 rule, the subobjects of these by a 50-50 rule.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(0..=100))]
    pub references: u32,
    /// Operations of a transaction (c).
    ///
    /// Each is on another object, chosen by an 80-20 rule.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = value_parser!(u32).range(1..=1_000))]
    pub operations: u32,
    /// Own subobjects that an operation accesses (o).
    ///
    /// They are chosen by a 50-50 rule.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(0..=1_000))]
    pub own: u32,
    /// Foreign subobjects that an operation accesses (f).
    ///
    /// All references of its object are equally likely.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = value_parser!(u32).range(0..=100))]
    pub foreign: u32,
    /// How probable it is that an access is an update, in percent (u).
    ///
    /// An update adds one to a counter in the subobject.
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = value_parser!(u32).range(0..=100))]
    pub updates: u32,
    /// The order of a transaction's objects.
    ///
    /// Where all have the same order, few deadlocks are left.
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    pub order: Order,
    /// Which transaction of a deadlock is rolled back.
    ///
    /// On shadow pages it is always the one with the least to lose.
    #[arg(long, value_enum, value_name = "WHICH", default_value_t)]
    pub victim: Victim,
    /// The reaction to a deadlock.
    ///
    /// The attempt counts as aborted, and the latency runs from the first one.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub retry: Retry,
    /// How the rules choose.
    ///
    /// By the 80-20 rule 20 % of the objects get 80 % of the choices, by the 50-50 rule half of the subobjects half.
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub skew: Skew,
    /// Service time of an access, in milliseconds.
    ///
    /// It is slept while the operation has its pages. Fractions are allowed.
    #[arg(long, value_name = "MS", default_value = "2", value_parser = parse_time)]
    pub service_ms: f64,
    /// Processors.
    ///
    /// At most so many accesses are served at a time.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = value_parser!(u32).range(1..=4_096))]
    pub processors: u32,
    /// The buffer pool, in KiB.
    ///
    /// Pages are kept there; what does not fit is read again.
    #[arg(long, value_name = "KIB", default_value_t = 2048, value_parser = value_parser!(u32).range(256..))]
    pub pool_kib: u32,
    /// Operations of a transaction that run at once.
    ///
    /// With one level, and on shadow pages, they run one after another.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000))]
    pub parallel: u32,
    /// Files that the log of pages is spread over.
    ///
    /// They are written and synced side by side.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=16))]
    pub log_files: u32,
    /// One log for pages and operations.
    ///
    /// Without it each level has its own, as in the paper.
    #[arg(long)]
    pub shared_log: bool,
}

/// The order of a transaction's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By their numbers, the same for all.
    #[default]
    Ascending,
    /// As they are chosen.
    Random,
}

/// Which transaction of a deadlock is rolled back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    /// The one whose request completes the deadlock.
    #[default]
    Requester,
    /// The youngest.
    Youngest,
    /// The one with the fewest locks.
    LeastLost,
}

/// The reaction to a deadlock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retry {
    /// The same transaction, at once.
    Same,
    /// The same transaction, after a random delay of up to the time that it has taken.
    #[default]
    Delayed,
    /// A new transaction, at once.
    New,
}

/// How the 80-20 rule and the 50-50 rule choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skew {
    /// By a normal distribution around the middle, of which 20 % of the range get 80 %.
    #[default]
    Normal,
    /// One of two parts first, then uniformly within it.
    TwoPart,
}

impl Order {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Order::Ascending => "ascending",
            Order::Random => "random",
        }
    }
}

impl Victim {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Victim::Requester => "requester",
            Victim::Youngest => "youngest",
            Victim::LeastLost => "least-lost",
        }
    }

    fn rule(self) -> gnomon_objects::Victim {
        match self {
            Victim::Requester => gnomon_objects::Victim::Requester,
            Victim::Youngest => gnomon_objects::Victim::Youngest,
            Victim::LeastLost => gnomon_objects::Victim::LeastLost,
        }
    }
}

impl Retry {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Retry::Same => "same",
            Retry::Delayed => "delayed",
            Retry::New => "new",
        }
    }
}

impl Skew {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Skew::Normal => "normal",
            Skew::TwoPart => "two-part",
        }
    }
}

impl Objects {
    /// Checks that the settings go together.
    ///
    /// # Errors
    /// Settings that do not, with values that would.
    pub fn check(&self) -> Result<()> {
        let at_most = |what: &str, is: u32, max: u32, of: &str| match is <= max {
            true => Ok(()),
            false => Err(StoreError::unexpected(format!("{is} {what} of {max} {of}: at most as many"))),
        };
        at_most("operations on different objects", self.operations, self.objects, "objects")?;
        at_most("accesses to own subobjects", self.own, self.subobjects, "subobjects")?;
        at_most("accesses to foreign subobjects", self.foreign, self.references, "references")
    }

    /// Accesses of a transaction.
    pub fn accesses(&self) -> u32 {
        self.operations * (self.own + self.foreign)
    }
}

/// A small database and short transactions, for tests.
#[cfg(test)]
impl Objects {
    fn small() -> Objects {
        Objects {
            objects: 30,
            subobjects: 150,
            references: 20,
            operations: 3,
            own: 3,
            foreign: 2,
            updates: 50,
            order: Order::Random,
            victim: Victim::LeastLost,
            retry: Retry::Same,
            skew: Skew::Normal,
            service_ms: 0.1,
            processors: 4,
            pool_kib: 512,
            parallel: 1,
            log_files: 1,
            shared_log: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_do_not_go_together_are_refused() {
        let refused = |settings: Objects| settings.check().unwrap_err().to_string();
        let small = Objects::small();
        assert!(small.check().is_ok());
        assert_eq!(
            refused(Objects { operations: 31, ..small.clone() }),
            "31 operations on different objects of 30 objects: at most as many"
        );
        assert!(refused(Objects { own: 151, ..small.clone() }).starts_with("151 accesses to own subobjects"));
        assert!(refused(Objects { foreign: 21, ..small }).starts_with("21 accesses to foreign subobjects"));
    }
}
