//! The program `gnomon`: a database that is served, asked, measured, inspected, verified and backed up.
//!
//! Exit codes, and what goes to standard output and to standard error: [`gnomon_program`].

mod allocator;
mod backup;
mod disk;
mod hash_password;
mod inspect;
mod other_program;
mod scrub;
mod serve;
mod shell;
mod storage;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use gnomon_program::{Failure, signals, tell};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const EXAMPLES: &str = "\
Examples:
  gnomon sql bank.gnomon                  a shell on the database in there
  gnomon sql bank.gnomon --file bank.sql  run a script; makes what is not there
  gnomon serve bank.gnomon                then: psql -h 127.0.0.1 -p 5433
  gnomon bench tpcb --clients 32          durable transactions a second
  gnomon verify bank.gnomon               read everything, say what is damaged
  gnomon backup bank.gnomon --to backups  then: gnomon restore backups DIR";

#[derive(Parser)]
#[command(
    name = "gnomon",
    version,
    about = "A durable transactional database that speaks PostgreSQL",
    after_help = EXAMPLES,
    max_term_width = 100
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[expect(clippy::large_enum_variant, reason = "a program has one")]
enum Command {
    /// Serve a database over the PostgreSQL protocol until Ctrl-C or SIGTERM.
    Serve(serve::Serve),
    /// Run SQL on a database: a shell, or commands and scripts.
    Sql(shell::Sql),
    /// Show what a database consists of.
    Inspect(inspect::Inspect),
    /// Read everything that a database has and say what is damaged.
    Verify(verify::Verify),
    /// Show the disks of a database, or add one.
    Disk(disk::Disk),
    /// Read every copy of everything, and repair what is damaged.
    Scrub(scrub::Scrub),
    /// Back up a database, while it is served or not.
    Backup(backup::Backup),
    /// Make a database of backups.
    Restore(backup::Restore),
    /// Make a line for the users file of a server.
    HashPassword(hash_password::HashPassword),
    #[command(flatten)]
    Other(other_program::Command),
}

fn main() -> ExitCode {
    allocator::give_freed_memory_back();
    let command = Arguments::parse().command;
    // A server works for its clients: it goes on when the reader of its messages is gone.
    let pipe = if matches!(command, Command::Serve(_)) { Ok(()) } else { signals::end_on_closed_pipe() };
    if let Err(error) = pipe.and_then(|()| signals::survive_long_files()) {
        tell!("gnomon: cannot listen to signals: {error}");
        return ExitCode::FAILURE;
    }
    let done = match command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Sql(arguments) => shell::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Disk(arguments) => disk::run(&arguments),
        Command::Scrub(arguments) => scrub::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => backup::run_restore(&arguments),
        Command::HashPassword(arguments) => hash_password::run(&arguments),
        Command::Other(command) => Err(other_program::run(&command)),
    };
    done.unwrap_or_else(|Failure(message)| {
        tell!("gnomon: {message}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent_and_every_command_has_examples() {
        assert!(EXAMPLES.lines().all(|line| line.chars().count() < 80));
        let command = Arguments::command();
        assert_eq!(command.get_subcommands().count(), 12);
        gnomon_program::help::assert_complete(command);
    }
}
