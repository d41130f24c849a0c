//! The machine that experiments run on, as their reports name it.
//!
//! Promises: what cannot be found out is left out, and is no failure.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub processors: usize,
    /// Their model's name.
    pub processor: Option<String>,
    /// Its memory.
    pub memory_bytes: Option<u64>,
    /// The operating system's kernel.
    pub kernel: Option<String>,
    /// The file system of the databases and what it is on.
    pub file_system: Option<String>,
}

impl Machine {
    /// This machine, with the file system of a directory.
    pub fn here(directory: &Path) -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let memory_kib = field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|memory| memory.strip_suffix(" kB")?.trim().parse::<u64>().ok());
        let kernel = ["/proc/sys/kernel/ostype", "/proc/sys/kernel/osrelease"].map(read);
        let kernel = kernel.each_ref().map(|part| part.trim()).join(" ");
        Machine {
            processors: gnomon_engine::env::processors(),
            processor: field(&read("/proc/cpuinfo"), "model name"),
            memory_bytes: memory_kib.map(|kib| kib * 1024),
            kernel: Some(kernel.trim().to_owned()).filter(|kernel| !kernel.is_empty()),
            file_system: directory
                .canonicalize()
                .ok()
                .and_then(|directory| file_system(&read("/proc/self/mountinfo"), &directory)),
        }
    }
}

/// The first value of a name in lines `NAME : VALUE`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The type and the source of the file system that a directory is on, by the kernel's list of what is mounted:
/// numbers, root, place, options, `-`, type, source. Of several the longest place has it, of these the last.
fn file_system(mounted: &str, directory: &Path) -> Option<String> {
    let place = |line: &'_ str| {
        let (place, kind) = line.split_once(" - ")?;
        let place = Path::new(place.split(' ').nth(4)?);
        let mut kind = kind.split(' ');
        let named = format!("{} on {}", kind.next()?, kind.next()?);
        directory.starts_with(place).then(|| (place.components().count(), named))
    };
    mounted.lines().filter_map(place).max_by_key(|(length, _)| *length).map(|(_, named)| named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_from_what_the_kernel_tells() {
        let cpuinfo = "processor\t: 0\nmodel name\t: A: fast one\nprocessor\t: 1\nmodel name\t: B\n";
        assert_eq!(field(cpuinfo, "model name").as_deref(), Some("A: fast one"));
        assert_eq!(field(cpuinfo, "model"), None);
        let mounted = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                       23 22 0:5 / /data rw,shared:1 shared:2 - tmpfs tmpfs rw\n\
                       24 22 0:6 / /data rw - xfs /dev/vdb rw\nnonsense\n";
        let on = |directory| file_system(mounted, Path::new(directory));
        assert_eq!(on("/data/x").as_deref(), Some("xfs on /dev/vdb"), "the last one mounted there");
        assert_eq!(on("/database").as_deref(), Some("ext4 on /dev/vda"));
        assert_eq!(file_system("", Path::new("/")), None);
        assert!(Machine::here(Path::new("/none")).processors > 0);
    }
}
