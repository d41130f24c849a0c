//! `to_char` of dates and times, `to_date`, `to_timestamp`: the template patterns.
//!
//! A template is cut into fields (`YYYY`, `Month`, ...), each with the modifiers FM (no padding), TH and th (an
//! ordinal's ending), quoted text, and everything else as it stands. Names of days and months are English. Not done:
//! TM, SP, and FX, which is read and has no effect.

use super::{
    arguments::{any, invalid, micros, text},
    resolve::Declarations,
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Context, Datum, Type,
        cast::{CastContext, cast},
        datetime::{
            Civil, DAY, HOUR, MINUTE, MONTHS, SECOND, WEEKDAYS, Zone, arithmetic, days_from_civil, is_date,
            month_days,
        },
        limit::too_long,
    },
};

/// The patterns, longer ones before those that they begin with.
const PATTERNS: &[&str] = &[
    "A.D.", "a.d.", "AD", "ad", "A.M.", "a.m.", "AM", "am", "B.C.", "b.c.", "BC", "bc", "CC", "DAY", "Day",
    "day", "DDD", "DD", "DY", "Dy", "dy", "D", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "FX", "HH24",
    "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM", "MONTH", "Month", "month",
    "MON", "Mon", "mon", "MS", "OF", "P.M.", "p.m.", "PM", "pm", "Q", "RM", "rm", "SSSSS", "SSSS", "SS",
    "TZH", "TZM", "TZ", "tz", "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y",
];

/// Patterns whose case does not matter.
const CASELESS: &[&str] = &[
    "CC", "DDD", "DD", "D", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "FX", "HH24", "HH12", "HH", "IDDD",
    "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM", "MS", "OF", "Q", "SSSSS", "SSSS", "SS", "TZH",
    "TZM", "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y",
];

#[derive(Debug)]
enum Piece {
    Field {
        name: &'static str,
        fill: bool,
        ordinal: Option<&'static str>,
    },
    Text(String),
    /// One that stands between fields, which reading takes loosely.
    Separator(char),
}

/// The longest template that is read, in bytes: each of them becomes some tens in memory.
const TEMPLATE_BYTES_MAX: usize = 1 << 20;

/// The template of a call, its second argument.
pub(super) fn template_of(a: &[Datum]) -> Result<&str> {
    let template = text(a, 1)?;
    if template.len() > TEMPLATE_BYTES_MAX { Err(too_long()) } else { Ok(template) }
}

fn pieces(template: &str) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let mut quoted = String::new();
            let mut chars = rest.char_indices().skip(1);
            let mut end = rest.len();
            while let Some((position, c)) = chars.next() {
                match c {
                    '"' => {
                        end = position + 1;
                        break;
                    }
                    '\\' => quoted.extend(chars.next().map(|(_, c)| c)),
                    c => quoted.push(c),
                }
            }
            out.push(Piece::Text(quoted));
            rest = rest.get(end..).unwrap_or_default();
            continue;
        }
        let (fill, after) = match rest.get(..2) {
            Some("FM" | "fm") => (false, rest.get(2..).unwrap_or_default()),
            _ => (true, rest),
        };
        if let Some(name) = pattern_at(after) {
            rest = after.get(name.len()..).unwrap_or_default();
            let ordinal = match rest.get(..2) {
                Some("TH") => Some("TH"),
                Some("th") => Some("th"),
                _ => None,
            };
            if ordinal.is_some() {
                rest = rest.get(2..).unwrap_or_default();
            }
            out.push(Piece::Field { name, fill, ordinal });
            continue;
        }
        if first.is_alphanumeric() {
            out.push(Piece::Text(first.to_string()));
        } else {
            out.push(Piece::Separator(first));
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    out
}

fn pattern_at(text: &str) -> Option<&'static str> {
    let begins = |pattern: &str| {
        text.get(..pattern.len()).is_some_and(|head| {
            head == pattern || (CASELESS.contains(&pattern) && head.eq_ignore_ascii_case(pattern))
        })
    };
    PATTERNS.iter().find(|pattern| begins(pattern)).copied()
}

/// What a template shows of a time.
struct Moment {
    civil: Civil,
    /// Offset in seconds east, and abbreviation, if it has a zone.
    zone: Option<(i32, String)>,
    is_interval: bool,
}

