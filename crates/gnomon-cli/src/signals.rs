//! Ctrl-C and SIGTERM: the first one asks, the second one ends the program at once (which a database survives).

use std::io;

use gnomon::sync::thread;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

/// Calls `f` at the first of Ctrl-C and SIGTERM, on a thread of its own; a second signal ends the program.
pub fn on_stop(f: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
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

/// Calls `f` at every Ctrl-C, on a thread of its own.
pub fn on_interrupt(f: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT])?;
    thread::spawn_named("signals", move || signals.forever().for_each(|_| f()))?;
    Ok(())
}
