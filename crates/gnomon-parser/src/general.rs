//! A statement's text with parameters in place of its constants, and a number that statements of the same form share: what
//! statistics of statements are kept by.
//!
//! The tree tells which literals are constants; those that are the number of a column (ORDER BY 1) or a part of a type
//! (`char(3)`) stay. White space, comments, and the case of names and keywords make no difference to the number.

use std::{
    collections::BTreeSet,
    ops::{ControlFlow, Range},
};

use crate::{
    ast::{Constant, Distinct, Expr, GroupingElement, Query, Select, SortBy, Statement, Value},
    keyword::Keyword,
    lexer::{Kind, Lexer, Token},
    visit::Visitor,
};

/// A statement's text apart from its constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneralText {
    /// The text with a parameter for each constant, whose numbers go on from those that it has.
    pub text: String,
    /// A number that is equal for statements of the same form, and hardly ever for others.
    pub fingerprint: u64,
}

impl GeneralText {
    /// Returns the general text of a statement, which takes `range` of a text.
    pub fn of(text: &str, range: Range<usize>, statement: &Statement) -> GeneralText {
        let mut constants = Constants::default();
        let _: ControlFlow<()> = constants.walk_statement(statement);
        let positions = constants.found.difference(&constants.columns).copied().collect();
        let text = text.get(..range.end).unwrap_or(text);
        Writer::new(text, range.start, positions).write()
    }

    /// Returns the text of a statement whose constants stay.
    pub fn verbatim(text: &str, range: Range<usize>) -> GeneralText {
        let text = text.get(range).unwrap_or(text).trim();
        let mut hash = Fnv::default();
        hash.add(text.as_bytes());
        GeneralText { text: text.to_owned(), fingerprint: hash.0 }
    }
}

/// Where constants of a statement are, in bytes.
#[derive(Default)]
struct Constants {
    found: BTreeSet<usize>,
    /// Those that are numbers of columns.
    columns: BTreeSet<usize>,
}

impl Constants {
    fn note_column(&mut self, expr: &Expr) {
        if let Expr::Constant(Constant { value: Value::Integer(_), position }) = expr {
            self.columns.extend(position.byte());
        }
    }

    fn note_order(&mut self, order: &[SortBy]) {
        order.iter().for_each(|item| self.note_column(&item.value));
    }
}

impl Visitor for Constants {
    type Break = ();

    fn visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.note_order(&query.order_by);
        self.walk_query(query)
    }

    fn visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for element in &select.group_by {
            if let GroupingElement::Expr(expr) = element {
                self.note_column(expr);
            }
        }
        if let Distinct::On(exprs) = &select.distinct {
            exprs.iter().for_each(|expr| self.note_column(expr));
        }
        self.walk_select(select)
    }

    fn visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Constant(constant) = expr {
            self.found.extend(constant.position.byte());
        }
        self.walk_expr(expr)
    }
}

/// FNV-1a of 64 bits.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Writes a general text.
struct Writer<'a> {
    text: &'a str,
    start: usize,
    constants: BTreeSet<usize>,
    hash: Fnv,
}

impl<'a> Writer<'a> {
    fn new(text: &'a str, start: usize, constants: BTreeSet<usize>) -> Writer<'a> {
        Writer { text, start, constants, hash: Fnv::default() }
    }

    fn tokens(&self) -> impl Iterator<Item = Token> + use<'a> {
        let mut lexer = Lexer::new(self.text, self.start);
        std::iter::from_fn(move || Some(lexer.token()).filter(|token| !is_end(token.kind)))
    }

    /// Returns the greatest number of a parameter.
    fn parameters(&self) -> u64 {
        let parameters = self.tokens().filter(|token| token.kind == Kind::Parameter);
        let number = |token: Token| self.text.get(token.start as usize + 1..token.end as usize)?.parse().ok();
        parameters.filter_map(number).max().unwrap_or(0)
    }

    fn write(mut self) -> GeneralText {
        let mut number = self.parameters();
        let mut out = String::with_capacity(self.text.len() - self.start.min(self.text.len()));
        let mut copied = self.start;
        // Where the constant begins whose literal is still to come: at its minus, or its type.
        let mut begun: Option<usize> = None;
        for token in self.tokens() {
            let (start, end) = (token.start as usize, token.end as usize);
            let is_constant = self.constants.contains(&start);
            if (is_constant || begun.is_some()) && is_literal(token.kind) {
                number += 1;
                out.push_str(self.text.get(copied..begun.take().unwrap_or(start)).unwrap_or_default());
                out.push_str(&format!("${number}"));
                copied = end;
                self.hash.add(if matches!(token.kind, Kind::Integer | Kind::Number) { &[1] } else { &[2] });
                continue;
            }
            if is_constant {
                begun = Some(if token.kind == Kind::Char('-') { start } else { end });
                if token.kind == Kind::Char('-') {
                    continue;
                }
            }
            self.hash_token(token);
        }
        out.push_str(self.text.get(copied..).unwrap_or_default());
        GeneralText { text: out.trim().to_owned(), fingerprint: self.hash.0 }
    }

    fn hash_token(&mut self, token: Token) {
        let text = self.text.get(token.start as usize..token.end as usize).unwrap_or_default();
        match token.kind {
            Kind::Name | Kind::Keyword(_) => self.hash.add(text.to_ascii_lowercase().as_bytes()),
            _ => self.hash.add(text.as_bytes()),
        }
        self.hash.add(&[0]);
    }
}

fn is_end(kind: Kind) -> bool {
    matches!(kind, Kind::End | Kind::Wrong | Kind::Char(';'))
}

fn is_literal(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Integer
            | Kind::Number
            | Kind::String
            | Kind::EscapeString
            | Kind::UnicodeString
            | Kind::DollarString
            | Kind::BitString
            | Kind::HexString
            | Kind::Keyword(Keyword::Null | Keyword::True | Keyword::False)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn general(text: &str) -> GeneralText {
        let parsed = parse(text).expect(text).remove(0);
        GeneralText::of(text, parsed.range.clone(), &parsed.statement)
    }

    #[test]
    fn constants_are_parameters() {
        for (text, wanted) in [
            ("SELECT 1", "SELECT $1"),
            ("SELECT -1, 'a', NULL, true", "SELECT $1, $2, $3, $4"),
            (
                "SELECT a - 1 FROM t WHERE b = 'x' AND c IS NULL;",
                "SELECT a - $1 FROM t WHERE b = $2 AND c IS NULL",
            ),
            ("SELECT a FROM t WHERE b = $2 LIMIT 5", "SELECT a FROM t WHERE b = $2 LIMIT $3"),
            ("SELECT a FROM t GROUP BY 1 ORDER BY 1, b + 2", "SELECT a FROM t GROUP BY 1 ORDER BY 1, b + $1"),
            ("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO t VALUES ($1, $2), ($3, $4)"),
            ("SELECT 'a'::varchar(5), interval '1 day'", "SELECT $1::varchar(5), interval $2"),
        ] {
            assert_eq!(general(text).text, wanted);
        }
    }

    #[test]
    fn statements_of_the_same_form_share_a_fingerprint() {
        let same = |a: &str, b: &str| general(a).fingerprint == general(b).fingerprint;
        assert!(same("SELECT a FROM t WHERE b = 1", "select  A from t /* c */ where b = 27;"));
        assert!(same("SELECT -1", "SELECT 1"));
        assert!(!same("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 'x'"));
        assert!(!same("SELECT a FROM t ORDER BY 1", "SELECT a FROM t ORDER BY 2"));
        assert!(!same("SELECT \"A\" FROM t", "SELECT a FROM t"));
    }
}
