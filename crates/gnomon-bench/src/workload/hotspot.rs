//! Hot accounts: double-entry transfers between accounts, few of which take part in most of them.
//!
//! A transfer takes an amount of 1 to 100 from one account and gives it to another, both chosen by Zipf's law, either
//! of them as likely the payer, and inserts two rows into a ledger: the entries with the amount taken and the amount
//! given. No account may be overdrawn: the payer's balance is changed on the condition that it stays at zero or more.
//! Where it would not, the transaction is rolled back and counts as refused. Balances are changed in the order of
//! account numbers, whichever pays, as applications do that want no deadlocks. Between the balances and the ledger a
//! transaction may think.
//!
//! The invariant: the balances sum to what they did at the beginning, and none is negative; the ledger has two entries
//! for each committed transfer and sums to zero; each account has what it had at the beginning and its entries.

use std::time::Duration;

use clap::{Args, value_parser};
use gnomon_engine::{
    env::Rng,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use gnomon_program::{Progress, argument::parse_time};
use serde::Serialize;

use crate::{
    drive::{Client, Load, Measured, drive},
    report::Invariant,
    store::{Added, Committed, Layout, Operations, Result, Store, StoreError, Table, number_of},
    workload::{
        self, Rows, Workload, key_number, load_rows, value_number,
        zipf::{Skew, Zipf},
    },
};

const ACCOUNTS: Table = 0;
const LEDGER: Table = 1;
/// A ledger's entry tells its account here.
const LEDGER_ACCOUNT: usize = 1;

/// Amounts are between 1 and this.
const AMOUNT_MAX: u64 = 100;

/// The workload, with its settings.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Hotspot {
    /// Accounts.
    ///
    /// How many there are matters little beside the exponent: most transfers have to do with the first few.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u64).range(2..=10_000_000))]
    pub accounts: u64,
    /// The balance of each account at the beginning.
    ///
    /// A transfer moves 1 to 100; one that would overdraw its account is refused. Few are unless accounts begin with
    /// much less than this.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = value_parser!(i64).range(0..=1_000_000_000_000))]
    pub balance: i64,
    /// How uneven the choice of accounts is.
    #[command(flatten)]
    #[serde(flatten)]
    pub skew: Skew,
    /// Work within each transaction, in milliseconds.
    ///
    /// It is slept after both balances were changed. Fractions are allowed.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = parse_time)]
    pub think_ms: f64,
}

/// One transaction's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfer {
    from: u64,
    to: u64,
    amount: i64,
}

impl Transfer {
    fn choose(zipf: &Zipf, rng: &mut Rng) -> Transfer {
        let (one, other) = zipf.choose_two(rng);
        // Hot accounts would pay more often than they receive if the first one chosen always paid.
        let (from, to) = if rng.chance(1, 2) { (one, other) } else { (other, one) };
        Transfer { from, to, amount: rng.below(AMOUNT_MAX) as i64 + 1 }
    }

    /// Changes both balances.
    fn apply(self, operations: &mut dyn Operations) -> Result<()> {
        let mut changes = [(self.from, -self.amount, 0), (self.to, self.amount, i64::MIN)];
        changes.sort_unstable();
        for (account, delta, min) in changes {
            let added = operations.add(ACCOUNTS, &account.to_be_bytes(), delta, min, i64::MAX)?;
            if added == Added::Refused {
                return Err(StoreError::Refused);
            }
        }
        Ok(())
    }
}

struct Payer<'a> {
    store: &'a dyn Store,
    zipf: &'a Zipf,
    /// Numbers of transfers.
    numbers: &'a AtomicU64,
    number: u64,
    transfer: Transfer,
    think: Duration,
}

impl Client for Payer<'_> {
    fn choose(&mut self, rng: &mut Rng) {
        self.transfer = Transfer::choose(self.zipf, rng);
        self.number = self.numbers.fetch_add(1, Ordering::Relaxed);
    }

    fn attempt(&mut self) -> Result<Committed> {
        let Transfer { from, to, amount } = self.transfer;
        self.store.run(&mut |operations| {
            self.transfer.apply(operations)?;
            workload::sleep(self.think);
            for (entry, account, amount) in [(0, from, -amount), (1, to, amount)] {
                let value = Hotspot::TABLES[LEDGER].value(&[amount, account as i64, self.number as i64]);
                operations.insert(LEDGER, &(2 * self.number + entry).to_be_bytes(), &value)?;
            }
            Ok(())
        })
    }
}

