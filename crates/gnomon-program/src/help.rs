//! Rules for the help of a program.

use clap::{Arg, Command};

/// Columns of the narrowest terminal on which examples are not wrapped.
const COLUMNS: usize = 80;

/// Asserts that the arguments of a program are consistent, that every argument has a short and a long help, and that
/// every command has examples which fit on a terminal. For the tests of the programs.
///
/// # Panics
/// When a rule is broken.
pub fn assert_complete(mut program: Command) {
    let of_people = |command: &&Command| command.get_name() != "help";
    program.build();
    program.clone().debug_assert();
    let mut commands: Vec<&Command> = program.get_subcommands().filter(of_people).collect();
    while let Some(command) = commands.pop() {
        if command.has_subcommands() {
            commands.extend(command.get_subcommands().filter(of_people));
            continue;
        }
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.starts_with("Examples:"), "{}", command.get_name());
        assert!(help.lines().all(|line| line.chars().count() < COLUMNS), "a terminal wraps {help}");
        let own = |argument: &&Arg| !["help", "version"].contains(&argument.get_id().as_str());
        for argument in command.get_arguments().filter(own) {
            let name = format!("{} {}", command.get_name(), argument.get_id());
            assert!(argument.get_help().is_some(), "{name} has no help");
            assert!(argument.get_long_help().is_some(), "{name} has no long help");
        }
    }
}
