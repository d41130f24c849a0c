//! The meaning of fields, each by those before it.

use std::slice::Iter;

use super::{
    super::{Civil, DAY, HOUR, MINUTE, SECOND, Zone, abbreviation::is_of_summer},
    Misfit,
    calendar::{Calendar, Parts},
    field::{Field, FieldKind},
    numeral::{self, Displacement, displacement},
    word::{Label, Word},
};
use crate::types::Context;

/// The date on which Julian days begin to count, in days since 2000-01-01.
const JULIAN_DAY_0: i64 = -2_451_545;

/// A text, decoded.
pub(super) struct Decoded {
    pub moment: Moment,
    /// The date, and the time of the day, which may go beyond it.
    pub civil: Civil,
    pub offset: Offset,
}

/// The kind of moment that a text names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Early,
    Late,
    Epoch,
    Fields,
}

/// The offset of a local time, as the text gives it.
pub(super) enum Offset {
    OfSession,
    /// Seconds east of Greenwich.
    Seconds(i32),
    Zone(Zone),
}

/// Decodes fields: as a date and time (DecodeDateTime), or as a time alone (DecodeTimeOnly).
pub(super) fn decode(cx: &Context, fields: &[Field<'_>], is_time: bool) -> Result<Decoded, Misfit> {
    let mut decoder = Decoder {
        cx,
        is_time,
        known: Parts::NONE,
        calendar: Calendar { order: cx.date_style.order, ..Calendar::default() },
        has_text_month: false,
        is_pm: None,
        moment: Moment::Fields,
        seconds_east: 0,
        zone: None,
        label: None,
    };
    let mut rest = fields.iter();
    let mut is_first = true;
    while let Some(field) = rest.next() {
        // A time has a date before it only where the last field may be its zone, or the next one is a time.
        let may_be_date = is_first
            && fields.len() >= 2
            && (fields[fields.len() - 1].kind == FieldKind::Date
                || field.kind == FieldKind::Date && fields[1].kind == FieldKind::Time);
        is_first = false;
        let parts = decoder.field(field, &rest, may_be_date)?;
        if decoder.known.has_any(parts) {
            return Err(Misfit::Format);
        }
        decoder.known = decoder.known.and(parts);
    }
    decoder.finish()
}

struct Decoder<'a> {
    cx: &'a Context<'a>,
    /// True if a time alone is read.
    is_time: bool,
    known: Parts,
    calendar: Calendar,
    /// The month was a word, so that numbers are day and year.
    has_text_month: bool,
    is_pm: Option<bool>,
    moment: Moment,
    seconds_east: i32,
    /// A zone whose offset depends on the date.
    zone: Option<Zone>,
    /// The label before the number that follows.
    label: Option<Label>,
}

