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
//! The invariant ([`check`]): accounts, tellers, branches and history have the same sum, and history has a row for
//! each committed transaction.
//!
//! Differences from the benchmark's rules: clients do not think, the measured time is as short as one likes, and there
//! is no price.

use std::{path::PathBuf, time::Duration};

use gnomon::{
    env::{Clock, Rng, SystemClock},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        thread,
    },
};
use serde::Serialize;

use crate::{
    drive::{Client, Load, Measured, drive},
    progress::Progress,
    report::{Invariant, Report},
    row,
    store::{Added, GnomonStore, Operations, Recovery, Result, Row, Store, StoreError, Table},
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
pub const TABLES: usize = 4;

/// Tellers of a branch.
pub const TELLERS_PER_BRANCH: u64 = 10;
/// Accounts of a branch, unless the settings say otherwise.
pub const ACCOUNTS_PER_BRANCH: u64 = 100_000;

const ROW_BYTES: usize = 100;
const HISTORY_BYTES: usize = 50;
/// Amounts are between this and its negative.
const AMOUNT_MAX: i64 = 999_999;
/// Rows that are loaded in one transaction.
const CHUNK_ROWS: u64 = 10_000;

/// How large the bank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Branches.
    pub branches: u64,
    /// Accounts of each.
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
    fn choose(scale: &Scale, rng: &mut Rng) -> Transfer {
        let teller = rng.below(scale.branches * TELLERS_PER_BRANCH);
        let branch = teller / TELLERS_PER_BRANCH;
        let account_branch = if scale.branches == 1 || rng.chance(85, 100) {
            branch
        } else {
            (branch + 1 + rng.below(scale.branches - 1)) % scale.branches
        };
        let account = account_branch * scale.accounts_per_branch + rng.below(scale.accounts_per_branch);
        let amount = rng.below(2 * AMOUNT_MAX as u64 + 1) as i64 - AMOUNT_MAX;
        Transfer { account, teller, branch, amount }
    }
}

/// A row of accounts, tellers or branches: the balance, the branch, and filler.
fn row_of(branch: u64, balance: i64) -> Vec<u8> {
    let mut value = vec![b' '; ROW_BYTES];
    value[..8].copy_from_slice(&balance.to_le_bytes());
    value[8..16].copy_from_slice(&branch.to_le_bytes());
    value
}

/// The balance of a row, or the amount of a row of history.
pub fn balance(value: &[u8]) -> Result<i64> {
    row::number(value).ok_or_else(|| StoreError::unexpected("a row is shorter than its balance"))
}

fn history_row(transfer: &Transfer, unix_time: Duration) -> Vec<u8> {
    let mut value = vec![b' '; HISTORY_BYTES];
    value[..8].copy_from_slice(&transfer.amount.to_le_bytes());
    value[8..16].copy_from_slice(&transfer.account.to_le_bytes());
    value[16..24].copy_from_slice(&transfer.teller.to_le_bytes());
    value[24..32].copy_from_slice(&transfer.branch.to_le_bytes());
    value[32..40].copy_from_slice(&unix_time.as_secs().to_le_bytes());
    value
}

/// Returns the new balance, if it was seen.
fn add(operations: &mut dyn Operations, table: Table, number: u64, amount: i64) -> Result<Option<i64>> {
    match operations.add(table, &number.to_be_bytes(), amount, i64::MIN, i64::MAX)? {
        Added::To(balance) => Ok(Some(balance)),
        Added::Unseen => Ok(None),
        Added::Refused => Err(StoreError::unexpected(format!("the balance of row {number} overflows"))),
    }
}

/// Puts the bank into a store's empty tables.
pub fn load(store: &dyn Store, scale: &Scale, progress: &mut Progress, cancel: &AtomicBool) -> Result<()> {
    let tables = [
        (BRANCHES, scale.branches, 1),
        (TELLERS, scale.branches * TELLERS_PER_BRANCH, TELLERS_PER_BRANCH),
        (ACCOUNTS, scale.branches * scale.accounts_per_branch, scale.accounts_per_branch),
    ];
    let total = tables.iter().map(|(_, rows, _)| rows).sum();
    let mut done = 0;
    for (table, rows, per_branch) in tables {
        for start in (0..rows).step_by(CHUNK_ROWS as usize) {
            if cancel.load(Ordering::Acquire) {
                return Err(StoreError::unexpected("canceled"));
            }
            let end = rows.min(start + CHUNK_ROWS);
            let chunk: Vec<Row> = (start..end)
                .map(|number| (number.to_be_bytes().to_vec(), row_of(number / per_branch, 0)))
                .collect();
            store.load(table, &chunk)?;
            done += end - start;
            progress.set(done, total);
        }
    }
    Ok(())
}

