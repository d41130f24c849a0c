//! Runs the program.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

pub use gnomon_testing::process::{Ran, text};

/// The program with its arguments.
pub fn gnomon(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnomon"));
    command.args(arguments);
    command
}

/// Runs the program to its end, with nothing on its standard input.
pub fn run(arguments: &[&str]) -> Ran {
    gnomon(arguments).stdin(Stdio::null()).output().unwrap().into()
}

/// Runs the program to its end, with a text on its standard input.
pub fn run_with(arguments: &[&str], input: &str) -> Ran {
    let mut child = gnomon(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end without reading all of it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap().into()
}

/// A server process on a free loopback port; killed when dropped.
pub struct Served {
    child: Child,
    pub port: u16,
    /// From starting the process to its announcement.
    pub started_in: Duration,
}

impl Served {
    pub fn start(directory: &Path) -> Served {
        Served::start_with(directory, &[])
    }

    /// With more arguments.
    pub fn start_with(directory: &Path, arguments: &[&str]) -> Served {
        let mut command = gnomon(&["serve", text(directory), "--listen", "127.0.0.1:0"]);
        command.args(arguments);
        Served::start_by(command, Stdio::null())
    }

    /// By a command that runs `gnomon serve`, whose standard error goes to `stderr`.
    pub fn start_by(mut command: Command, stderr: Stdio) -> Served {
        let began = Instant::now();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        Served {
            port: port.unwrap_or_else(|| panic!("no port in {line:?}")),
            started_in: began.elapsed(),
            child,
        }
    }

    pub fn connect(&self) -> Result<postgres::Client, postgres::Error> {
        let config = format!("host=127.0.0.1 port={} user=gnomon dbname=gnomon", self.port);
        postgres::Client::connect(&config, postgres::NoTls)
    }

    /// SIGKILL, now; who it serves will notice.
    pub fn kill(&self) {
        self.signal("-KILL");
    }

    /// SIGHUP, as at the end of its terminal.
    pub fn hang_up(&self) {
        self.signal("-HUP");
    }

    /// Ctrl-C; returns the exit code.
    pub fn interrupt(self) -> Option<i32> {
        self.signal("-INT");
        self.wait()
    }

    /// Waits until it ends; returns the exit code.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number from the environment.
pub fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .map_or(otherwise, |value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}
