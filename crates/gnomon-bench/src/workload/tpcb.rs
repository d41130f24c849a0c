//! TPC-B: deposits and withdrawals at the tellers of a bank (TPC Benchmark B, revision 2.0).
//!
//! A branch has 10 tellers and 100,000 accounts. A transaction changes the balance of an account, reads it back,
//! changes the balances of a teller and of the teller's branch by the same amount, and records all that in the
//! history. The account is one of the teller's branch in 85 of 100 cases, else one of another branch. With one branch
//! every transaction changes the same row.
//!
//! Rows have the sizes that the benchmark asks for: 100 bytes, history 50. Keys are numbers, big-endian; those of the
//! history are handed out in order, as row numbers are, so that all clients append at its end.
//!
//! The invariant: accounts, tellers, branches and history have the same sum, and history has a row for
//! each committed transaction.
//!
//! Differences from the benchmark's rules: clients do not think, the measured time is as short as one likes, and there
//! is no price.

use std::time::Duration;

use clap::{Args, value_parser};
use gnomon_engine::{
    env::{Clock, Rng, SystemClock},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use gnomon_program::{Progress, argument::parse_time};
use serde::Serialize;

use crate::{
    drive::{Client, Load, Measured, drive},
    report::Invariant,
    store::{Added, Committed, Layout, Operations, Result, Store, StoreError, Table, number_of},
    workload::{self, Rows, Workload, load_rows},
};

/// Accounts.
pub const ACCOUNTS: Table = 0;
/// Tellers.
pub const TELLERS: Table = 1;
/// Branches.
pub const BRANCHES: Table = 2;
/// History.
pub const HISTORY: Table = 3;
/// How many tables there are.
pub const TABLES: usize = LAYOUTS.len();

/// Accounts, tellers, branches: the balance, the branch, and filler. History: what happened, and filler.
const LAYOUTS: [Layout; 4] = [
    Layout { name: "account", key: &["id"], numbers: &["balance", "branch"], filler_bytes: 84 },
    Layout { name: "teller", key: &["id"], numbers: &["balance", "branch"], filler_bytes: 84 },
    Layout { name: "branch", key: &["id"], numbers: &["balance", "branch"], filler_bytes: 84 },
    Layout {
        name: "history",
        key: &["run", "id"],
        numbers: &["amount", "account", "teller", "branch", "unix_time"],
        filler_bytes: 10,
    },
];

/// Tellers of a branch.
pub const TELLERS_PER_BRANCH: u64 = 10;
/// Accounts of a branch, unless the settings say otherwise.
pub const ACCOUNTS_PER_BRANCH: u64 = 100_000;

/// Amounts are between this and its negative.
const AMOUNT_MAX: i64 = 999_999;

/// The workload, with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Args, Serialize)]
pub struct Tpcb {
    /// Branches of the bank.
    ///
    /// Each has ten tellers and its accounts. With one branch every transaction changes the same row; with more of them
    /// than clients they seldom meet.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..=100_000))]
    pub branches: u64,
    /// Work within each transaction, in milliseconds.
    ///
    /// It is slept after the branch was changed. Fractions are allowed.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = parse_time)]
    pub think_ms: f64,
    /// Accounts of each branch.
    ///
    /// The benchmark's own number is the default; fewer load faster.
    #[arg(
        long,
        value_name = "N",
        default_value_t = ACCOUNTS_PER_BRANCH,
        value_parser = value_parser!(u64).range(1..=100_000_000)
    )]
    pub accounts_per_branch: u64,
}

/// One transaction's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfer {
    account: u64,
    teller: u64,
    branch: u64,
    amount: i64,
}

impl Transfer {
    fn choose(bank: &Tpcb, rng: &mut Rng) -> Transfer {
        let teller = rng.below(bank.branches * TELLERS_PER_BRANCH);
        let branch = teller / TELLERS_PER_BRANCH;
        let account_branch = if bank.branches == 1 || rng.chance(85, 100) {
            branch
        } else {
            (branch + 1 + rng.below(bank.branches - 1)) % bank.branches
        };
        let account = account_branch * bank.accounts_per_branch + rng.below(bank.accounts_per_branch);
        let amount = rng.below(2 * AMOUNT_MAX as u64 + 1) as i64 - AMOUNT_MAX;
        Transfer { account, teller, branch, amount }
    }
}

