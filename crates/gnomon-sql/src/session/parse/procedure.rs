//! The grammar of CREATE and DROP PROCEDURE, and where a statement ends that has others in it.

use std::iter::Peekable;

use sqlparser::{
    ast::{DataType, ObjectName},
    parser::Parser,
    tokenizer::{Token, TokenWithSpan},
};

use super::{Command, CreateProcedure, NewParameter, reader::Reader, text::byte_offset};
use crate::{Result, SqlError, SqlState};

/// The words that begin a type wherever there may be one, so that they cannot be names unless they are quoted.
const TYPES: [&str; 20] = [
    "bigint",
    "bit",
    "boolean",
    "char",
    "character",
    "dec",
    "decimal",
    "float",
    "int",
    "integer",
    "interval",
    "national",
    "nchar",
    "numeric",
    "real",
    "setof",
    "smallint",
    "time",
    "timestamp",
    "varchar",
];

/// Takes the tokens of a statement, and the semicolon behind it. The statements of a body, from BEGIN ATOMIC to END,
/// are a part of the statement that they stand in.
pub(super) fn take_statement(
    tokens: &mut Peekable<impl Iterator<Item = TokenWithSpan>>,
) -> Vec<TokenWithSpan> {
    let mut statement: Vec<TokenWithSpan> = Vec::new();
    // How many END are to come.
    let mut open = 0_usize;
    let mut is_procedure = false;
    for token in tokens.by_ref() {
        if open == 0 && token.token == Token::SemiColon {
            break;
        }
        match word_of(&token.token).as_deref() {
            Some("procedure") if statement.first().is_some_and(|first| is(first, "create")) => {
                is_procedure |= statement.len() <= 3;
            }
            Some("atomic") if is_procedure && statement.last().is_some_and(|last| is(last, "begin")) => {
                open = 1
            }
            Some("case") if open > 0 => open += 1,
            Some("end") => open = open.saturating_sub(1),
            _ => {}
        }
        statement.push(token);
    }
    statement
}

/// An unquoted word in lower case.
fn word_of(token: &Token) -> Option<String> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_lowercase()),
        _ => None,
    }
}

fn is(token: &TokenWithSpan, word: &str) -> bool {
    word_of(&token.token).as_deref() == Some(word)
}