/// `1st`, `22ND`, `13th`.
pub(super) fn ordinal_ending(number: &str, upper: bool) -> &'static str {
    let digits: Vec<u8> = number.bytes().filter(u8::is_ascii_digit).collect();
    let teen = digits.len() > 1 && digits[digits.len() - 2] == b'1';
    let ending = match digits.last() {
        Some(b'1') if !teen => ["st", "ST"],
        Some(b'2') if !teen => ["nd", "ND"],
        Some(b'3') if !teen => ["rd", "RD"],
        _ => ["th", "TH"],
    };
    ending[usize::from(upper)]
}

pub(super) const ROMAN_MONTHS: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

fn show(moment: &Moment, template: &str) -> String {
    let mut out = String::new();
    for piece in pieces(template) {
        match piece {
            Piece::Text(text) => out.push_str(&text),
            Piece::Separator(c) => out.push(c),
            Piece::Field { name, fill, ordinal } => {
                let shown = field(moment, name, fill);
                out.push_str(&shown);
                if let Some(ordinal) = ordinal
                    && shown.ends_with(|c: char| c.is_ascii_digit())
                {
                    out.push_str(ordinal_ending(&shown, ordinal == "TH"));
                }
            }
        }
    }
    out
}

fn field(moment: &Moment, name: &str, fill: bool) -> String {
    let civil = &moment.civil;
    let (hour, minute, second, micro) = civil.clock();
    let year = i64::from(if civil.year > 0 || moment.is_interval { civil.year } else { 1 - civil.year });
    let (iso_year, iso_week) = if moment.is_interval { (0, 0) } else { civil.iso_week() };
    let iso_year = i64::from(if iso_year > 0 { iso_year } else { 1 - iso_year });
    let number = |value: i64, width: usize| {
        if !fill {
            value.to_string()
        } else if value < 0 {
            format!("-{:0width$}", -value)
        } else {
            format!("{value:0width$}")
        }
    };
    let padded = |word: String, width: usize| if fill { format!("{word:width$}") } else { word };
    let cased = |word: &str| -> String {
        if name.starts_with(|c: char| c.is_ascii_lowercase()) {
            word.to_lowercase()
        } else if name.chars().nth(1).is_some_and(|c| c.is_ascii_lowercase()) {
            word.to_owned()
        } else {
            word.to_uppercase()
        }
    };
    let month = MONTHS.get(usize::try_from(civil.month - 1).unwrap_or(12)).copied().unwrap_or_default();
    let weekday = WEEKDAYS.get(civil.weekday() as usize).copied().unwrap_or_default();
    let dotted = |plain: &'static str, dots: &'static str| -> String {
        let word = if name.contains('.') { dots } else { plain };
        if name.starts_with(|c: char| c.is_ascii_lowercase()) { word.to_lowercase() } else { word.to_owned() }
    };
    let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
    match name.to_ascii_uppercase().as_str() {
        "A.M." | "AM" | "P.M." | "PM" if hour % 24 >= 12 => dotted("PM", "P.M."),
        "A.M." | "AM" | "P.M." | "PM" => dotted("AM", "A.M."),
        "A.D." | "AD" | "B.C." | "BC" if civil.year <= 0 => dotted("BC", "B.C."),
        "A.D." | "AD" | "B.C." | "BC" => dotted("AD", "A.D."),
        "HH24" => number(hour, 2),
        "HH12" | "HH" if moment.is_interval && hour == 0 => number(12, 2),
        "HH12" | "HH" => number(hour12, 2),
        "MI" => number(minute, 2),
        "SS" => number(second, 2),
        "MS" | "FF3" => format!("{:03}", micro / 1_000),
        "US" | "FF6" => format!("{micro:06}"),
        "FF1" => format!("{}", micro / 100_000),
        "FF2" => format!("{:02}", micro / 10_000),
        "FF4" => format!("{:04}", micro / 100),
        "FF5" => format!("{:05}", micro / 10),
        "SSSS" | "SSSSS" => (civil.micros / SECOND).to_string(),
        "MONTH" => padded(cased(month), 9),
        "MON" => cased(month.get(..3).unwrap_or(month)),
        "MM" => number(civil.month.into(), 2),
        "DAY" => padded(cased(weekday), 9),
        "DY" => cased(weekday.get(..3).unwrap_or(weekday)),
        "DDD" => number(civil.day_of_year(), 3),
        "DD" => number(civil.day.into(), 2),
        "D" => (civil.weekday() + 1).to_string(),
        "ID" => (if civil.weekday() == 0 { 7 } else { civil.weekday() }).to_string(),
        "IDDD" => number((iso_week - 1) * 7 + (civil.weekday() + 6) % 7 + 1, 3),
        "IW" => number(iso_week, 2),
        "WW" => number((civil.day_of_year() - 1) / 7 + 1, 2),
        "W" => ((i64::from(civil.day) - 1) / 7 + 1).to_string(),
        "Q" if civil.month == 0 => String::new(),
        "Q" => ((civil.month - 1) / 3 + 1).to_string(),
        "CC" => {
            let century = if civil.year > 0 {
                (i64::from(civil.year) - 1) / 100 + 1
            } else {
                i64::from(civil.year) / 100 - 1
            };
            if century.abs() < 10 { number(century, 2) } else { century.to_string() }
        }
        "Y,YYY" => format!("{},{:03}", year / 1_000, year % 1_000),
        "YYYY" => number(year, 4),
        "YYY" => number(year % 1_000, 3),
        "YY" => number(year % 100, 2),
        "Y" => (year % 10).to_string(),
        "IYYY" => number(iso_year, 4),
        "IYY" => number(iso_year % 1_000, 3),
        "IY" => number(iso_year % 100, 2),
        "I" => (iso_year % 10).to_string(),
        "J" => (civil.days() + 2_451_545).to_string(),
        "RM" => {
            // Months of an interval that are negative count back from December; whole years are December too.
            let month = match civil.month {
                0 if civil.year == 0 => return String::new(),
                0 if civil.year > 0 => 12,
                0 => 1,
                month if month < 0 => month + 13,
                month => month,
            };
            let roman = usize::try_from(month - 1).ok().and_then(|month| ROMAN_MONTHS.get(month));
            padded(cased_roman(name, roman.copied().unwrap_or_default()), 4)
        }
        "TZ" => moment.zone.as_ref().map_or(String::new(), |(_, abbreviation)| {
            if name == "tz" { abbreviation.to_lowercase() } else { abbreviation.to_uppercase() }
        }),
        "TZH" | "TZM" | "OF" => {
            let seconds = moment.zone.as_ref().map_or(0, |(seconds, _)| *seconds);
            let sign = if seconds < 0 { '-' } else { '+' };
            let (hours, minutes) = (seconds.abs() / 3_600, seconds.abs() / 60 % 60);
            match name.to_ascii_uppercase().as_str() {
                "TZH" => format!("{sign}{hours:02}"),
                "TZM" => format!("{minutes:02}"),
                _ if minutes != 0 => format!("{sign}{hours:02}:{minutes:02}"),
                _ => format!("{sign}{hours:02}"),
            }
        }
        _ => String::new(),
    }
}

