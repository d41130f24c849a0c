//! The grammar of EXPLAIN, VACUUM and ANALYZE.

use sqlparser::{ast::ObjectName, parser::Parser, tokenizer::Token};

use super::{Command, reader::Reader};
use crate::{Result, SqlError, SqlState};

/// The options of VACUUM.
pub(super) const VACUUM_OPTIONS: [&str; 10] = [
    "analyze",
    "disable_page_skipping",
    "freeze",
    "full",
    "index_cleanup",
    "parallel",
    "process_toast",
    "skip_locked",
    "truncate",
    "verbose",
];

/// The options of ANALYZE.
pub(super) const ANALYZE_OPTIONS: [&str; 2] = ["skip_locked", "verbose"];

impl Reader<'_, '_, '_> {
    pub(super) fn explain(&mut self) -> Result<Command> {
        self.skip();
        let (mut analyze, mut summary, mut ignored) = (false, None, Vec::new());
        if self.take(&Token::LParen) {
            loop {
                let option = self.name()?.to_lowercase();
                let on = match self.peek_word().as_deref() {
                    Some("on" | "true") => {
                        self.skip();
                        true
                    }
                    Some("off" | "false") => {
                        self.skip();
                        false
                    }
                    Some("text") => {
                        self.skip();
                        true
                    }
                    Some(_) if option == "format" => {
                        return Ok(self.unsupported("an EXPLAIN format other than TEXT"));
                    }
                    _ => true,
                };
                match option.as_str() {
                    "analyze" | "analyse" => analyze = on,
                    "summary" => summary = Some(on),
                    "format" => {}
                    "verbose" | "costs" | "buffers" | "timing" | "settings" | "wal" if on => {
                        ignored.push(option.to_uppercase());
                    }
                    "verbose" | "costs" | "buffers" | "timing" | "settings" | "wal" => {}
                    _ => {
                        return Err(SqlError::new(
                            SqlState::SYNTAX_ERROR,
                            format!("unrecognized EXPLAIN option \"{option}\""),
                        ));
                    }
                }
                if !self.take(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
        } else {
            analyze = self.word("analyze") || self.word("analyse");
            if self.word("verbose") {
                ignored.push("VERBOSE".to_owned());
            }
        }
        let summary = summary.unwrap_or(analyze);
        Ok(Command::Explain { analyze, summary, ignored, body: self.body()? })
    }

    /// The options of VACUUM or ANALYZE that are on.
    pub(super) fn maintenance_options(&mut self, statement: &str, known: &[&str]) -> Result<Vec<String>> {
        let mut options = Vec::new();
        if self.take(&Token::LParen) {
            loop {
                let name = self.name()?.to_lowercase();
                if !known.contains(&name.as_str()) {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        format!("unrecognized {statement} option \"{name}\""),
                    ));
                }
                let value = match self.parser.peek_token_ref().token {
                    Token::Comma | Token::RParen => "on".to_owned(),
                    _ => self.setting_value()?,
                };
                if !matches!(value.as_str(), "off" | "false" | "0" | "no") {
                    options.push(name);
                }
                if !self.take(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
        }
        while let Some(word) = self
            .peek_word()
            .filter(|word| matches!(word.as_str(), "full" | "freeze" | "verbose" | "analyze" | "analyse"))
        {
            options.push(word);
            self.skip();
        }
        Ok(options)
    }

    pub(super) fn maintenance_tables(&mut self) -> Result<Vec<ObjectName>> {
        let mut names = Vec::new();
        while self.peek_word().is_some() {
            names.push(self.object_name()?);
            if self.take(&Token::LParen) {
                self.lift(|parser| parser.parse_comma_separated(Parser::parse_identifier))?;
                self.expect(&Token::RParen)?;
            }
            if !self.take(&Token::Comma) {
                break;
            }
        }
        Ok(names)
    }
}
