//! A directory of backups: numbered files, full and incremental, each of which says what it is. A backup has its name
//! when it is complete and durable; before that it is called `.part`.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use gnomon_engine::{
    BackupHeader, BackupId, Error,
    disk::{Disk, File, FileDisk},
    read_backup_header,
    sync::Arc,
};
use gnomon_program::Failure;

const SUFFIX: &str = ".gnomon-backup";
const PART_SUFFIX: &str = ".part";
/// Bytes that are written at a time, and bytes after which a file is synced: other syncs then do not have to wait for
/// a whole backup.
const WRITE_BYTES: usize = 1 << 20;
const SYNC_BYTES: u64 = 32 << 20;

/// A directory of backups.
pub struct BackupSet {
    path: PathBuf,
    disk: FileDisk,
    /// In the order in which they were taken.
    pub backups: Vec<Stored>,
    /// The files that have the name of a backup and cannot be read as one, in the order of their numbers.
    pub unreadable: Vec<Unreadable>,
}

/// A file that has the name of a backup, and none of whose contents is known.
pub struct Unreadable {
    pub name: String,
    number: u32,
    /// The defect, and what to do.
    pub why: String,
}

/// A backup in a directory.
pub struct Stored {
    pub name: String,
    number: u32,
    pub header: BackupHeader,
    pub bytes: u64,
}

impl BackupSet {
    /// Opens a directory to read backups from it.
    pub fn open(path: &Path) -> Result<BackupSet, Failure> {
        BackupSet::read(path, FileDisk::open_read_only(path))
    }

    /// Opens a directory to add a backup, or makes one. No other process can have it open.
    pub fn open_for_writing(path: &Path) -> Result<BackupSet, Failure> {
        let set = BackupSet::read(path, FileDisk::open(path, true))?;
        let names = set.disk.list().map_err(|error| set.failure(error))?;
        // A backup that was cut short has left it: no other process writes here.
        for name in names.iter().filter(|name| name.ends_with(PART_SUFFIX)) {
            set.disk.remove(name).map_err(|error| set.failure(error))?;
        }
        Ok(set)
    }

    fn read(path: &Path, disk: gnomon_engine::Result<FileDisk>) -> Result<BackupSet, Failure> {
        let shown = path.display();
        let disk = disk.map_err(|error| match error {
            Error::InUse { .. } => {
                Failure(format!("another backup or restore uses {shown}: try again when it has ended"))
            }
            Error::NotADatabase { detail, .. } => {
                Failure(format!("there are no backups in {shown} ({detail}): name a directory of backups"))
            }
            error => Failure::new(shown, error),
        })?;
        let mut set = BackupSet { path: path.into(), disk, backups: Vec::new(), unreadable: Vec::new() };
        for (number, name, is_file) in set.names().map_err(|error| set.failure(error))? {
            match set.read_header(&name, is_file) {
                Ok((header, bytes)) => set.backups.push(Stored { name, number, header, bytes }),
                Err(Failure(why)) => set.unreadable.push(Unreadable { name, number, why }),
            }
        }
        Ok(set)
    }

