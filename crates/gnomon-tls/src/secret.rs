//! Files that hold secrets: keys, passwords, verifiers, tokens.
//!
//! The rule is PostgreSQL's for its key: the owner is the user of the process or root, and no other user can read it; of
//! a file of root, its group can. The check is made on the opened file, so that no other file takes its place meanwhile.
//! A pipe is a file too: a shell passes a secret by `--password-file <(command)`.

use std::{
    fs::{File, Metadata},
    io::Read,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// No file of a secret is longer; users files have a line of some 130 bytes for each user.
const BYTES_MAX: u64 = 64 << 20;

/// Reads a file that holds a secret. `what` names it in messages ("password file").
///
/// # Errors
/// The file cannot be read, or others can read or change it; the text names the file and the remedy.
pub fn read(what: &str, path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("cannot read the {what} {}: {error}", path.display());
    #[expect(clippy::disallowed_methods, reason = "a secret holds no bytes of the database")]
    let file = File::open(path).map_err(failed)?;
    check(what, path, &file.metadata().map_err(failed)?)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("cannot read the {what} {}: it has more than {BYTES_MAX} bytes", path.display()));
    }
    Ok(bytes)
}

/// Reads a file that holds a secret as text.
///
/// # Errors
/// As [`read`]; the file is not UTF-8.
pub fn read_text(what: &str, path: &Path) -> Result<String, String> {
    String::from_utf8(read(what, path)?)
        .map_err(|_| format!("cannot read the {what} {}: it is not UTF-8", path.display()))
}

/// Reads the secret that is the first line of a file.
///
/// # Errors
/// As [`read_text`]; the line is empty.
pub fn read_line(what: &str, path: &Path) -> Result<String, String> {
    let text = read_text(what, path)?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(format!("the {what} {} is empty: write the secret into its first line", path.display())),
    }
}

/// True if two secrets are equal, in a time that depends on their lengths only.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && std::hint::black_box(a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b))) == 0
}

fn check(what: &str, path: &Path, file: &Metadata) -> Result<(), String> {
    const OTHERS: u32 = 0o077;
    const OTHERS_BUT_READING_GROUP: u32 = 0o037;
    let path = path.display();
    if file.is_dir() {
        return Err(format!("cannot read the {what} {path}: it is a directory"));
    }
    let is_of_root = file.uid() == 0;
    if !is_of_root && file.uid() != rustix::process::geteuid().as_raw() {
        return Err(format!("the {what} {path} must be owned by the user that runs gnomon, or by root"));
    }
    let forbidden = if is_of_root { OTHERS_BUT_READING_GROUP } else { OTHERS };
    if file.mode() & forbidden == 0 {
        return Ok(());
    }
    let mode = file.mode() & 0o7777;
    Err(format!(
        "the {what} {path} has group or world access (mode {mode:04o}): it must have mode 0600 or less, or 0640 or less \
         if root owns it: chmod 600 {path}"
    ))
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's file")]
    fn files_that_others_can_read_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let is_of_root = rustix::process::geteuid().is_root();
        for mode in 0..=0o777 {
            if mode & 0o400 == 0 {
                continue; // its owner cannot read it
            }
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let is_private = mode & if is_of_root { 0o037 } else { 0o077 } == 0;
            match read_line("password file", &path) {
                Ok(line) => assert!(is_private && line == "one", "{mode:o}"),
                Err(error) => assert!(!is_private && error.contains("chmod 600"), "{mode:o}: {error}"),
            }
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test's file")]
    fn what_is_no_secret_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        assert!(read_line("token file", &path).unwrap_err().starts_with("cannot read the token file"));
        assert!(read_line("token file", dir.path()).unwrap_err().contains("directory"));
        for (content, message) in [(&b""[..], "is empty"), (b"\nx", "is empty"), (b"\xff", "not UTF-8")] {
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            assert!(read_line("token file", &path).unwrap_err().contains(message), "{content:?}");
        }
    }
}