fn history_row(transfer: &Transfer, unix_time: Duration) -> Vec<u8> {
    let &Transfer { account, teller, branch, amount } = transfer;
    let numbers = [account, teller, branch, unix_time.as_secs()].map(|number| number as i64);
    LAYOUTS[HISTORY].value(&[&[amount], &numbers[..]].concat())
}

/// Returns the new balance, if it was seen.
fn add(operations: &mut dyn Operations, table: Table, number: u64, amount: i64) -> Result<Option<i64>> {
    match operations.add(table, &number.to_be_bytes(), amount, i64::MIN, i64::MAX)? {
        Added::To(balance) => Ok(Some(balance)),
        Added::Blind => Ok(None),
        Added::Refused => Err(StoreError::unexpected(format!("the balance of row {number} overflows"))),
    }
}

struct Teller<'a> {
    store: &'a dyn Store,
    bank: Tpcb,
    clock: SystemClock,
    /// The first part of keys in the history.
    run: u64,
    /// Hands out the second part.
    numbers: &'a AtomicU64,
    number: u64,
    transfer: Transfer,
}

impl Client for Teller<'_> {
    fn choose(&mut self, rng: &mut Rng) {
        self.transfer = Transfer::choose(&self.bank, rng);
        self.number = self.numbers.fetch_add(1, Ordering::Relaxed);
    }

    fn attempt(&mut self) -> Result<Committed> {
        let transfer = self.transfer;
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.run.to_be_bytes());
        key[8..].copy_from_slice(&self.number.to_be_bytes());
        let history = history_row(&transfer, self.clock.unix_time());
        self.store.run(&mut |operations| {
            let written = add(operations, ACCOUNTS, transfer.account, transfer.amount)?;
            let read = operations.number(ACCOUNTS, &transfer.account.to_be_bytes())?;
            if read.is_none() || written.is_some_and(|written| read != Some(written)) {
                return Err(StoreError::unexpected("a transaction does not see what it wrote"));
            }
            add(operations, TELLERS, transfer.teller, transfer.amount)?;
            add(operations, BRANCHES, transfer.branch, transfer.amount)?;
            workload::sleep(workload::think(self.bank.think_ms));
            operations.insert(HISTORY, &key, &history)
        })
    }
}

impl Tpcb {
    /// A bank of so many branches with so many accounts each, whose clients do not think.
    pub fn new(branches: u64, accounts_per_branch: u64) -> Tpcb {
        Tpcb { branches, think_ms: 0.0, accounts_per_branch }
    }

    /// As [`Workload::run`]; `run` is the number of this run among those on the same bank.
    ///
    /// # Errors
    /// Those of [`drive`].
    pub fn run_again(
        &self,
        store: &dyn Store,
        load: &Load,
        outstanding: usize,
        run: u64,
    ) -> Result<Measured> {
        let numbers = AtomicU64::new(0);
        drive(store, load, outstanding, |_| Teller {
            store,
            bank: *self,
            clock: SystemClock::new(),
            run,
            numbers: &numbers,
            number: 0,
            transfer: Transfer { account: 0, teller: 0, branch: 0, amount: 0 },
        })
    }
}

impl Workload for Tpcb {
    const NAME: &'static str = "tpcb";
    const TABLES: &'static [Layout] = &LAYOUTS;

    fn load(&self, store: &dyn Store, progress: &mut Progress, cancel: &AtomicBool) -> Result<()> {
        let value = |branch: u64| LAYOUTS[ACCOUNTS].value(&[0, branch as i64]);
        let tables = [
            Rows { table: BRANCHES, count: self.branches, value: &value },
            Rows {
                table: TELLERS,
                count: self.branches * TELLERS_PER_BRANCH,
                value: &|teller| value(teller / TELLERS_PER_BRANCH),
            },
            Rows {
                table: ACCOUNTS,
                count: self.branches * self.accounts_per_branch,
                value: &|account| value(account / self.accounts_per_branch),
            },
        ];
        load_rows(store, &tables, progress, cancel)
    }

    fn run(&self, store: &dyn Store, load: &Load, outstanding: usize) -> Result<Measured> {
        self.run_again(store, load, outstanding, 0)
    }

