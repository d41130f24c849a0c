//! `gnomon hash-password`: lines for the users file of `gnomon serve`.

use std::{
    io::{BufRead, IsTerminal, stdin},
    process::ExitCode,
};

use clap::Args;
use gnomon_program::{Failure, say, signals, tell};
use gnomon_server::Verifier;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

/// The exit code after Ctrl-C, as shells have it: 128 and the signal's number.
const STOPPED: i32 = 130;

/// Makes a line for the users file of `gnomon serve --users-file`: NAME:SCRAM-SHA-256$... .
///
/// The password is the first line of standard input; at a terminal it is asked for, and not shown. The printed line
/// lets the server check the password; a reader of it can neither log in nor learn the password. PostgreSQL keeps the
/// same in pg_authid.
#[derive(Args)]
#[command(after_help = "\
Examples:
  (umask 077; gnomon hash-password alice >> users)
  gnomon hash-password alice < secret
  gnomon serve bank.gnomon --users-file users")]
pub struct HashPassword {
    /// The user's name.
    ///
    /// It may have no line break in it and not be empty. The part of the line from the last `:SCRAM-SHA-256$` on is the
    /// verifier, so the name may have colons.
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: String,
}

fn parse_name(name: &str) -> Result<String, String> {
    if name.is_empty() || name.contains(['\n', '\r']) || name.trim() != name || name.starts_with('#') {
        return Err(
            "no name for a users file: not empty, without line breaks, blanks around it or # before it"
                .into(),
        );
    }
    Ok(name.to_owned())
}

pub fn run(arguments: &HashPassword) -> Result<ExitCode, Failure> {
    let password = read_password().map_err(|error| Failure::new("cannot read the password", error))?;
    if password.is_empty() {
        return Err(Failure("the password is empty: give one as the first line of standard input".into()));
    }
    let verifier = Verifier::new(&password).map_err(|error| Failure(error.to_string()))?;
    say!("{}:{verifier}", arguments.name);
    Ok(ExitCode::SUCCESS)
}

fn read_password() -> std::io::Result<String> {
    let input = stdin();
    let hidden = input.is_terminal().then(|| tcgetattr(&input)).transpose()?;
    if let Some(shown) = &hidden {
        // The terminal outlives the program, also one that ends before it has a password.
        let restored = shown.clone();
        signals::on_stop(move || {
            let _ = tcsetattr(stdin(), OptionalActions::Flush, &restored);
            tell!("");
            std::process::exit(STOPPED);
        })?;
        let mut quiet = shown.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        eprint!("Password: ");
        tcsetattr(&input, OptionalActions::Flush, &quiet)?;
    }
    let mut line = String::new();
    let read = input.lock().read_line(&mut line);
    if let Some(shown) = &hidden {
        tcsetattr(&input, OptionalActions::Flush, shown)?;
        tell!("");
    }
    read?;
    line.truncate(line.trim_end_matches(['\n', '\r']).len());
    Ok(line)
}
