//! Real threads and real time.

use std::time::Duration;

use super::*;
use crate::sync::thread;

const LONG: Duration = Duration::from_secs(60);

/// Waits until `count` requests stand in queues.
fn until_waiting(manager: &LockManager, count: usize) {
    while manager.snapshot().iter().filter(|lock| lock.waiting_since.is_some()).count() != count {
        thread::yield_now();
    }
}

#[test]
fn a_timed_out_request_lets_those_behind_it_pass() {
    let manager = manager();
    let mut t1 = manager.owner(TxnId(1));
    t1.lock(key(b"a"), key_mode::S, &WaitOptions::default()).unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let wait = WaitOptions { timeout: Some(Duration::from_millis(50)), ..WaitOptions::default() };
            manager.owner(TxnId(2)).lock(key(b"a"), key_mode::X, &wait)
        });
        until_waiting(&manager, 1);
        let third = scope.spawn(|| {
            let wait = WaitOptions { timeout: Some(LONG), ..WaitOptions::default() };
            manager.owner(TxnId(3)).lock(key(b"a"), key_mode::S, &wait)
        });
        assert!(matches!(second.join().unwrap(), Err(Error::LockTimeout)));
        third.join().unwrap().unwrap();
    });
    assert_eq!(manager.snapshot().len(), 1);
}

#[test]
fn an_interrupt_ends_the_wait_at_once_and_stays_raised() {
    let manager = manager();
    let mut t1 = manager.owner(TxnId(1));
    t1.lock(key(b"a"), key_mode::X, &WaitOptions::default()).unwrap();
    let interrupt = Interrupt::default();
    let wait = WaitOptions { timeout: Some(LONG), interrupt: Some(&interrupt), ..WaitOptions::default() };
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut t2 = manager.owner(TxnId(2));
            let first = t2.lock(key(b"a"), key_mode::X, &wait);
            let second = t2.lock(key(b"a"), key_mode::X, &wait);
            (first, second)
        });
        until_waiting(&manager, 1);
        interrupt.raise(InterruptReason::Cancel);
        let (first, second) = waiter.join().unwrap();
        assert!(matches!(first, Err(Error::Interrupted(InterruptReason::Cancel))), "{first:?}");
        assert!(matches!(second, Err(Error::Interrupted(InterruptReason::Cancel))), "{second:?}");
    });
    assert!(interrupt.check().is_err());
    interrupt.clear();
    assert!(interrupt.check().is_ok());
    assert_eq!(manager.snapshot().len(), 1);
}

#[test]
fn a_sleeping_victim_is_woken() {
    let manager = manager();
    let mut t1 = manager.owner(TxnId(1));
    let wait = WaitOptions::default();
    t1.lock(key(b"a"), key_mode::X, &wait).unwrap();
    thread::scope(|scope| {
        let younger = scope.spawn(|| {
            let mut t2 = manager.owner(TxnId(2));
            t2.lock(key(b"b"), key_mode::X, &wait).unwrap();
            t2.lock(key(b"a"), key_mode::X, &wait)
        });
        until_waiting(&manager, 1);
        t1.lock(key(b"b"), key_mode::X, &wait).unwrap();
        assert!(matches!(younger.join().unwrap(), Err(Error::Deadlock)));
    });
}

#[test]
fn many_threads_exclude_each_other() {
    let manager = manager();
    let counters: Vec<_> = (0..3).map(|_| crate::sync::Mutex::new(())).collect();
    let done = crate::sync::atomic::AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (manager, counters, done) = (&manager, &counters, &done);
            scope.spawn(move || {
                for round in 0..300 {
                    let mut owner = manager.owner(TxnId(thread * 1000 + round));
                    // Two of three keys, in an order that differs between threads.
                    let keys = [(thread + round) % 3, (thread * round + 1) % 3];
                    let locked = keys.map(|k| {
                        let name = LockName::key(KEYS, k, b"hot");
                        owner.lock(name, key_mode::X, &WaitOptions::default())
                    });
                    if locked.iter().all(Result::is_ok) {
                        let _first = counters[keys[0] as usize].try_lock().expect("excluded");
                        let _second = (keys[0] != keys[1])
                            .then(|| counters[keys[1] as usize].try_lock().expect("excluded"));
                        done.fetch_add(1, crate::sync::atomic::Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(done.into_inner() >= 300);
    assert!(manager.snapshot().is_empty());
}