    /// Checks that the sums agree and the history has a row for each of `committed` transactions.
    fn check(&self, store: &dyn Store, committed: u64) -> Result<Invariant> {
        let mut sums = [0i128; TABLES];
        let mut rows = [0u64; TABLES];
        for table in 0..TABLES {
            store.visit(table, &mut |_, value| {
                sums[table] += i128::from(number_of(value)?);
                rows[table] += 1;
                Ok(())
            })?;
        }
        let mut expected = [0; TABLES];
        expected[ACCOUNTS] = self.branches * self.accounts_per_branch;
        expected[TELLERS] = self.branches * TELLERS_PER_BRANCH;
        expected[BRANCHES] = self.branches;
        expected[HISTORY] = committed;
        let holds = sums.iter().all(|sum| *sum == sums[0]) && rows == expected;
        let detail = if holds {
            format!(
                "accounts, tellers, branches and history sum to {}, history has a row for each of {committed} \
                 transactions",
                sums[0]
            )
        } else {
            format!(
                "accounts, tellers, branches and history sum to {sums:?} and have {rows:?} rows instead of {expected:?}"
            )
        };
        Ok(Invariant { holds, detail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        recovery::without_calls,
        store::GnomonStore,
        workload::{Place, Settings, bench, short_run},
    };

    const TPCB: Tpcb = Tpcb { branches: 3, accounts_per_branch: 50, think_ms: 0.0 };

    #[test]
    fn a_short_run_keeps_its_invariant_under_every_recovery_method() {
        for (recovery, outstanding) in without_calls().zip([1, 20].into_iter().cycle()) {
            let place =
                Place::Process { recovery, outstanding, group_commit_ms: 0.0, pool_mib: 4, dir: None };
            let settings = Settings { place, ..short_run(None, true) };
            let report = bench(&TPCB, &settings, 3, &mut Progress::silent(), &Default::default()).unwrap();
            assert!(report.invariant.holds, "{report}");
            assert!(report.invariant.detail.ends_with("also after reopening"));
            assert!(report.committed > 0 && report.latency_us.p50 > 0);
            assert_eq!(report.settings["recovery"], recovery.name());
            assert!(report.to_string().contains(&format!("recovery \"{}\"", recovery.name())), "{report}");
        }
    }

    #[test]
    fn a_broken_invariant_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let report = bench(
            &TPCB,
            &short_run(Some(dir.path().into()), true),
            3,
            &mut Progress::silent(),
            &Default::default(),
        )
        .unwrap();
        let store = GnomonStore::open(dir.path(), 4 << 20).unwrap();
        let mut rows = 0;
        store
            .visit(HISTORY, &mut |_, _| {
                rows += 1;
                Ok(())
            })
            .unwrap();
        assert!(report.invariant.holds && TPCB.check(&store, rows).unwrap().holds);
        assert!(!TPCB.check(&store, rows + 1).unwrap().holds, "a transaction was lost");
        store.run(&mut |operations| add(operations, TELLERS, 7, 1).map(|_| ())).unwrap().wait().unwrap();
        let broken = TPCB.check(&store, rows).unwrap();
        assert!(!broken.holds && broken.detail.contains("instead of"), "{broken:?}");
    }

    #[test]
    fn a_bank_is_not_made_over_another() {
        let dir = tempfile::tempdir().unwrap();
        GnomonStore::create(dir.path(), TABLES, gnomon_engine::Options::default()).unwrap().close().unwrap();
        let settings = short_run(Some(dir.path().into()), true);
        let error = bench(&TPCB, &settings, 3, &mut Progress::silent(), &Default::default()).unwrap_err();
        assert!(error.to_string().contains("holds a database already"), "{error}");
    }

    #[test]
    fn transfers_are_spread_as_the_benchmark_says() {
        let mut rng = Rng::from_seed(1);
        let (mut home, mut negative) = (0, 0);
        for _ in 0..10_000 {
            let transfer = Transfer::choose(&TPCB, &mut rng);
            assert!(transfer.account < 150 && transfer.teller < 30 && transfer.amount.abs() <= AMOUNT_MAX);
            assert_eq!(transfer.branch, transfer.teller / 10);
            home += u32::from(transfer.account / 50 == transfer.branch);
            negative += u32::from(transfer.amount < 0);
        }
        assert!((8_300..8_700).contains(&home) && (4_800..5_200).contains(&negative), "{home} {negative}");
    }
}
