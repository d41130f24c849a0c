//! Databases of several disks: directories that are damaged, lost and added.

use std::{
    fs::OpenOptions,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use crate::harness::{Served, run, text};

const LOAD: &str = "CREATE TABLE t AS SELECT g AS id, repeat('x', 500) AS v FROM generate_series(1, 20000) g";
const SUM: &str = "SELECT count(*), sum(length(v)) FROM t";
const RIGHT: &str = "20000,10000000";

struct Directories {
    _all: tempfile::TempDir,
    a: PathBuf,
    b: PathBuf,
    c: PathBuf,
}

impl Directories {
    /// A mirrored database in two directories.
    fn mirrored() -> Directories {
        let all = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| all.path().join(name));
        let made = run(&["sql", text(&a), "--disk", text(&b), "--mirrored", "-c", LOAD]);
        assert_eq!(made.code, Some(0), "{made:?}");
        Directories { _all: all, a, b, c }
    }
}

fn asked(directory: &Path, more: &[&str]) -> String {
    let ran = run(&[&["sql", text(directory), "--format", "csv", "-c", SUM], more].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.stdout
}

/// Writes over pages of a file, from one to another.
fn damage(directory: &Path, from: u64, to: u64) {
    let file = OpenOptions::new().write(true).open(directory.join("pages")).unwrap();
    let nonsense = vec![0xa5; ((to - from) * 4096) as usize];
    file.write_all_at(&nonsense, from * 4096).unwrap();
}

/// Writes over the pages of a file that hold rows of the table. Where they lie differs from run to run, and a database
/// whose page table is damaged does not open.
fn damage_rows(directory: &Path) {
    let pages = std::fs::read(directory.join("pages")).unwrap();
    let holds_rows = |page: &[u8]| page.windows(400).any(|bytes| bytes.iter().all(|byte| *byte == b'x'));
    for (number, _) in (0..).zip(pages.chunks_exact(4096)).filter(|(_, page)| holds_rows(page)) {
        damage(directory, number, number + 1);
    }
}

#[test]
fn a_database_with_a_log_has_one_disk() {
    for recovery in ["page-log", "value-log"] {
        let all = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| all.path().join(name));
        let ran = run(&["sql", text(&a), "--disk", text(&b), "--recovery", recovery, "-c", "SELECT 1"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("a database that recovers by a log has one disk"), "{ran:?}");
        let made = run(&["sql", text(&c), "--recovery", recovery, "-c", LOAD]);
        assert_eq!(made.code, Some(0), "{made:?}");
        let added = run(&["disk", "add", text(&c), text(&b)]);
        assert_eq!(added.code, Some(1), "{added:?}");
        assert!(!b.exists());
        // It is there, and stays as it is.
        assert!(asked(&c, &["--recovery", recovery]).contains(RIGHT));
    }
}

#[test]
fn damage_is_read_around_and_repaired() {
    let all = Directories::mirrored();
    damage(&all.a, 150, 1500);
    damage(&all.b, 2000, 2500);
    let verified = run(&["verify", text(&all.b)]);
    assert!(verified.code == Some(1) && verified.stdout.contains("damaged, nothing lost"), "{verified:?}");
    assert!(asked(&all.a, &[]).contains(RIGHT));
    let scrubbed = run(&["scrub", text(&all.a)]);
    assert_eq!(scrubbed.code, Some(0), "{scrubbed:?}");
    let verified = run(&["verify", text(&all.a)]);
    assert!(verified.code == Some(0) && verified.stdout.contains("sound"), "{verified:?}");
    // Each alone has everything again.
    for (gone, left) in [(&all.a, &all.b), (&all.b, &all.a)] {
        let away = gone.with_extension("away");
        std::fs::rename(gone, &away).unwrap();
        let refused = run(&["sql", text(left), "-c", SUM]);
        assert!(refused.code == Some(1) && refused.stderr.contains("is missing"), "{refused:?}");
        let verified = run(&["verify", text(left)]);
        assert!(verified.code == Some(1) && verified.stdout.contains("missing disks: 1"), "{verified:?}");
        assert!(verified.stdout.contains("of the database is missing: bring it back"), "{verified:?}");
        assert!(verified.stderr.contains("does not open as it stands"), "{verified:?}");
        std::fs::rename(&away, gone).unwrap();
    }
    damage_rows(&all.a);
    damage_rows(&all.b);
    let scrubbed = run(&["scrub", text(&all.a)]);
    assert!(scrubbed.code == Some(1) && scrubbed.stdout.contains("lost: file pages"), "{scrubbed:?}");
}

#[test]
fn a_flipped_byte_of_a_list_is_found_and_a_line_changed_by_hand_is_taken() {
    let all = tempfile::tempdir().unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| all.path().join(name));
    let made = run(&["sql", text(&a), "--disk", text(&b), "-c", "CREATE TABLE t (a integer)"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    for directory in [&a, &b] {
        let list = directory.join("disks");
        let whole = std::fs::read(&list).unwrap();
        for at in (0..whole.len()).step_by(11) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(&list, flipped).unwrap();
            let verified = run(&["verify", text(directory)]);
            assert!(verified.code == Some(1), "byte {at}: {verified:?}");
            assert!(format!("{verified:?}").contains("disks"), "byte {at}: {verified:?}");
        }
        std::fs::write(&list, &whole).unwrap();
        assert_eq!(run(&["verify", text(directory)]).code, Some(0));
    }
    std::fs::rename(&b, &c).unwrap();
    for directory in [&a, &c] {
        let list = directory.join("disks");
        let moved = std::fs::read_to_string(&list).unwrap().replace(text(&b), text(&c));
        std::fs::write(&list, moved).unwrap();
    }
    let verified = run(&["verify", text(&a)]);
    assert!(verified.code == Some(1) && verified.stdout.contains("changed by hand"), "{verified:?}");
    let ran = run(&["sql", text(&a), "-c", "INSERT INTO t VALUES (1)"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for directory in [&a, &c] {
        let verified = run(&["verify", text(directory)]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
}

/// Without its list a directory leads to none of the others, which are not given up for that.
#[test]
fn a_deleted_list_is_refused_by_name_and_written_anew_by_the_other_directory() {
    for mirrored in [true, false] {
        let all = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| all.path().join(name));
        let how: &[&str] = if mirrored { &["--mirrored"] } else { &[] };
        let made = run(&[&["sql", text(&a), "--disk", text(&b), "-c", LOAD], how].concat());
        assert_eq!(made.code, Some(0), "{made:?}");
        for (without, with) in [(&a, &b), (&b, &a)] {
            std::fs::remove_file(without.join("disks")).unwrap();
            for arguments in [
                &["sql", text(without), "-c", SUM][..],
                &["sql", text(without), "--degraded", "-c", SUM],
                &["serve", text(without), "--port", "0", "--degraded"],
                &["verify", text(without)],
                &["disk", "list", text(without)],
            ] {
                let ran = run(arguments);
                assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
                assert!(format!("{ran:?}").contains("is missing"), "{arguments:?}: {ran:?}");
                assert!(format!("{ran:?}").contains("the file 'disks' in"), "{arguments:?}: {ran:?}");
            }
            let verified = run(&["verify", text(with)]);
            assert!(verified.code == Some(1) && verified.stdout.contains("is missing"), "{verified:?}");
            assert!(asked(with, &[]).contains(RIGHT));
            assert!(without.join("disks").exists());
            assert!(asked(without, &[]).contains(RIGHT));
            assert_eq!(run(&["verify", text(without)]).code, Some(0));
        }
    }
}

#[test]
fn a_lost_disk_is_replaced_while_the_database_is_served() {
    let all = Directories::mirrored();
    std::fs::remove_dir_all(&all.a).unwrap();
    assert!(asked(&all.b, &["--degraded"]).contains(RIGHT));
    let added = run(&["disk", "add", text(&all.b), text(&all.c)]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let listed = run(&["disk", "list", text(&all.c), "--json"]);
    assert!(listed.stdout.contains("\"copies_whole\":true"), "{listed:?}");
    let server = Served::start(&all.c);
    let mut client = server.connect().unwrap();
    client.batch_execute("UPDATE t SET v = repeat('y', 500) WHERE id <= 100").unwrap();
    // A disk whose file is cut under a running server is damaged, not lost.
    OpenOptions::new().write(true).open(all.b.join("pages")).unwrap().set_len(100 * 4096).unwrap();
    client.batch_execute("UPDATE t SET v = repeat('z', 500) WHERE id <= 200").unwrap();
    let sum: i64 = client.query_one("SELECT sum(length(v)) FROM t", &[]).unwrap().get(0);
    assert_eq!(sum, 10_000_000);
    drop(client);
    assert_eq!(server.interrupt(), Some(0));
    std::fs::remove_dir_all(&all.b).unwrap();
    assert!(asked(&all.c, &["--degraded"]).contains(RIGHT));
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let all = Directories::mirrored();
    let again = run(&["sql", text(&all.a), "--disk", text(&all.c), "-c", "SELECT 1"]);
    assert!(again.code == Some(1) && again.stderr.contains("gnomon disk add"), "{again:?}");
    let same = run(&["sql", text(&all.a), "--disk", text(&all.b), "--mirrored", "-c", SUM]);
    assert_eq!(same.code, Some(0), "a command that made a database opens it: {same:?}");
    let alone = run(&["sql", text(&all.c), "--mirrored", "-c", "SELECT 1"]);
    assert_eq!(alone.code, Some(2), "{alone:?}");
    let full = run(&["disk", "add", text(&all.a), text(&all.b)]);
    assert!(full.code == Some(1), "{full:?}");
}
