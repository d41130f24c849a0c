//! A full and an incremental backup of an open database, restored and verified. `cargo run -p gnomon --example backup`

use gnomon::{Database, Result, restore, verify};

fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let db = Database::open(directory.path().join("notes.gnomon"))?;
    let notes = db.tree("notes")?;
    db.transact(|txn| {
        (0..1000_u32).try_for_each(|number| txn.put(notes, number.to_be_bytes(), [b'.'; 100]))
    })?;

    // To anything that takes bytes: a file, a socket, memory. Others read and write meanwhile.
    let (mut full, mut changes) = (Vec::new(), Vec::new());
    let backup = db.backup(&mut full)?;
    db.transact(|txn| txn.put(notes, 7_u32.to_be_bytes(), "a later note"))?;
    db.backup_since(backup.header.id, &mut changes)?;
    println!("a full backup of {} bytes, and one of changes of {}", full.len(), changes.len());

    // A full backup and those that go on from it make the database again.
    let path = directory.path().join("restored.gnomon");
    restore([&full[..], &changes[..]], &path)?;
    let report = verify(&path)?;
    assert!(report.is_sound, "{:?}", report.findings);
    let db = Database::open(&path)?;
    let notes = db.find_tree("notes")?.expect("names are in it");
    assert_eq!(db.read()?.get(notes, 7_u32.to_be_bytes())?.as_deref(), Some(&b"a later note"[..]));
    println!("restored: {} trees, {} entries", report.trees, report.entries);
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
