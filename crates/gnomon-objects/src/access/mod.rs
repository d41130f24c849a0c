//! Complex objects: an object is a cluster of pages with its own subobjects, and references to foreign ones.
//!
//! After DASDBS (Hasse and Weikum: A Performance Evaluation of Multi-Level Transaction Management, 1991, section 3.1).
//! An object is known by the page of its header, and has data pages beside it. Its own subobjects, of any bytes, have
//! the slots from 0 on in the order in which they were made; a slot whose subobject was removed stays, and may get one
//! again. References lead to subobjects of other objects, as a pair of object and slot; nothing is promised about what
//! they lead to.
//!
//! Every call finds and leaves a correct object. One that fails has changed nothing, but for [`free`]. Damaged pages
//! make errors and nothing worse. As the tree, this module knows nothing of transactions, locks, versions and recovery.
//!
//! # Shape
//!
//! A data page has a range of slots that follow each other; the header has a directory of where each range begins,
//! then the references. So a subobject is found by two pages, whatever the object's size, and an object is at most as
//! large as the directory in its one header allows: [`Error::ObjectFull`]. Data pages have one size, the header may
//! have another.
//!
//! The header is for reading: it changes when a subobject is made, when one outgrows its page, and when the references
//! change, never when a subobject gets a value for which its page has room. Values lie in their page without holes, so
//! that is the case whenever the page is not full. One that is full is cut in two where that makes them most equal, or
//! around the value if it leaves no room for others.
//!
//! # Exclusion
//!
//! Callers exclude each other, by locks of their own on the object or on its pages: while an operation runs, no other
//! caller may change a page that it has read. A [`Header`] is an image of the header's page, and is good for as long
//! as its holder keeps that from being changed otherwise than by new subobjects.
//!
//! Pages are latched one at a time, with one exception: an operation that changes several pages latches the header,
//! then the data page, then new pages, so that it fails before it changes the first or not at all. It has latched
//! that data page alone before, and seen that it is one of the object. So if the pages that `P` gives out are locked
//! as they are asked for, the data page's lock is held by then, and no thread waits for a lock while it holds a
//! latch. Nor do latches make a deadlock: a thread that waits for one while it holds another holds the header of the
//! object, or pages that no other thread knows.
//!
//! # Not done
//!
//! Pages are not merged when subobjects shrink or are removed. No space is kept for what a transaction may have to
//! put back: a subobject that has shrunk may find its old room taken, and outgrow its page when its change is taken
//! back. A caller that takes changes back has to leave room in the header ([`Header::room`]).

mod layout;
#[cfg(test)]
mod tests;

use std::fmt;

use gnomon_engine::{
    Error, PageId, PageSize, Result,
    failpoint::{Failpoint, Failpoints},
    level0::{Page, PageGuard, PageKind, PageRead, PageWrite},
};

use layout::{
    At, Cell, Cells, Directory, Entry, Flaw, cell_bytes, fits_header, push, replace, set_own, space_bytes,
    value_bytes_max, write_data, write_header,
};

/// Pages that an object gets at most when a subobject outgrows its page.
pub const SPLIT_PAGES: usize = 2;

/// The sizes of an object's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectShape {
    /// The header's, which bounds how many data pages and references there can be together.
    pub header: PageSize,
    /// The data pages', which bounds how long a subobject can be.
    pub data: PageSize,
}

/// All pages of one size.
impl From<PageSize> for ObjectShape {
    fn from(size: PageSize) -> ObjectShape {
        ObjectShape { header: size, data: size }
    }
}

/// A subobject of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// The object, by the page of its header.
    pub object: PageId,
    /// The subobject's slot.
    pub slot: u32,
}

/// An object's header as it was when it was latched. The latch is gone.
#[derive(Clone)]
pub struct Header {
    object: PageId,
    /// Parsed once, so that it can be parsed.
    page: Page,
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Header");
        fields.field("object", &self.object).field("shape", &self.shape()).field("own", &self.own());
        fields.finish_non_exhaustive()
    }
}