struct Teller<'a> {
    store: &'a dyn Store,
    scale: Scale,
    clock: SystemClock,
    /// The first part of keys in the history.
    run: u64,
    /// Hands out the second part.
    numbers: &'a AtomicU64,
    number: u64,
    transfer: Transfer,
    think: Duration,
}

impl Client for Teller<'_> {
    fn choose(&mut self, rng: &mut Rng) {
        self.transfer = Transfer::choose(&self.scale, rng);
        self.number = self.numbers.fetch_add(1, Ordering::Relaxed);
    }

    fn attempt(&mut self) -> Result<()> {
        let transfer = self.transfer;
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.run.to_be_bytes());
        key[8..].copy_from_slice(&self.number.to_be_bytes());
        let history = history_row(&transfer, self.clock.unix_time());
        self.store.run(&mut |operations| {
            let written = add(operations, ACCOUNTS, transfer.account, transfer.amount)?;
            let read = operations
                .get(ACCOUNTS, &transfer.account.to_be_bytes())?
                .as_deref()
                .map(balance)
                .transpose()?;
            if read.is_none() || written.is_some_and(|written| read != Some(written)) {
                return Err(StoreError::unexpected("a transaction does not see what it wrote"));
            }
            add(operations, TELLERS, transfer.teller, transfer.amount)?;
            add(operations, BRANCHES, transfer.branch, transfer.amount)?;
            if !self.think.is_zero() {
                thread::sleep(self.think);
            }
            operations.insert(HISTORY, &key, &history)
        })
    }
}

/// Runs the clients' closed loop. `run` is the number of this run among those on the same bank; `think` is slept within
/// each transaction, after the branch was changed.
pub fn run(store: &dyn Store, scale: &Scale, load: &Load, run: u64, think: Duration) -> Result<Measured> {
    let numbers = AtomicU64::new(0);
    drive(load, |_| Teller {
        store,
        scale: *scale,
        clock: SystemClock::new(),
        run,
        numbers: &numbers,
        number: 0,
        transfer: Transfer { account: 0, teller: 0, branch: 0, amount: 0 },
        think,
    })
}

/// Whether the sums agree and the history has a row for each of `committed` transactions.
pub fn check(store: &dyn Store, scale: &Scale, committed: u64) -> Result<Invariant> {
    let mut sums = [0i128; TABLES];
    let mut rows = [0u64; TABLES];
    for table in 0..TABLES {
        store.visit(table, &mut |_, value| {
            sums[table] += i128::from(balance(value)?);
            rows[table] += 1;
            Ok(())
        })?;
    }
    let mut expected = [0; TABLES];
    expected[ACCOUNTS] = scale.branches * scale.accounts_per_branch;
    expected[TELLERS] = scale.branches * TELLERS_PER_BRANCH;
    expected[BRANCHES] = scale.branches;
    expected[HISTORY] = committed;
    let holds = sums.iter().all(|sum| *sum == sums[0]) && rows == expected;
    let detail = if holds {
        format!(
            "accounts, tellers, branches and history sum to {}, history has a row for each of {committed} transactions",
            sums[0]
        )
    } else {
        format!(
            "accounts, tellers, branches and history sum to {sums:?} and have {rows:?} rows instead of {expected:?}"
        )
    };
    Ok(Invariant { holds, detail })
}

/// How `bench tpcb` runs.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Branches of the bank.
    pub branches: u64,
    /// Accounts of each.
    pub accounts_per_branch: u64,
    /// How the database survives a crash.
    pub recovery: Recovery,
    /// Clients, a thread each.
    pub clients: usize,
    /// How long to run before measuring, in seconds.
    pub warm_up_seconds: f64,
    /// How long to measure, in seconds.
    pub measured_seconds: f64,
    /// Whether additions lock what they mean, or rows exclusively.
    pub semantic_locks: bool,
    /// Work slept within each transaction after the branch was changed, in milliseconds.
    pub think_ms: f64,
    /// The buffer pool's size.
    pub pool_mib: usize,
    /// The database's directory; none takes a temporary one and removes it afterwards.
    pub dir: Option<PathBuf>,
}

