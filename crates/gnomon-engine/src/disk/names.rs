//! The names that files of databases have, of whichever recovery method.
//!
//! A directory may hold other things beside them, such as `lost+found` or the socket of a server. But where one of these
//! names is there, it must be that of a regular file: a link would have two databases share a file, or a file replaced
//! that is elsewhere; a pipe or a device may keep a reader waiting for ever.

/// Names of single files, also of those that are being made.
const FILES: [&str; 8] = [
    "pages",
    "pages.new",
    "pages.restoring",
    "disks",
    "disks.new",
    "commits",
    "logged-pages",
    "logged-pages.new",
];

/// True if a file of a database can have this name.
pub(super) fn is_of_a_database(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_log =
        |log: &str| matches!(log, "commits" | "ops") || log.strip_prefix("redo-").is_some_and(is_number);
    FILES.contains(&name) || name.rsplit_once('.').is_some_and(|(log, slot)| is_log(log) && is_number(slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_databases_are_told_from_others() {
        for name in [
            "pages",
            "pages.new",
            "pages.restoring",
            "disks",
            "commits",
            "commits.0",
            "commits.17",
            "ops.3",
            "redo-0.0",
            "redo-15.2",
        ] {
            assert!(is_of_a_database(name), "{name}");
        }
        for name in [
            "lost+found",
            ".s.PGSQL.5433",
            "page",
            "commits.",
            "commits.x",
            "redo-.1",
            "redo-1",
            "ops",
            "a.0",
        ] {
            assert!(!is_of_a_database(name), "{name}");
        }
    }
}
