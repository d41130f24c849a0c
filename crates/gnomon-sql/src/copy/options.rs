//! The options of COPY.

use crate::{
    Result, SqlError, SqlState,
    session::parse::{Copy, CopyValue},
    settings::bool_word,
};

/// The form of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataFormat {
    Text,
    Csv,
    Binary,
}

/// Treatment of a first line of column names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    None,
    /// Written, or skipped.
    Present,
    /// Must be the names of the columns.
    Match,
}

/// Some or all columns, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    These(Vec<String>),
    All,
}

impl Columns {
    /// Returns which of `names` are meant; 42703 for one that is not among them.
    pub(super) fn among(&self, names: &[String]) -> Result<Vec<bool>> {
        match self {
            Columns::All => Ok(vec![true; names.len()]),
            Columns::These(wanted) => {
                if let Some(missing) = wanted.iter().find(|name| !names.contains(name)) {
                    return Err(SqlError::new(
                        SqlState::INVALID_COLUMN_REFERENCE,
                        format!("column \"{missing}\" is not among the columns of COPY"),
                    ));
                }
                Ok(names.iter().map(|name| wanted.contains(name)).collect())
            }
        }
    }
}

/// The options, checked, with their defaults.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) format: DataFormat,
    pub(super) delimiter: u8,
    pub(super) null: String,
    pub(super) header: Header,
    pub(super) quote: u8,
    pub(super) escape: u8,
    pub(super) force_quote: Columns,
    pub(super) force_not_null: Columns,
    pub(super) force_null: Columns,
}

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

fn text(name: &str, value: &CopyValue) -> Result<String> {
    match value {
        CopyValue::Text(text) => Ok(text.clone()),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a parameter"))),
    }
}

fn boolean(name: &str, value: &CopyValue) -> Result<bool> {
    match value {
        CopyValue::Absent => Ok(true),
        CopyValue::Text(word) => bool_word(word)
            .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a Boolean value"))),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a Boolean value"))),
    }
}

fn byte(what: &str, value: &str) -> Result<u8> {
    match value.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err(wrong(format!("COPY {what} must be a single one-byte character"))),
    }
}

fn columns(name: &str, value: &CopyValue) -> Result<Columns> {
    match value {
        CopyValue::Star => Ok(Columns::All),
        CopyValue::Columns(names) => Ok(Columns::These(names.clone())),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("argument to option \"{name}\" must be a list of column names"),
        )),
    }
}

impl Copy {
    /// True if FREEZE is asked for.
    pub(crate) fn freezes(&self) -> Result<bool> {
        let freeze = self.options.iter().find(|(name, _)| name == "freeze");
        freeze.map_or(Ok(false), |(name, value)| boolean(name, value))
    }
}

impl Options {
    pub(super) fn of(copy: &Copy) -> Result<Options> {
        let mut seen: Vec<&str> = Vec::new();
        for (name, _) in &copy.options {
            if seen.contains(&name.as_str()) {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
            }
            seen.push(name);
        }
        let given = |wanted: &str| copy.options.iter().find(|(name, _)| name == wanted).map(|(_, v)| v);
        let format = match given("format") {
            None => DataFormat::Text,
            Some(value) => match text("format", value)?.to_lowercase().as_str() {
                "text" => DataFormat::Text,
                "csv" => DataFormat::Csv,
                "binary" => DataFormat::Binary,
                other => {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("COPY format \"{other}\" not recognized"),
                    ));
                }
            },
        };
        let csv = format == DataFormat::Csv;
        let none = Columns::These(Vec::new());
        let mut options = Options {
            format,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { String::new() } else { "\\N".into() },
            header: Header::None,
            quote: b'"',
            escape: b'"',
            force_quote: none.clone(),
            force_not_null: none.clone(),
            force_null: none,
        };
        let mut escape = None;
        for (name, value) in &copy.options {
            let csv_only = |what: &str| {
                if csv { Ok(()) } else { Err(wrong(format!("COPY {what} available only in CSV mode"))) }
            };
            match name.as_str() {
                "format" => {}
                "freeze" => {}
                "delimiter" => options.delimiter = byte("delimiter", &text(name, value)?)?,
                "null" => options.null = text(name, value)?,
                "header" => {
                    options.header = match value {
                        CopyValue::Text(word) if word.eq_ignore_ascii_case("match") => Header::Match,
                        _ if boolean(name, value)? => Header::Present,
                        _ => Header::None,
                    };
                }
                "quote" => {
                    csv_only("quote")?;
                    options.quote = byte("quote", &text(name, value)?)?;
                }
                "escape" => {
                    csv_only("escape")?;
                    escape = Some(byte("escape", &text(name, value)?)?);
                }
                "force_quote" => {
                    csv_only("force quote")?;
                    options.force_quote = columns(name, value)?;
                }
                "force_not_null" => {
                    csv_only("force not null")?;
                    options.force_not_null = columns(name, value)?;
                }
                "force_null" => {
                    csv_only("force null")?;
                    options.force_null = columns(name, value)?;
                }
                "encoding" => {
                    let encoding = text(name, value)?.to_ascii_lowercase().replace(['-', '_'], "");
                    if !matches!(encoding.as_str(), "utf8" | "unicode") {
                        return Err(wrong(format!("the encoding {encoding} is not supported: use UTF8")));
                    }
                }
                other => {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!("option \"{other}\" not recognized"),
                    ));
                }
            }
        }
        options.escape = escape.unwrap_or(options.quote);
        options.check(copy)?;
        Ok(options)
    }

    fn check(&self, copy: &Copy) -> Result<()> {
        let given = |wanted: &str| copy.options.iter().any(|(name, _)| name == wanted);
        if self.format == DataFormat::Binary {
            for name in ["delimiter", "null", "header"] {
                if given(name) {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!("cannot specify {} in BINARY mode", name.to_uppercase()),
                    ));
                }
            }
            return Ok(());
        }
        if matches!(self.delimiter, b'\n' | b'\r') {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "COPY delimiter cannot be newline or carriage return",
            ));
        }
        if self.null.contains(['\n', '\r']) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "COPY null representation cannot use newline or carriage return",
            ));
        }
        let ambiguous = b"\\.abcdefghijklmnopqrstuvwxyz0123456789";
        if self.format == DataFormat::Text && ambiguous.contains(&self.delimiter) {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("COPY delimiter cannot be \"{}\"", char::from(self.delimiter)),
            ));
        }
        if self.null.as_bytes().contains(&self.delimiter) {
            return Err(wrong("COPY delimiter must not appear in the NULL specification"));
        }
        if self.format == DataFormat::Csv {
            if self.quote == self.delimiter {
                return Err(wrong("COPY delimiter and quote must be different"));
            }
            if self.null.as_bytes().contains(&self.quote) {
                return Err(wrong("CSV quote character must not appear in the NULL specification"));
            }
        }
        if copy.to {
            for name in ["force_not_null", "force_null"] {
                if given(name) {
                    return Err(wrong(format!(
                        "COPY {} only available using COPY FROM",
                        name.replace('_', " ")
                    )));
                }
            }
            if self.header == Header::Match {
                return Err(wrong("cannot use \"match\" with HEADER in COPY TO"));
            }
        } else if given("force_quote") {
            return Err(wrong("COPY force quote only available using COPY TO"));
        }
        Ok(())
    }
}