impl Header {
    fn directory(&self) -> Directory<'_> {
        Directory::parse(&self.page).expect("the image is the one that was parsed")
    }

    /// The object.
    pub fn object(&self) -> PageId {
        self.object
    }

    /// The sizes of its pages.
    pub fn shape(&self) -> ObjectShape {
        ObjectShape { header: self.page.size(), data: self.directory().data }
    }

    /// Number of own subobjects that have been made, removed ones included: the next one's slot.
    pub fn own(&self) -> u32 {
        self.directory().own
    }

    /// The data page that has a slot, if the object has the slot.
    pub fn page_of(&self, slot: u32) -> Option<PageId> {
        let directory = self.directory();
        directory.covering(slot).map(|index| directory.entry(index).page)
    }

    /// The data pages, in the order of slots.
    pub fn pages(&self) -> impl ExactSizeIterator<Item = PageId> + '_ {
        self.directory().entries().map(|entry| entry.page)
    }

    /// For how many more data pages and references, together, it has room. To give a subobject another value takes
    /// two of it at most.
    pub fn room(&self) -> usize {
        self.directory().room()
    }

    /// The references to foreign subobjects, in the order in which they were given.
    pub fn foreign(&self) -> impl ExactSizeIterator<Item = Reference> + '_ {
        self.directory().foreign()
    }
}

/// Makes an object with these subobjects and references. Data pages are filled one after the other.
///
/// # Errors
/// [`Error::SubobjectTooLong`]; [`Error::ObjectFull`]; [`Error::DiskFull`], if the store has no page left.
pub fn create<P: PageWrite>(
    pages: &P,
    shape: ObjectShape,
    own: &[&[u8]],
    foreign: &[Reference],
) -> Result<PageId> {
    own.iter().try_for_each(|value| check_length(shape.data, value))?;
    let count = u32::try_from(own.len()).map_err(|_| Error::ObjectFull)?;
    let values: Vec<Option<&[u8]>> = own.iter().map(|value| Some(*value)).collect();
    let parts = pack(&values, space_bytes(shape.data));
    if !fits_header(shape, parts.len(), foreign.len()) {
        return Err(Error::ObjectFull);
    }
    let mut header = pages.allocate(PageKind::ObjectHeader, shape.header)?;
    let object = header.id();
    let mut entries: Vec<Entry> = Vec::with_capacity(parts.len());
    let mut first = 0;
    for part in parts {
        match pages.allocate(PageKind::ObjectData, shape.data) {
            Ok(mut page) => {
                write_data(&mut page, object, first, part);
                entries.push(Entry { page: page.id(), first });
            }
            Err(error) => {
                // That error matters more than one that this may meet.
                for entry in entries {
                    let _ = pages.write(entry.page).and_then(|page| pages.free(page));
                }
                let _ = pages.free(header);
                return Err(error);
            }
        }
        first += part.len() as u32;
    }
    write_header(&mut header, shape.data, count, &entries, foreign);
    Ok(object)
}

/// Reads an object's header.
pub fn header<P: PageRead>(pages: &P, object: PageId) -> Result<Header> {
    let page = Page::clone(&*pages.read(object)?);
    Directory::parse(&page).at(object)?;
    Ok(Header { object, page })
}

/// Reads a subobject; none if it was removed or never made.
pub fn read<P: PageRead>(pages: &P, header: &Header, slot: u32) -> Result<Option<Vec<u8>>> {
    let directory = header.directory();
    let Some(index) = directory.covering(slot) else { return Ok(None) };
    let entry = directory.entry(index);
    let page = pages.read(entry.page)?;
    let cell = Cells::parse(&page, header.object, directory.data, entry).and_then(|cells| cells.find(slot));
    Ok(cell.at(entry.page)?.value.map(<[u8]>::to_vec))
}

/// Replaces a subobject, or removes it; gives what it was. Changes one page, unless that has no room for the value.
///
/// # Errors
/// [`Error::SubobjectTooLong`]; [`Error::Operation`], if there is no such slot; [`Error::ObjectFull`] and
/// [`Error::DiskFull`], if the page has no room and the header none for another one, or the store no page.
pub fn update<P: PageWrite>(
    pages: &P,
    object: PageId,
    slot: u32,
    value: Option<&[u8]>,
) -> Result<Option<Vec<u8>>> {
    let header = header(pages, object)?;
    let directory = header.directory();
    value.map_or(Ok(()), |value| check_length(directory.data, value))?;
    let Some(index) = directory.covering(slot) else {
        return Err(Error::Operation(format!("object {object} has no subobject {slot}").into()));
    };
    let entry = directory.entry(index);
    let mut page = pages.write(entry.page)?;
    let cells = Cells::parse(&page, object, directory.data, entry).at(entry.page)?;
    let Cell { range, value: old } = cells.find(slot).at(entry.page)?;
    let old = old.map(<[u8]>::to_vec);
    if cells.has_room(&range, value) {
        replace(&mut page, range, value);
    } else {
        drop(page);
        split(pages, object, slot, value)?;
    }
    Ok(old)
}

