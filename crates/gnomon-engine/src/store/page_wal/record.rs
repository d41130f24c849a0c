//! Records in the logs of a logged store. Both levels use one format, so that both can share one physical log.
//!
//! Level 0: a *unit* is what is written to the log together: one persistence sphere, or several. A log of several files
//! has a part of it in each file that has pages of it. A unit ends with an EOS flag by definition: it is there when all
//! of its parts are. Its first part tells which subtransactions it holds, and the transactions that it commits (EOT).
//!
//! Level 1: undo records of operations, records of compensations, the ends of transactions, and which subtransactions
//! of a running transaction have been written by units that are no longer in the log.
//!
//! All numbers are little-endian. A record begins with its kind (1 byte).

use crate::{
    Csn, TxnId,
    id::SubtxnId,
    page::{Page, PageKind, PageSize},
};

/// A record of a log.
#[derive(Debug, PartialEq)]
pub(super) enum Record<'a> {
    Unit(UnitPart<'a>),
    /// The undo of an operation, as level 1 writes it.
    Undo {
        txn: TxnId,
        subtxn: SubtxnId,
        undo: &'a [u8],
    },
    /// The subtransaction takes another one back.
    Compensation {
        txn: TxnId,
        subtxn: SubtxnId,
        undoes: SubtxnId,
    },
    /// The transaction has committed, or is undone as a whole.
    End {
        txn: TxnId,
        committed: Option<Csn>,
    },
    /// The units of these subtransactions are no longer in the log, their transaction has not ended.
    Written {
        txn: TxnId,
        subtxns: Vec<SubtxnId>,
    },
}

/// A part of a unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct UnitPart<'a> {
    pub unit: u64,
    /// The files that have parts of it, a bit each.
    pub files: u64,
    /// In the first part only, as what follows but the pages.
    pub subtxns: Vec<(TxnId, SubtxnId)>,
    pub committed: Vec<(TxnId, Csn)>,
    pub freed: Vec<(u64, PageSize)>,
    pub pages: Vec<PageImage<'a>>,
}

/// A page as it stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageImage<'a> {
    pub page: u64,
    pub kind: PageKind,
    pub size: PageSize,
    pub body: &'a [u8],
}

impl PageImage<'_> {
    pub fn to_page(self) -> Page {
        Page::from_body(self.kind, self.size, self.body)
    }
}

const UNIT: u8 = 1;
const UNDO: u8 = 2;
const COMPENSATION: u8 = 3;
const END: u8 = 4;
const WRITTEN: u8 = 5;

impl<'a> Record<'a> {
    /// Calls `f` with the bytes of the record, in pieces: images are not copied.
    pub fn encode<T>(&self, f: impl FnOnce(&[&[u8]]) -> T) -> T {
        let mut head = Vec::new();
        match self {
            Record::Unit(part) => return part.encode(f),
            Record::Undo { txn, subtxn, undo } => {
                head.push(UNDO);
                put(&mut head, [txn.0, subtxn.0]);
                return f(&[&head, undo]);
            }
            Record::Compensation { txn, subtxn, undoes } => {
                head.push(COMPENSATION);
                put(&mut head, [txn.0, subtxn.0, undoes.0]);
            }
            Record::End { txn, committed } => {
                head.push(END);
                put(&mut head, [txn.0, committed.map_or(0, |csn| csn.0)]);
            }
            Record::Written { txn, subtxns } => {
                head.push(WRITTEN);
                put(&mut head, [txn.0, subtxns.len() as u64]);
                put(&mut head, subtxns.iter().map(|subtxn| subtxn.0));
            }
        }
        f(&[&head])
    }

    /// Reads a record; none if it is malformed.
    pub fn decode(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (kind, rest) = bytes.split_first()?;
        let mut from = Reader(rest);
        let record = match *kind {
            UNIT => Record::Unit(UnitPart::decode(&mut from)?),
            UNDO => {
                let (txn, subtxn) = (TxnId(from.number()?), SubtxnId(from.number()?));
                return Some(Record::Undo { txn, subtxn, undo: from.0 });
            }
            COMPENSATION => Record::Compensation {
                txn: TxnId(from.number()?),
                subtxn: SubtxnId(from.number()?),
                undoes: SubtxnId(from.number()?),
            },
            END => Record::End {
                txn: TxnId(from.number()?),
                committed: Some(Csn(from.number()?)).filter(|csn| csn.0 > 0),
            },
            WRITTEN => Record::Written {
                txn: TxnId(from.number()?),
                subtxns: from.list(8, |from| Some(SubtxnId(from.number()?)))?,
            },
            _ => return None,
        };
        from.0.is_empty().then_some(record)
    }
}

