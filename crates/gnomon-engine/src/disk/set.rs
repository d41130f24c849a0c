//! The disks of a database: a directory on each.
//!
//! A database with more than one names their directories in each of them, in the file [`LIST_FILE`]: absolute paths,
//! one a line, after the word `mirrored` if it is; then the checksum of all that. When a directory is moved, its line
//! must be changed in all of them; the checksums are made anew when the database is opened the next time with all its
//! disks. The list is written before the database knows a new disk, so it may name directories that are no disk of
//! it; the database itself knows which are.

use std::path::{Path, PathBuf};

use super::{Disk, FileDisk};
use crate::{Error, Result, sync::Arc};

/// The file that names the directories.
pub const LIST_FILE: &str = "disks";
const NEW_LIST_FILE: &str = "disks.new";
/// The list, and one whose writing was cut short.
pub(crate) const LIST_FILES: [&str; 2] = [LIST_FILE, NEW_LIST_FILE];
const MIRRORED: &str = "mirrored";
/// Begins the last line of a list: the crc32c of what comes before, as 8 hexadecimal digits.
const CHECKSUM: &str = "checksum ";

/// The file of a disk until it is one of a database; what is kept there names it.
const UNFINISHED_FILE: &str = "pages.new";
/// The file of a database that is being restored, until it is whole and verified. It has a name of its own so that a
/// restore that was cut short is not taken for a directory where a database can be made.
pub(crate) const RESTORING_FILE: &str = "pages.restoring";

/// The disks of a database, as they are opened.
pub struct DiskSet {
    members: Vec<Member>,
    mirrored: bool,
    /// Directories that are named and could not be opened, and why.
    missing: Vec<(PathBuf, Error)>,
}

struct Member {
    /// None if it is no directory.
    path: Option<PathBuf>,
    disk: Arc<dyn Disk>,
}

/// The contents of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct List {
    mirrored: bool,
    paths: Vec<PathBuf>,
}

impl DiskSet {
    /// Opens the disks of the database in the directory `path`, which may be any of its directories, exclusively.
    /// Where there is no database yet, `further` are the directories of its other disks, and with `create` all are
    /// made. For a database that exists they may be named again.
    ///
    /// # Errors
    /// As [`FileDisk::open`] for `path`; [`Error::InUse`] for any; [`Error::BadOption`] if `further` are named of a
    /// database that has its disks.
    pub fn open(
        path: impl AsRef<Path>,
        further: &[PathBuf],
        mirrored: bool,
        create: bool,
    ) -> Result<DiskSet> {
        let first = FileDisk::open(&path, create)?;
        refuse_interrupted_restore(&first, path.as_ref())?;
        let listed = List::read(&first)?;
        let names_all = |list: &List, further: &[PathBuf]| {
            further.iter().all(|other| list.paths.iter().any(|path| is_same(path, other)))
        };
        if mirrored && listed.as_ref().is_some_and(|list| !list.mirrored) && is_used(&first)? {
            return Err(Error::BadOption(
                "the database is not mirrored: make it so by `gnomon disk add DIR NEW --mirror`".into(),
            ));
        }
        let list = match (listed, further) {
            // So that a command that makes the database opens it the next time.
            (Some(list), further) if names_all(&list, further) && is_used(&first)? => list,
            (Some(list), []) => list,
            (None, []) if mirrored => {
                return Err(Error::BadOption("a mirrored database has two disks: name another one".into()));
            }
            (None, []) => return Ok(Member::directory(path.as_ref(), first)?.into()),
            (listed, _) => {
                let list = List { mirrored, paths: absolute(path.as_ref(), further)? };
                // Making it may have been cut short.
                if listed.is_some_and(|listed| listed != list) || is_used(&first)? {
                    return Err(Error::BadOption(format!(
                        "{} holds a database already, which knows its disks: open it by itself, and add disks with `gnomon disk add`",
                        path.as_ref().display()
                    )));
                }
                let mut others = Vec::with_capacity(further.len());
                for path in &list.paths[1..] {
                    let other = FileDisk::open(path, create)?;
                    refuse_interrupted_restore(&other, path)?;
                    others.push(other);
                }
                others.iter().try_for_each(|other| list.write(other))?;
                list.write(&first)?;
                list
            }
        };
        DiskSet::of_list(path.as_ref(), first, list, |other| FileDisk::open(other, false))
    }