/// Replaces a subobject in a page that has no room for the value, and divides the page.
fn split<P: PageWrite>(pages: &P, object: PageId, slot: u32, value: Option<&[u8]>) -> Result<()> {
    let mut header = pages.write(object)?;
    let directory = Directory::parse(&header).at(object)?;
    let index = directory.covering(slot).ok_or(Flaw::Slots).at(object)?;
    let (data, own, entry) = (directory.data, directory.own, directory.entry(index));
    let slots = directory.slots(index).at(object)?;
    let mut page = pages.write(entry.page)?;
    // The values are those of a copy, so that the page can be written.
    let before = Page::clone(&page);
    let cells = Cells::parse(&before, object, data, entry).and_then(|cells| cells.values(slots));
    let mut values = cells.at(entry.page)?;
    let changed = slot.checked_sub(entry.first).map_or(usize::MAX, |changed| changed as usize);
    *values.get_mut(changed).ok_or(Flaw::Slots).at(entry.page)? = value;

    let parts = divide(&values, changed, space_bytes(data));
    let (kept, moved) = parts.split_first().expect("the changed value is in one of them");
    directory.make_room(moved.len())?;
    let mut entries: Vec<Entry> = directory.entries().collect();
    let foreign: Vec<Reference> = directory.foreign().collect();
    let mut first = entry.first + kept.len() as u32;
    let mut new = Vec::with_capacity(moved.len());
    for (part, index) in moved.iter().zip(index + 1..) {
        match pages.allocate(PageKind::ObjectData, data) {
            Ok(mut page) => {
                write_data(&mut page, object, first, part);
                entries.insert(index, Entry { page: page.id(), first });
                new.push(page);
            }
            Err(error) => {
                if Failpoints::of_thread().is_on(Failpoint::NewPageLost) {
                    return Err(error);
                }
                for page in new {
                    let _ = pages.free(page);
                }
                return Err(error);
            }
        }
        first += part.len() as u32;
    }
    if Failpoints::of_thread().is_on(Failpoint::PageUncut) {
        write_header(&mut header, data, own, &entries, &foreign);
        return Ok(());
    }
    write_data(&mut page, object, entry.first, kept);
    write_header(&mut header, data, own, &entries, &foreign);
    Ok(())
}

/// Makes a subobject; gives its slot. Changes the header and the last data page, or a new one if that has no room.
///
/// # Errors
/// [`Error::SubobjectTooLong`]; [`Error::ObjectFull`] and [`Error::DiskFull`], if a new page is needed and the header
/// has no room for it, or the store no page.
pub fn append<P: PageWrite>(pages: &P, object: PageId, value: &[u8]) -> Result<u32> {
    let before = header(pages, object)?;
    let directory = before.directory();
    check_length(directory.data, value)?;
    let last = directory.last();
    let last = last.filter(|_| !Failpoints::of_thread().is_on(Failpoint::LatchedUnseen));
    if let Some(last) = last {
        // Alone, before it is latched beside the header.
        let entry = directory.entry(last);
        let page = pages.write(entry.page)?;
        Cells::parse(&page, object, directory.data, entry).at(entry.page)?;
    }

    let mut header = pages.write(object)?;
    let directory = Directory::parse(&header).at(object)?;
    let (data, slot) = (directory.data, directory.own);
    let own = slot.checked_add(1).ok_or(Error::ObjectFull)?;
    if let Some(last) = directory.last() {
        let entry = directory.entry(last);
        let slots = directory.slots(last).at(object)?;
        let mut page = pages.write(entry.page)?;
        let cells = Cells::parse(&page, object, data, entry).at(entry.page)?;
        cells.check_slots(slots).at(entry.page)?;
        if cells.has_room(&cells.end(), Some(value)) {
            push(&mut page, value);
            set_own(&mut header, own);
            return Ok(slot);
        }
    }
    directory.make_room(1)?;
    let mut page = pages.allocate(PageKind::ObjectData, data)?;
    write_data(&mut page, object, slot, &[Some(value)]);
    let entries: Vec<Entry> = directory.entries().chain([Entry { page: page.id(), first: slot }]).collect();
    let foreign: Vec<Reference> = directory.foreign().collect();
    write_header(&mut header, data, own, &entries, &foreign);
    Ok(slot)
}

