//! The parser: PostgreSQL's grammar by recursive descent, operators by precedence.
//!
//! It decides by the next token, and sometimes by those behind it, and never goes back: so the first token that
//! cannot go on is the one that PostgreSQL's parser stops at. Recursion is counted, and the stack grows with it.

mod absent;
mod alter;
mod call;
mod comment;
mod create;
mod cursor;
mod ddl;
mod dml;
mod expr;
mod from;
mod name;
mod option;
mod primary;
mod query;
mod routine;
mod session;
mod statement;
mod types;
mod unsupported;
mod window;

use crate::{
    Statement,
    ast::{Expr, Query, TypeName, Unsupported},
    error::{Error, ErrorKind, Result},
    keyword::Keyword,
    lexer::{Kind, Lexer, Token, near},
    position::Position,
    string_rules::StringRules,
};

/// How many levels a statement may nest.
const DEPTH_MAX: usize = 1000;
/// How many operators one may be the operand of the next.
const LINKS_MAX: usize = 5000;
/// As many operators as this take the stack of a level when the tree is walked.
const LINKS_PER_LEVEL: usize = 4;
/// The stack grows where less than this is left.
pub(crate) const STACK_RED_ZONE: usize = 128 << 10;
/// By so much.
pub(crate) const STACK_STEP: usize = 1 << 20;
/// The caller's watch is told after so many tokens.
const WATCH_TOKENS: usize = 1 << 12;
/// The parser looks no further ahead than this.
const LOOKAHEAD: usize = 4;

/// A statement of a text, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The statement.
    pub statement: Statement,
    /// How deep its tree is, in levels that each take stack when it is walked; a chain of four operators is a level.
    pub nesting: usize,
    /// Number of tokens of its text.
    pub tokens: usize,
    /// The bytes that it takes in the text, without its semicolon.
    pub range: std::ops::Range<usize>,
    /// The rules that its strings were read by.
    pub rules: StringRules,
    /// Names that were too long: in full, and as they are in the tree. A notice of PostgreSQL's tells of each.
    pub cut_names: Vec<(Box<str>, Box<str>)>,
    /// PostgreSQL's warnings about its strings.
    pub warnings: Vec<Error>,
}

/// Tells how many tokens have been read; true ends the work.
pub type Watch<'a> = &'a mut dyn FnMut(usize) -> bool;

pub(crate) struct Parser<'a, 'w> {
    text: &'a str,
    lexer: Lexer<'a>,
    ahead: [Token; LOOKAHEAD],
    /// How many of `ahead` are read.
    buffered: usize,
    /// Tokens that were taken.
    taken: usize,
    /// The end of the last one.
    end: usize,
    depth: usize,
    depth_max: usize,
    /// The most operators on one path of what was read last.
    links: usize,
    /// The depth at which a column may be followed by a label.
    label_depth: Option<usize>,
    /// The part that was read and has no tree.
    unsupported: Option<Unsupported>,
    /// The names that were cut.
    cut_names: Vec<(Box<str>, Box<str>)>,
    watch: Watch<'w>,
    /// How many tokens had been taken when the watch was told.
    looked_at: usize,
}

impl<'a, 'w> Parser<'a, 'w> {
    /// Returns the parser of the tokens of a lexer of `text`.
    pub(crate) fn new(text: &'a str, lexer: Lexer<'a>, watch: Watch<'w>) -> Parser<'a, 'w> {
        Parser {
            text,
            lexer,
            ahead: [Token { kind: Kind::End, start: 0, end: 0, position: Position::NONE }; LOOKAHEAD],
            buffered: 0,
            taken: 0,
            end: 0,
            depth: 0,
            depth_max: 0,
            links: 0,
            label_depth: None,
            unsupported: None,
            cut_names: Vec::new(),
            watch,
            looked_at: 0,
        }
    }