    /// The disks of the database in the directory `path`, to look at.
    ///
    /// # Errors
    /// As [`FileDisk::open_read_only`] for `path`; [`Error::InUse`] for any.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<DiskSet> {
        let first = FileDisk::open_read_only(&path)?;
        let Some(list) = List::read(&first)? else {
            return Ok(Member::directory(path.as_ref(), first)?.into());
        };
        DiskSet::of_list(path.as_ref(), first, list, |other| FileDisk::open_read_only(other))
    }

    /// The directories of a list, of which one is open already.
    fn of_list(
        path: &Path,
        first: FileDisk,
        list: List,
        open: impl Fn(&Path) -> Result<FileDisk>,
    ) -> Result<DiskSet> {
        let mut set = DiskSet { members: Vec::new(), mirrored: list.mirrored, missing: Vec::new() };
        let mut first = Some(first);
        let mut seen: Vec<PathBuf> = Vec::new();
        for other in list.paths {
            if seen.iter().any(|seen| is_same(seen, &other)) {
                continue;
            }
            seen.push(other.clone());
            match first.take_if(|_| is_same(path, &other)) {
                Some(first) => set.members.push(Member::directory(&other, first)?),
                None => set.push(other.clone(), open(&other))?,
            }
        }
        if let Some(first) = first {
            // It was moved, and its line not changed yet.
            set.members.insert(0, Member::directory(path, first)?);
        }
        Ok(set)
    }

    fn push(&mut self, path: PathBuf, opened: Result<FileDisk>) -> Result<()> {
        match opened {
            Ok(disk) => self.members.push(Member::directory(&path, disk)?),
            Err(error @ Error::InUse { .. }) => return Err(error),
            Err(error) => self.missing.push((path, error)),
        }
        Ok(())
    }

    /// A set of disks that are no directories.
    pub fn of(disks: Vec<Arc<dyn Disk>>, mirrored: bool) -> DiskSet {
        let members = disks.into_iter().map(|disk| Member { path: None, disk }).collect();
        DiskSet { members, mirrored, missing: Vec::new() }
    }

    /// Opens a directory on a fresh disk and names it with the others: gives which of [`DiskSet::disks`] it is. The
    /// database does not know it yet. `is_used` tells of those that are there whether it uses them: a directory that
    /// was emptied, or whose adding was cut short, is taken again.
    pub(crate) fn add(
        &mut self,
        path: &Path,
        mirrored: bool,
        is_used: impl Fn(usize) -> bool,
    ) -> Result<usize> {
        let path = std::path::absolute(path)?;
        let is_it = |member: &Member| member.path.as_deref().is_some_and(|other| is_same(other, &path));
        let index = match self.members.iter().position(is_it) {
            Some(index) if is_used(index) => {
                return Err(Error::BadOption(format!("{} is one of its disks already", path.display())));
            }
            Some(index) => index,
            None => {
                let disk = FileDisk::open(&path, true)?;
                self.members.push(Member::directory(&path, disk)?);
                self.members.len() - 1
            }
        };
        let new = self.members[index].disk.clone();
        if self::is_used(&*new)? {
            return Err(Error::BadOption(format!(
                "{} has files already: name an empty directory or a new one",
                path.display()
            )));
        }
        self.missing.retain(|(missing, _)| !is_same(missing, &path));
        self.mirrored |= mirrored;
        let missing = self.missing.iter().map(|(path, _)| path.clone());
        let paths = self.members.iter().filter_map(|member| member.path.clone()).chain(missing).collect();
        let list = List { mirrored: self.mirrored, paths };
        list.write(&*new)?;
        for (number, member) in self.members.iter().enumerate().filter(|(number, _)| *number != index) {
            match list.write(&*member.disk) {
                // That of a disk that is lost; and a full one may be why another is added.
                Err(error) if !is_used(number) || matches!(error, Error::DiskFull) => {}
                written => written?,
            }
        }
        Ok(index)
    }

    /// The refusal of a database of several disks whose only directory here has no list: the others may be whole.
    ///
    /// # Errors
    /// Of reading.
    pub(crate) fn refusal_without_list(&self) -> Result<Option<Error>> {
        let [Member { path: Some(path), disk }] = &*self.members else { return Ok(None) };
        let is_listed = List::bytes(&**disk)?.is_some();
        Ok((!is_listed).then(|| {
            Error::BadOption(format!(
                "the database has several disks, but the file '{LIST_FILE}' in {0}, which names their directories, is \
                 missing: open the database by another of its directories, which writes the file anew, or write the \
                 absolute paths of all to {0}/{LIST_FILE}, one a line",
                path.display()
            ))
        }))
    }

    /// Lists that are missing or not as they were written, and which of [`DiskSet::disks`] they are on.
    ///
    /// # Errors
    /// Of reading.
    pub(crate) fn damaged_lists(&self) -> Result<Vec<usize>> {
        let mut damaged = Vec::new();
        for (index, member) in self.members.iter().enumerate() {
            let is_alone = member.path.is_none() || self.members.len() + self.missing.len() == 1;
            let is_whole = List::bytes(&*member.disk)?.map_or(is_alone, |bytes| List::is_whole(&bytes));
            if !is_whole {
                damaged.push(index);
            }
        }
        Ok(damaged)
    }

    /// Writes lists anew that are missing, were changed by hand or damaged, now that it is known that no disk of the
    /// database is missing, and which `is_used` by it.
    ///
    /// # Errors
    /// Of reading and writing.
    pub(crate) fn mend_lists(&mut self, mirrored: bool, is_used: impl Fn(usize) -> bool) -> Result<()> {
        let damaged = self.damaged_lists()?;
        if damaged.is_empty() {
            return Ok(());
        }
        // What is named beside the disks that are there is none of the database's.
        self.missing.clear();
        let used = self.members.iter().enumerate().filter(|(index, _)| is_used(*index));
        let list = List { mirrored, paths: used.filter_map(|(_, member)| member.path.clone()).collect() };
        damaged.into_iter().try_for_each(|index| list.write(&*self.members[index].disk))
    }

    /// The disks that could be opened.
    pub fn disks(&self) -> impl Iterator<Item = &Arc<dyn Disk>> {
        self.members.iter().map(|member| &member.disk)
    }

    /// The directory of one of [`DiskSet::disks`]; none if it is none.
    pub fn path(&self, index: usize) -> Option<&Path> {
        self.members.get(index)?.path.as_deref()
    }

    /// Directories that should be there and could not be opened, and why.
    pub fn missing(&self) -> &[(PathBuf, Error)] {
        &self.missing
    }

    /// True if a database that is made on them is to be mirrored.
    pub fn is_mirrored(&self) -> bool {
        self.mirrored
    }
}

