//! The grammar of SET, of ALTER ROLE and ALTER DATABASE with SET or RESET, and of settings' names and values.

use sqlparser::tokenizer::Token;

use super::{Command, reader::Reader};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Type,
        datetime::{IntervalRange, IntervalStyle, parse_interval, write_interval},
        modifier_of,
    },
};

impl Reader<'_, '_, '_> {
    pub(super) fn set(&mut self) -> Result<Command> {
        self.skip();
        if self.words(&["session", "characteristics", "as", "transaction"]) {
            return Ok(Command::SetTransaction { session: true, modes: self.modes()? });
        }
        if matches!(self.peek_word().as_deref(), Some("constraints")) {
            return Ok(self.unsupported("SET CONSTRAINTS"));
        }
        if let Some(command) = self.set_role()? {
            return Ok(command);
        }
        let local = self.word("local");
        let _ = !local && self.word("session");
        if self.word("transaction") {
            return Ok(Command::SetTransaction { session: false, modes: self.modes()? });
        }
        let (name, values) = self.assignment()?;
        Ok(Command::Set { local, name, values })
    }

    /// `[SESSION | LOCAL] ROLE name`, `[SESSION | LOCAL] SESSION AUTHORIZATION name`, if this is what follows SET.
    fn set_role(&mut self) -> Result<Option<Command>> {
        const ROLE: &[&str] = &["role"];
        const AUTHORIZATION: &[&str] = &["session", "authorization"];
        let scopes: [&[&str]; 3] = [&[], &["session"], &["local"]];
        for (scope, what) in scopes.into_iter().flat_map(|scope| [(scope, ROLE), (scope, AUTHORIZATION)]) {
            if self.words(&[scope, what].concat()) {
                let none = if what == ROLE { "none" } else { "default" };
                let name = if self.word(none) {
                    None
                } else if matches!(self.parser.peek_token_ref().token, Token::SingleQuotedString(_)) {
                    Some(self.string()?)
                } else {
                    Some(self.name()?)
                };
                return Ok(Some(Command::SetRole(name)));
            }
        }
        Ok(None)
    }

    /// Reads the rest of SET: a setting, and its values; none if it is DEFAULT.
    fn assignment(&mut self) -> Result<(String, Option<Vec<String>>)> {
        let (name, assigned) = if self.words(&["time", "zone"]) {
            ("timezone".to_owned(), true)
        } else if self.word("names") {
            ("client_encoding".to_owned(), true)
        } else if self.word("schema") {
            ("search_path".to_owned(), true)
        } else {
            (self.setting_name()?, false)
        };
        if !assigned && !self.take(&Token::Eq) && !self.word("to") {
            return Err(self.unexpected());
        }
        if self.word("default") || (assigned && name == "timezone" && self.word("local")) {
            return Ok((name, None));
        }
        if assigned && name == "timezone" && self.word("interval") {
            return Ok((name, Some(vec![self.zone_interval()?])));
        }
        let mut values = vec![self.setting_value()?];
        while self.take(&Token::Comma) {
            values.push(self.setting_value()?);
        }
        Ok((name, Some(values)))
    }

    /// Returns the value behind SET TIME ZONE INTERVAL, as the setting takes it: `INTERVAL '02:00:00'`.
    fn zone_interval(&mut self) -> Result<String> {
        const FIELDS: [&str; 6] = ["year", "month", "day", "hour", "minute", "second"];
        let mut modifier = -1;
        if self.take(&Token::LParen) {
            let digits = self.integer()?;
            self.expect(&Token::RParen)?;
            modifier = modifier_of(Type::Interval, &[digits])?;
        }
        let text = self.string()?;
        if modifier < 0 && self.words(&["hour", "to", "minute"]) {
            modifier = (IntervalRange::HOUR | IntervalRange::MINUTE).modifier(None);
        } else if modifier < 0 && self.word("hour") {
            modifier = IntervalRange::HOUR.modifier(None);
        } else if modifier < 0 && self.peek_word().is_some_and(|word| FIELDS.contains(&word.as_str())) {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "time zone interval must be HOUR or HOUR TO MINUTE",
            ));
        }
        let mut canonical = String::new();
        let style = IntervalStyle::Postgres;
        write_interval(&mut canonical, parse_interval(&text, modifier, style)?, style);
        Ok(format!("INTERVAL '{canonical}'"))
    }

    /// ALTER ROLE, USER or DATABASE ... SET and RESET.
    pub(super) fn setting_default(&mut self) -> Result<Command> {
        self.skip();
        let is_database = self.word("database");
        if !is_database {
            self.skip();
        }
        let what = if is_database { "ALTER DATABASE" } else { "ALTER ROLE" };
        let target = self.name()?;
        let (database, role) = match is_database {
            true => (Some(target), None),
            false => {
                let database = self.words(&["in", "database"]).then(|| self.name()).transpose()?;
                (database, (target != "all").then_some(target))
            }
        };
        if self.word("set") {
            let (name, values) = self.assignment()?;
            return Ok(Command::SettingDefault { what, database, role, name: Some(name), values });
        }
        if self.word("reset") {
            let name = self.setting_name()?;
            return Ok(Command::SettingDefault {
                what,
                database,
                role,
                name: (name != "all").then_some(name),
                values: None,
            });
        }
        Ok(self.unsupported(&format!("this form of {what}")))
    }

    pub(super) fn setting_name(&mut self) -> Result<String> {
        if self.words(&["time", "zone"]) {
            return Ok("timezone".into());
        }
        if self.words(&["transaction", "isolation", "level"]) {
            return Ok("transaction_isolation".into());
        }
        if self.words(&["session", "authorization"]) {
            return Ok("session_authorization".into());
        }
        let mut name = self.name()?.to_lowercase();
        while self.take(&Token::Period) {
            name.push('.');
            name.push_str(&self.name()?.to_lowercase());
        }
        Ok(name)
    }

    pub(super) fn setting_value(&mut self) -> Result<String> {
        let minus = if self.take(&Token::Minus) {
            "-"
        } else {
            let _ = self.take(&Token::Plus);
            ""
        };
        let next = self.parser.next_token();
        Ok(match next.token {
            Token::Number(number, _) => format!("{minus}{number}"),
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text,
            Token::Word(word) if word.quote_style.is_some() => word.value,
            Token::Word(word) => word.value.to_lowercase(),
            _ => {
                self.parser.prev_token();
                return Err(self.unexpected());
            }
        })
    }
}
