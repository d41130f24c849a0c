#[cfg(not(shuttle))]
mod native {
    use crate::sync::*;
    use std::time::Duration;

    #[test]
    fn a_timed_wait_runs_out() {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        assert!(condvar.wait_for(&mut mutex.lock(), Duration::from_millis(1)).timed_out());
    }

    #[test]
    fn latch_guards_own_the_latch_and_exclude_each_other() {
        let latch = Arc::new(Latch::new(1));
        let (first, second) = (latch.read_arc(), latch.read_arc());
        assert!(latch.try_write_arc().is_none());
        drop(first);
        drop(second);
        let mut alone = latch.write_arc();
        assert!(latch.try_read_arc().is_none() && latch.try_write_arc().is_none());
        drop(latch);
        *alone += 1;
        assert_eq!(*alone, 2);
    }

    #[test]
    fn threads_have_names() {
        let handle =
            thread::spawn_named("sync-test", || thread::current().name().map(str::to_owned)).unwrap();
        assert_eq!(handle.join().unwrap().as_deref(), Some("sync-test"));
    }
}

#[cfg(shuttle)]
mod scheduled {
    use crate::sync::atomic::{AtomicUsize, Ordering};
    use crate::sync::*;
    use std::{panic::catch_unwind, time::Duration};

    /// True if some seed below 1000 makes `f` fail, and fail again when it is repeated.
    fn is_caught(f: impl Fn() + Send + Sync + 'static) -> bool {
        let f = Arc::new(f);
        let Some((seed, _)) = find_failing_seed(0..1000, f.clone()) else { return false };
        for _ in 0..3 {
            let again = std::panic::AssertUnwindSafe(|| run_seed(seed, f.clone()));
            assert!(catch_unwind(again).is_err(), "seed {seed} failed once but not again");
        }
        true
    }

    #[test]
    fn shuttle_finds_check_then_act_and_repeats_its_seed() {
        assert!(is_caught(|| {
            let counter = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let counter = counter.clone();
                    thread::spawn(move || {
                        if counter.load(Ordering::SeqCst) == 0 {
                            counter.fetch_add(1, Ordering::SeqCst);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!(counter.load(Ordering::SeqCst), 1);
        }));
    }

    #[test]
    fn shuttle_finds_a_lost_wakeup() {
        assert!(is_caught(|| {
            let shared = Arc::new((Mutex::new(false), Condvar::new()));
            let waiter = thread::spawn({
                let shared = shared.clone();
                move || {
                    let ready = *shared.0.lock();
                    if !ready {
                        shared.1.wait(&mut shared.0.lock());
                    }
                }
            });
            *shared.0.lock() = true;
            shared.1.notify_all();
            waiter.join().unwrap();
        }));
    }

    #[test]
    fn shuttle_finds_a_reader_that_asks_twice() {
        assert!(is_caught(|| {
            let latch = Arc::new(Latch::new(()));
            let reader = thread::spawn({
                let latch = latch.clone();
                move || {
                    let _outer = latch.read_arc();
                    let _inner = latch.read_arc();
                }
            });
            drop(latch.write_arc());
            reader.join().unwrap();
        }));
    }

    #[test]
    fn shuttle_timed_waits_end_both_ways() {
        let ends = Arc::new([AtomicCount::new(0), AtomicCount::new(0)]);
        let seen = ends.clone();
        check_random("timed wait", 1000, move || {
            let shared = Arc::new((Mutex::new(()), Condvar::new()));
            let waiter = thread::spawn({
                let (shared, ends) = (shared.clone(), ends.clone());
                move || {
                    let result = shared.1.wait_for(&mut shared.0.lock(), Duration::from_secs(3600));
                    ends[usize::from(result.timed_out())].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            });
            let guard = shared.0.lock();
            shared.1.notify_one();
            drop(guard);
            waiter.join().unwrap();
        });
        if std::env::var_os("GNOMON_SHUTTLE_SEED").is_none() {
            let seen = seen.each_ref().map(|end| end.load(std::sync::atomic::Ordering::Relaxed));
            assert!(seen.iter().all(|&count| count > 0), "notified and timed out: {seen:?}");
        }
    }

    /// Counts over all schedules, so it is none of the scheduler's business.
    type AtomicCount = std::sync::atomic::AtomicUsize;

    #[test]
    fn shuttle_one_notification_wakes_one_waiter() {
        check_random("notify_one", 1000, || {
            let shared = Arc::new((Mutex::new((0, 0)), Condvar::new()));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        let mut guard = shared.0.lock();
                        guard.0 += 1;
                        shared.1.wait(&mut guard);
                        guard.1 += 1;
                    })
                })
                .collect();
            let waited = |want: usize| {
                while shared.0.lock().0 < want {
                    thread::yield_now();
                }
            };
            waited(3);
            assert!(shared.1.notify_one());
            while shared.0.lock().1 == 0 {
                thread::yield_now();
            }
            (0..20).for_each(|_| thread::yield_now());
            assert_eq!(shared.0.lock().1, 1);
            assert_eq!(shared.1.notify_all(), 2);
            threads.into_iter().for_each(|t| t.join().unwrap());
        });
    }

    #[test]
    fn shuttle_latch_admits_many_readers_or_one_writer() {
        check_random("latch", 1000, || {
            let latch = Arc::new(Latch::new((0, 0)));
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let latch = latch.clone();
                    thread::spawn(move || {
                        let mut guard = latch.write_arc();
                        guard.0 += 1;
                        thread::yield_now();
                        guard.1 += 1;
                    })
                })
                .collect();
            let reader = thread::spawn({
                let latch = latch.clone();
                move || {
                    let guard = latch.read_arc();
                    assert_eq!(guard.0, guard.1);
                    assert!(latch.try_write_arc().is_none());
                }
            });
            writers.into_iter().chain([reader]).for_each(|t| t.join().unwrap());
            assert_eq!(*latch.try_read_arc().unwrap(), (2, 2));
        });
    }

    #[test]
    fn shuttle_once_lock_initialises_once() {
        check_random("once lock", 1000, || {
            let cell = Arc::new((OnceLock::new(), AtomicUsize::new(0)));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let cell = cell.clone();
                    thread::spawn(move || {
                        *cell.0.get_or_init(|| {
                            thread::yield_now();
                            cell.1.fetch_add(1, Ordering::SeqCst)
                        })
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), 0));
        });
    }
}
