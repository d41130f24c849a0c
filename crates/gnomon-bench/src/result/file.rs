//! Files that people get: a new one is there as a whole, or the old one stays.

use std::{io::Write, path::Path};

/// Writes a file beside the place where it is to be, then puts it there. A regular file that was there is replaced.
///
/// # Errors
/// What the file system says; nothing has changed then.
pub fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    // What a link leads to.
    let target = file.canonicalize();
    let file = target.as_deref().unwrap_or(file);
    if file.exists() && !file.is_file() {
        return Err(std::io::Error::other("it is there and no regular file: name another place"));
    }
    let beside = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut written = builder.prefix(".gnomon-").tempfile_in(beside)?;
    written.write_all(text.as_bytes())?;
    written.as_file().sync_all()?;
    written.persist(file).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_replaces_the_one_before_and_leaves_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("report.html");
        replace(&file, "one").unwrap();
        replace(&file, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "two");
        assert!(replace(directory.path(), "three").is_err(), "a directory is no place for a file");
        assert!(replace(&directory.path().join("none/report.html"), "three").is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
