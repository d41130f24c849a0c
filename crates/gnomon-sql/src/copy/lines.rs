//! Where the lines of COPY data end. All of them end as the first one does: in LF, in CR LF or in CR.

use crate::{Result, SqlError, SqlState};

/// How lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Newline {
    Lf,
    Cr,
    CrLf,
}

/// A line that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundLine {
    /// Where its text ends.
    pub end: usize,
    /// Where the next line begins.
    pub next: usize,
    /// True if it is `\.`, after which no data follow.
    pub is_end_of_data: bool,
}

/// The search for the end of a line in data that arrive in pieces: what was looked at is not looked at again.
#[derive(Default)]
pub(super) struct LineSearch {
    scanned: usize,
    /// Of CSV: true within quotes.
    pub quoted: bool,
    /// Of CSV: how many newlines stand within quotes.
    pub newlines: u64,
}

impl LineSearch {
    /// Looks for the end of a line of text: a newline with no backslash in front of it. None if more data are needed,
    /// or with `ended` if there is none.
    pub(super) fn text(
        &mut self,
        rest: &[u8],
        ended: bool,
        style: &mut Option<Newline>,
    ) -> Result<Option<FoundLine>> {
        loop {
            let special = |byte: &u8| matches!(*byte, b'\n' | b'\r' | b'\\');
            let Some(found) = rest.get(self.scanned..).and_then(|rest| rest.iter().position(special)) else {
                self.scanned = rest.len().max(self.scanned);
                return Ok(None);
            };
            let at = self.scanned + found;
            self.scanned = at;
            if rest[at] != b'\\' {
                return newline(rest, at, ended, style, false);
            }
            match rest.get(at + 1) {
                None => return Ok(None),
                Some(b'.') if at == 0 => return end_of_data(rest, ended, *style),
                Some(_) => self.scanned = at + 2,
            }
        }
    }

    /// As [`LineSearch::text`], of CSV: a newline outside of quotes.
    pub(super) fn csv(
        &mut self,
        rest: &[u8],
        ended: bool,
        style: &mut Option<Newline>,
        quote: u8,
        escape: u8,
    ) -> Result<Option<FoundLine>> {
        while let Some(&byte) = rest.get(self.scanned) {
            if self.quoted && byte == escape && escape != quote {
                // The next byte does not end the quotes; if it is not here yet, this is looked at again.
                if rest.get(self.scanned + 1).is_none() {
                    return Ok(None);
                }
                self.scanned += 2;
                continue;
            }
            if byte == quote {
                self.quoted = !self.quoted;
            } else if self.quoted {
                let counted = if *style == Some(Newline::Lf) { b'\n' } else { b'\r' };
                self.newlines += u64::from(byte == counted);
            } else if matches!(byte, b'\n' | b'\r') {
                let found = newline(rest, self.scanned, ended, style, true)?;
                let is_end_of_data = |found: &FoundLine| &rest[..found.end] == b"\\.";
                return Ok(found.map(|found| FoundLine { is_end_of_data: is_end_of_data(&found), ..found }));
            }
            self.scanned += 1;
        }
        Ok(None)
    }
}

fn bad(message: &str) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

/// The line that the newline at `at` ends; none if that depends on data that are not here.
fn newline(
    rest: &[u8],
    at: usize,
    ended: bool,
    style: &mut Option<Newline>,
    csv: bool,
) -> Result<Option<FoundLine>> {
    let (found, length) = match (rest[at], *style) {
        (b'\n', None | Some(Newline::Lf)) => (Newline::Lf, 1),
        (b'\n', _) => {
            return Err(match csv {
                true => {
                    bad("unquoted newline found in data").hint("Use quoted CSV field to represent newline.")
                }
                false => bad("literal newline found in data").hint("Use \"\\n\" to represent newline."),
            });
        }
        (_, Some(Newline::Cr)) => (Newline::Cr, 1),
        (_, None | Some(Newline::CrLf)) if rest.len() == at + 1 && !ended => return Ok(None),
        (_, None | Some(Newline::CrLf)) if rest.get(at + 1) == Some(&b'\n') => (Newline::CrLf, 2),
        (_, None) => (Newline::Cr, 1),
        (_, Some(Newline::Lf | Newline::CrLf)) => {
            return Err(match csv {
                true => bad("unquoted carriage return found in data")
                    .hint("Use quoted CSV field to represent carriage return."),
                false => bad("literal carriage return found in data")
                    .hint("Use \"\\r\" to represent carriage return."),
            });
        }
    };
    *style = Some(found);
    Ok(Some(FoundLine { end: at, next: at + length, is_end_of_data: false }))
}

/// A line that begins with `\.` has nothing else, and ends as the others do.
fn end_of_data(rest: &[u8], ended: bool, style: Option<Newline>) -> Result<Option<FoundLine>> {
    let mismatch = || bad("end-of-copy marker does not match previous newline style");
    let corrupt = || bad("end-of-copy marker corrupt");
    let wanted = if style == Some(Newline::CrLf) { 4 } else { 3 };
    if rest.len() < wanted && !ended {
        return Ok(None);
    }
    let newline = &rest[2..rest.len().min(wanted)];
    match (style, newline) {
        (_, []) | (None, b"\n" | b"\r") => {}
        (Some(Newline::Lf), b"\n") | (Some(Newline::Cr), b"\r") | (Some(Newline::CrLf), b"\r\n") => {}
        (Some(Newline::CrLf), [b'\n', ..] | b"\r\r") => return Err(mismatch()),
        (Some(Newline::Lf | Newline::Cr), b"\n" | b"\r") => return Err(mismatch()),
        _ => return Err(corrupt()),
    }
    Ok(Some(FoundLine { end: 2, next: rest.len(), is_end_of_data: true }))
}
