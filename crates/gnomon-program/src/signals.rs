//! Ctrl-C, SIGTERM and the end of the terminal: the first one asks, the second one ends the program at once (which a
//! database survives). SIGPIPE: the reader of the output is gone, which ends the program silently. SIGXFSZ: a file
//! may not become longer, which the write that tried it reports as an error.

use std::io;

use gnomon_engine::sync::{Arc, atomic::AtomicBool, thread};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, signal::SIGXFSZ},
    flag,
    iterator::Signals,
};

/// Calls `f` at the first of Ctrl-C, SIGTERM and, unless it is ignored, SIGHUP, on a thread of its own; a second signal
/// ends the program.
pub fn on_stop(f: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // `nohup` has the end of the terminal ignored.
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    thread::spawn_named("signals", move || {
        let mut arrived = signals.forever();
        if arrived.next().is_some() {
            f();
        }
        if let Some(signal) = arrived.next() {
            std::process::exit(128 + signal);
        }
    })?;
    Ok(())
}

/// True if the program was started with a signal ignored, as far as the system tells.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored >> (signal - 1) & 1 == 1
}

/// Makes the program end at once when it prints into a pipe without a reader, as `gnomon sql ... | head` does, with
/// the status that other programs end with then (a shell's 141). Without this, Rust's runtime ignores the signal, and
/// each print fails.
pub fn end_on_closed_pipe() -> io::Result<()> {
    flag::register_conditional_default(SIGPIPE, Arc::new(AtomicBool::new(true)))?;
    Ok(())
}

/// Makes a write beyond the largest length of a file fail instead of ending the program: it is a full disk to the
/// engine.
pub fn survive_long_files() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default())?;
    Ok(())
}

/// Calls `f` at every Ctrl-C, on a thread of its own.
pub fn on_interrupt(f: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT])?;
    thread::spawn_named("signals", move || signals.forever().for_each(|_| f()))?;
    Ok(())
}
