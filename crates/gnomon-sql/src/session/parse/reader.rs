//! The grammar of the statements that are parsed here: transactions, settings, COPY, sequences, cursors.

use std::ops::ControlFlow;

use sqlparser::{
    ast::{ObjectName, Statement},
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{
    Command, Copy, CopyRelation, CopyValue, Discard, FetchCount, Mode, Overriding, Parsed, SequenceOption,
    fold,
    maintenance::{ANALYZE_OPTIONS, VACUUM_OPTIONS},
    text::{parser_error, unexpected},
    unsupported,
};
use crate::{Result, SqlError, SqlState};

/// The reader of one statement: the parser crate's token stream with PostgreSQL's errors.
pub(super) struct Reader<'p, 'd, 's> {
    pub(super) parser: &'p mut Parser<'d>,
    pub(super) sql: &'s str,
    pub(super) overriding: Option<Overriding>,
    /// Number of tokens of the statement.
    pub(super) tokens: usize,
}

impl<'d> Reader<'_, 'd, '_> {
    pub(super) fn command(&mut self) -> Result<Command> {
        let first = self.peek_word();
        let second = self.peek_nth_word(1);
        let pair = (first.as_deref().unwrap_or(""), second.as_deref().unwrap_or(""));
        match pair {
            ("begin", _) => {
                self.skip();
                let _ = self.word("work") || self.word("transaction");
                Ok(Command::Begin { modes: self.modes()?, tag: "BEGIN" })
            }
            ("start", "transaction") => {
                self.skip_n(2);
                Ok(Command::Begin { modes: self.modes()?, tag: "START TRANSACTION" })
            }
            (verb @ ("commit" | "rollback"), "prepared") => {
                let commit = verb == "commit";
                self.skip_n(2);
                Ok(Command::EndPrepared { gid: self.string()?, commit })
            }
            // It may also be the name of a prepared statement.
            ("prepare", "transaction") if !self.is_name_of_statement() => {
                self.skip_n(2);
                Ok(Command::PrepareTransaction(self.string()?))
            }
            ("commit" | "end", _) => {
                self.skip();
                Ok(Command::Commit { chain: self.end_of_block()? })
            }
            ("rollback" | "abort", _) => {
                self.skip();
                let _ = self.word("work") || self.word("transaction");
                if self.word("to") {
                    return Ok(Command::RollbackTo(self.savepoint_name()?));
                }
                Ok(Command::Rollback { chain: self.end_of_block()? })
            }
            ("savepoint", _) => {
                self.skip();
                Ok(Command::Savepoint(self.name()?))
            }
            ("release", _) => {
                self.skip();
                Ok(Command::Release(self.savepoint_name()?))
            }
            ("set", _) => self.set(),
            ("reset", _) => {
                self.skip();
                let name = self.setting_name()?;
                Ok(Command::Reset((name != "all").then_some(name)))
            }
            ("show", _) => {
                self.skip();
                let name = self.setting_name()?;
                Ok(Command::Show((name != "all").then_some(name)))
            }
            ("prepare", _) => self.prepare(),
            ("execute", _) => {
                self.skip();
                let name = self.name()?;
                let mut arguments = Vec::new();
                if self.take(&Token::LParen) {
                    arguments = self.lift(|parser| parser.parse_comma_separated(Parser::parse_expr))?;
                    self.expect(&Token::RParen)?;
                }
                Ok(Command::Execute { name, arguments })
            }
            ("deallocate", _) => {
                self.skip();
                self.word_before_name("prepare");
                Ok(Command::Deallocate(self.name_or_all()?))
            }
            ("discard", _) => {
                self.skip();
                let what = match self.peek_word().as_deref() {
                    Some("all") => Discard::All,
                    Some("plans") => Discard::Plans,
                    Some("sequences") => Discard::Sequences,
                    Some("temp" | "temporary") => Discard::Temp,
                    _ => return Err(self.unexpected()),
                };
                self.skip();
                Ok(Command::Discard(what))
            }
            ("copy", _) => self.copy(),
            ("create", "sequence") => {
                self.skip_n(2);
                let if_not_exists = self.words(&["if", "not", "exists"]);
                let name = self.object_name()?;
                Ok(Command::CreateSequence { name, if_not_exists, options: self.sequence_options()? })
            }
            ("alter", "sequence") => {
                self.skip_n(2);
                let if_exists = self.words(&["if", "exists"]);
                let name = self.object_name()?;
                match self.rename("sequence", &name, if_exists)? {
                    Some(rename) => Ok(rename),
                    None => Ok(Command::AlterSequence { name, if_exists, options: self.sequence_options()? }),
                }
            }
            ("alter", kind @ ("index" | "view")) => {
                self.skip_n(2);
                let kind = if kind == "index" { "index" } else { "view" };
                let if_exists = self.words(&["if", "exists"]);
                let name = self.object_name()?;
                match self.rename(kind, &name, if_exists)? {
                    Some(rename) => Ok(rename),
                    None => Ok(self.unsupported(&format!("this form of ALTER {}", kind.to_uppercase()))),
                }
            }
            ("alter", "role" | "user" | "database") => self.setting_default(),
            ("create", "procedure" | "or") if self.creates_procedure() => self.create_procedure(),
            ("drop", "procedure") => self.drop_procedures(),
            ("drop", kind @ ("table" | "index" | "sequence" | "view" | "schema")) => {
                let kind = ["table", "index", "sequence", "view", "schema"]
                    .into_iter()
                    .find(|k| *k == kind)
                    .expect("the pattern lists the same kinds");
                self.skip_n(2);
                let concurrently = kind == "index" && self.word("concurrently");
                let if_exists = self.words(&["if", "exists"]);
                let names = self.object_names()?;
                let cascade = self.word("cascade");
                let _ = !cascade && self.word("restrict");
                Ok(Command::Drop { kind, names, if_exists, cascade, concurrently })
            }
            ("comment", "on") => self.comment(),
            ("vacuum", _) => {
                self.skip();
                let options = self.maintenance_options("VACUUM", &VACUUM_OPTIONS)?;
                Ok(Command::Vacuum(self.maintenance_tables()?, options))
            }
            ("analyze" | "analyse", _) => {
                self.skip();
                let options = self.maintenance_options("ANALYZE", &ANALYZE_OPTIONS)?;
                Ok(Command::Analyze(self.maintenance_tables()?, options))
            }
            ("checkpoint", _) => {
                self.skip();
                Ok(Command::Checkpoint)
            }
            ("backup", "to") => self.backup(),
            ("lock", _) => self.lock(),
            ("declare", _) => self.declare(),
            ("fetch" | "move", _) => self.fetch(),
            ("close", _) => {
                self.skip();
                Ok(Command::Close(self.name_or_all()?))
            }
            ("explain", _) => self.explain(),
            (first, _) => match unsupported::statement(first, || self.words_ahead()) {
                Some(what) => Ok(self.unsupported(&what)),
                None => Ok(Command::Sql(Box::new(self.lift(Parser::parse_statement)?), self.overriding)),
            },
        }
    }

