//! Templates of dates and times: the patterns that PostgreSQL knows, and how a template is cut into them.

use super::Convention;

/// A pattern of a template, `YYYY` or `Month`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// As it is written; some stand for the same field in another case.
    pub name: &'static str,
    pub field: Field,
    /// True if it reads digits, so that a number before it cannot take as many as there are.
    pub is_digits: bool,
    /// The calendar that it belongs to, if it belongs to one.
    pub convention: Option<Convention>,
}

/// The field that a pattern stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Era,
    HalfOfDay,
    Century,
    DayName,
    DayNameShort,
    DayOfYear,
    DayOfIsoYear,
    Day,
    Weekday,
    IsoWeekday,
    /// Of so many digits.
    Fraction(usize),
    Milliseconds,
    Microseconds,
    /// FX: no spaces are passed over from there on.
    Fixed,
    Hour,
    Hour12,
    Minute,
    Second,
    SecondOfDay,
    MonthName,
    MonthNameShort,
    MonthRoman,
    Month,
    /// The last digits of a year, so many of them; four are all.
    Year(usize),
    /// `Y,YYY`
    YearWithComma,
    IsoYear(usize),
    WeekOfYear,
    WeekOfIsoYear,
    WeekOfMonth,
    Quarter,
    JulianDay,
    Offset,
    OffsetHours,
    OffsetMinutes,
    Zone,
}

/// How the letters of a pattern are written, and so those of what it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Lower,
    Title,
}

impl Pattern {
    pub fn case(&self) -> Case {
        let mut letters = self.name.chars().filter(char::is_ascii_alphabetic);
        match (letters.next(), letters.next()) {
            (Some('a'..='z'), _) => Case::Lower,
            (_, Some('a'..='z')) => Case::Title,
            _ => Case::Upper,
        }
    }
}

const fn words(name: &'static str, field: Field) -> Pattern {
    Pattern { name, field, is_digits: false, convention: None }
}

const fn digits(name: &'static str, field: Field) -> Pattern {
    Pattern { name, field, is_digits: true, convention: None }
}

/// A pattern of a month by its name.
const fn month(name: &'static str, field: Field) -> Pattern {
    Pattern { name, field, is_digits: false, convention: Some(Convention::Gregorian) }
}

const fn gregorian(name: &'static str, field: Field) -> Pattern {
    Pattern { name, field, is_digits: true, convention: Some(Convention::Gregorian) }
}

const fn iso(name: &'static str, field: Field) -> Pattern {
    Pattern { name, field, is_digits: true, convention: Some(Convention::IsoWeek) }
}

/// All patterns, longer ones before those that they begin with. Those that stand in upper case only are known in lower
/// case too.
const PATTERNS: &[Pattern] = &[
    words("A.D.", Field::Era),
    words("A.M.", Field::HalfOfDay),
    words("AD", Field::Era),
    words("AM", Field::HalfOfDay),
    words("B.C.", Field::Era),
    words("BC", Field::Era),
    digits("CC", Field::Century),
    words("DAY", Field::DayName),
    words("Day", Field::DayName),
    gregorian("DDD", Field::DayOfYear),
    gregorian("DD", Field::Day),
    words("DY", Field::DayNameShort),
    words("Dy", Field::DayNameShort),
    gregorian("D", Field::Weekday),
    digits("FF1", Field::Fraction(1)),
    digits("FF2", Field::Fraction(2)),
    digits("FF3", Field::Fraction(3)),
    digits("FF4", Field::Fraction(4)),
    digits("FF5", Field::Fraction(5)),
    digits("FF6", Field::Fraction(6)),
    words("FX", Field::Fixed),
    digits("HH24", Field::Hour),
    digits("HH12", Field::Hour12),
    digits("HH", Field::Hour12),
    iso("IDDD", Field::DayOfIsoYear),
    iso("ID", Field::IsoWeekday),
    iso("IW", Field::WeekOfIsoYear),
    iso("IYYY", Field::IsoYear(4)),
    iso("IYY", Field::IsoYear(3)),
    iso("IY", Field::IsoYear(2)),
    iso("I", Field::IsoYear(1)),
    digits("J", Field::JulianDay),
    digits("MI", Field::Minute),
    gregorian("MM", Field::Month),
    month("MONTH", Field::MonthName),
    month("Month", Field::MonthName),
    month("MON", Field::MonthNameShort),
    month("Mon", Field::MonthNameShort),
    digits("MS", Field::Milliseconds),
    words("OF", Field::Offset),
    words("P.M.", Field::HalfOfDay),
    words("PM", Field::HalfOfDay),
    digits("Q", Field::Quarter),
    month("RM", Field::MonthRoman),
    digits("SSSSS", Field::SecondOfDay),
    digits("SSSS", Field::SecondOfDay),
    digits("SS", Field::Second),
    words("TZH", Field::OffsetHours),
    digits("TZM", Field::OffsetMinutes),
    words("TZ", Field::Zone),
    digits("US", Field::Microseconds),
    gregorian("WW", Field::WeekOfYear),
    gregorian("W", Field::WeekOfMonth),
    gregorian("Y,YYY", Field::YearWithComma),
    gregorian("YYYY", Field::Year(4)),
    gregorian("YYY", Field::Year(3)),
    gregorian("YY", Field::Year(2)),
    gregorian("Y", Field::Year(1)),
];