impl Decoder<'_> {
    /// Takes a field, and returns what is known by it.
    fn field(
        &mut self,
        field: &Field<'_>,
        rest: &Iter<'_, Field<'_>>,
        may_be_date: bool,
    ) -> Result<Parts, Misfit> {
        match field.kind {
            FieldKind::Date => self.date(&field.text, may_be_date),
            FieldKind::Time => self.time(&field.text),
            FieldKind::Displacement => {
                self.displacement(&field.text)?;
                Ok(Parts::ZONE)
            }
            FieldKind::Number => match self.label.take() {
                Some(label) => self.labelled(label, &field.text),
                None if self.is_time => self.number_of_time(&field.text, may_be_date),
                None => self.number(&field.text),
            },
            FieldKind::Word | FieldKind::Signed => self.word(&field.text, rest),
        }
    }

    /// The parts that are known to a reader of times: of a time alone, the date counts as known.
    fn known_for_time(&self) -> Parts {
        if self.is_time { self.known.and(Parts::DATE) } else { self.known }
    }

    fn displacement(&mut self, text: &str) -> Result<(), Misfit> {
        self.seconds_east = displacement(text).map_err(|wrong| match wrong {
            Displacement::Format => Misfit::Format,
            Displacement::Range => Misfit::Displacement,
        })?;
        Ok(())
    }

    /// Takes a date, the name of a zone, or a time and a displacement without a space between them.
    fn date(&mut self, text: &str, may_be_date: bool) -> Result<Parts, Misfit> {
        let label = self.label.take();
        if label == Some(Label::Julian) && !self.is_time {
            let (day, zone) = numeral::leading(text)?;
            self.julian(day);
            self.displacement(zone)?;
            return Ok(Parts::DATE.and(Parts::TIME).and(Parts::ZONE));
        }
        let is_date = match self.is_time {
            true => may_be_date,
            false => label.is_none() && !self.known.has(Parts::MONTH.and(Parts::DAY)),
        };
        if is_date {
            return self.calendar.date(text, self.known);
        }
        if !text.starts_with(|first: char| first.is_ascii_digit()) && (label.is_none() || self.is_time) {
            let zone = Zone::parse(text).ok_or_else(|| Misfit::UnknownZone(text.to_owned()))?;
            self.zone = Some(zone);
            return Ok(Parts::ZONE);
        }
        if label.is_some_and(|label| label != Label::Time) || self.known.has(Parts::TIME) {
            return Err(Misfit::Format);
        }
        let dash = text.find('-').ok_or(Misfit::Format)?;
        self.displacement(&text[dash..])?;
        let parts = self.calendar.packed(&text[..dash], self.known_for_time())?;
        Ok(parts.and(Parts::ZONE))
    }

    fn time(&mut self, text: &str) -> Result<Parts, Misfit> {
        let label = self.label.take();
        if !self.is_time && label.is_some_and(|label| label != Label::Time) {
            return Err(Misfit::Format);
        }
        let parts = self.calendar.time(text)?;
        match !self.is_time && self.calendar.has_wrong_time() {
            true => Err(Misfit::Range),
            false => Ok(parts),
        }
    }

    fn julian(&mut self, day: i32) {
        self.calendar.set_day(i64::from(day) + JULIAN_DAY_0);
        self.calendar.is_julian = true;
    }

    /// Takes a number that stands behind a label.
    fn labelled(&mut self, label: Label, text: &str) -> Result<Parts, Misfit> {
        let (value, rest) = numeral::leading(text)?;
        let has_fraction = rest.starts_with('.');
        if has_fraction && !matches!(label, Label::Julian | Label::Time | Label::Second)
            || !has_fraction && !rest.is_empty()
        {
            return Err(Misfit::Format);
        }
        self.moment = Moment::Fields;
        let calendar = &mut self.calendar;
        let long = i64::from(value);
        Ok(match label {
            Label::Year => {
                calendar.year = value;
                Parts::YEAR
            }
            // Behind an hour it is minutes.
            Label::Month if self.known.has(Parts::MONTH.and(Parts::HOUR)) => {
                calendar.minute = long;
                Parts::MINUTE
            }
            Label::Month => {
                calendar.month = value;
                Parts::MONTH
            }
            Label::Day => {
                calendar.day = value;
                Parts::DAY
            }
            Label::Hour => {
                calendar.hour = long;
                Parts::HOUR
            }
            Label::Minute => {
                calendar.minute = long;
                Parts::MINUTE
            }
            Label::Second => {
                calendar.second = long;
                if has_fraction {
                    calendar.micros = numeral::second_fraction(rest)?;
                    Parts::WHOLE_SECOND
                } else {
                    Parts::SECOND
                }
            }
            Label::Julian => {
                self.julian(value);
                match has_fraction {
                    true => self.part_of_day(rest)?,
                    false => Parts::DATE,
                }
            }
            Label::Time => {
                let parts = calendar.packed(text, self.known.and(Parts::DATE))?;
                if parts != Parts::TIME {
                    return Err(Misfit::Format);
                }
                parts
            }
            Label::Other => return Err(Misfit::Format),
        })
    }

    /// Takes the fraction of a Julian day as a time.
    fn part_of_day(&mut self, fraction: &str) -> Result<Parts, Misfit> {
        let micros = numeral::fraction(fraction, DAY)?;
        let calendar = &mut self.calendar;
        (calendar.hour, calendar.minute) = (micros / HOUR, micros % HOUR / MINUTE);
        (calendar.second, calendar.micros) = (micros % MINUTE / SECOND, micros % SECOND);
        Ok(Parts::DATE.and(Parts::TIME))
    }

    /// Takes a number of a date and time without a label.
    fn number(&mut self, text: &str) -> Result<Parts, Misfit> {
        let (has_date, has_time) = (self.known.has_any(Parts::DATE), self.known.has_any(Parts::TIME));
        match text.find('.') {
            Some(_) if !has_date => self.calendar.date(text, self.known),
            Some(point) if point > 2 => self.calendar.packed(text, self.known),
            // A year of six digits or more stands at the end.
            _ if text.len() >= 6 && !(has_date && has_time) => self.calendar.packed(text, self.known),
            _ => self.calendar.number(text, self.has_text_month, self.known),
        }
    }

    /// Takes a number of a time without a label.
    fn number_of_time(&mut self, text: &str, may_be_date: bool) -> Result<Parts, Misfit> {
        let known = self.known_for_time();
        match text.find('.') {
            Some(_) if may_be_date => self.calendar.date(text, self.known),
            Some(point) if point > 2 => self.calendar.packed(text, known),
            Some(_) => Err(Misfit::Format),
            None if text.len() > 4 => self.calendar.packed(text, known),
            None => self.calendar.number(text, false, known),
        }
    }

    fn word(&mut self, text: &str, rest: &Iter<'_, Field<'_>>) -> Result<Parts, Misfit> {
        if let Some(zone) = Zone::of_abbreviation(text) {
            let Some(seconds) = zone.fixed_offset() else {
                self.zone = Some(zone);
                return Ok(Parts::ZONE);
            };
            self.seconds_east = seconds;
            return Ok(if is_of_summer(text) { Parts::ZONE.and(Parts::SUMMER) } else { Parts::ZONE });
        }
        if text == "-infinity" && !self.is_time {
            self.moment = Moment::Early;
            return Ok(Parts::MOMENT);
        }
        let Some(word) = Word::of(text) else {
            self.zone = Some(Zone::parse(text).ok_or(Misfit::Format)?);
            return Ok(Parts::ZONE);
        };
        Ok(match word {
            Word::Ignored => Parts::NONE,
            Word::Now => self.now(),
            Word::Allballs => {
                let calendar = &mut self.calendar;
                (calendar.hour, calendar.minute, calendar.second, calendar.micros) = (0, 0, 0, 0);
                self.seconds_east = 0;
                self.moment = Moment::Fields;
                Parts::TIME.and(Parts::ZONE)
            }
            Word::Summer => {
                self.seconds_east += 3_600;
                Parts::SUMMER
            }
            Word::Pm(is_pm) => {
                self.is_pm = Some(is_pm);
                Parts::HALF
            }
            Word::Bc(is_bc) => {
                self.calendar.is_bc = is_bc;
                Parts::ERA
            }
            Word::Label(label) => {
                self.label = Some(label);
                Parts::NONE
            }
            Word::IsoTime => {
                let next = rest.as_slice().first().map(|field| field.kind);
                let is_time = matches!(next, Some(FieldKind::Number | FieldKind::Time | FieldKind::Date));
                if !is_time || !self.is_time && !self.known.has(Parts::DATE) {
                    return Err(Misfit::Format);
                }
                self.label = Some(Label::Time);
                Parts::NONE
            }
            _ if self.is_time => return Err(Misfit::Format),
            Word::Infinity => {
                self.moment = Moment::Late;
                Parts::MOMENT
            }
            Word::Epoch => {
                self.moment = Moment::Epoch;
                Parts::MOMENT
            }
            Word::Yesterday => self.day_from_today(-1),
            Word::Today => self.day_from_today(0),
            Word::Tomorrow => self.day_from_today(1),
            Word::Weekday => Parts::WEEKDAY,
            Word::Month(month) => self.month(month),
        })
    }

    fn month(&mut self, month: i32) -> Parts {
        let calendar = &mut self.calendar;
        // A number before it that was taken for the month was the day.
        let was_day = self.known.has(Parts::MONTH)
            && !self.has_text_month
            && !self.known.has(Parts::DAY)
            && (1..=31).contains(&calendar.month);
        self.has_text_month = true;
        if was_day {
            calendar.day = calendar.month;
        }
        calendar.month = month;
        if was_day { Parts::DAY } else { Parts::MONTH }
    }

    fn day_from_today(&mut self, days: i64) -> Parts {
        let today = self.cx.zone.to_local(self.cx.time_of_literal()).div_euclid(DAY);
        self.calendar.set_day(today + days);
        // The year is as it is, be it BC.
        self.calendar.is_short_year = false;
        self.moment = Moment::Fields;
        Parts::DATE
    }

    fn now(&mut self) -> Parts {
        let now = self.cx.time_of_literal();
        let civil = Civil::of_timestamp(self.cx.zone.to_local(now));
        let calendar = &mut self.calendar;
        (calendar.hour, calendar.minute, calendar.second, calendar.micros) = civil.clock();
        if self.is_time {
            return Parts::TIME;
        }
        (calendar.year, calendar.month, calendar.day) = (civil.year, civil.month, civil.day);
        self.seconds_east = self.cx.zone.offset_at(now);
        self.moment = Moment::Fields;
        Parts::DATE.and(Parts::TIME).and(Parts::ZONE)
    }

    fn finish(mut self) -> Result<Decoded, Misfit> {
        self.calendar.complete(self.known)?;
        self.apply_half()?;
        let has_date = self.known.has(Parts::DATE);
        let is_complete = match self.is_time {
            true if self.calendar.has_wrong_time() => return Err(Misfit::Range),
            true => self.known.has(Parts::TIME) && self.has_date_for_zone(),
            false => has_date || self.moment != Moment::Fields,
        };
        // Summer time is made of a zone whose offset is fixed.
        let has_summer_of_none =
            self.known.has(Parts::SUMMER) && (self.zone.is_some() || !self.known.has(Parts::ZONE));
        if !is_complete || has_summer_of_none && self.moment == Moment::Fields {
            return Err(Misfit::Format);
        }
        let Calendar { year, month, day, .. } = self.calendar;
        Ok(Decoded {
            moment: self.moment,
            civil: Civil { year, month, day, micros: self.calendar.of_day() },
            offset: match self.zone {
                Some(zone) => Offset::Zone(zone),
                None if self.known.has(Parts::ZONE) => Offset::Seconds(self.seconds_east),
                None => Offset::OfSession,
            },
        })
    }

    /// Makes an hour of the day of one of a half of it.
    fn apply_half(&mut self) -> Result<(), Misfit> {
        let hour = &mut self.calendar.hour;
        match self.is_pm {
            Some(_) if *hour > 12 => return Err(Misfit::Range),
            Some(true) if *hour != 12 => *hour += 12,
            Some(false) if *hour == 12 => *hour = 0,
            _ => {}
        }
        Ok(())
    }

    /// True if a time has all of the date that its zone needs: all or nothing, and all if the zone has several offsets.
    fn has_date_for_zone(&self) -> bool {
        let (has_date, has_part) = (self.known.has(Parts::DATE), self.known.has_any(Parts::DATE));
        match &self.zone {
            Some(zone) if !zone.is_abbreviation() => zone.has_one_offset() || has_date,
            _ => has_date || !has_part,
        }
    }
}
