use super::{
    model::run,
    parameters::{Level, Manager, Parameters},
};

#[test]
fn a_seed_repeats_a_run_and_what_the_manager_knows_counts() {
    let os = Parameters { manager: Manager::Os(Level::Physical), ..Parameters::default() };
    let [dbms, os] = [Parameters::default(), os].map(|parameters| {
        let found = run(&parameters, 1, 100.0, 1000.0);
        assert_eq!(found, run(&parameters, 1, 100.0, 1000.0));
        assert_ne!(found, run(&parameters, 2, 100.0, 1000.0));
        found
    });
    assert!(dbms.throughput > 1.1 * os.throughput, "{dbms:?} {os:?}");
    assert!(os.locks > 4.0 * dbms.locks && os.log_bytes > 20.0 * dbms.log_bytes, "{dbms:?} {os:?}");
}