impl Member {
    fn directory(path: &Path, disk: FileDisk) -> Result<Member> {
        Ok(Member { path: Some(std::path::absolute(path)?), disk: Arc::new(disk) })
    }
}

impl From<Member> for DiskSet {
    fn from(member: Member) -> DiskSet {
        DiskSet { members: vec![member], mirrored: false, missing: Vec::new() }
    }
}

impl<D: Disk + 'static> From<Arc<D>> for DiskSet {
    fn from(disk: Arc<D>) -> DiskSet {
        DiskSet::of(vec![disk], false)
    }
}

impl From<Arc<dyn Disk>> for DiskSet {
    fn from(disk: Arc<dyn Disk>) -> DiskSet {
        DiskSet::of(vec![disk], false)
    }
}

impl<D: Disk + Clone + 'static> From<&D> for DiskSet {
    fn from(disk: &D) -> DiskSet {
        DiskSet::of(vec![Arc::new(disk.clone())], false)
    }
}

/// True if two paths lead to the same directory.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Refuses a disk on which a restore was cut short; `path` is empty if it is not known.
///
/// # Errors
/// [`Error::NotADatabase`] then; of the disk.
pub(crate) fn refuse_interrupted_restore(disk: &dyn Disk, path: &Path) -> Result<()> {
    if !disk.list()?.iter().any(|name| name == RESTORING_FILE) {
        return Ok(());
    }
    Err(Error::NotADatabase {
        path: path.display().to_string(),
        detail: format!(
            "an interrupted restore stands here: run `gnomon restore` again, or remove its file '{RESTORING_FILE}'"
        ),
    })
}