/// The patterns of both cases, in the order in which they are looked for.
static ALL: std::sync::LazyLock<Vec<Pattern>> = std::sync::LazyLock::new(|| {
    let lower = PATTERNS.iter().filter(|pattern| pattern.case() == Case::Upper).map(|pattern| {
        let name: &'static str = pattern.name.to_ascii_lowercase().leak();
        Pattern { name, ..*pattern }
    });
    PATTERNS.iter().map(|pattern| Pattern { ..*pattern }).chain(lower).collect()
});

/// A piece of a template.
#[derive(Debug)]
pub(super) enum Piece {
    Pattern {
        pattern: &'static Pattern,
        /// FM: as short as it is.
        is_short: bool,
        /// TM: names have no padding.
        is_translated: bool,
        /// TH or th: a number has the ending of an ordinal, in upper case or not.
        ordinal: Option<bool>,
    },
    Separator(char),
    Space(char),
    Literal(char),
}

/// Cuts a template into pieces.
pub(super) fn pieces(template: &str) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        // A prefix is passed over even where no pattern follows.
        let mut take = |word: &str| rest.strip_prefix(word).map(|after| rest = after).is_some();
        let is_short = take("FM") || take("fm");
        let is_translated = !is_short && (take("TM") || take("tm"));
        if let Some(pattern) = ALL.iter().find(|pattern| rest.starts_with(pattern.name)) {
            rest = rest.strip_prefix(pattern.name).unwrap_or_default();
            let mut take = |word: &str| rest.strip_prefix(word).map(|after| rest = after).is_some();
            let ordinal = match take("TH") {
                true => Some(true),
                false => take("th").then_some(false),
            };
            // SP, a number in words, is known and has no effect in PostgreSQL either.
            let _ = ordinal.is_none() && take("SP");
            out.push(Piece::Pattern { pattern, is_short, is_translated, ordinal });
            continue;
        }
        let mut chars = rest.chars();
        match chars.next() {
            None => break,
            Some('"') => {
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => out.extend(chars.next().or(Some('\\')).map(Piece::Literal)),
                        c => out.push(Piece::Literal(c)),
                    }
                }
            }
            Some('\\') if chars.as_str().starts_with('"') => {
                chars.next();
                out.push(Piece::Separator('"'));
            }
            Some(c) if is_separator(c) => out.push(Piece::Separator(c)),
            Some(c) if is_space(c) => out.push(Piece::Space(c)),
            Some(c) => out.push(Piece::Literal(c)),
        }
        rest = chars.as_str();
    }
    out
}

/// True for what may stand between fields.
pub(super) fn is_separator(c: char) -> bool {
    c.is_ascii_punctuation()
}

pub(super) fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}