fn cased_roman(name: &str, roman: &str) -> String {
    if name == "rm" { roman.to_lowercase() } else { roman.to_owned() }
}

fn to_char(cx: &Context, a: &[Datum]) -> Result<Datum> {
    let template = template_of(a)?;
    if template.is_empty() {
        return Ok(Datum::text(""));
    }
    let moment = match any(a, 0)? {
        Datum::Timestamp(t) | Datum::Timestamptz(t) if arithmetic::is_infinite(*t) => return Ok(Datum::Null),
        Datum::Timestamptz(t) => Moment {
            civil: Civil::of_timestamp(cx.zone.to_local(*t)),
            zone: Some((cx.zone.offset_at(*t), cx.zone.abbreviation_at(*t))),
            is_interval: false,
        },
        Datum::Interval(value) => Moment {
            civil: Civil {
                year: value.months / 12,
                month: value.months % 12,
                day: value.days,
                micros: value.micros,
            },
            zone: None,
            is_interval: true,
        },
        _ => Moment { civil: Civil::of_timestamp(micros(a, 0)?), zone: None, is_interval: false },
    };
    Ok(Datum::text(show(&moment, template)))
}

/// What reading found.
#[derive(Default)]
struct Found {
    year: Option<i64>,
    /// The year had two digits or less, and means the one next to 2020.
    short_year: Option<usize>,
    bc: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso: [Option<i64>; 3],
    julian: Option<i64>,
    hour: Option<i64>,
    hour12: bool,
    pm: Option<bool>,
    minute: i64,
    second: i64,
    micros: i64,
    seconds_of_day: Option<i64>,
    offset: Option<(i64, i64)>,
}