/// Returns true if a directory has more than the leftovers of a database or disk whose making was cut short.
fn is_used(disk: &dyn Disk) -> Result<bool> {
    let leftover = |name: &String| LIST_FILES.contains(&name.as_str()) || name == UNFINISHED_FILE;
    Ok(!disk.list()?.iter().all(leftover))
}

fn absolute(first: &Path, others: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut paths = vec![std::path::absolute(first)?];
    for other in others {
        let other = std::path::absolute(other)?;
        if paths.contains(&other) {
            return Err(Error::BadOption(format!("{} is named twice", other.display())));
        }
        paths.push(other);
    }
    Ok(paths)
}

impl List {
    fn read(disk: &dyn Disk) -> Result<Option<List>> {
        let Some(bytes) = List::bytes(disk)? else { return Ok(None) };
        List::parse(&bytes).map(Some).ok_or_else(|| {
            Error::BadOption(format!("the file '{LIST_FILE}' is damaged: write the absolute paths of the database's directories to it, one a line"))
        })
    }

    fn bytes(disk: &dyn Disk) -> Result<Option<Vec<u8>>> {
        /// Longer than any list of so few directories.
        const LIST_BYTES_MAX: u64 = 1 << 20;
        let file = match disk.open(LIST_FILE, false) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = vec![0; file.len()?.min(LIST_BYTES_MAX) as usize];
        file.read_at(0, &mut bytes)?;
        Ok(Some(bytes))
    }

    /// None if it is no text.
    fn parse(bytes: &[u8]) -> Option<List> {
        let lines = str::from_utf8(bytes).ok()?.lines().map(str::trim);
        let is_path = |line: &&str| Path::new(line).is_absolute();
        let paths = lines.clone().filter(is_path).map(PathBuf::from).collect();
        Some(List { mirrored: lines.into_iter().any(|line| line == MIRRORED), paths })
    }

    /// True if these are the bytes of a list as it is written.
    fn is_whole(bytes: &[u8]) -> bool {
        let written = List::parse(bytes).and_then(|list| list.text().ok());
        written.is_some_and(|written| written.as_bytes() == bytes)
    }

    fn text(&self) -> Result<String> {
        let mut text = "# The directories of a Gnomon database, one on each of its disks.\n".to_owned();
        if self.mirrored {
            text += MIRRORED;
            text.push('\n');
        }
        for path in &self.paths {
            let line = path.to_str().filter(|line| !line.contains('\n') && line.trim() == *line);
            let line = line.ok_or_else(|| {
                Error::BadOption(format!(
                    "a directory of several disks needs a plain name, unlike {}",
                    path.display()
                ))
            })?;
            text += line;
            text.push('\n');
        }
        let sum = crc32c::crc32c(text.as_bytes());
        text += &format!("{CHECKSUM}{sum:08x}\n");
        Ok(text)
    }