/// Replaces the references to foreign subobjects; gives the old ones. Changes the header.
///
/// # Errors
/// [`Error::ObjectFull`], if the header has no room for so many.
pub fn set_foreign<P: PageWrite>(pages: &P, object: PageId, foreign: &[Reference]) -> Result<Vec<Reference>> {
    let mut header = pages.write(object)?;
    let directory = Directory::parse(&header).at(object)?;
    directory.make_room_for_foreign(foreign.len())?;
    let old = directory.foreign().collect();
    let (data, own) = (directory.data, directory.own);
    let entries: Vec<Entry> = directory.entries().collect();
    write_header(&mut header, data, own, &entries, foreign);
    Ok(old)
}

/// Frees all pages of an object, which nothing may refer to any more.
///
/// Nothing is freed before all pages have been latched and found to be the object's. If one cannot be had again after
/// that, it is lost, the others are free, and the error is returned.
pub fn free<P: PageWrite>(pages: &P, object: PageId) -> Result<()> {
    let header = header(pages, object)?;
    let directory = header.directory();
    let latch = |(index, entry): (usize, Entry)| {
        // The slots ascend, so no page is latched for two of them.
        directory.slots(index).at(object)?;
        let page = pages.write(entry.page)?;
        Cells::parse(&page, object, directory.data, entry).at(entry.page)?;
        Ok(page)
    };
    directory.entries().enumerate().try_for_each(|entry| latch(entry).map(drop))?;
    pages.free(pages.write(object)?)?;
    let results = directory.entries().enumerate().map(|entry| latch(entry).and_then(|page| pages.free(page)));
    // All of them, whatever happens to one.
    results.fold(Ok(()), Result::and)
}

/// Reads a whole object and verifies it: its pages' kinds, sizes and owner, that the slots ascend and are where the
/// directory says, and that each page is full of subobjects as far as it says. Gives all its pages, the header first.
pub fn check<P: PageRead>(pages: &P, object: PageId) -> Result<Vec<PageId>> {
    let header = header(pages, object)?;
    let directory = header.directory();
    let mut found = vec![object];
    for (index, entry) in directory.entries().enumerate() {
        let slots = directory.slots(index).at(object)?;
        let page = pages.read(entry.page)?;
        let cells = Cells::parse(&page, object, directory.data, entry);
        cells.and_then(|cells| cells.values(slots)).at(entry.page)?;
        // No page occurs twice: each knows its first slot, and these ascend.
        found.push(entry.page);
    }
    Ok(found)
}

fn check_length(data: PageSize, value: &[u8]) -> Result<()> {
    let max = value_bytes_max(data);
    if value.len() <= max { Ok(()) } else { Err(Error::SubobjectTooLong { bytes: value.len(), max }) }
}

/// Divides values into parts of which each but the last fills its page.
fn pack<'s, 'v>(mut values: &'s [Option<&'v [u8]>], space: usize) -> Vec<&'s [Option<&'v [u8]>]> {
    let mut parts = Vec::new();
    while !values.is_empty() {
        let mut bytes = 0;
        let count = values.iter().take_while(|value| {
            bytes += cell_bytes(**value);
            bytes <= space
        });
        let (part, rest) = values.split_at(count.count());
        parts.push(part);
        values = rest;
    }
    parts
}

/// Divides the values of a page, one of which has changed, into parts that fit a page each: in two as equal as can be,
/// or else into those before the changed one, that, and those after it.
fn divide<'s, 'v>(
    values: &'s [Option<&'v [u8]>],
    changed: usize,
    space: usize,
) -> Vec<&'s [Option<&'v [u8]>]> {
    let all: usize = values.iter().map(|value| cell_bytes(*value)).sum();
    let mut left = 0;
    let cuts = (1..values.len()).map(|cut| {
        left += cell_bytes(values[cut - 1]);
        (left.max(all - left), cut)
    });
    match cuts.min() {
        Some((larger, cut)) if larger <= space => {
            let (left, right) = values.split_at(cut);
            vec![left, right]
        }
        // Both outer parts were in one page before.
        _ => {
            let (left, rest) = values.split_at(changed);
            let (changed, right) = rest.split_at(1);
            [left, changed, right].into_iter().filter(|part| !part.is_empty()).collect()
        }
    }
}
