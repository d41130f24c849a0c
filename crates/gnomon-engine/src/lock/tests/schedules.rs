//! The manager under seeded schedules: random transactions over few locks exclude each other and all come to an
//! end, and faults planted in the wake-up and in the detector are found and found again from their seed.

use std::{collections::HashSet, panic::catch_unwind, time::Duration};

use shuttle::rand::{Rng, thread_rng};

use super::*;
use crate::{
    env::ManualClock,
    failpoint::Failpoint,
    sync::{Mutex, check_random, find_failing_seed, run_seed, thread},
};

const SEEDS: u64 = 1000;
/// By table: the modes to choose from.
const CHOICES: [(LockName<'static>, usize); 5] = [
    (LockName::whole(TREES, 1), 6),
    (LockName::key(KEYS, 1, b"a"), 3),
    (LockName::key(KEYS, 1, b"b"), 3),
    (LockName::key(GAPS, 1, b"a"), 2),
    (LockName::whole(PASSES, 1), 3),
];

/// The locks that all owners hold, as they say: noted after the grant and struck out before the release.
#[derive(Default)]
struct Ledger(Mutex<Vec<(TxnId, LockName<'static>, Mode)>>);

impl Ledger {
    fn note(&self, manager: &LockManager, owner: &LockOwner, name: LockName<'static>) {
        // An instant request leaves nothing behind.
        let Some(mode) = owner.held_mode(name) else { return assert_eq!(name.table, PASSES) };
        assert_eq!(manager.held_mode(owner.txn(), name), Some(mode), "others are told of it");
        let mut held = self.0.lock();
        held.retain(|h| (h.0, h.1) != (owner.txn(), name));
        let modes = manager.modes(name.table);
        for other in held.iter().filter(|h| h.1 == name) {
            let together = modes.admits(other.2, mode) || modes.admits(mode, other.2);
            assert!(together, "{other:?} beside {} in {}", owner.txn(), modes.name(mode));
        }
        held.push((owner.txn(), name, mode));
    }

    fn strike(&self, txn: TxnId) {
        self.0.lock().retain(|h| h.0 != txn);
    }
}

fn planted(fault: Option<Failpoint>) -> Arc<LockManager> {
    let manager = LockManager::build(tables().into(), Arc::new(ManualClock::default()));
    manager.failpoints.turn_on(fault);
    Arc::new(manager)
}

fn holder(lock: LockInfo) -> (&'static str, u64, String, TxnId) {
    (lock.table, lock.space, lock.part, lock.txn)
}

/// Some transactions at a time, each with a few locks; some give up by timeout, some are interrupted.
fn random_transactions(fault: Option<Failpoint>) {
    let (manager, ledger) = (planted(fault), Arc::new(Ledger::default()));
    let interrupts: Vec<_> = (0..3).map(|_| Arc::new(Interrupt::default())).collect();
    let threads: Vec<_> = (0..3_u64)
        .map(|number| {
            let (manager, ledger) = (manager.clone(), ledger.clone());
            let interrupt = interrupts[number as usize].clone();
            thread::spawn(move || {
                let mut owner = manager.owner(TxnId(number));
                for _ in 0..thread_rng().gen_range(1..5) {
                    let (name, modes) = CHOICES[thread_rng().gen_range(0..CHOICES.len())];
                    let mode = Mode::new(thread_rng().gen_range(0..modes));
                    let timeout = thread_rng().gen_bool(0.1).then_some(Duration::from_millis(1));
                    let wait = WaitOptions { timeout, interrupt: Some(&interrupt), ..WaitOptions::default() };
                    match owner.lock(name, mode, &wait) {
                        Ok(()) => ledger.note(&manager, &owner, name),
                        Err(Error::Deadlock | Error::LockTimeout) => {
                            ledger.strike(owner.txn());
                            owner.release_all();
                        }
                        Err(Error::Interrupted(_)) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
                ledger.strike(owner.txn());
            })
        })
        .collect();
    // No owner is shown twice, whatever moves meanwhile.
    let held: Vec<_> =
        manager.snapshot().into_iter().filter(|lock| lock.waiting_since.is_none()).map(holder).collect();
    assert_eq!(held.iter().collect::<HashSet<_>>().len(), held.len(), "{held:?}");
    if thread_rng().gen_bool(0.3) {
        interrupts[thread_rng().gen_range(0..interrupts.len())].raise(InterruptReason::Cancel);
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(manager.snapshot().is_empty());
}

#[test]
fn shuttle_random_transactions_exclude_each_other_and_end() {
    check_random("random transactions", SEEDS, || random_transactions(None));
}

#[test]
fn shuttle_a_hot_lock_goes_round() {
    check_random("hot lock", SEEDS, || {
        let (manager, ledger) = (planted(None), Arc::new(Ledger::default()));
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let (manager, ledger) = (manager.clone(), ledger.clone());
                thread::spawn(move || {
                    let mut owner = manager.owner(TxnId(number));
                    for _ in 0..2 {
                        let (name, _) = CHOICES[1];
                        owner.lock(name, key_mode::X, &WaitOptions::default()).unwrap();
                        ledger.note(&manager, &owner, name);
                        ledger.strike(owner.txn());
                        owner.release_all();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(manager.snapshot().is_empty());
    });
}

#[test]
fn shuttle_an_interrupt_is_never_missed() {
    check_random("interrupt", SEEDS, || {
        let (manager, interrupt) = (planted(None), Arc::new(Interrupt::default()));
        let (name, _) = CHOICES[1];
        let mut first = manager.owner(TxnId(1));
        first.lock(name, key_mode::X, &WaitOptions::default()).unwrap();
        let waiter = thread::spawn({
            let (manager, interrupt) = (manager.clone(), interrupt.clone());
            move || {
                let wait = WaitOptions { interrupt: Some(&interrupt), ..WaitOptions::default() };
                manager.owner(TxnId(2)).lock(name, key_mode::X, &wait)
            }
        });
        interrupt.raise(InterruptReason::Timeout);
        let ended = waiter.join().unwrap();
        assert!(matches!(ended, Err(Error::Interrupted(InterruptReason::Timeout))), "{ended:?}");
        drop(first);
        assert!(manager.snapshot().is_empty());
    });
}

/// Nor when the sleeper was granted the lock, and is overtaken by an owner that keeps it.
#[test]
fn shuttle_an_interrupt_is_not_missed_by_one_who_is_overtaken() {
    check_random("interrupt and overtaking", SEEDS, || {
        let (manager, interrupt) = (planted(None), Arc::new(Interrupt::default()));
        let (name, _) = CHOICES[1];
        let wait = WaitOptions::default();
        let mut first = manager.owner(TxnId(1));
        first.lock(name, key_mode::X, &wait).unwrap();
        let waiter = thread::spawn({
            let (manager, interrupt) = (manager.clone(), interrupt.clone());
            move || {
                let wait = WaitOptions { interrupt: Some(&interrupt), ..wait };
                manager.owner(TxnId(2)).lock(name, key_mode::X, &wait)
            }
        });
        let overtaker = thread::spawn({
            let manager = manager.clone();
            move || {
                let mut overtaker = manager.owner(TxnId(3));
                overtaker.try_lock(name, key_mode::X).then_some(overtaker)
            }
        });
        first.release_all();
        interrupt.raise(InterruptReason::Timeout);
        let kept = overtaker.join().unwrap();
        let ended = waiter.join().unwrap();
        assert!(kept.is_none() || ended.is_err() || manager.snapshot().len() == 1, "{ended:?}");
        drop(kept);
        assert!(manager.snapshot().is_empty());
    });
}

/// True if some seed finds the fault, and finds it each time.
fn is_caught(fault: Failpoint) -> bool {
    let run = Arc::new(move || random_transactions(Some(fault)));
    let Some((seed, _)) = find_failing_seed(0..SEEDS, run.clone()) else { return false };
    println!("{fault:?} is found by seed {seed}");
    (0..3).all(|_| {
        let again = std::panic::AssertUnwindSafe(|| run_seed(seed, run.clone()));
        catch_unwind(again).is_err()
    })
}

#[test]
fn shuttle_finds_a_planted_lost_wakeup_and_repeats_it() {
    assert!(is_caught(Failpoint::LockWakeupLost));
}

#[test]
fn shuttle_finds_planted_blindness_to_deadlocks_and_repeats_it() {
    assert!(is_caught(Failpoint::DeadlocksIgnored));
}

#[test]
fn shuttle_finds_a_planted_grant_beside_weak_locks_and_repeats_it() {
    assert!(is_caught(Failpoint::WeakHoldersOverlooked));
    assert!(is_caught(Failpoint::ContendersOverlooked));
}
