//! Counters of what a server has done, cheap enough to be always on.

use gnomon::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters themselves, bumped by connections.
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

        /// What a server has done since it was bound.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Metrics {
            $($(#[$doc])* pub $name: u64,)*
        }
    };
}

counters! {
    /// Sockets accepted, those of cancel requests and of refused clients too.
    connections_accepted,
    /// Connections that are open now and past authentication.
    connections_open,
    /// Clients refused because `connections_max` was reached.
    connections_refused,
    /// Clients that failed to authenticate.
    authentications_failed,
    /// Simple queries and executions of portals.
    statements,
    /// Reports of severity ERROR or FATAL sent to clients.
    errors,
    /// Cancel requests that named a session rightly.
    cancels,
    /// Connections closed because their client had disappeared in the middle of a statement.
    clients_lost,
    /// Connections closed by a panic: each is a bug.
    panics,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