    /// Reads the next statement of the text; none at its end.
    pub(crate) fn next_statement(&mut self) -> Result<Option<Parsed>> {
        while self.take_char(';') {}
        if self.peek().kind == Kind::End {
            return Ok(None);
        }
        let (start, first) = (self.peek().start as usize, self.taken);
        (self.depth_max, self.links, self.unsupported) = (0, 0, None);
        let statement = self.statement()?;
        if self.peek().kind != Kind::End && !self.is_char(';') {
            return Err(self.unexpected());
        }
        let statement = match self.unsupported.take() {
            Some(unsupported) => Statement::Unsupported(unsupported),
            None => statement,
        };
        Ok(Some(Parsed {
            statement,
            nesting: self.depth_max + self.links / LINKS_PER_LEVEL,
            tokens: self.taken - first,
            range: start..self.end,
            rules: self.lexer.rules,
            cut_names: std::mem::take(&mut self.cut_names),
            warnings: std::mem::take(&mut self.lexer.warnings),
        }))
    }

    /// Reads one item that is the whole text.
    pub(crate) fn whole<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let item = read(self)?;
        if let Some(Unsupported { feature, position }) = self.unsupported.take() {
            let message = format!("{feature} is not supported");
            return Err(Error::new(ErrorKind::Unsupported, message, position));
        }
        match self.peek().kind {
            Kind::End => Ok(item),
            _ => Err(self.unexpected()),
        }
    }

    // Where the grammar recurses: the rooms call each other through these only.

    /// An expression (a_expr).
    pub(crate) fn expr(&mut self) -> Result<Expr> {
        expr::expr(self)
    }

    /// An expression whose operators are symbols (b_expr).
    fn simple_expr(&mut self) -> Result<Expr> {
        expr::simple_expr(self)
    }

    /// Expressions between commas.
    fn exprs(&mut self) -> Result<Vec<Expr>> {
        self.list(Self::expr)
    }

    /// Goes on with an expression whose first operand has been read.
    fn expr_from(&mut self, first: Expr) -> Result<Expr> {
        expr::expr_from(self, first)
    }

    /// A query, with or without parentheses (SelectStmt).
    pub(crate) fn query(&mut self) -> Result<Query> {
        query::query(self)
    }

    /// Goes on with a query whose first operand, in parentheses, has been read.
    fn query_from(&mut self, first: Query) -> Result<Query> {
        query::query_from(self, first)
    }

    /// A query in parentheses (select_with_parens).
    fn query_in_parens(&mut self) -> Result<Query> {
        query::query_in_parens(self)
    }

    /// A query or a change, with WITH (PreparableStmt).
    fn preparable(&mut self) -> Result<Statement> {
        dml::preparable(self)
    }

    /// A type (Typename).
    pub(crate) fn type_name(&mut self) -> Result<TypeName> {
        types::type_name(self)
    }

    /// A statement, without its semicolon (stmt).
    fn statement(&mut self) -> Result<Statement> {
        statement::statement(self)
    }

    // Tokens.

    fn peek(&mut self) -> Token {
        self.peek_at(0)
    }

    fn peek_at(&mut self, ahead: usize) -> Token {
        while self.buffered <= ahead {
            self.ahead[self.buffered] = self.lexer.token();
            self.buffered += 1;
        }
        self.ahead[ahead]
    }

    /// Takes the next token.
    fn bump(&mut self) -> Token {
        let token = self.peek();
        self.ahead.copy_within(1.., 0);
        self.buffered -= 1;
        self.taken += 1;
        self.end = token.end as usize;
        token
    }

    fn is_char(&mut self, character: char) -> bool {
        self.peek().kind == Kind::Char(character)
    }

    fn is_char_at(&mut self, ahead: usize, character: char) -> bool {
        self.peek_at(ahead).kind == Kind::Char(character)
    }

    fn take_char(&mut self, character: char) -> bool {
        let found = self.is_char(character);
        if found {
            self.bump();
        }
        found
    }

    fn expect_char(&mut self, character: char) -> Result<Token> {
        if self.is_char(character) { Ok(self.bump()) } else { Err(self.unexpected()) }
    }

    fn keyword(&mut self) -> Option<Keyword> {
        self.peek().keyword()
    }

    fn keyword_at(&mut self, ahead: usize) -> Option<Keyword> {
        self.peek_at(ahead).keyword()
    }

    fn is(&mut self, keyword: Keyword) -> bool {
        self.peek().kind == Kind::Keyword(keyword)
    }

    fn is_at(&mut self, ahead: usize, keyword: Keyword) -> bool {
        self.peek_at(ahead).kind == Kind::Keyword(keyword)
    }

    fn take(&mut self, keyword: Keyword) -> bool {
        let found = self.is(keyword);
        if found {
            self.bump();
        }
        found
    }

    /// Takes the first keyword, and demands the others behind it.
    fn take_all(&mut self, keywords: &[Keyword]) -> Result<bool> {
        let Some((first, rest)) = keywords.split_first() else { return Ok(true) };
        if !self.take(*first) {
            return Ok(false);
        }
        self.expect_all(rest)?;
        Ok(true)
    }

    fn expect(&mut self, keyword: Keyword) -> Result<Token> {
        if self.is(keyword) { Ok(self.bump()) } else { Err(self.unexpected()) }
    }

    fn expect_all(&mut self, keywords: &[Keyword]) -> Result<()> {
        for keyword in keywords {
            self.expect(*keyword)?;
        }
        Ok(())
    }

    fn position(&mut self) -> Position {
        self.peek().position()
    }

    fn text_of(&self, token: Token) -> &'a str {
        &self.text[token.start as usize..token.end as usize]
    }

    /// The error of a token.
    fn near(&self, message: &str, token: Token) -> Box<Error> {
        near(message, self.text, token.start as usize, token.end as usize)
    }

    /// An error at the next token.
    fn refused(&mut self, message: &str) -> Box<Error> {
        let token = self.peek();
        match (&token.kind, &self.lexer.error) {
            (Kind::Wrong, Some(error)) => error.clone(),
            _ => self.near(message, token),
        }
    }

    /// The error of a token that cannot stand here: the next one.
    fn unexpected(&mut self) -> Box<Error> {
        self.refused("syntax error")
    }

    fn fail<T>(&mut self) -> Result<T> {
        Err(self.unexpected())
    }

    // Recursion.

    /// Reads what is a level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(self.too_complex());
        }
        self.look()?;
        self.depth += 1;
        self.depth_max = self.depth_max.max(self.depth);
        let read = stacker::maybe_grow(STACK_RED_ZONE, STACK_STEP, || read(self));
        self.depth -= 1;
        read
    }

    fn too_complex(&mut self) -> Box<Error> {
        Error::new(ErrorKind::TooComplex, "stack depth limit exceeded", self.position())
    }

    /// Counts an operator whose left operand is what was read before.
    fn link(&mut self) -> Result<()> {
        self.links += 1;
        if self.links > LINKS_MAX { Err(self.too_complex()) } else { Ok(()) }
    }

    /// Tells the caller's watch now and then.
    fn look(&mut self) -> Result<()> {
        if self.taken < self.looked_at + WATCH_TOKENS {
            return Ok(());
        }
        self.looked_at = self.taken;
        match (self.watch)(self.taken) {
            true => Err(Error::new(ErrorKind::Interrupted, "parsing was ended", Position::NONE)),
            false => Ok(()),
        }
    }

    // Lists.

    /// Reads items between commas, at least one.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![read(self)?];
        while self.take_char(',') {
            self.look()?;
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// Reads items between commas in parentheses, at least one.
    fn parens<T>(&mut self, read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_char('(')?;
        let items = self.list(read)?;
        self.expect_char(')')?;
        Ok(items)
    }

    /// Passes over the rest of a statement that has no tree.
    fn unsupported(&mut self, feature: impl Into<String>, position: Position) -> Result<Statement> {
        let unsupported = Unsupported { feature: feature.into(), position };
        self.unsupported.get_or_insert_with(|| unsupported.clone());
        unsupported::skip_statement(self)?;
        Ok(Statement::Unsupported(unsupported))
    }

    /// Notes that a part of the statement has no tree; the first one counts.
    fn refuse(&mut self, feature: impl Into<String>, position: Position) {
        self.unsupported.get_or_insert_with(|| Unsupported { feature: feature.into(), position });
    }
}
