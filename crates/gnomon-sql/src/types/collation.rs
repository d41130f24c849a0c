//! Collations. All order text by its bytes; they are told apart where they are shown.

/// The collation of a database's texts, which is not shown.
pub const DEFAULT_COLLATION: u32 = 100;

/// Names and identifiers of the collations that there are (`pg_collation`).
const COLLATIONS: [(&str, u32); 4] =
    [("default", DEFAULT_COLLATION), ("C", 950), ("POSIX", 951), ("ucs_basic", 12340)];

/// Returns the identifier of the collation of this name.
pub fn collation_oid(name: &str) -> Option<u32> {
    COLLATIONS.iter().find(|(other, _)| *other == name).map(|(_, oid)| *oid)
}

/// Returns the name of a collation.
pub fn collation_name(oid: u32) -> Option<&'static str> {
    COLLATIONS.iter().find(|(_, other)| *other == oid).map(|(name, _)| *name)
}
