use gnomon_engine::{env::Rng, sync::atomic::AtomicBool};

use super::{
    model::{Found, Length, run},
    parameters::{DataLocks, Level, Manager, Parameters, Past},
    workload::Workload,
};

fn seconds(parameters: &Parameters, seed: u64, warm_up: f64, counted: f64) -> Found {
    run(parameters, seed, Length::Seconds { warm_up, counted }, &AtomicBool::new(false))
}

#[test]
fn a_seed_repeats_a_run_and_what_the_manager_knows_counts() {
    let os = Parameters { manager: Manager::Os(Level::Physical), ..Parameters::default() };
    let [dbms, os] = [Parameters::default(), os].map(|parameters| {
        let found = seconds(&parameters, 1, 100.0, 1000.0);
        assert_eq!(found, seconds(&parameters, 1, 100.0, 1000.0));
        assert_ne!(found, seconds(&parameters, 2, 100.0, 1000.0));
        found
    });
    assert!(dbms.throughput > 1.1 * os.throughput, "{dbms:?} {os:?}");
    assert!(os.locks > 4.0 * dbms.locks && os.log_bytes > 20.0 * dbms.log_bytes, "{dbms:?} {os:?}");
}

fn os() -> Parameters {
    Parameters { manager: Manager::Os(Level::Physical), mpl: 20, ..Parameters::default() }
}

#[test]
fn locks_on_records_wait_less_than_locks_on_pages_where_records_are_hot() {
    let with = |dbms_locks| {
        let past = Past { skew: 0.6, dbms_locks, ..Past::default() };
        seconds(&Parameters { mpl: 20, past, ..Parameters::default() }, 1, 100.0, 2000.0)
    };
    let [pages, records] = [DataLocks::Pages, DataLocks::Records].map(with);
    assert!(pages.lock_wait > 1.5 * records.lock_wait, "{pages:?} {records:?}");
}

#[test]
fn splits_change_pages_above_the_leaves() {
    let changed = |split: f64| {
        let rng = &mut Rng::from_seed(1);
        let workload = Workload::new(&Parameters::default());
        let actions: Vec<_> = (0..500).flat_map(|_| workload.choose(rng).series.concat()).collect();
        let pages: Vec<usize> = actions.iter().map(|action| action.pages_changed(3, split)).collect();
        [2, 3].map(|least| pages.iter().filter(|pages| **pages >= least).count() as f64 / pages.len() as f64)
    };
    assert_eq!((changed(0.0), changed(1.0)), ([0.0, 0.0], [1.0, 1.0]));
    let [above, root] = changed(0.3);
    assert!((above - 0.3).abs() < 0.02 && (root - 0.09).abs() < 0.01, "{above} {root}");
    let with =
        |split| seconds(&Parameters { past: Past { split, ..Past::default() }, ..os() }, 1, 100.0, 2000.0);
    let [none, some] = [0.0, 0.05].map(with);
    assert!(some.lock_wait > 1.5 * none.lock_wait && some.throughput < none.throughput, "{none:?} {some:?}");
}

#[test]
fn compression_takes_of_the_processor_what_it_is_said_to() {
    let with = |comp_ratio, cpu_compress| {
        let past = Past { cpu_compress, ..Past::default() };
        seconds(&Parameters { comp_ratio, past, ..os() }, 1, 100.0, 1000.0)
    };
    assert_eq!(with(0.0, 0.0), with(0.0, 20.0), "what is not compressed");
    let [free, dear] = [with(0.8, 0.0), with(0.8, 20.0)];
    assert!(free.log_bytes < 0.3 * with(0.0, 0.0).log_bytes, "{free:?}");
    assert!(dear.cpu_busy > 1.3 * free.cpu_busy && dear.throughput < free.throughput, "{free:?} {dear:?}");
}

#[test]
fn with_memory_for_all_pages_only_the_log_is_written() {
    let in_memory = Parameters { buf_size: 150_000, ..Parameters::default() };
    // No checkpoint comes.
    let found = seconds(&in_memory, 1, 10.0, 200.0);
    assert!((1.0..1.3).contains(&found.ios), "{found:?}");
}

#[test]
fn transactions_counted_instead_of_seconds_find_the_same() {
    let os = os();
    let transactions = run(&os, 1, Length::Transactions(2000), &AtomicBool::new(false));
    let seconds = seconds(&os, 2, 500.0, 4000.0);
    let ratio = |of: fn(&Found) -> f64| of(&transactions) / of(&seconds);
    for ratio in [ratio(|found| found.throughput), ratio(|found| found.locks), ratio(|found| found.ios)] {
        assert!((ratio - 1.0).abs() < 0.05, "{transactions:?} {seconds:?}");
    }
    // Who waits for a lock is given up at once, and nearly everybody does: it ends all the same.
    let hopeless =
        Parameters { max_action_len: 1e-9, past: Past { skew: 5.0, think: 0.0, ..Past::default() }, ..os };
    let found = run(&hopeless, 1, Length::Transactions(100), &AtomicBool::new(false));
    assert!(found.aborts > 9.0 && found.throughput < 0.3, "{found:?}");
}