fn malformed(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

/// How many digits a numeric field takes at most.
fn width(name: &str) -> usize {
    match name {
        "YYYY" | "IYYY" => 4,
        "YYY" | "IYY" | "MS" | "DDD" | "IDDD" | "FF3" => 3,
        "Y" | "I" | "D" | "ID" | "Q" | "W" | "FF1" => 1,
        "US" | "FF6" | "SSSS" | "SSSSS" => 6,
        "FF4" => 4,
        "FF5" => 5,
        "J" => 7,
        _ => 2,
    }
}

fn is_numeric_field(piece: Option<&Piece>) -> bool {
    matches!(piece, Some(Piece::Field { name, .. }) if name.starts_with(|c: char| "YIDHMSUFJQWC".contains(c))
        && !matches!(name.to_ascii_uppercase().as_str(), "MONTH" | "MON" | "DAY" | "DY"))
}

fn read(input: &str, template: &str) -> Result<Found> {
    let pieces = pieces(template);
    let mut found = Found::default();
    let mut rest = input;
    for (index, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Text(text) => {
                // Quoted text passes over as many characters as it has.
                let skip = text.chars().count();
                rest =
                    rest.get(rest.char_indices().nth(skip).map_or(rest.len(), |(at, _)| at)..).unwrap_or("");
            }
            Piece::Separator(_) => {
                rest = rest.trim_start();
                if let Some(c) =
                    rest.chars().next().filter(|c| !c.is_alphanumeric() && !matches!(c, '+' | '-'))
                {
                    rest = rest.get(c.len_utf8()..).unwrap_or_default();
                } else if rest.starts_with('-')
                    && !matches!(pieces.get(index + 1), Some(Piece::Field { name: "TZH", .. }))
                {
                    rest = rest.get(1..).unwrap_or_default();
                }
            }
            Piece::Field { name, fill, ordinal } => {
                rest = rest.trim_start();
                let fixed = *fill && is_numeric_field(pieces.get(index + 1));
                rest = read_field(&mut found, name, rest, fixed)?;
                if ordinal.is_some() {
                    rest = rest.get(2..).unwrap_or_default();
                }
            }
        }
    }
    Ok(found)
}

/// Takes an integer from the front.
fn take_number<'a>(name: &str, rest: &'a str, fixed: bool) -> Result<(i64, usize, &'a str)> {
    let signed = rest.starts_with(['-', '+']);
    let digits = rest.get(usize::from(signed)..).unwrap_or_default();
    let available = digits.bytes().take_while(u8::is_ascii_digit).count();
    // A year takes all the digits that there are, unless another number follows at once.
    let taken =
        if fixed || !matches!(name, "YYYY" | "IYYY" | "J") { available.min(width(name)) } else { available };
    if fixed && available < width(name) && digits.len() < width(name) && available > 0 {
        return Err(malformed(format!("source string too short for \"{name}\" formatting field"))
            .detail(format!("Field requires {} characters, but only {} remain.", width(name), digits.len()))
            .hint("If your source string is not fixed-width, try using the \"FM\" modifier."));
    }
    if taken == 0 {
        let shown: String = rest.chars().take(width(name)).collect();
        return Err(malformed(format!("invalid value \"{shown}\" for \"{name}\""))
            .detail("Value must be an integer."));
    }
    let value: i64 = digits
        .get(..taken)
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| malformed(format!("value for \"{name}\" in source string is out of range")))?;
    let after = digits.get(taken..).unwrap_or_default();
    Ok((if rest.starts_with('-') { -value } else { value }, taken, after))
}