impl Workload for Hotspot {
    const NAME: &'static str = "hotspot";
    const TABLES: &'static [Layout] = &[
        Layout { name: "account", key: &["id"], numbers: &["balance"], filler_bytes: 92 },
        Layout {
            name: "ledger",
            key: &["id"],
            numbers: &["amount", "account", "transfer"],
            filler_bytes: 26,
        },
    ];

    fn load(&self, store: &dyn Store, progress: &mut Progress, cancel: &AtomicBool) -> Result<()> {
        let value = |_| Hotspot::TABLES[ACCOUNTS].value(&[self.balance]);
        load_rows(store, &[Rows { table: ACCOUNTS, count: self.accounts, value: &value }], progress, cancel)
    }

    fn run(&self, store: &dyn Store, load: &Load, outstanding: usize) -> Result<Measured> {
        let (zipf, numbers) = (Zipf::new(self.accounts, self.skew.zipf), AtomicU64::new(0));
        drive(store, load, outstanding, |_| Payer {
            store,
            zipf: &zipf,
            numbers: &numbers,
            number: 0,
            transfer: Transfer { from: 0, to: 0, amount: 0 },
            think: workload::think(self.think_ms),
        })
    }

    fn check(&self, store: &dyn Store, committed: u64) -> Result<Invariant> {
        let mut expected = vec![i128::from(self.balance); self.accounts as usize];
        let (mut entries, mut entries_sum) = (0u64, 0i128);
        store.visit(LEDGER, &mut |_, value| {
            let amount = i128::from(number_of(value)?);
            let account = value_number(value, LEDGER_ACCOUNT)? as usize;
            *expected.get_mut(account).ok_or_else(|| StoreError::unexpected("an entry has no account"))? +=
                amount;
            entries += 1;
            entries_sum += amount;
            Ok(())
        })?;
        let (mut accounts, mut sum, mut negative, mut differ) = (0u64, 0i128, 0u64, 0u64);
        store.visit(ACCOUNTS, &mut |key, value| {
            let balance = i128::from(number_of(value)?);
            accounts += 1;
            sum += balance;
            negative += u64::from(balance < 0);
            differ += u64::from(expected.get(key_number(key)? as usize) != Some(&balance));
            Ok(())
        })?;
        let sum_expected = i128::from(self.accounts) * i128::from(self.balance);
        let holds = (accounts, sum, negative, differ) == (self.accounts, sum_expected, 0, 0)
            && (entries, entries_sum) == (2 * committed, 0);
        let detail = if holds {
            format!(
                "balances sum to {sum} as at the beginning, none is negative, each agrees with its entries, the ledger \
                 has two for each of {committed} transfers and sums to 0"
            )
        } else {
            format!(
                "{accounts} balances sum to {sum} instead of {} to {sum_expected}, {negative} are negative, {differ} \
                 disagree with their entries; the ledger has {entries} entries instead of {} and sums to {entries_sum}",
                self.accounts,
                2 * committed
            )
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

    fn hotspot(balance: i64) -> Hotspot {
        Hotspot { accounts: 50, balance, skew: Skew { zipf: 2.0 }, think_ms: 0.0 }
    }

    #[test]
    fn a_short_run_keeps_its_invariant_and_poor_accounts_refuse() {
        for semantic_locks in [true, false] {
            let settings = short_run(None, semantic_locks);
            let report =
                bench(&hotspot(100), &settings, 3, &mut Progress::silent(), &Default::default()).unwrap();
            assert!(report.invariant.holds, "{report}");
            assert!(report.invariant.detail.ends_with("also after reopening"), "{report}");
            assert!(report.committed > 0 && report.refused > 0, "{report}");
            assert_eq!(report.settings["accounts"], 50);
        }
    }

    #[test]
    fn a_broken_invariant_is_noticed() {
        let (dir, hotspot) = (tempfile::tempdir().unwrap(), hotspot(1_000_000));
        let settings = short_run(Some(dir.path().into()), true);
        let report = bench(&hotspot, &settings, 3, &mut Progress::silent(), &Default::default()).unwrap();
        assert!(report.invariant.holds && report.refused == 0, "{report}");
        let store = GnomonStore::open(dir.path(), 4 << 20).unwrap();
        let mut entries = 0;
        store
            .visit(LEDGER, &mut |_, _| {
                entries += 1;
                Ok(())
            })
            .unwrap();
        let check = || hotspot.check(&store, entries / 2).unwrap();
        assert!(check().holds);
        // The sums stay what they are: only the entries tell.
        let transfer = Transfer { from: 7, to: 3, amount: 5 };
        store.run(&mut |operations| transfer.apply(operations)).unwrap().wait().unwrap();
        assert!(check().detail.contains("2 disagree with their entries"), "{:?}", check());
        let overdraft = Transfer { from: 3, to: 7, amount: 2_000_000 };
        let refused = store.run(&mut |operations| overdraft.apply(operations)).err().unwrap();
        assert!(matches!(refused, StoreError::Refused), "{refused}");
        let back = Transfer { from: 3, to: 7, amount: 5 };
        store.run(&mut |operations| back.apply(operations)).unwrap().wait().unwrap();
        assert!(check().holds, "a refused transfer leaves nothing");
        assert!(!hotspot.check(&store, entries / 2 + 1).unwrap().holds, "a transfer was lost");
    }
}
