//! The decision whether the pages of a database and its log of commits go together.
//!
//! Each file says from which state of the others it can go on:
//!
//! - the root of the pages: which run of the log there was when it was written, and that the log reached up to a
//!   position ([`LogMark`]); it is written when the log is durable up to there;
//! - the file that says where the log begins ([`Control`]): that pages have every commit up to one, since their records
//!   were given up, and how far the log reached; it is written when a root with these commits is durable;
//! - each file of the log: the database, and which part of the log it is; that it was left for the next one.
//!
//! A crash leaves files that go together, at whichever write it comes. What does not was put there: an older or newer
//! copy, a file of another database, or none. It is refused before anything is changed, but for pages that were closed:
//! these have every commit, so that a log that is not there is made anew.

use super::{FILE, control::Control};
use crate::{
    Csn, Error, Result,
    store::shadow::{self, LogMark},
};

/// The part of a root that matters to the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct PagesSay {
    pub database: u64,
    /// Every commit up to it is in the pages.
    pub csn: Csn,
    /// True if the database was closed with this root, so that the pages have every commit.
    pub is_closed: bool,
    pub log: LogMark,
}

/// The content of the file that says where the log begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum LogSays {
    /// There is none; the log's files, if there are some, have blocks of this run at most.
    Nothing {
        blocks_of: Option<u32>,
    },
    /// Neither copy is whole.
    Damaged {
        blocks_of: Option<u32>,
    },
    Begins(Control),
}

/// The way on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The log is read from its beginning, and must reach at least so far.
    Read { reaches: u64 },
    /// The log is made anew, for a run of this number.
    MakeAnew { epoch: u32 },
}

/// Decides by what the files say of each other.
///
/// # Errors
/// [`Error::Corrupt`] of a log that is not there or damaged; [`Error::Mismatch`] of files that do not go together.
pub(super) fn decide(pages: PagesSay, log: LogSays) -> Result<Decision> {
    let known = pages.log.epoch;
    let control = match log {
        LogSays::Nothing { blocks_of } | LogSays::Damaged { blocks_of } if pages.is_closed => {
            return match blocks_of {
                Some(run) if known > 0 && run > known => Err(mismatch(
                    shadow::FILE,
                    format!(
                        "it was closed in run {known}, and files of the log are of run {run}: it is an older copy; put the newest one back, and '{FILE}', or restore a backup"
                    ),
                )),
                _ => Ok(Decision::MakeAnew { epoch: known.saturating_add(1) }),
            };
        }
        LogSays::Nothing { .. } => {
            return Err(super::damaged("the log of commits is not there: restore it, or a backup"));
        }
        LogSays::Damaged { .. } => {
            return Err(super::damaged(
                "neither copy of what the log begins with is whole: restore it, or a backup",
            ));
        }
        LogSays::Begins(control) => control,
    };
    if control.database != pages.database {
        return Err(mismatch(
            FILE,
            format!(
                "it is of the database {:016x}, '{}' is of {:016x}: put the right one in its place",
                control.database,
                shadow::FILE,
                pages.database
            ),
        ));
    }
    if pages.csn < control.base {
        return Err(mismatch(
            shadow::FILE,
            format!(
                "it ends with commit {}, and the log has the commits after {} only: it is an older copy; put the newest one back, or restore a backup",
                pages.csn, control.base
            ),
        ));
    }
    if control.epoch < known {
        return Err(mismatch(
            FILE,
            format!(
                "it is of run {} of the database, '{}' knows run {}: it is an older copy; put the newest one back, or restore a backup",
                control.epoch,
                shadow::FILE,
                pages.log.epoch
            ),
        ));
    }
    // A closed root may tell of a log that was made anew since.
    let tells = !pages.is_closed || control.epoch == pages.log.epoch;
    let of_pages = if tells { pages.log.reaches } else { 0 };
    Ok(Decision::Read { reaches: of_pages.max(control.reaches) })
}

fn mismatch(file: &str, detail: String) -> Error {
    Error::Mismatch { file: file.into(), detail }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::id::Lsn;

    #[test]
    fn the_decision_for_every_combination() {
        const KNOWN: u32 = 5;
        let (mut decided, mut refused) = (0, 0);
        for is_closed in [false, true] {
            for csn in [9, 10, 11] {
                for epoch in [KNOWN - 1, KNOWN, KNOWN + 1] {
                    for database in [1, 2] {
                        let pages = PagesSay {
                            database: 1,
                            csn: Csn(csn),
                            is_closed,
                            log: LogMark { epoch: KNOWN, reaches: 700 },
                        };
                        let control = Control {
                            number: 3,
                            epoch,
                            database,
                            segment_bytes: 4096,
                            tail: Lsn(650),
                            base: Csn(10),
                            reaches: 650,
                        };
                        let file = match decide(pages, LogSays::Begins(control)) {
                            Err(Error::Mismatch { file, .. }) => Some(file),
                            Err(other) => panic!("{other}"),
                            Ok(Decision::Read { reaches }) => {
                                assert_eq!(reaches, if is_closed && epoch > KNOWN { 650 } else { 700 });
                                None
                            }
                            Ok(other) => panic!("{other:?}"),
                        };
                        let expected = match (database, csn, epoch) {
                            (2, ..) => Some(FILE),
                            (_, 9, _) => Some(shadow::FILE),
                            (.., epoch) if epoch < KNOWN => Some(FILE),
                            _ => None,
                        };
                        assert_eq!(file.as_deref(), expected, "{pages:?} {control:?}");
                        decided += 1;
                        refused += usize::from(expected.is_some());
                    }
                }
            }
        }
        assert_eq!((decided, refused), (36, 28));
    }

    #[test]
    fn a_log_that_is_not_there_is_made_anew_beside_closed_pages_only() {
        let log = LogMark { epoch: 5, reaches: 700 };
        for blocks_of in [None, Some(4), Some(5), Some(6)] {
            for says in [LogSays::Nothing { blocks_of }, LogSays::Damaged { blocks_of }] {
                let pages = |is_closed| PagesSay { database: 1, csn: Csn(9), is_closed, log };
                match decide(pages(true), says) {
                    Ok(decision) => {
                        assert_eq!(decision, Decision::MakeAnew { epoch: 6 });
                        assert!(blocks_of < Some(6));
                    }
                    Err(error) => assert!(matches!(error, Error::Mismatch { .. }) && blocks_of == Some(6)),
                }
                assert!(matches!(decide(pages(false), says), Err(Error::Corrupt { .. })));
            }
        }
    }
}
