//! A document of which two people change a figure each, at the same time (Hasse and Weikum: A Performance
//! Evaluation of Multi-Level Transaction Management, 1991, Fig. 1).
//!
//! The document is a complex object. Its parts (paragraphs, figures, a layout of so many lines each) are subobjects,
//! many on a page. To change a figure is one operation: it changes the figure and every paragraph that refers to it.
//! Operations on different figures change different parts, on the same pages.
//!
//! Run it with `cargo run --release -p gnomon-objects --example document`.

use gnomon_engine::{Error, PageSize, Result, disk::MemDisk};
use gnomon_objects::{ObjectDatabase, ObjectId, ObjectOptions, ObjectTransaction, Reference, Strategy};
use std::time::Duration;

/// The document's parts: figure 1, figure 2, then paragraphs, of which every second one is about each.
const PARAGRAPHS: u32 = 40;
const FIGURES: u32 = 2;

fn make(db: &ObjectDatabase) -> Result<ObjectId> {
    let parts: Vec<String> = (0..FIGURES + PARAGRAPHS)
        .map(|slot| match slot {
            figure if figure < FIGURES => format!("figure {}, version 1", figure + 1),
            paragraph => format!("as figure {} (version 1) shows", paragraph % FIGURES + 1),
        })
        .collect();
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    let mut txn = db.begin()?;
    let document =
        txn.create(PageSize::from_bytes(2048).expect("there is such a size").into(), &parts, &[])?;
    txn.commit()?;
    Ok(document)
}

/// Changes a figure, and every paragraph that refers to it: one operation, all of it or nothing.
fn change_figure(txn: &mut ObjectTransaction, document: ObjectId, figure: u32, version: u32) -> Result<()> {
    let at = |slot| Reference { object: document, slot };
    let paragraphs = (FIGURES..FIGURES + PARAGRAPHS).filter(|slot| slot % FIGURES == figure);
    let parts: Vec<Reference> = std::iter::once(figure).chain(paragraphs).map(at).collect();
    let locks: Vec<(Reference, bool)> = parts.iter().map(|part| (*part, true)).collect();
    txn.operate(|operation| {
        operation.lock(&locks)?;
        for part in &parts {
            let text = match part.slot {
                slot if slot == figure => format!("figure {}, version {version}", figure + 1),
                _ => format!("as figure {} (version {version}) shows", figure + 1),
            };
            operation.update(*part, Some(text.as_bytes()))?;
        }
        Ok(())
    })
}

/// The versions of both figures that the document tells of, wherever it does.
fn versions(db: &ObjectDatabase, document: ObjectId) -> Result<Vec<Vec<String>>> {
    let mut txn = db.begin()?;
    txn.operate(|operation| {
        operation.lock_object(document, false)?;
        let mut found = vec![Vec::new(); FIGURES as usize];
        for slot in 0..FIGURES + PARAGRAPHS {
            let text = operation.read(Reference { object: document, slot })?.unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let version = text.split("version ").nth(1).unwrap_or_default();
            let version: String = version.chars().take_while(char::is_ascii_digit).collect();
            let of = &mut found[(slot % FIGURES) as usize];
            if !of.contains(&version) {
                of.push(version);
            }
        }
        Ok(found)
    })
}

/// Two transactions, each of which changes a figure and commits when the other has changed its own. Tells whether both
/// could.
fn change_both(strategy: Strategy) -> Result<bool> {
    let options = ObjectOptions {
        strategy,
        lock_timeout: Some(Duration::from_millis(100)),
        ..ObjectOptions::default()
    };
    let db = ObjectDatabase::open_on(&MemDisk::new(), options)?;
    let document = make(&db)?;
    let (mut first, mut second) = (db.begin()?, db.begin()?);
    change_figure(&mut first, document, 0, 2)?;
    let both = match change_figure(&mut second, document, 1, 3) {
        Ok(()) => true,
        // The pages are the other's until it ends.
        Err(Error::LockTimeout) => false,
        Err(error) => return Err(error),
    };
    // The first one thinks better of it: what it did is compensated, and the other's work stays.
    first.rollback()?;
    if !both {
        change_figure(&mut second, document, 1, 3)?;
    }
    second.commit()?;
    assert_eq!(versions(&db, document)?, [["1"], ["3"]]);
    Ok(both)
}

fn main() -> Result<()> {
    for strategy in Strategy::ALL {
        let how = if change_both(strategy)? { "at the same time" } else { "one after the other" };
        println!("{:<20} two figures of one document are changed {how}", strategy.name());
    }
    Ok(())
}

#[test]
fn figures_are_changed_at_the_same_time_under_two_levels() {
    for strategy in Strategy::ALL {
        assert_eq!(change_both(strategy).unwrap(), strategy != Strategy::SingleLevel);
    }
}