/// Takes a name of a list from the front, in full or its first three letters.
fn take_name<'a>(name: &str, names: &[&str], rest: &'a str) -> Result<(i64, &'a str)> {
    let full = !matches!(name.to_ascii_uppercase().as_str(), "MON" | "DY");
    for (index, candidate) in names.iter().enumerate() {
        let length = if full { candidate.len() } else { 3 };
        let wanted = candidate.get(..length).unwrap_or(candidate);
        if rest.get(..length).is_some_and(|head| head.eq_ignore_ascii_case(wanted)) {
            return Ok((index as i64, rest.get(length..).unwrap_or_default()));
        }
    }
    let shown: String = rest.chars().take_while(|c| !c.is_whitespace()).collect();
    Err(malformed(format!("invalid value \"{shown}\" for \"{name}\""))
        .detail("The given value did not match any of the allowed values for this field."))
}

fn read_field<'a>(found: &mut Found, name: &str, rest: &'a str, fixed: bool) -> Result<&'a str> {
    let upper = name.to_ascii_uppercase();
    match upper.as_str() {
        "MONTH" | "MON" => {
            let (index, rest) = take_name(name, &MONTHS, rest)?;
            found.month = Some(index + 1);
            return Ok(rest);
        }
        "DAY" | "DY" => return Ok(take_name(name, &WEEKDAYS, rest)?.1),
        "AM" | "PM" | "A.M." | "P.M." | "AD" | "BC" | "A.D." | "B.C." => {
            let length = name.len();
            let head = rest.get(..length).unwrap_or(rest).replace('.', "").to_ascii_uppercase();
            match head.as_str() {
                "AM" | "PM" => found.pm = Some(head == "PM"),
                "AD" | "BC" => found.bc = head == "BC",
                _ => {
                    return Err(malformed(format!(
                        "invalid value \"{}\" for \"{name}\"",
                        rest.get(..length).unwrap_or(rest)
                    ))
                    .detail("The given value did not match any of the allowed values for this field."));
                }
            }
            return Ok(rest.get(length..).unwrap_or_default());
        }
        "RM" => {
            let mut names: Vec<(usize, &str)> = ROMAN_MONTHS.iter().copied().enumerate().collect();
            names.sort_by_key(|(_, roman)| std::cmp::Reverse(roman.len()));
            for (index, roman) in names {
                if rest.get(..roman.len()).is_some_and(|head| head.eq_ignore_ascii_case(roman)) {
                    found.month = Some(index as i64 + 1);
                    return Ok(rest.get(roman.len()..).unwrap_or_default());
                }
            }
            return Err(malformed(format!("invalid value \"{rest}\" for \"{name}\"")));
        }
        "TZ" | "OF" => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("formatting field \"{name}\" is only supported in to_char"),
            ));
        }
        "FX" => return Ok(rest),
        _ => {}
    }
    if upper == "Y,YYY" {
        let (thousands, after) =
            rest.split_once(',').ok_or_else(|| malformed("invalid input string for \"Y,YYY\"".into()))?;
        let thousands: i64 =
            thousands.parse().map_err(|_| malformed("invalid input string for \"Y,YYY\"".into()))?;
        let (value, _, after) = take_number("YYY", after, true)?;
        found.year = Some(thousands * 1_000 + value);
        return Ok(after);
    }
    let (value, digits, after) = take_number(&upper, rest, fixed)?;
    match upper.as_str() {
        "YYYY" => found.year = Some(value),
        "YYY" | "YY" | "Y" => (found.year, found.short_year) = (Some(value), Some(digits)),
        "IYYY" | "IYY" | "IY" | "I" => found.iso[0] = Some(value),
        "IW" => found.iso[1] = Some(value),
        "ID" => found.iso[2] = Some(value),
        "MM" => found.month = Some(value),
        "DD" => found.day = Some(value),
        "DDD" => found.day_of_year = Some(value),
        "WW" => found.day_of_year = Some((value - 1) * 7 + 1),
        "W" => found.day = Some((value - 1) * 7 + 1),
        "J" => found.julian = Some(value),
        "HH24" => found.hour = Some(value),
        "HH12" | "HH" => (found.hour, found.hour12) = (Some(value), true),
        "MI" => found.minute = value,
        "SS" => found.second = value,
        "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
            // The digits count as a fraction, whatever their number.
            found.micros = value * 10_i64.pow(6_u32.saturating_sub(digits as u32));
        }
        "SSSS" | "SSSSS" => found.seconds_of_day = Some(value),
        "TZH" => found.offset = Some((value, found.offset.map_or(0, |(_, minutes)| minutes))),
        "TZM" => found.offset = Some((found.offset.map_or(0, |(hours, _)| hours), value)),
        _ => {}
    }
    Ok(after)
}

