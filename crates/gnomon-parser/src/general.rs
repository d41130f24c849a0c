//! A statement's text with parameters in place of its constants, and a number that statements of the same form share:
//! what statistics of statements are kept by.
//!
//! The tree tells which literals are constants; those that are the number of a column (ORDER BY 1) or a part of a type
//! (`char(3)`) stay. The number is that of the statement's form (`form.rs`): white space, comments, parentheses
//! and the names of result columns make no difference to it.

use std::{
    collections::BTreeSet,
    ops::{ControlFlow, Range},
};

use crate::{
    ast::{Constant, Distinct, Expr, GroupingElement, Query, Select, SortBy, Statement, Value},
    form::form_of,
    keyword::Keyword,
    lexer::{Kind, Lexer, Token},
    string_rules::StringRules,
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
    /// Returns the general text of a statement, which takes `range` of a text, its strings read by `rules`.
    pub fn of(text: &str, range: Range<usize>, rules: StringRules, statement: &Statement) -> GeneralText {
        let mut constants = Constants::default();
        let _: ControlFlow<()> = constants.walk_statement(statement);
        let positions = constants.found.difference(&constants.columns).copied().collect();
        let whole = with_comments(text, range, rules);
        let written = text.get(..whole.end).unwrap_or(text);
        let text = Writer { text: written, start: whole.start, rules, constants: positions }.write();
        let fingerprint = hash(form_of(statement).as_deref().unwrap_or(&text));
        GeneralText { text, fingerprint }
    }

    /// Returns the text of a statement whose constants stay.
    pub fn verbatim(text: &str, range: Range<usize>, rules: StringRules) -> GeneralText {
        let text = text.get(with_comments(text, range, rules)).unwrap_or(text).trim();
        GeneralText { text: text.to_owned(), fingerprint: hash(text) }
    }
}

/// Number of semicolons in comments before a statement that are told from the end of the statement before.
const SEMICOLONS_TRIED: usize = 8;

/// Returns what a statement takes of a text with the comments around it, from the statement before to the one behind.
fn with_comments(text: &str, range: Range<usize>, rules: StringRules) -> Range<usize> {
    let next = |from: usize| Lexer::new(text, from).by(rules).token().start as usize;
    let is_comment = |from: &usize| next(*from) == range.start;
    let before = text.get(..range.start).unwrap_or_default();
    let semicolons = before.rmatch_indices(';').map(|(at, _)| at + 1);
    let mut begins = semicolons.take(SEMICOLONS_TRIED).chain([0]);
    let end = next(range.end);
    begins.find(is_comment).unwrap_or(range.start)..end.clamp(range.end, text.len())
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
fn hash(text: &str) -> u64 {
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, add)
}

/// Writes a general text.
struct Writer<'a> {
    text: &'a str,
    start: usize,
    rules: StringRules,
    constants: BTreeSet<usize>,
}

