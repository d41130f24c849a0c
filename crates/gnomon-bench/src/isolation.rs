//! Isolation levels of SQL transactions, as options and as SQL name them.

use std::str::FromStr;

use serde::{Serialize, Serializer};

/// How transactions are isolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// SERIALIZABLE
    Serializable,
    /// REPEATABLE READ
    RepeatableRead,
    /// READ COMMITTED
    ReadCommitted,
}

impl Isolation {
    const NAMES: [(Isolation, &str); 3] = [
        (Isolation::Serializable, "serializable"),
        (Isolation::RepeatableRead, "repeatable-read"),
        (Isolation::ReadCommitted, "read-committed"),
    ];

    /// As options name it.
    pub fn name(self) -> &'static str {
        Isolation::NAMES[self as usize].1
    }

    /// As SQL writes it.
    pub fn sql(self) -> &'static str {
        match self {
            Isolation::Serializable => "SERIALIZABLE",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::ReadCommitted => "READ COMMITTED",
        }
    }
}

impl FromStr for Isolation {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Isolation, String> {
        let named = Isolation::NAMES.into_iter().find(|(_, name)| *name == text);
        named
            .map(|(isolation, _)| isolation)
            .ok_or_else(|| "give serializable, repeatable-read or read-committed".into())
    }
}

impl Serialize for Isolation {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolation_levels_have_names() {
        for (isolation, name) in Isolation::NAMES {
            assert_eq!((name.parse(), isolation.name()), (Ok(isolation), name));
        }
        assert!("snapshot".parse::<Isolation>().is_err());
    }
}
