//! Counters of what a server has done, cheap enough to be always on.

use gnomon_engine::sync::atomic::{AtomicU64, Ordering};

/// How a value changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It is what is there now.
    Gauge,
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $kind:ident $name:ident,)*) => {
        /// The counters themselves, bumped by connections. Memory and files are filled in where they are read
        /// (`ServerHandle::metrics`).
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Counters {
            /// Their present values. Each is exact, but they are not of one moment.
            pub(crate) fn read(&self) -> Metrics {
                Metrics { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        /// Counters of a server since it was bound.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Metrics {
            /// Each of them: its name, what it says, how it changes, and its value.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, Kind, u64)> {
                [$((stringify!($name), concat!($($doc),*).trim(), Kind::$kind, self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Sockets accepted, those of cancel requests and of refused clients too.
    Counter connections_accepted,
    /// Connections that are open now and past authentication.
    Gauge connections_open,
    /// Clients refused: `connections_max` was reached, or the system had no thread or file descriptor.
    Counter connections_refused,
    /// Clients that failed to authenticate, for whatever reason.
    Counter authentications_failed,
    /// Of these, clients that gave a wrong password or the name of no user.
    Counter passwords_wrong,
    /// Clients that waited before they could give a password, since their address had given wrong ones.
    Counter authentications_delayed,
    /// Clients refused without being asked, since their address had given wrong passwords.
    Counter authentications_throttled,
    /// Simple queries and executions of portals.
    Counter statements,
    /// Reports of severity ERROR or FATAL sent to clients.
    Counter errors,
    /// Cancel requests that named a session rightly.
    Counter cancels,
    /// Connections closed because their client had disappeared in the middle of a statement.
    Counter clients_lost,
    /// Connections closed by a panic: each is a bug.
    Counter panics,
    /// Connections ended before they had authenticated: too slow, or too many at a time.
    Counter connections_displaced,
    /// Bytes of memory that sessions take for statements, portals, cursors, sorts and hashes.
    Gauge session_memory_bytes,
    /// Bytes of temporary files with rows that portals and cursors have yet to return.
    Gauge session_file_bytes,
    /// Statements refused with 53200 because a session, or all together, would take too much memory.
    Counter memory_refused,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