impl<'a> Writer<'a> {
    fn tokens(&self) -> impl Iterator<Item = Token> + use<'a> {
        let mut lexer = Lexer::new(self.text, self.start).by(self.rules);
        std::iter::from_fn(move || Some(lexer.token()).filter(|token| !is_end(token.kind)))
    }

    /// Returns the greatest number of a parameter.
    fn parameters(&self) -> u64 {
        let parameters = self.tokens().filter(|token| token.kind == Kind::Parameter);
        let number = |token: Token| self.text.get(token.start as usize + 1..token.end as usize)?.parse().ok();
        parameters.filter_map(number).max().unwrap_or(0)
    }

    fn write(self) -> String {
        let mut number = self.parameters();
        let mut out = String::with_capacity(self.text.len() - self.start.min(self.text.len()));
        let mut copied = self.start;
        // Where the constant begins whose literal is still to come: at its minus, or its type.
        let mut begun: Option<usize> = None;
        let mut tokens = self.tokens().peekable();
        while let Some(token) = tokens.next() {
            let (start, end) = (token.start as usize, token.end as usize);
            let is_constant = self.constants.contains(&start);
            // Of EXTRACT and NORMALIZE, a constant is written as a name; else a name is the type before the constant.
            let ends_name =
                |next: &Token| matches!(next.kind, Kind::Keyword(Keyword::From) | Kind::Char(')'));
            let is_name = is_constant && tokens.peek().is_some_and(ends_name);
            if (is_constant || begun.is_some()) && (is_literal(token.kind) || is_name) {
                number += 1;
                out.push_str(self.text.get(copied..begun.take().unwrap_or(start)).unwrap_or_default());
                out.push_str(&format!("${number}"));
                copied = end;
                continue;
            }
            if is_constant {
                begun = Some(if token.kind == Kind::Char('-') { start } else { end });
            }
        }
        out.push_str(self.text.get(copied..).unwrap_or_default());
        out.trim().to_owned()
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
    use crate::{Statements, parse};

    fn general(text: &str) -> GeneralText {
        let parsed = parse(text).expect(text).remove(0);
        GeneralText::of(text, parsed.range.clone(), parsed.rules, &parsed.statement)
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
            (
                "SELECT extract(year FROM d), extract('month' FROM d)",
                "SELECT extract($1 FROM d), extract($2 FROM d)",
            ),
            ("SELECT normalize('a', NFC)", "SELECT normalize($1, $2)"),
            ("/* a; */ SELECT 1 /* b */; -- c", "/* a; */ SELECT $1 /* b */"),
            ("SELECT 1 -- c", "SELECT $1 -- c"),
            ("SELECT a FROM t FETCH FIRST 5 ROWS ONLY", "SELECT a FROM t FETCH FIRST $1 ROWS ONLY"),
        ] {
            assert_eq!(general(text).text, wanted);
        }
    }

    /// Constants end where the session's rules say so, whatever others would say.
    #[test]
    fn strings_are_read_by_their_rules() {
        let rules = StringRules { is_standard: false, ..StringRules::default() };
        for (text, wanted) in [
            (r"SELECT 'a\'b', 'secret', 42 AS zz", "SELECT $1, $2, $3 AS zz"),
            (r"SELECT 'a\\', 'b;'; SELECT 'c\';'", "SELECT $1, $2"),
        ] {
            let parsed = Statements::new(text, rules, &mut |_| false).unwrap().next().unwrap().unwrap();
            let general = GeneralText::of(text, parsed.range.clone(), parsed.rules, &parsed.statement);
            assert_eq!(general.text, wanted);
            let verbatim = GeneralText::verbatim(text, parsed.range.clone(), parsed.rules);
            assert_eq!(verbatim.text, text[parsed.range]);
        }
    }

    #[test]
    fn comments_belong_to_the_statement_beside_them() {
        let text = "SELECT 1; /* a;b */ SELECT 2 /* c */; SET x = ';' -- d";
        let texts = parse(text).expect(text).into_iter().map(|parsed| {
            let of = if matches!(parsed.statement, Statement::Query(_)) {
                GeneralText::of(text, parsed.range.clone(), parsed.rules, &parsed.statement)
            } else {
                GeneralText::verbatim(text, parsed.range.clone(), parsed.rules)
            };
            of.text
        });
        let wanted = ["SELECT $1", "/* a;b */ SELECT $1 /* c */", "SET x = ';' -- d"];
        assert_eq!(texts.collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn statements_of_the_same_form_share_a_fingerprint() {
        let same = |a: &str, b: &str| general(a).fingerprint == general(b).fingerprint;
        assert!(same("SELECT a FROM t WHERE b = 1", "select  A from t /* c */ where b = 27;"));
        assert!(same("SELECT -1", "SELECT 1"));
        assert!(!same("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE b = 'x'"));
        assert!(!same("SELECT a FROM t ORDER BY 1", "SELECT a FROM t ORDER BY 2"));
        assert!(!same("SELECT \"A\" FROM t", "SELECT a FROM t"));
        for (a, b) in [
            ("SELECT 1", "SELECT (2) AS x"),
            ("SELECT a + b FROM t", "SELECT ((a) + (b)) c FROM t"),
            ("SELECT date '2020-01-01'", "SELECT CAST('2021-01-01' AS date)"),
            (
                "SELECT a, b FROM t ORDER BY 2, 1 DESC NULLS FIRST",
                "SELECT a x, b y FROM t ORDER BY y ASC, x DESC",
            ),
            ("SELECT a, count(*) FROM t GROUP BY 1", "SELECT a AS x, count(*) AS y FROM t GROUP BY a"),
            ("SELECT 1 FROM t WHERE EXISTS (SELECT 1)", "SELECT 2 FROM t WHERE EXISTS (SELECT 3 AS x)"),
            (
                "SELECT t.a FROM t JOIN u ON t.a = u.a LIMIT 1",
                "SELECT t.a FROM t INNER JOIN u ON t.a = u.a FETCH FIRST ROW ONLY",
            ),
            ("INSERT INTO t VALUES (1) RETURNING a", "INSERT INTO t VALUES (2) RETURNING a AS x"),
            ("SELECT extract(year FROM d) FROM t", "SELECT extract('month' FROM d) FROM t"),
        ] {
            assert!(same(a, b), "{a}; {b}");
        }
        for (a, b) in [
            (
                "SELECT x FROM (SELECT a AS x, b AS y FROM t) s",
                "SELECT x FROM (SELECT a AS y, b AS x FROM t) s",
            ),
            (
                "WITH w AS (SELECT a AS x, b AS y FROM t) SELECT x FROM w",
                "WITH w AS (SELECT a AS y, b AS x FROM t) SELECT x FROM w",
            ),
            (
                "SELECT a AS x, b AS y FROM t UNION SELECT 1, 2 ORDER BY x",
                "SELECT a AS y, b AS x FROM t UNION SELECT 1, 2 ORDER BY x",
            ),
            ("SELECT a AS x, b AS y FROM t GROUP BY x, y", "SELECT a AS y, b AS x FROM t GROUP BY x, y"),
            ("SELECT * FROM t ORDER BY 1", "SELECT * FROM t ORDER BY 2"),
            ("SELECT 1", "SELECT 3000000000"),
            ("SELECT 1", "SELECT 1.5"),
            ("SELECT NULL", "SELECT true"),
        ] {
            assert!(!same(a, b), "{a}; {b}");
        }
    }
}
