use super::{
    model::run,
    parameters::{Level, Manager, Parameters},
};

#[test]
fn a_seed_repeats_a_run_and_both_managers_run() {
    let os = Parameters { manager: Manager::Os(Level::Physical), ..Parameters::default() };
    for parameters in [Parameters::default(), os] {
        let found = run(&parameters, 1, 100.0, 1000.0);
        eprintln!("{found:#?}");
        assert_eq!(found, run(&parameters, 1, 100.0, 1000.0));
        assert_ne!(found, run(&parameters, 2, 100.0, 1000.0));
    }
}