impl Found {
    fn civil(&self, input: &str) -> Result<Civil> {
        let fail = || {
            SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("date/time field value out of range: \"{input}\""),
            )
        };
        let narrow = |value: i64| i32::try_from(value).map_err(|_| fail());
        let mut hour = self.hour.unwrap_or(0);
        if self.hour12 {
            if !(1..=12).contains(&hour) {
                return Err(SqlError::new(
                    SqlState::INVALID_DATETIME_FORMAT,
                    format!("hour \"{hour}\" is invalid for the 12-hour clock"),
                )
                .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            match self.pm {
                Some(true) if hour != 12 => hour += 12,
                Some(false) if hour == 12 => hour = 0,
                _ => {}
            }
        }
        if !(0..24).contains(&hour) || !(0..60).contains(&self.minute) || !(0..60).contains(&self.second) {
            return Err(fail());
        }
        let micros = match self.seconds_of_day {
            Some(seconds) if (0..86_400).contains(&seconds) => seconds * SECOND,
            Some(_) => return Err(fail()),
            None => hour * HOUR + self.minute * MINUTE + self.second * SECOND,
        } + self.micros;
        if let Some(julian) = self.julian {
            return Ok(Civil::of_day(julian - 2_451_545, micros));
        }
        if let [Some(year), week, day] = self.iso {
            // The week that holds January 4 is the first.
            let fourth = days_from_civil(narrow(year)?, 1, 4);
            let monday = fourth - (fourth + 5).rem_euclid(7);
            return Ok(Civil::of_day(monday + (week.unwrap_or(1) - 1) * 7 + day.unwrap_or(1) - 1, micros));
        }
        let mut year = self.year.unwrap_or(1);
        if let Some(digits) = self.short_year {
            // Short years come out next to 2020.
            year = match digits {
                0..=2 if year < 70 => year + 2_000,
                0..=2 => year + 1_900,
                _ if year < 520 => year + 2_000,
                _ => year + 1_000,
            };
        }
        let year = if self.bc && year > 0 { 1 - year } else { year };
        let year = if self.year.is_none() && !self.bc { 0 } else { year };
        let year = narrow(year)?;
        if let Some(day) = self.day_of_year {
            let length = days_from_civil(year + 1, 1, 1) - days_from_civil(year, 1, 1);
            if !(1..=length).contains(&day) {
                return Err(fail());
            }
            return Ok(Civil::of_day(days_from_civil(year, 1, 1) + day - 1, micros));
        }
        let (month, day) = (narrow(self.month.unwrap_or(1))?, narrow(self.day.unwrap_or(1))?);
        if !(1..=12).contains(&month) || day < 1 || day > month_days(year, month) {
            return Err(fail());
        }
        Ok(Civil { year, month, day, micros })
    }
}

pub(super) fn declare(all: &mut Declarations) {
    for ty in [Type::Timestamp, Type::Timestamptz, Type::Interval] {
        all.add("to_char", &[ty, Type::Text], Type::Text, to_char).stable();
    }
    all.add("to_date", &[Type::Text, Type::Text], Type::Date, |_, a| {
        let input = text(a, 0)?;
        let days = read(input, text(a, 1)?)?.civil(input)?.days();
        if !is_date(days) {
            return Err(invalid("date out of range"));
        }
        i32::try_from(days).map(Datum::Date).map_err(|_| invalid("date out of range"))
    })
    .stable();
    all.add("to_timestamp", &[Type::Text, Type::Text], Type::Timestamptz, |cx, a| {
        let input = text(a, 0)?;
        let found = read(input, text(a, 1)?)?;
        let local = found.civil(input)?.timestamp()?;
        match found.offset {
            Some((hours, minutes)) => {
                let seconds = hours * 3_600 + hours.signum() * minutes * 60;
                let zone = Zone::fixed(i32::try_from(seconds.clamp(-DAY, DAY)).unwrap_or(0));
                Ok(Datum::Timestamptz(zone.to_utc(local)))
            }
            None => cast(
                cx,
                Datum::Timestamp(local),
                Type::Timestamp,
                Type::Timestamptz.into(),
                CastContext::Explicit,
            ),
        }
    })
    .stable();
}
