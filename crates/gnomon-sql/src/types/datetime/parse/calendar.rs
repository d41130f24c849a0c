//! The parts of a date and a time that are known, and the meaning of a number by them.

use super::{
    super::{Civil, DateOrder, days_from_civil, month_days},
    Misfit, numeral,
    word::Word,
};

/// Parts of a date and a time, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts(u32);

impl Parts {
    pub(super) const NONE: Parts = Parts(0);
    pub(super) const YEAR: Parts = Parts(1);
    pub(super) const MONTH: Parts = Parts(1 << 1);
    pub(super) const DAY: Parts = Parts(1 << 2);
    pub(super) const HOUR: Parts = Parts(1 << 3);
    pub(super) const MINUTE: Parts = Parts(1 << 4);
    pub(super) const SECOND: Parts = Parts(1 << 5);
    /// A second, with its fraction.
    pub(super) const WHOLE_SECOND: Parts = Parts(1 << 5 | 1 << 6);
    pub(super) const DAY_OF_YEAR: Parts = Parts(1 << 7);
    pub(super) const ZONE: Parts = Parts(1 << 8);
    pub(super) const SUMMER: Parts = Parts(1 << 9);
    pub(super) const WEEKDAY: Parts = Parts(1 << 10);
    pub(super) const HALF: Parts = Parts(1 << 11);
    pub(super) const ERA: Parts = Parts(1 << 12);
    /// A word that stands for a moment.
    pub(super) const MOMENT: Parts = Parts(1 << 13);
    pub(super) const DATE: Parts = Parts(7);
    pub(super) const TIME: Parts = Parts(1 << 3 | 1 << 4 | 1 << 5 | 1 << 6);

    /// Returns the parts of both sets.
    pub(super) const fn and(self, other: Parts) -> Parts {
        Parts(self.0 | other.0)
    }

    /// Returns the parts that are in both.
    const fn within(self, other: Parts) -> Parts {
        Parts(self.0 & other.0)
    }

    /// Returns the parts that are not in `other`.
    fn without(self, other: Parts) -> Parts {
        Parts(self.0 & !other.0)
    }

    /// True if all of `other` are in it.
    pub(super) fn has(self, other: Parts) -> bool {
        self.within(other) == other
    }

    /// True if any of `other` is in it.
    pub(super) fn has_any(self, other: Parts) -> bool {
        self.within(other) != Parts::NONE
    }
}

/// The values of the parts that are known.
#[derive(Debug, Default)]
pub(super) struct Calendar {
    /// The order of numbers that do not tell it.
    pub order: DateOrder,
    pub year: i32,
    pub month: i32,
    pub day: i32,
    pub day_of_year: i32,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub micros: i64,
    /// The year had one or two digits.
    pub is_short_year: bool,
    /// The date came as a Julian day.
    pub is_julian: bool,
    pub is_bc: bool,
}

/// The number that a text begins with; 0 for none.
fn digits(text: &str) -> i32 {
    numeral::leading(text).map_or(i32::MAX, |(number, _)| number)
}

impl Calendar {
    /// Takes the day that is so many days after 2000-01-01.
    pub(super) fn set_day(&mut self, days: i64) {
        let civil = Civil::of_day(days, 0);
        (self.year, self.month, self.day) = (civil.year, civil.month, civil.day);
    }