    fn prepare(&mut self) -> Result<Command> {
        self.skip();
        let name = self.name()?;
        let mut types = Vec::new();
        if self.take(&Token::LParen) {
            types = self.lift(|parser| parser.parse_comma_separated(Parser::parse_data_type))?;
            self.expect(&Token::RParen)?;
        }
        if !self.word("as") {
            return Err(self.unexpected());
        }
        let body = self.body()?;
        Ok(Command::Prepare { name, types, body })
    }

    /// The statement within PREPARE or EXPLAIN.
    pub(super) fn body(&mut self) -> Result<Box<Parsed>> {
        // As in PostgreSQL, neither is of CALL, though that can be planned.
        if self.peek_word().as_deref() == Some("call") {
            return Err(self.unexpected());
        }
        let command = self.command()?;
        // The whole statement's nesting has been taken account of already.
        Ok(Box::new(Parsed { command, nesting: 0, tokens: self.tokens }))
    }

    fn backup(&mut self) -> Result<Command> {
        self.skip_n(2);
        if self.string().is_ok() {
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                "BACKUP to a file of the server is not supported",
            )
            .hint("Use BACKUP TO STDOUT, or `gnomon backup`, which keeps backups in a directory."));
        }
        if !self.word("stdout") {
            return Err(self.unexpected());
        }
        let since = if self.word("since") { Some(self.string()?) } else { None };
        Ok(Command::Backup(since))
    }

    fn copy(&mut self) -> Result<Command> {
        self.skip();
        let relation = if self.take(&Token::LParen) {
            let query = self.lift(Parser::parse_query)?;
            self.expect(&Token::RParen)?;
            CopyRelation::Query(query)
        } else {
            let table = self.object_name()?;
            let mut columns = Vec::new();
            if self.take(&Token::LParen) {
                columns = self.lift(|parser| parser.parse_comma_separated(Parser::parse_identifier))?;
                self.expect(&Token::RParen)?;
            }
            CopyRelation::Table(table, columns)
        };
        let to = match self.peek_word().as_deref() {
            Some("to") => true,
            Some("from") => false,
            _ => return Err(self.unexpected()),
        };
        self.skip();
        let standard = match self.peek_word().as_deref() {
            Some("stdin" | "stdout") => {
                self.skip();
                true
            }
            _ => {
                let _ = self.word("program");
                self.string()?;
                false
            }
        };
        let _ = self.word("with");
        let mut options = Vec::new();
        if self.take(&Token::LParen) {
            loop {
                let name = self.name()?.to_lowercase();
                options.push((name, self.copy_value()?));
                if !self.take(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
        } else {
            self.old_copy_options(&mut options)?;
        }
        let filter = if self.word("where") { Some(self.lift(Parser::parse_expr)?) } else { None };
        Ok(Command::Copy(Box::new(Copy { relation, to, standard, options, filter })))
    }

    fn copy_value(&mut self) -> Result<CopyValue> {
        let token = self.parser.peek_token_ref().token.clone();
        Ok(match token {
            Token::Comma | Token::RParen => CopyValue::Absent,
            Token::Mul => {
                self.skip();
                CopyValue::Star
            }
            Token::LParen => {
                self.skip();
                let columns = self.lift(|parser| parser.parse_comma_separated(Parser::parse_identifier))?;
                self.expect(&Token::RParen)?;
                CopyValue::Columns(columns.iter().map(fold).collect())
            }
            _ => CopyValue::Text(self.setting_value()?),
        })
    }

    /// The options of PostgreSQL before 9.0, which psql's \copy and older programs still send.
    fn old_copy_options(&mut self, options: &mut Vec<(String, CopyValue)>) -> Result<()> {
        while let Some(word) = self.peek_word() {
            let option = match word.as_str() {
                "binary" | "csv" => {
                    self.skip();
                    ("format".to_owned(), CopyValue::Text(word))
                }
                "header" | "freeze" => {
                    self.skip();
                    (word, CopyValue::Absent)
                }
                "delimiter" | "delimiters" | "null" | "quote" | "escape" | "encoding" => {
                    self.skip();
                    let _ = self.word("as");
                    (word.trim_end_matches('s').to_owned(), CopyValue::Text(self.string()?))
                }
                "force" => {
                    self.skip();
                    let name = if self.word("quote") {
                        "force_quote"
                    } else if self.words(&["not", "null"]) {
                        "force_not_null"
                    } else if self.word("null") {
                        "force_null"
                    } else {
                        return Err(self.unexpected());
                    };
                    let value = if self.take(&Token::Mul) {
                        CopyValue::Star
                    } else {
                        let columns =
                            self.lift(|parser| parser.parse_comma_separated(Parser::parse_identifier))?;
                        CopyValue::Columns(columns.iter().map(fold).collect())
                    };
                    (name.to_owned(), value)
                }
                _ => break,
            };
            options.push(option);
        }
        Ok(())
    }

    fn sequence_options(&mut self) -> Result<Vec<SequenceOption>> {
        let mut options = Vec::new();
        while let Some(word) = self.peek_word() {
            self.skip();
            options.push(match word.as_str() {
                "as" => SequenceOption::As(self.lift(Parser::parse_data_type)?),
                "increment" => {
                    let _ = self.word("by");
                    SequenceOption::Increment(self.integer()?)
                }
                "minvalue" => SequenceOption::Min(Some(self.integer()?)),
                "maxvalue" => SequenceOption::Max(Some(self.integer()?)),
                "start" => {
                    let _ = self.word("with");
                    SequenceOption::Start(self.integer()?)
                }
                "restart" => {
                    let with = self.word("with");
                    let number =
                        matches!(self.parser.peek_token_ref().token, Token::Number(..) | Token::Minus);
                    SequenceOption::Restart(if with || number { Some(self.integer()?) } else { None })
                }
                "cache" => SequenceOption::Cache(self.integer()?),
                "cycle" => SequenceOption::Cycle(true),
                "no" if self.word("minvalue") => SequenceOption::Min(None),
                "no" if self.word("maxvalue") => SequenceOption::Max(None),
                "no" if self.word("cycle") => SequenceOption::Cycle(false),
                "owned" if self.word("by") => {
                    SequenceOption::OwnedBy(if self.word("none") { None } else { Some(self.object_name()?) })
                }
                _ => {
                    self.parser.prev_token();
                    return Err(self.unexpected());
                }
            });
        }
        Ok(options)
    }

    fn rename(&mut self, kind: &'static str, name: &ObjectName, if_exists: bool) -> Result<Option<Command>> {
        if !self.words(&["rename", "to"]) {
            return Ok(None);
        }
        Ok(Some(Command::Rename { kind, name: name.clone(), if_exists, to: self.name()? }))
    }

    fn comment(&mut self) -> Result<Command> {
        self.skip_n(2);
        let Some(kind) = self.peek_word() else { return Err(self.unexpected()) };
        self.skip();
        let name = self.object_name()?;
        let name = if self.word("on") {
            // COMMENT ON CONSTRAINT name ON table: only the table's part decides where it is kept.
            let table = self.object_name()?;
            ObjectName(table.0.into_iter().chain(name.0).collect())
        } else {
            name
        };
        if !self.word("is") {
            return Err(self.unexpected());
        }
        let text = if self.word("null") { None } else { Some(self.string()?) };
        Ok(Command::Comment { kind, name, text })
    }

    fn lock(&mut self) -> Result<Command> {
        self.skip();
        let _ = self.word("table");
        let _ = self.word("only");
        let names = self.object_names()?;
        let mut mode = String::from("access exclusive");
        if self.word("in") {
            mode.clear();
            while let Some(word) = self.peek_word().filter(|word| word != "mode") {
                if !mode.is_empty() {
                    mode.push(' ');
                }
                mode.push_str(&word);
                self.skip();
            }
            if !self.word("mode") {
                return Err(self.unexpected());
            }
        }
        Ok(Command::Lock { names, mode, nowait: self.word("nowait") })
    }

    fn declare(&mut self) -> Result<Command> {
        self.skip();
        let name = self.name()?;
        loop {
            if self.word("binary") {
                return Ok(self.unsupported("a BINARY cursor"));
            } else if self.words(&["no", "scroll"]) || self.word("insensitive") || self.word("asensitive") {
                // Cursors here are so anyway.
            } else if self.word("scroll") {
                return Ok(self.unsupported("a SCROLL cursor"));
            } else {
                break;
            }
        }
        if !self.word("cursor") {
            return Err(self.unexpected());
        }
        let hold = self.words(&["with", "hold"]);
        let _ = !hold && self.words(&["without", "hold"]);
        if !self.word("for") {
            return Err(self.unexpected());
        }
        // The parser crate takes these for queries.
        if matches!(self.peek_word().as_deref(), Some("insert" | "update" | "delete" | "merge")) {
            return Err(self.unexpected());
        }
        let query = self.lift(Parser::parse_query)?;
        let command = Command::Sql(Box::new(Statement::Query(query)), None);
        Ok(Command::Declare {
            name,
            hold,
            body: Box::new(Parsed { command, nesting: 0, tokens: self.tokens }),
        })
    }

    fn fetch(&mut self) -> Result<Command> {
        let discard = self.peek_word().as_deref() == Some("move");
        self.skip();
        let forward = self.word("forward");
        let mut count = FetchCount::Forward(1);
        if self.word("next") {
        } else if self.word("all") {
            count = FetchCount::All;
        } else if matches!(self.parser.peek_token_ref().token, Token::Number(..) | Token::Minus) {
            let rows = self.integer()?;
            match usize::try_from(rows) {
                Ok(rows) => count = FetchCount::Forward(rows),
                Err(_) => return Ok(self.unsupported("fetching backward")),
            }
        } else if !forward
            && matches!(
                self.peek_word().as_deref(),
                Some("prior" | "first" | "last" | "absolute" | "relative" | "backward")
            )
        {
            return Ok(self.unsupported("fetching by position or backward"));
        }
        let _ = self.word("from") || self.word("in");
        Ok(Command::Fetch { name: self.name()?, count, discard })
    }

    /// The characteristics of a transaction, with or without commas between them.
    pub(super) fn modes(&mut self) -> Result<Vec<Mode>> {
        let mut modes = Vec::new();
        loop {
            modes.push(if self.words(&["isolation", "level"]) {
                let level = if self.words(&["read", "committed"]) {
                    "read committed"
                } else if self.words(&["read", "uncommitted"]) {
                    "read uncommitted"
                } else if self.words(&["repeatable", "read"]) {
                    "repeatable read"
                } else if self.word("serializable") {
                    "serializable"
                } else {
                    return Err(self.unexpected());
                };
                Mode::Isolation(level)
            } else if self.words(&["read", "only"]) {
                Mode::ReadOnly(true)
            } else if self.words(&["read", "write"]) {
                Mode::ReadOnly(false)
            } else if self.word("deferrable") {
                Mode::Deferrable(true)
            } else if self.words(&["not", "deferrable"]) {
                Mode::Deferrable(false)
            } else {
                return Ok(modes);
            });
            let _ = self.take(&Token::Comma);
        }
    }

    /// True if the text after PREPARE and a word is one that follows the name of a prepared statement.
    fn is_name_of_statement(&self) -> bool {
        self.peek_nth_word(2).as_deref() == Some("as")
            || self.parser.peek_nth_token_ref(2).token == Token::LParen
    }

    /// A name, which the word SAVEPOINT may precede.
    fn savepoint_name(&mut self) -> Result<String> {
        self.word_before_name("savepoint");
        self.name()
    }

    /// Takes a word that may precede a name, unless it is the name itself.
    fn word_before_name(&mut self, word: &str) {
        if matches!(self.parser.peek_nth_token_ref(1).token, Token::Word(_)) {
            let _ = self.word(word);
        }
    }

    /// Reads the words that may follow COMMIT and ROLLBACK. Returns true for AND CHAIN.
    fn end_of_block(&mut self) -> Result<bool> {
        let _ = self.word("work") || self.word("transaction");
        if self.word("and") {
            let no = self.word("no");
            if !self.word("chain") {
                return Err(self.unexpected());
            }
            return Ok(!no);
        }
        Ok(false)
    }

    /// A statement that is not carried out, whatever follows.
    pub(super) fn unsupported(&mut self, what: &str) -> Command {
        while self.parser.peek_token_ref().token != Token::EOF {
            self.skip();
        }
        Command::Unsupported(what.to_owned())
    }

    pub(super) fn unexpected(&self) -> SqlError {
        unexpected(self.parser, self.sql)
    }
    pub(super) fn lift<T>(&mut self, f: impl FnOnce(&mut Parser<'d>) -> Result<T, ParserError>) -> Result<T> {
        f(self.parser).map_err(|error| parser_error(error, self.sql))
    }
    pub(super) fn skip(&mut self) {
        self.parser.next_token();
    }
    pub(super) fn skip_n(&mut self, n: usize) {
        for _ in 0..n {
            self.skip();
        }
    }
    pub(super) fn take(&mut self, token: &Token) -> bool {
        self.parser.consume_token(token)
    }
    pub(super) fn expect(&mut self, token: &Token) -> Result<()> {
        if self.take(token) { Ok(()) } else { Err(self.unexpected()) }
    }
    /// The next words, in lower case; what is none is empty.
    fn words_ahead(&self) -> Vec<String> {
        let is_end = |n: &usize| self.parser.peek_nth_token_ref(*n).token == Token::EOF;
        let ahead = (0..unsupported::WORDS_MAX).take_while(|n| !is_end(n));
        ahead.map(|n| self.peek_nth_word(n).unwrap_or_default()).collect()
    }
    pub(super) fn peek_word(&self) -> Option<String> {
        self.peek_nth_word(0)
    }
    /// The unquoted word after `n` others, in lower case.
    pub(super) fn peek_nth_word(&self, n: usize) -> Option<String> {
        match &self.parser.peek_nth_token_ref(n).token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
            _ => None,
        }
    }
    pub(super) fn word(&mut self, word: &str) -> bool {
        self.words(&[word])
    }
    /// Takes these words if they come next.
    pub(super) fn words(&mut self, words: &[&str]) -> bool {
        let matched = words.iter().enumerate().try_for_each(|(n, expected)| {
            match &self.parser.peek_nth_token_ref(n).token {
                Token::Word(word)
                    if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected) =>
                {
                    ControlFlow::Continue(())
                }
                _ => ControlFlow::Break(()),
            }
        });
        if matched.is_break() {
            return false;
        }
        self.skip_n(words.len());
        true
    }
    pub(super) fn name(&mut self) -> Result<String> {
        match self.parser.peek_token_ref().token {
            Token::Word(_) => Ok(fold(&self.lift(Parser::parse_identifier)?)),
            _ => Err(self.unexpected()),
        }
    }
    fn name_or_all(&mut self) -> Result<Option<String>> {
        if self.word("all") { Ok(None) } else { self.name().map(Some) }
    }
    pub(super) fn object_name(&mut self) -> Result<ObjectName> {
        self.lift(|parser| parser.parse_object_name(false))
    }
    fn object_names(&mut self) -> Result<Vec<ObjectName>> {
        self.lift(|parser| parser.parse_comma_separated(|parser| parser.parse_object_name(false)))
    }
    pub(super) fn string(&mut self) -> Result<String> {
        match &self.parser.peek_token_ref().token {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
                let text = text.clone();
                self.skip();
                Ok(text)
            }
            Token::DollarQuotedString(quoted) => {
                let text = quoted.value.clone();
                self.skip();
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }
    pub(super) fn integer(&mut self) -> Result<i64> {
        let minus = self.take(&Token::Minus);
        if let Token::Number(digits, _) = &self.parser.peek_token_ref().token {
            let text = format!("{}{digits}", if minus { "-" } else { "" });
            if let Ok(value) = text.parse() {
                self.skip();
                return Ok(value);
            }
        }
        Err(self.unexpected())
    }
}