impl<'a> UnitPart<'a> {
    fn encode<T>(&self, f: impl FnOnce(&[&[u8]]) -> T) -> T {
        let mut head = vec![UNIT];
        put(&mut head, [self.unit, self.files, self.subtxns.len() as u64]);
        put(&mut head, self.subtxns.iter().flat_map(|(txn, subtxn)| [txn.0, subtxn.0]));
        put(&mut head, [self.committed.len() as u64]);
        put(&mut head, self.committed.iter().flat_map(|(txn, csn)| [txn.0, csn.0]));
        put(&mut head, [self.freed.len() as u64]);
        for (page, size) in &self.freed {
            put(&mut head, [*page]);
            head.push(size.code());
        }
        put(&mut head, [self.pages.len() as u64]);
        let heads: Vec<[u8; PAGE_HEAD_BYTES]> = self
            .pages
            .iter()
            .map(|image| {
                let mut head = [0; PAGE_HEAD_BYTES];
                head[..8].copy_from_slice(&image.page.to_le_bytes());
                (head[8], head[9]) = (image.kind as u8, image.size.code());
                head
            })
            .collect();
        let mut pieces: Vec<&[u8]> = vec![&head];
        for (head, image) in heads.iter().zip(&self.pages) {
            pieces.extend([&head[..], image.body]);
        }
        f(&pieces)
    }

    fn decode(from: &mut Reader<'a>) -> Option<UnitPart<'a>> {
        Some(UnitPart {
            unit: from.number()?,
            files: from.number()?,
            subtxns: from.list(16, |from| Some((TxnId(from.number()?), SubtxnId(from.number()?))))?,
            committed: from.list(16, |from| Some((TxnId(from.number()?), Csn(from.number()?))))?,
            freed: from.list(9, |from| Some((from.number()?, PageSize::from_code(from.byte()?)?)))?,
            pages: from.list(PAGE_HEAD_BYTES, |from| {
                let page = from.number()?;
                let (kind, size) = (PageKind::from_code(from.byte()?)?, PageSize::from_code(from.byte()?)?);
                Some(PageImage { page, kind, size, body: from.bytes(size.body_bytes())? })
            })?,
        })
    }
}

/// Before the body of a page: its number, kind and size.
const PAGE_HEAD_BYTES: usize = 10;

fn put(bytes: &mut Vec<u8>, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u64> {
        self.bytes(8).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)))
    }

    /// As many things as a number says, of at least so many bytes each.
    fn list<T>(&mut self, bytes_min: usize, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count =
            usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len() / bytes_min)?;
        (0..count).map(|_| one(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(record: &Record<'_>) {
        let bytes = record.encode(|pieces| pieces.concat());
        assert_eq!(Record::decode(&bytes).as_ref(), Some(record));
        for len in 0..bytes.len() {
            // Of an undo record, any number of bytes is some.
            if !matches!(record, Record::Undo { .. }) || len < 17 {
                assert_eq!(Record::decode(&bytes[..len]), None, "{record:?} cut to {len}");
            }
        }
    }

    #[test]
    fn records_round_trip_and_are_nothing_when_cut() {
        let (txn, subtxn) = (TxnId(3), SubtxnId(9));
        round_trip(&Record::Undo { txn, subtxn, undo: b"back" });
        round_trip(&Record::Compensation { txn, subtxn, undoes: SubtxnId(8) });
        round_trip(&Record::End { txn, committed: Some(Csn(4)) });
        round_trip(&Record::End { txn, committed: None });
        round_trip(&Record::Written { txn, subtxns: vec![subtxn, SubtxnId(10)] });
        let body = vec![7; PageSize::MIN.body_bytes()];
        let image = PageImage { page: 77, kind: PageKind::TreeLeaf, size: PageSize::MIN, body: &body };
        round_trip(&Record::Unit(UnitPart {
            unit: 5,
            files: 0b101,
            subtxns: vec![(txn, subtxn)],
            committed: vec![(txn, Csn(6))],
            freed: vec![(12, PageSize::DEFAULT)],
            pages: vec![image, PageImage { page: 78, ..image }],
        }));
    }

    #[test]
    fn a_count_that_cannot_be_is_refused() {
        let mut bytes =
            Record::Written { txn: TxnId(1), subtxns: Vec::new() }.encode(|pieces| pieces.concat());
        let count = bytes.len() - 8;
        bytes[count..].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(Record::decode(&bytes), None);
    }
}
