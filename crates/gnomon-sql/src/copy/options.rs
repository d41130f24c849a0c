//! The options of COPY.

use gnomon_parser::ast::{Copy, DefinitionItem, OptionValue};

use crate::{
    Result, SqlError, SqlState,
    syntax::{option_is_on, option_text},
    types::encoding::Encoding,
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
pub(crate) struct Options {
    pub(super) format: DataFormat,
    pub(super) delimiter: u8,
    pub(super) null: String,
    pub(super) header: Header,
    pub(super) quote: u8,
    pub(super) escape: u8,
    pub(super) force_quote: Columns,
    pub(super) force_not_null: Columns,
    pub(super) force_null: Columns,
    /// Of the data as text.
    pub(super) encoding: Encoding,
    /// Of texts in binary data.
    pub(super) client_encoding: Encoding,
}

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

fn byte(what: &str, value: &str) -> Result<u8> {
    match value.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err(wrong(format!("COPY {what} must be a single one-byte character"))),
    }
}

fn columns(option: &DefinitionItem) -> Result<Columns> {
    match &option.value {
        Some(OptionValue::Star) => Ok(Columns::All),
        Some(OptionValue::List(names)) => {
            Ok(Columns::These(names.iter().map(|name| name.to_string()).collect()))
        }
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("argument to option \"{}\" must be a list of column names", option.name.name),
        )),
    }
}

/// The option of this name, if it is given.
fn given<'a>(copy: &'a Copy, name: &str) -> Option<&'a DefinitionItem> {
    copy.options.iter().find(|option| *option.name.name == *name)
}

/// True if FREEZE is asked for.
pub(crate) fn freezes(copy: &Copy) -> Result<bool> {
    given(copy, "freeze").map_or(Ok(false), option_is_on)
}

impl Options {
    pub(crate) fn of(copy: &Copy, client_encoding: Encoding) -> Result<Options> {
        for (number, option) in copy.options.iter().enumerate() {
            if copy.options[..number].iter().any(|before| before.name.name == option.name.name) {
                let error = SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options");
                return Err(error.at(option.name.position));
            }
        }
        let format = match given(copy, "format") {
            None => DataFormat::Text,
            Some(option) => match option_text(option)? {
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
            encoding: client_encoding,
            client_encoding,
        };
        let mut escape = None;
        for option in &copy.options {
            let csv_only = |what: &str| {
                if csv { Ok(()) } else { Err(wrong(format!("COPY {what} available only in CSV mode"))) }
            };
            match &*option.name.name {
                "format" => {}
                "freeze" => {}
                "delimiter" => options.delimiter = byte("delimiter", option_text(option)?)?,
                "null" => options.null = option_text(option)?.to_owned(),
                "header" => {
                    let is_match = option_text(option).is_ok_and(|word| word.eq_ignore_ascii_case("match"));
                    options.header = match is_match {
                        true => Header::Match,
                        false if option_is_on(option)? => Header::Present,
                        false => Header::None,
                    };
                }
                "quote" => {
                    csv_only("quote")?;
                    options.quote = byte("quote", option_text(option)?)?;
                }
                "escape" => {
                    csv_only("escape")?;
                    escape = Some(byte("escape", option_text(option)?)?);
                }
                "force_quote" => {
                    csv_only("force quote")?;
                    options.force_quote = columns(option)?;
                }
                "force_not_null" => {
                    csv_only("force not null")?;
                    options.force_not_null = columns(option)?;
                }
                "force_null" => {
                    csv_only("force null")?;
                    options.force_null = columns(option)?;
                }
                "encoding" => {
                    options.encoding = Encoding::named(option_text(option)?).ok_or_else(|| {
                        let message = "argument to option \"encoding\" must be a valid encoding name";
                        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).at(option.name.position)
                    })?;
                }
                other => {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!("option \"{other}\" not recognized"),
                    )
                    .at(option.name.position));
                }
            }
        }
        options.escape = escape.unwrap_or(options.quote);
        options.check(copy)?;
        if !options.encoding.is_known() {
            return Err(SqlError::unsupported(format!("the encoding {} of COPY", options.encoding.name())));
        }
        Ok(options)
    }

    fn check(&self, copy: &Copy) -> Result<()> {
        let given = |wanted: &str| given(copy, wanted).is_some();
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
        if copy.is_to {
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
