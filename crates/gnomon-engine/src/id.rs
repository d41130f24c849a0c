//! The identifiers that every layer speaks of, each a type of its own so that they cannot be mixed up.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A logical page number: what trees point to. The store maps it to a place on disk.
    PageId
}
id! {
    /// A tree (an ordered map from keys to values), the unit that SQL stores a table or an index in.
    TreeId
}
id! {
    /// A running transaction; larger is younger. Not stored, and not the order of commits.
    TxnId
}
id! {
    /// Commit sequence number: the serial order of commits. Zero is before every commit.
    Csn
}
id! {
    /// A subtransaction of a logged store. No two have the same number, after a crash either.
    SubtxnId
}
id! {
    /// A position in a log, in bytes since the log was made.
    Lsn
}