    fn write(&self, disk: &dyn Disk) -> Result<()> {
        let text = self.text()?;
        let file = disk.open(NEW_LIST_FILE, true)?;
        file.truncate(0)?;
        file.write_at(0, text.as_bytes())?;
        file.sync()?;
        Ok(disk.rename(NEW_LIST_FILE, LIST_FILE)?)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::disk::MemDisk;

    #[test]
    fn lists_round_trip() {
        let disk = MemDisk::new();
        assert_eq!(List::read(&disk).unwrap(), None);
        for mirrored in [false, true] {
            let list = List { mirrored, paths: vec!["/a/b".into(), "/c d".into()] };
            list.write(&disk).unwrap();
            assert!(List::is_whole(&List::bytes(&disk).unwrap().unwrap()));
            assert_eq!(List::read(&disk).unwrap(), Some(list));
        }
        let odd = List { mirrored: false, paths: vec!["/a\nb".into()] };
        assert!(matches!(odd.write(&disk), Err(Error::BadOption(_))));
    }

    #[test]
    fn every_flipped_bit_of_a_list_is_detected() {
        let disk = MemDisk::new();
        let list = List { mirrored: true, paths: vec!["/a/b".into(), "/c d".into()] };
        list.write(&disk).unwrap();
        let file = disk.open(LIST_FILE, false).unwrap();
        for at in 0..file.len().unwrap() {
            let mut byte = [0];
            file.read_at(at, &mut byte).unwrap();
            for bit in 0..8 {
                file.write_at(at, &[byte[0] ^ 1 << bit]).unwrap();
                let bytes = List::bytes(&disk).unwrap().unwrap();
                assert!(!List::is_whole(&bytes), "bit {bit} of byte {at}");
            }
            file.write_at(at, &byte).unwrap();
        }
    }

    #[test]
    fn damaged_lists_are_written_anew() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
        drop(DiskSet::open(&a, std::slice::from_ref(&b), true, true).unwrap());
        let list = |path: &Path| path.join(LIST_FILE);
        let whole = std::fs::read(list(&a)).unwrap();
        for (path, at, flip) in [(&b, 5, 0x80), (&b, 40, 1), (&a, 0, 1), (&a, whole.len() - 14, 2)] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            FileDisk::open(path, false)
                .unwrap()
                .open(LIST_FILE, false)
                .unwrap()
                .write_at(0, &damaged)
                .unwrap();
            let mut set = DiskSet::open(&a, &[], false, false).unwrap();
            assert_eq!((set.disks().count(), set.damaged_lists().unwrap().len()), (2, 1), "byte {at}");
            set.mend_lists(true, |_| true).unwrap();
            assert_eq!(std::fs::read(list(path)).unwrap(), whole);
        }
    }

    #[test]
    fn any_directory_leads_to_all() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| directory.path().join(name));
        drop(DiskSet::open(&a, std::slice::from_ref(&b), true, true).unwrap());
        let mut set = DiskSet::open(&b, &[], false, false).unwrap();
        assert!(
            set.is_mirrored() && matches!(DiskSet::open(&a, &[], false, false), Err(Error::InUse { .. }))
        );
        set.add(&c, true, |_| true).unwrap();
        drop(set);
        let set = DiskSet::open(&c, &[], false, false).unwrap();
        let paths: Vec<_> = (0..3).map(|index| set.path(index).unwrap().to_owned()).collect();
        assert_eq!(paths, [a.clone(), b.clone(), c.clone()]);
        drop(set);
        std::fs::remove_dir_all(&a).unwrap();
        let set = DiskSet::open_read_only(&c).unwrap();
        assert_eq!((set.disks().count(), &set.missing()[0].0), (2, &a));
        drop(set);
        assert!(matches!(DiskSet::open(&c, &[a], true, true), Err(Error::BadOption(_))));
    }
}
