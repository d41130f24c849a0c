//! The limit on open files, raised for as many connections as the server may have.

use gnomon_program::Failure;
use gnomon_server::descriptors_needed;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for all but the sockets of clients: files of the database, spilled rows, metrics, a cluster.
const OTHERS: u64 = 256;

/// Raises the soft limit on open files as far as `connections_max` connections need, and no further.
///
/// # Errors
/// The hard limit is lower than that.
pub fn provide(connections_max: u32) -> Result<(), Failure> {
    let needed = descriptors_needed(connections_max as usize) as u64 + OTHERS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = maximum.filter(|&maximum| maximum < needed) {
        return Err(Failure(format!(
            "--connections-max {connections_max} needs {needed} open files, and the system allows {maximum}: \
             raise the hard limit (ulimit -Hn), or allow fewer connections"
        )));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum })
        .map_err(|error| Failure::new("cannot raise the limit on open files", error))
}