impl Reader<'_, '_, '_> {
    /// True if it is CREATE [OR REPLACE] PROCEDURE.
    pub(super) fn creates_procedure(&self) -> bool {
        let at = if self.peek_nth_word(1).as_deref() == Some("or") { 3 } else { 1 };
        self.peek_nth_word(at).as_deref() == Some("procedure")
    }

    pub(super) fn create_procedure(&mut self) -> Result<Command> {
        self.skip();
        let or_replace = self.words(&["or", "replace"]);
        self.skip();
        let name = self.object_name()?;
        self.expect(&Token::LParen)?;
        let mut parameters = Vec::new();
        if !self.take(&Token::RParen) {
            loop {
                parameters.push(self.parameter()?);
                if !self.take(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
        }
        let (mut language, mut body) = (None, None);
        let (mut is_atomic, mut has_rights) = (false, false);
        while let Some(word) = self.peek_word() {
            match word.as_str() {
                "language" if language.is_none() => {
                    self.skip();
                    language = Some(match self.string() {
                        Ok(name) => name.to_lowercase(),
                        Err(_) => self.name()?.to_lowercase(),
                    });
                }
                "as" if body.is_none() => {
                    self.skip();
                    body = Some(self.string()?);
                }
                "begin" if body.is_none() => {
                    body = Some(self.atomic_body()?);
                    is_atomic = true;
                }
                // Caller and definer have the same rights: there is one owner of everything.
                "security" | "external" if !has_rights => {
                    let _ = self.word("external");
                    if !self.word("security") || !self.word("invoker") && !self.word("definer") {
                        return Err(self.unexpected());
                    }
                    has_rights = true;
                }
                "set" => return Err(SqlError::unsupported("SET in CREATE PROCEDURE")),
                "transform" => return Err(SqlError::unsupported("TRANSFORM in CREATE PROCEDURE")),
                _ => return Err(self.unexpected()),
            }
        }
        let missing =
            |what| SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, format!("no {what} specified"));
        // Only a body in quotes could be of another language.
        let language = language.or(is_atomic.then(|| "sql".into())).ok_or_else(|| missing("language"))?;
        let body = body.ok_or_else(|| missing("function body"))?;
        Ok(Command::CreateProcedure(Box::new(CreateProcedure {
            name,
            or_replace,
            parameters,
            language,
            body,
        })))
    }

    fn parameter(&mut self) -> Result<NewParameter> {
        let (mut is_input, mut is_output) = (true, false);
        let mut mode = |reader: &mut Self| {
            let taken = if reader.words(&["in", "out"]) || reader.word("inout") {
                (true, true)
            } else if reader.word("in") {
                (true, false)
            } else if reader.word("out") {
                (false, true)
            } else {
                return false;
            };
            (is_input, is_output) = taken;
            true
        };
        if self.peek_word().as_deref() == Some("variadic") {
            return Err(SqlError::unsupported("a VARIADIC parameter of a procedure"));
        }
        let has_mode = mode(self);
        // The name may be left out: then what comes first is the type, and nothing else follows it.
        let named = match (self.peek_token(0), self.peek_token(1)) {
            (Token::Word(_), Token::Comma | Token::RParen | Token::Eq | Token::LParen | Token::LBracket) => {
                false
            }
            (first @ Token::Word(_), second @ Token::Word(_)) => {
                match (word_of(&first).as_deref(), word_of(&second).as_deref()) {
                    (_, Some("default")) | (Some("double"), Some("precision")) => false,
                    (Some(first), _) => !TYPES.contains(&first),
                    (None, _) => true,
                }
            }
            _ => false,
        };
        let name = if named { Some(self.name()?) } else { None };
        if named && !has_mode {
            mode(self);
        }
        let ty = self.lift(Parser::parse_data_type)?;
        let default = match self.word("default") || self.take(&Token::Eq) {
            true => Some(self.lift(Parser::parse_expr)?),
            false => None,
        };
        Ok(NewParameter { name, ty, is_input, is_output, default })
    }

    fn peek_token(&self, n: usize) -> Token {
        self.parser.peek_nth_token_ref(n).token.clone()
    }

    /// The text from behind BEGIN ATOMIC to before its END.
    fn atomic_body(&mut self) -> Result<String> {
        self.skip();
        if !self.word("atomic") {
            return Err(self.unexpected());
        }
        let start = byte_offset(self.sql, self.parser.peek_token_ref().span.start);
        let mut open = 1_usize;
        loop {
            let next = self.parser.peek_token_ref().clone();
            match word_of(&next.token).as_deref() {
                _ if next.token == Token::EOF => return Err(self.unexpected()),
                Some("case") => open += 1,
                Some("end") if open == 1 => {
                    let end = byte_offset(self.sql, next.span.start);
                    self.skip();
                    return Ok(self.sql.get(start..end).unwrap_or_default().trim().to_owned());
                }
                Some("end") => open -= 1,
                _ => {}
            }
            let _ = self.parser.next_token();
        }
    }

    pub(super) fn drop_procedures(&mut self) -> Result<Command> {
        self.skip_n(2);
        let if_exists = self.words(&["if", "exists"]);
        let mut procedures: Vec<(ObjectName, Option<Vec<DataType>>)> = Vec::new();
        loop {
            let name = self.object_name()?;
            let mut types = None;
            if self.take(&Token::LParen) {
                let mut given = Vec::new();
                if !self.take(&Token::RParen) {
                    loop {
                        given.push(self.parameter()?.ty);
                        if !self.take(&Token::Comma) {
                            break;
                        }
                    }
                    self.expect(&Token::RParen)?;
                }
                types = Some(given);
            }
            procedures.push((name, types));
            if !self.take(&Token::Comma) {
                break;
            }
        }
        let _ = self.word("cascade") || self.word("restrict");
        Ok(Command::DropProcedures { procedures, if_exists })
    }
}
