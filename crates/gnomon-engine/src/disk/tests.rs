//! What every disk promises while nothing fails, checked on all three.

use super::{sparse::SparseBytes, *};
use proptest::{collection::vec, prelude::*};
use std::collections::BTreeMap;

/// Runs a test on each kind of disk, freshly made.
fn on_every_disk(test: impl Fn(&dyn Disk)) {
    let directory = tempfile::tempdir().unwrap();
    test(&FileDisk::open(directory.path(), false).unwrap());
    test(&MemDisk::new());
    test(&SimDisk::new(0));
}

fn contents(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn error_kind<T>(result: io::Result<T>) -> io::ErrorKind {
    result.err().expect("this must fail").kind()
}

#[test]
fn names_come_and_go() {
    on_every_disk(|disk| {
        assert_eq!(error_kind(disk.open("b", false)), io::ErrorKind::NotFound);
        assert_eq!(error_kind(disk.remove("b")), io::ErrorKind::NotFound);
        for name in ["b", "a", "b"] {
            assert!(disk.open(name, true).unwrap().is_empty().unwrap());
        }
        assert_eq!(disk.list().unwrap(), ["a", "b"]);
        let file = disk.open("b", false).unwrap();
        file.write_at(0, b"still here").unwrap();
        disk.remove("b").unwrap();
        assert_eq!(disk.list().unwrap(), ["a"]);
        assert_eq!(contents(&*file), b"still here");
        assert!(disk.open("b", true).unwrap().is_empty().unwrap(), "a new file of an old name");
        file.sync().unwrap();
    });
}

/// Bytes that are written durably at once are among those that are written otherwise, aligned or not.
#[test]
fn durable_writes_are_read_like_others() {
    on_every_disk(|disk| {
        let file = disk.open("file", true).unwrap();
        let mut expected = vec![0; 1 << 20];
        let mut write = |durably: bool, offset: usize, byte: u8, bytes: usize| {
            let buf = vec![byte; bytes];
            match durably {
                true => file.write_durably_at(offset as u64, &buf).unwrap(),
                false => file.write_at(offset as u64, &buf).unwrap(),
            }
            expected[offset..offset + bytes].copy_from_slice(&buf);
            assert!(contents(&*file) == expected, "{bytes} bytes at {offset}");
        };
        write(false, 0, 1, 1 << 20);
        write(true, 512, 2, 1024);
        write(true, 4096, 3, 4096);
        write(true, 5120, 4, 512);
        write(false, 5000, 5, 1000);
        write(true, 4096, 6, 8192);
        write(true, 1000, 7, 100);
        write(true, 0, 8, 700 << 10);
        write(true, 1 << 19, 9, 200 << 10);
        let end = file.len().unwrap();
        file.write_durably_at(end, &[10; 512]).unwrap();
        assert_eq!(file.len().unwrap(), end + 512, "it grows");
        let removed = disk.open("removed", true).unwrap();
        disk.remove("removed").unwrap();
        removed.write_durably_at(0, &[11; 512]).unwrap();
        assert_eq!(contents(&*removed), [11; 512]);
    });
}

#[test]
fn a_file_takes_the_place_of_another() {
    on_every_disk(|disk| {
        assert_eq!(error_kind(disk.rename("a", "b")), io::ErrorKind::NotFound);
        let file = disk.open("a", true).unwrap();
        let replaced = disk.open("b", true).unwrap();
        replaced.write_at(0, b"old").unwrap();
        disk.rename("a", "b").unwrap();
        file.write_at(0, b"new").unwrap();
        assert_eq!(disk.list().unwrap(), ["b"]);
        assert_eq!(contents(&*disk.open("b", false).unwrap()), b"new");
        assert_eq!(contents(&*replaced), b"old");
        assert_eq!(error_kind(disk.rename("b", "../c")), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn names_are_plain() {
    on_every_disk(|disk| {
        for name in ["", ".", "..", "a/b", "/a", "../a", "a\0b"] {
            assert_eq!(error_kind(disk.open(name, true)), io::ErrorKind::InvalidInput, "{name:?}");
        }
        assert!(disk.list().unwrap().is_empty());
    });
}

#[test]
fn handles_of_a_file_see_the_same_bytes() {
    on_every_disk(|disk| {
        let (one, other) = (disk.open("file", true).unwrap(), disk.open("file", true).unwrap());
        one.write_at(0, b"gnomon").unwrap();
        assert_eq!(contents(&*other), b"gnomon");
    });
}

#[test]
fn reading_past_the_end_fails() {
    on_every_disk(|disk| {
        let file = disk.open("file", true).unwrap();
        file.write_at(0, &[1; 100]).unwrap();
        let mut buf = [0; 10];
        assert!(file.read_at(90, &mut buf).is_ok());
        assert_eq!(error_kind(file.read_at(91, &mut buf)), io::ErrorKind::UnexpectedEof);
        assert_eq!(error_kind(file.read_at(100, &mut buf)), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn ranges_beyond_the_largest_file_are_refused() {
    on_every_disk(|disk| {
        let file = disk.open("file", true).unwrap();
        file.write_at(0, b"gnomon").unwrap();
        for offset in [u64::MAX, i64::MAX as u64] {
            assert!(file.read_at(offset, &mut [0; 2]).is_err());
            assert!(file.write_at(offset, &[0; 2]).is_err());
            assert!(file.punch(offset, 2).is_err());
        }
        assert!(file.allocate(u64::MAX).is_err());
        file.truncate(u64::MAX).unwrap();
        assert_eq!(contents(&*file), b"gnomon");
    });
}

#[test]
fn many_threads_write_at_once() {
    on_every_disk(|disk| {
        let file = disk.open("file", true).unwrap();
        crate::sync::thread::scope(|scope| {
            for writer in 0..4u8 {
                let file = &file;
                scope.spawn(move || {
                    for index in 0..50 {
                        let offset = (index * 4 + u64::from(writer)) * 100;
                        file.write_at(offset, &[writer + 1; 100]).unwrap();
                        file.allocate(offset).unwrap();
                    }
                });
            }
        });
        let bytes = contents(&*file);
        assert_eq!(bytes.len(), 20_000);
        for (index, part) in bytes.chunks(100).enumerate() {
            assert_eq!(part, [index as u8 % 4 + 1; 100]);
        }
    });
}

#[derive(Clone, Debug)]
enum Op {
    Write { offset: u64, len: usize, byte: u8 },
    Allocate(u64),
    Truncate(u64),
    Punch { offset: u64, len: u64 },
    Sync,
    Remove,
}

/// Places near the ends of sectors and blocks, and others.
fn place() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..20_000u64,
        (0..5u64, 0..4u64).prop_map(|(block, off)| (block * 4096 + off).saturating_sub(1))
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (place(), 0..9000usize, 1..=255u8).prop_map(|(offset, len, byte)| Op::Write { offset, len, byte }),
        1 => place().prop_map(Op::Allocate),
        2 => place().prop_map(Op::Truncate),
        3 => (place(), 0..12_000u64).prop_map(|(offset, len)| Op::Punch { offset, len }),
        1 => Just(Op::Sync),
        1 => Just(Op::Remove),
    ]
}

/// Does to a vector what the disk should do to a file.
fn apply_to_model(model: &mut Vec<u8>, op: &Op) {
    match *op {
        Op::Write { len: 0, .. } | Op::Sync => (),
        Op::Write { offset, len, byte } => {
            let range = offset as usize..offset as usize + len;
            model.resize(model.len().max(range.end), 0);
            model[range].fill(byte);
        }
        Op::Allocate(len) => model.resize(model.len().max(len as usize), 0),
        Op::Truncate(len) => model.truncate(len as usize),
        Op::Punch { offset, len } => {
            let end = model.len().min((offset + len) as usize);
            model[end.min(offset as usize)..end].fill(0);
        }
        Op::Remove => model.clear(),
    }
}

/// A removal only empties the file here.
fn apply_to_file(file: &dyn File, op: &Op) -> io::Result<()> {
    match *op {
        Op::Write { offset, len, byte } => file.write_at(offset, &vec![byte; len]),
        Op::Allocate(len) => file.allocate(len),
        Op::Truncate(len) => file.truncate(len),
        Op::Punch { offset, len } => file.punch(offset, len),
        Op::Sync => file.sync(),
        Op::Remove => file.truncate(0),
    }
}

fn follows_model(disk: &dyn Disk, ops: &[(u8, Op)]) {
    let mut models: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (file, op) in ops {
        let name = format!("file{file}");
        let file = disk.open(&name, true).unwrap();
        let model = models.entry(name.clone()).or_default();
        apply_to_model(model, op);
        if matches!(op, Op::Remove) {
            models.remove(&name);
            disk.remove(&name).unwrap();
        } else {
            apply_to_file(&*file, op).unwrap();
        }
    }
    assert_eq!(disk.list().unwrap(), models.keys().cloned().collect::<Vec<_>>());
    for (name, model) in &models {
        assert_eq!(&contents(&*disk.open(name, false).unwrap()), model);
    }
}

fn ops() -> impl Strategy<Value = Vec<(u8, Op)>> {
    vec((0..2u8, op()), 1..30)
}

/// Names are made durable one by one, so the real disk has its files for all cases together, and fewer cases.
#[test]
fn the_file_disk_follows_the_model() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(directory.path(), false).unwrap();
    let files = [0, 1].map(|number| disk.open(&format!("file{number}"), true).unwrap());
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(ops in ops())| {
        let mut models = [vec![], vec![]];
        files.iter().for_each(|file| file.truncate(0).unwrap());
        for (number, op) in &ops {
            let number = usize::from(*number);
            apply_to_model(&mut models[number], op);
            apply_to_file(&*files[number], op).unwrap();
        }
        for (file, model) in files.iter().zip(&models) {
            prop_assert_eq!(&contents(&**file), model);
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_memory_disk_follows_the_model(ops in ops()) {
        follows_model(&MemDisk::new(), &ops);
    }

    #[test]
    fn the_simulated_disk_follows_the_model(ops in ops()) {
        follows_model(&SimDisk::new(0), &ops);
    }

    #[test]
    fn sparse_bytes_share_until_written(ops in vec(op(), 1..20), more in vec(op(), 1..20)) {
        let apply = |bytes: &mut SparseBytes, model: &mut Vec<u8>, ops: &[Op]| {
            for op in ops {
                apply_to_model(model, op);
                match *op {
                    Op::Write { len: 0, .. } | Op::Sync => (),
                    Op::Write { offset, len, byte } => bytes.write(offset, &vec![byte; len]),
                    Op::Allocate(len) => bytes.set_len(len.max(bytes.len())),
                    Op::Truncate(len) => bytes.set_len(len.min(bytes.len())),
                    Op::Punch { offset, len } => bytes.zero(offset, len),
                    Op::Remove => bytes.set_len(0),
                }
            }
        };
        let read = |bytes: &SparseBytes| {
            let mut buf = vec![0; bytes.len() as usize];
            bytes.read(0, &mut buf).unwrap();
            buf
        };
        let (mut bytes, mut model) = (SparseBytes::default(), Vec::new());
        apply(&mut bytes, &mut model, &ops);
        let (before, model_before) = (bytes.clone(), model.clone());
        apply(&mut bytes, &mut model, &more);
        prop_assert_eq!(read(&before), model_before);
        prop_assert_eq!(read(&bytes), model);
    }
}
