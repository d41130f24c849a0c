//! The words of dates and times.

use super::super::{MONTHS, WEEKDAYS};

/// The label of the number that follows it: `y2001m12d27`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    /// A Julian day.
    Julian,
    /// A time of ISO 8601.
    Time,
    /// A unit that no date is written with.
    Other,
}

/// The meaning of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// One that means nothing: `at`, `on`.
    Ignored,
    Infinity,
    Epoch,
    Now,
    Yesterday,
    Today,
    Tomorrow,
    /// Midnight at Greenwich.
    Allballs,
    Month(i32),
    Weekday,
    Pm(bool),
    Bc(bool),
    /// The mark that makes summer time of the zone before it.
    Summer,
    Label(Label),
    /// `t`, which a time of ISO 8601 follows.
    IsoTime,
}

/// Returns the place in a list of names that a word tells by a whole name, or its first three letters.
fn place(names: &[&str], word: &str) -> Option<usize> {
    names.iter().position(|name| {
        name.eq_ignore_ascii_case(word) || name.get(..3).is_some_and(|short| short.eq_ignore_ascii_case(word))
    })
}

impl Word {
    /// Returns the meaning of a word in lower case; none of one that may be a zone.
    pub(super) fn of(word: &str) -> Option<Word> {
        Some(match word {
            "at" | "on" => Word::Ignored,
            "infinity" => Word::Infinity,
            "epoch" => Word::Epoch,
            "now" => Word::Now,
            "yesterday" => Word::Yesterday,
            "today" => Word::Today,
            "tomorrow" => Word::Tomorrow,
            "allballs" => Word::Allballs,
            "am" | "pm" => Word::Pm(word == "pm"),
            "ad" | "bc" => Word::Bc(word == "bc"),
            "dst" => Word::Summer,
            "t" => Word::IsoTime,
            "y" => Word::Label(Label::Year),
            "m" => Word::Label(Label::Month),
            "d" => Word::Label(Label::Day),
            "h" => Word::Label(Label::Hour),
            "mm" => Word::Label(Label::Minute),
            "s" => Word::Label(Label::Second),
            "j" | "jd" | "julian" => Word::Label(Label::Julian),
            "dow" | "doy" | "isodow" | "isoyear" => Word::Label(Label::Other),
            "sept" => Word::Month(9),
            "tues" | "weds" | "thur" | "thurs" => Word::Weekday,
            _ => match place(&MONTHS, word) {
                Some(index) => Word::Month(index as i32 + 1),
                None => place(&WEEKDAYS, word).map(|_| Word::Weekday)?,
            },
        })
    }
}

/// True if a word in lower case is one of dates and times, and no zone.
pub(super) fn is_word(word: &str) -> bool {
    Word::of(word).is_some()
}