/// Loads a bank into a new database of Gnomon's, runs the clients, and checks the invariant, then once more after
/// closing and opening the database again. `cancel` ends it early, which then fails.
pub fn bench(
    settings: &Settings,
    seed: u64,
    progress: &mut Progress,
    cancel: &Arc<AtomicBool>,
) -> Result<Report> {
    let temporary;
    let directory = match &settings.dir {
        Some(directory) => directory,
        None => {
            temporary = tempfile::tempdir().map_err(|error| StoreError::Failed(error.into()))?;
            temporary.path()
        }
    };
    let scale = Scale { branches: settings.branches, accounts_per_branch: settings.accounts_per_branch };
    let pool_bytes = settings.pool_mib << 20;
    let store = match settings.recovery {
        Recovery::Shadow => GnomonStore::create(directory, TABLES, pool_bytes)?,
    };
    let store = store.with_semantic_locks(settings.semantic_locks);
    load(&store, &scale, progress, cancel)?;
    let measured = run(
        &store,
        &scale,
        &Load {
            clients: settings.clients,
            warm_up: Duration::from_secs_f64(settings.warm_up_seconds),
            measured: Duration::from_secs_f64(settings.measured_seconds),
            seed,
            cancel: cancel.clone(),
        },
        0,
        Duration::from_secs_f64(settings.think_ms / 1e3),
    )?;
    let mut invariant = check(&store, &scale, measured.committed_in_all)?;
    store.close()?;
    if invariant.holds {
        let reopened = GnomonStore::open(directory, pool_bytes)?;
        invariant = check(&reopened, &scale, measured.committed_in_all)?;
        invariant.detail += if invariant.holds { ", also after reopening" } else { " after reopening" };
        reopened.close()?;
    }
    Ok(Report::new("tpcb", "gnomon", settings, seed, &measured, invariant))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale { branches: 3, accounts_per_branch: 50 };

    fn settings(dir: Option<PathBuf>) -> Settings {
        Settings {
            branches: SCALE.branches,
            accounts_per_branch: SCALE.accounts_per_branch,
            recovery: Recovery::Shadow,
            clients: 4,
            warm_up_seconds: 0.05,
            measured_seconds: 0.2,
            semantic_locks: true,
            think_ms: 0.0,
            pool_mib: 4,
            dir,
        }
    }

    #[test]
    fn a_short_run_keeps_its_invariant() {
        let report = bench(&settings(None), 3, &mut Progress::silent(), &Arc::default()).unwrap();
        assert!(report.invariant.holds, "{report}");
        assert!(report.invariant.detail.ends_with("also after reopening"));
        assert!(report.committed > 0 && report.latency_us.p50 > 0);
        assert_eq!(report.settings["recovery"], "shadow");
        assert!(report.to_string().contains("recovery \"shadow\""), "{report}");
    }

    #[test]
    fn a_broken_invariant_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let report =
            bench(&settings(Some(dir.path().into())), 3, &mut Progress::silent(), &Arc::default()).unwrap();
        let store = GnomonStore::open(dir.path(), 4 << 20).unwrap();
        let mut rows = 0;
        store
            .visit(HISTORY, &mut |_, _| {
                rows += 1;
                Ok(())
            })
            .unwrap();
        assert!(report.invariant.holds && check(&store, &SCALE, rows).unwrap().holds);
        assert!(!check(&store, &SCALE, rows + 1).unwrap().holds, "a transaction was lost");
        store.run(&mut |operations| add(operations, TELLERS, 7, 1).map(|_| ())).unwrap();
        let broken = check(&store, &SCALE, rows).unwrap();
        assert!(!broken.holds && broken.detail.contains("instead of"), "{broken:?}");
    }

    #[test]
    fn recovery_methods_have_names_and_others_are_refused_with_those_there_are() {
        for recovery in Recovery::ALL {
            assert_eq!(recovery.to_string().parse(), Ok(recovery));
            assert_eq!(serde_json::to_value(recovery).unwrap(), recovery.name());
        }
        let refused = "log".parse::<Recovery>().unwrap_err();
        assert!(refused.ends_with("there is: shadow"), "{refused}");
    }

    #[test]
    fn a_bank_is_not_made_over_another() {
        let dir = tempfile::tempdir().unwrap();
        GnomonStore::create(dir.path(), TABLES, 4 << 20).unwrap().close().unwrap();
        let error = bench(&settings(Some(dir.path().into())), 3, &mut Progress::silent(), &Arc::default())
            .unwrap_err();
        assert!(error.to_string().contains("holds a database already"), "{error}");
    }

    #[test]
    fn transfers_are_spread_as_the_benchmark_says() {
        let mut rng = Rng::from_seed(1);
        let (mut home, mut negative) = (0, 0);
        for _ in 0..10_000 {
            let transfer = Transfer::choose(&SCALE, &mut rng);
            assert!(transfer.account < 150 && transfer.teller < 30 && transfer.amount.abs() <= AMOUNT_MAX);
            assert_eq!(transfer.branch, transfer.teller / 10);
            home += u32::from(transfer.account / 50 == transfer.branch);
            negative += u32::from(transfer.amount < 0);
        }
        assert!((8_300..8_700).contains(&home) && (4_800..5_200).contains(&negative), "{home} {negative}");
    }
}
