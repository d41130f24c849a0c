//! Lines on standard output and standard error, for programs whose output may be full or closed.

use std::{
    fmt,
    io::{self, Write as _},
};

/// Prints a line to standard output. If it cannot be written, the program says so and ends with exit code 1.
#[macro_export]
macro_rules! say {
    ($($line:tt)*) => { $crate::print_line(format_args!($($line)*)) };
}

/// Prints a line to standard error, unless it cannot be written.
#[macro_export]
macro_rules! tell {
    ($($line:tt)*) => { $crate::tell_line(format_args!($($line)*)) };
}

#[doc(hidden)]
pub fn print_line(line: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
        tell_line(format_args!("gnomon: cannot write to standard output: {error}"));
        std::process::exit(1);
    }
}

#[doc(hidden)]
pub fn tell_line(line: fmt::Arguments<'_>) {
    // There is no other place to say it.
    let _ = writeln!(io::stderr(), "{line}");
}