    /// Returns the files that have the name of a backup, in the order of their numbers: number, name, and true if it
    /// is a regular file.
    fn names(&self) -> io::Result<Vec<(u32, String, bool)>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string()
                && let Some(number) = number_of(&name)
            {
                names.push((number, name, entry.file_type()?.is_file()));
            }
        }
        names.sort();
        Ok(names)
    }

    fn read_header(&self, name: &str, is_file: bool) -> Result<(BackupHeader, u64), Failure> {
        let path = self.path_of(name);
        if !is_file {
            return Err(Failure(format!(
                "{path} has the name of a backup and is no regular file: put the backup itself in its place, or move it \
                 away"
            )));
        }
        let (mut file, bytes) = self.open_file(name)?;
        let header = read_backup_header(&mut file)
            .map_err(|error| Failure(format!("{path}: {}", super::explain(&error, |_| "it".into()))))?;
        match self.backups.iter().find(|other| other.header.id == header.id) {
            Some(other) => Err(Failure(format!("{path} is a copy of {}: move it away", other.name))),
            None => Ok((header, bytes)),
        }
    }

    /// The reason why the newest backup cannot be told, if it cannot: a newer one is unreadable.
    pub fn unreadable_newest(&self) -> Option<&str> {
        let newest = self.backups.last().map_or(0, |stored| stored.number);
        self.unreadable.iter().rev().find(|other| other.number >= newest).map(|other| other.why.as_str())
    }

    fn failure(&self, error: impl std::fmt::Display) -> Failure {
        Failure::new(self.path.display(), error)
    }

    /// The path of one of its files, for messages.
    pub fn path_of(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn open_file(&self, name: &str) -> Result<(FileReader, u64), Failure> {
        let file = self.disk.open(name, false).map_err(|error| Failure::new(self.path_of(name), error))?;
        let len = file.len().map_err(|error| Failure::new(self.path_of(name), error))?;
        Ok((FileReader { file, at: 0, len }, len))
    }

    /// Opens a backup.
    pub fn reader(&self, stored: &Stored) -> Result<impl Read + use<>, Failure> {
        Ok(io::BufReader::with_capacity(WRITE_BYTES, self.open_file(&stored.name)?.0))
    }

    /// The backups that restore the state `until`, or the newest: a full one, and those that go on from it.
    pub fn chain(&self, until: Option<BackupId>) -> Result<Vec<&Stored>, Failure> {
        let path = self.path.display();
        if let (None, Some(why)) = (until, self.unreadable_newest()) {
            return Err(Failure(format!("{why}; by --until an earlier backup is restored")));
        }
        let mut at = match until {
            None => self.backups.len().checked_sub(1),
            Some(until) => self.backups.iter().rposition(|stored| stored.header.id == until),
        }
        .ok_or_else(|| match until {
            None => Failure(format!("there are no backups in {path}: name a directory of backups")),
            Some(until) => Failure(format!(
                "there is no backup {until} in {path}: `gnomon backup --list {path}` shows them"
            )),
        })?;
        let mut chain = vec![&self.backups[at]];
        while let Some(since) = self.backups[at].header.since {
            at = self.before(at, since).ok_or_else(|| {
                Failure(format!("{}, or restore an earlier one by --until", self.lacks(at, since)))
            })?;
            chain.push(&self.backups[at]);
        }
        chain.reverse();
        Ok(chain)
    }

    /// The backup that another goes on from.
    fn before(&self, at: usize, since: BackupId) -> Option<usize> {
        self.backups[..at].iter().rposition(|stored| stored.header.id == since)
    }

    fn lacks(&self, at: usize, since: BackupId) -> String {
        format!(
            "{} goes on from backup {since}, which is not in {}: bring that one back{}",
            self.backups[at].name,
            self.path.display(),
            self.unreadable.iter().map(|other| format!(" ({})", other.why)).collect::<String>()
        )
    }

    /// The reason if a backup cannot be restored because one before it is missing.
    pub fn gap_before(&self, stored: &Stored) -> Option<String> {
        let mut at = self.backups.iter().position(|other| other.name == stored.name)?;
        while let Some(since) = self.backups[at].header.since {
            match self.before(at, since) {
                Some(before) => at = before,
                None => return Some(self.lacks(at, since)),
            }
        }
        None
    }

    /// Adds a backup, which `write` writes; `incremental` is part of its name.
    pub fn add<T>(
        &self,
        incremental: bool,
        write: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
    ) -> Result<(T, String), Failure> {
        let numbers = self.backups.iter().map(|stored| stored.number);
        let numbers = numbers.chain(self.unreadable.iter().map(|other| other.number));
        let number = numbers.max().unwrap_or(0).saturating_add(1);
        let kind = if incremental { "incremental" } else { "full" };
        let name = format!("{number:04}-{kind}{SUFFIX}");
        let part = format!("{name}{PART_SUFFIX}");
        let failed = |error: io::Error| Failure::new(self.path_of(&name), error);
        let file = self.disk.open(&part, true).map_err(failed)?;
        file.truncate(0).map_err(failed)?;
        let mut out =
            io::BufWriter::with_capacity(WRITE_BYTES, FileWriter { file: file.clone(), at: 0, synced: 0 });
        let written = write(&mut out).and_then(|done| {
            out.flush()
                .and_then(|()| file.sync())
                .and_then(|()| self.disk.rename(&part, &name))
                .map_err(failed)?;
            Ok(done)
        });
        if written.is_err() {
            // If that fails too, the next backup removes it.
            let _ = self.disk.remove(&part);
        }
        Ok((written?, name))
    }
}

/// The number of a backup, by the name of its file.
fn number_of(name: &str) -> Option<u32> {
    let (number, kind) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    if ["full", "incremental"].contains(&kind) { number.parse().ok() } else { None }
}

struct FileReader {
    file: Arc<dyn File>,
    at: u64,
    len: u64,
}

impl Read for FileReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = usize::try_from(self.len - self.at).unwrap_or(usize::MAX).min(buf.len());
        self.file.read_at(self.at, &mut buf[..count])?;
        self.at += count as u64;
        Ok(count)
    }
}

struct FileWriter {
    file: Arc<dyn File>,
    at: u64,
    synced: u64,
}

impl Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(self.at, bytes)?;
        self.at += bytes.len() as u64;
        if self.at - self.synced >= SYNC_BYTES {
            self.file.sync()?;
            self.synced = self.at;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers() {
        assert_eq!(number_of("0012-full.gnomon-backup"), Some(12));
        assert_eq!(number_of("12345-incremental.gnomon-backup"), Some(12_345));
        for other in ["0001-full.gnomon-backup.part", "full.gnomon-backup", "1-other.gnomon-backup", "pages"]
        {
            assert_eq!(number_of(other), None);
        }
    }
}