    /// Takes a date whose parts are joined: digits, and perhaps a month's name (DecodeDate).
    pub(super) fn date(&mut self, text: &str, known: Parts) -> Result<Parts, Misfit> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = rest.trim_start_matches(|character: char| !character.is_ascii_alphanumeric());
            let Some(first) = rest.bytes().next() else { return Err(Misfit::Format) };
            let is_number = first.is_ascii_digit();
            let same = |byte: u8| match is_number {
                true => byte.is_ascii_digit(),
                false => byte.is_ascii_alphabetic(),
            };
            let end = rest.bytes().position(|byte| !same(byte)).unwrap_or(rest.len());
            pieces.push((is_number, &rest[..end]));
            // What ends a piece is lost, be it a separator or not.
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        let mut all = known;
        let mut add = |parts: Parts| match all.has_any(parts) {
            true => Err(Misfit::Format),
            false => {
                all = all.and(parts);
                Ok(all)
            }
        };
        let mut so_far = known;
        let mut has_text_month = false;
        for (_, word) in pieces.iter().filter(|(is_number, _)| !is_number) {
            match Word::of(word) {
                Some(Word::Ignored) => {}
                Some(Word::Month(month)) => {
                    self.month = month;
                    has_text_month = true;
                    so_far = add(Parts::MONTH)?;
                }
                _ => return Err(Misfit::Format),
            }
        }
        for (_, number) in pieces.iter().filter(|(is_number, _)| *is_number) {
            let parts = self.number(number, has_text_month, so_far)?;
            so_far = add(parts)?;
        }
        match so_far.without(Parts::DAY_OF_YEAR.and(Parts::ZONE)) == Parts::DATE {
            true => Ok(so_far.without(known)),
            false => Err(Misfit::Format),
        }
    }

    /// Takes `12:34`, `12:34:56.7` or `34:56.7`, minutes and seconds (DecodeTime).
    pub(super) fn time(&mut self, text: &str) -> Result<Parts, Misfit> {
        let (hours, rest) = text.split_once(':').ok_or(Misfit::Format)?;
        let hours: i64 = hours.parse().map_err(|_| Misfit::Range)?;
        let (minutes, rest) = numeral::leading(rest)?;
        let (mut hour, mut minute, mut second, mut micros) = (hours, i64::from(minutes), 0, 0);
        if rest.starts_with('.') {
            micros = numeral::second_fraction(rest)?;
            (hour, minute, second) = (0, hours, minute);
        } else if let Some(rest) = rest.strip_prefix(':') {
            let (seconds, rest) = numeral::leading(rest)?;
            second = i64::from(seconds);
            if rest.starts_with('.') {
                micros = numeral::second_fraction(rest)?;
            } else if !rest.is_empty() {
                return Err(Misfit::Format);
            }
        } else if !rest.is_empty() {
            return Err(Misfit::Format);
        }
        if minute > 59 || second > 60 || hour > i64::from(i32::MAX) {
            return Err(Misfit::Range);
        }
        (self.hour, self.minute, self.second, self.micros) = (hour, minute, second, micros);
        Ok(Parts::TIME)
    }

    /// Takes a number, whose meaning depends on its length and on what is known (DecodeNumber).
    pub(super) fn number(&mut self, text: &str, has_text_month: bool, known: Parts) -> Result<Parts, Misfit> {
        let (value, rest) = numeral::leading(text)?;
        let whole = text.len() - rest.len();
        if whole == 0 {
            return Err(Misfit::Format);
        }
        if rest.starts_with('.') {
            if whole > 2 {
                return self.packed(text, known.and(Parts::DATE));
            }
            self.micros = numeral::second_fraction(rest)?;
        } else if !rest.is_empty() {
            return Err(Misfit::Format);
        }
        let dated = known.within(Parts::DATE);
        if text.len() == 3 && dated == Parts::YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(Parts::DAY_OF_YEAR.and(Parts::MONTH).and(Parts::DAY));
        }
        let is_year = text.len() >= 3 || self.order == DateOrder::Ymd;
        let parts = match (dated.has(Parts::YEAR), dated.has(Parts::MONTH), dated.has(Parts::DAY)) {
            (false, false, false) if is_year => Parts::YEAR,
            (false, false, false) if self.order == DateOrder::Dmy => Parts::DAY,
            (false, false, false) | (true, false, false) | (false, false, true) => Parts::MONTH,
            (false, true, false) if has_text_month && is_year => Parts::YEAR,
            (true, true, false) if has_text_month && text.len() >= 3 && self.is_short_year => {
                // The first number was not the year: `08-Jan-1999` where the year comes first.
                (self.day, self.year, self.is_short_year) = (self.year, value, false);
                return Ok(Parts::DAY);
            }
            (_, true, false) => Parts::DAY,
            (false, true, true) => Parts::YEAR,
            (true, true, true) => return self.packed(text, known),
            (true, false, true) => return Err(Misfit::Format),
        };
        match parts {
            Parts::YEAR => {
                self.year = value;
                self.is_short_year = text.len() <= 2;
            }
            Parts::MONTH => self.month = value,
            _ => self.day = value,
        }
        Ok(parts)
    }

    /// Takes a date or time whose parts follow each other without separators (DecodeNumberField).
    pub(super) fn packed(&mut self, text: &str, known: Parts) -> Result<Parts, Misfit> {
        let mut whole = text;
        if let Some(point) = text.find('.') {
            self.micros = numeral::second_fraction(&text[point..])?;
            whole = &text[..point];
        } else if !known.has(Parts::DATE) && text.len() >= 6 {
            let (rest, day) = text.split_at(text.len() - 2);
            let (year, month) = rest.split_at(rest.len() - 2);
            (self.year, self.month, self.day) = (digits(year), digits(month), digits(day));
            if year.len() == 2 {
                self.is_short_year = true;
            }
            return Ok(Parts::DATE);
        }
        if known.has(Parts::TIME) || !matches!(whole.len(), 4 | 6) {
            return Err(Misfit::Format);
        }
        let part = |at: usize| i64::from(digits(whole.get(at..at + 2).unwrap_or_default()));
        (self.hour, self.minute, self.second) = (part(0), part(2), part(4));
        Ok(Parts::TIME)
    }

    /// True if the time is none of a day.
    pub(super) fn has_wrong_time(&self) -> bool {
        self.hour > 24 || self.minute > 59 || self.second > 60 || self.of_day() > super::super::DAY
    }

    /// Returns the microseconds since midnight.
    pub(super) fn of_day(&self) -> i64 {
        let seconds = (self.hour * 60 + self.minute) * 60 + self.second;
        seconds * super::super::SECOND + self.micros
    }

    /// Completes the date, once all of it is known (ValidateDate).
    pub(super) fn complete(&mut self, known: Parts) -> Result<(), Misfit> {
        if known.has(Parts::YEAR) && !self.is_julian {
            self.year = match self.year {
                year if self.is_bc && year > 0 => 1 - year,
                year @ 0..70 if self.is_short_year && !self.is_bc => year + 2000,
                year @ 70..100 if self.is_short_year && !self.is_bc => year + 1900,
                year if year <= 0 => return Err(Misfit::Range),
                year => year,
            };
        }
        if known.has(Parts::DAY_OF_YEAR) {
            self.set_day(days_from_civil(self.year, 1, 1) + i64::from(self.day_of_year) - 1);
        }
        if known.has(Parts::MONTH) && !(1..=12).contains(&self.month)
            || known.has(Parts::DAY) && !(1..=31).contains(&self.day)
        {
            return Err(Misfit::MonthOrDay);
        }
        match known.has(Parts::DATE) && self.day > month_days(self.year, self.month) {
            true => Err(Misfit::Range),
            false => Ok(()),
        }
    }
}
