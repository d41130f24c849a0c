//! The setting DateStyle: the form in which dates come out, and the order in which their fields are read.

use std::fmt;

/// The form of dates and timestamps as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateFormat {
    /// `2001-02-03 04:05:06+07`
    #[default]
    Iso,
    /// `02/03/2001 04:05:06 PST`
    Sql,
    /// `Sat Feb 03 04:05:06 2001 PST`
    Postgres,
    /// `03.02.2001 04:05:06 PST`
    German,
}

/// The order in which the numbers of a date are read, where they do not tell it themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// Month, day, year.
    #[default]
    Mdy,
    /// Day, month, year.
    Dmy,
    /// Year, month, day.
    Ymd,
}

/// A value of the setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DateStyle {
    /// The form of output.
    pub format: DateFormat,
    /// The order of fields: of input, and of output where the form leaves it open.
    pub order: DateOrder,
}

impl DateStyle {
    /// ISO with month before day.
    pub const ISO: DateStyle = DateStyle { format: DateFormat::Iso, order: DateOrder::Mdy };

    /// Returns the style that a list of words means where `present` holds; DEFAULT stands for `default`.
    ///
    /// # Errors
    /// The detail of the error for what is no style.
    pub fn read(text: &str, present: DateStyle, default: DateStyle) -> Result<DateStyle, String> {
        let (mut format, mut order) = (None, None);
        // They hold where no word says otherwise, before or after.
        let mut implied = present;
        let mut fits = true;
        for word in words(text).ok_or("List syntax is invalid.")? {
            if let Some(named) = format_named(&word) {
                fits &= format.is_none_or(|other| other == named);
                format = Some(named);
                if named == DateFormat::German {
                    implied.order = DateOrder::Dmy;
                }
            } else if let Some(named) = order_named(&word) {
                fits &= order.is_none_or(|other| other == named);
                order = Some(named);
            } else if word == "default" {
                implied = default;
            } else {
                return Err(format!("Unrecognized key word: \"{word}\"."));
            }
        }
        if !fits {
            return Err("Conflicting \"datestyle\" specifications.".to_owned());
        }
        Ok(DateStyle { format: format.unwrap_or(implied.format), order: order.unwrap_or(implied.order) })
    }

    /// Returns the style of a value of the setting, the default one for what is none.
    pub fn named(text: &str) -> DateStyle {
        DateStyle::read(text, DateStyle::ISO, DateStyle::ISO).unwrap_or_default()
    }

    /// True if the day comes before the month in forms that leave it open.
    pub(super) fn is_day_first(self) -> bool {
        self.order == DateOrder::Dmy
    }
}

impl fmt::Display for DateStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = match self.format {
            DateFormat::Iso => "ISO",
            DateFormat::Sql => "SQL",
            DateFormat::Postgres => "Postgres",
            DateFormat::German => "German",
        };
        let order = match self.order {
            DateOrder::Mdy => "MDY",
            DateOrder::Dmy => "DMY",
            DateOrder::Ymd => "YMD",
        };
        write!(f, "{format}, {order}")
    }
}

/// The words of a list, in lower case unless quoted; none if it is no list.
fn words(text: &str) -> Option<Vec<String>> {
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(word).collect()
}

fn word(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted.strip_suffix('"').map(str::to_owned);
    }
    (!text.is_empty() && !text.contains(char::is_whitespace)).then(|| text.to_lowercase())
}

fn format_named(word: &str) -> Option<DateFormat> {
    let word = word.to_ascii_lowercase();
    match &*word {
        "iso" => Some(DateFormat::Iso),
        "sql" => Some(DateFormat::Sql),
        "german" => Some(DateFormat::German),
        _ if word.starts_with("postgres") => Some(DateFormat::Postgres),
        _ => None,
    }
}

fn order_named(word: &str) -> Option<DateOrder> {
    let word = word.to_ascii_lowercase();
    match &*word {
        "ymd" => Some(DateOrder::Ymd),
        "dmy" => Some(DateOrder::Dmy),
        "mdy" | "us" => Some(DateOrder::Mdy),
        _ if word.starts_with("euro") => Some(DateOrder::Dmy),
        _ if word.starts_with("noneuro") => Some(DateOrder::Mdy),
        _ => None,
    }
}
