//! SQL texts as syntax trees, with bounds on the stack and the memory that they take.
//!
//! The grammar is [`gnomon_parser`]'s. Here its errors become those of SQL, the trees of a long text are given up until
//! their statement is run, and what recurses over a tree gets a stack that fits it.

mod kept;
mod option;
mod stack;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, ops::Range};

use gnomon_parser::{Statements, StringRules, ast::Statement};

pub(crate) use self::{
    kept::{
        expression_text, is_relation_literal, may_name_relations, parse_expression, parse_query, query_text,
        relation_literal, relation_string, set_relation_string, with_row_renamed,
    },
    option::{option_is_on, option_text},
    stack::{on_deepest_stack, on_fit_stack},
};
use crate::{Notice, Result, Severity, SqlError, SqlState, types::binary::validate_text};

/// The longest text of statements that is parsed, in bytes.
const SQL_BYTES_MAX: usize = 64 << 20;
/// The memory of a token while its statement is parsed and bound, in bytes: its part of the tree and of the plan.
const PARSING_TOKEN_BYTES: usize = 400;
/// How often a long text is in memory while it is parsed and bound: itself, its tree and its plan.
const PARSING_COPIES: usize = 4;
/// The part that stays with a prepared statement; a star and a view make more of a token than a number.
const KEPT_TOKEN_BYTES: usize = 600;
/// Texts that are not longer than this need no look at the memory.
const SHORT_BYTES: usize = 16 << 10;
/// The most statements of a text that have their trees at a time.
const TREES_MAX: usize = 100;

/// A statement of a text.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    /// Its tree.
    pub statement: Statement,
    /// How deep its tree is; see [`on_fit_stack`].
    pub nesting: usize,
    /// Number of tokens of its text.
    pub tokens: usize,
    /// The bytes of the text that it takes, without its semicolon.
    pub range: Range<usize>,
    /// The rules that its strings were read by.
    pub rules: StringRules,
}

impl Parsed {
    /// Returns about how much memory its tree and a plan of it take, in bytes.
    pub fn bytes(&self) -> usize {
        self.tokens.saturating_mul(KEPT_TOKEN_BYTES)
    }

    /// Returns the statement `part` that stands within this one.
    pub fn part(&self, part: &Statement) -> Parsed {
        on_fit_stack(self.nesting, || Parsed {
            statement: part.clone(),
            nesting: self.nesting,
            tokens: self.tokens,
            range: self.range.clone(),
            rules: self.rules,
        })
    }
}

impl From<gnomon_parser::Parsed> for Parsed {
    fn from(parsed: gnomon_parser::Parsed) -> Self {
        let gnomon_parser::Parsed { statement, nesting, tokens, range, rules, cut_names: _, warnings: _ } =
            parsed;
        Parsed { statement, nesting, tokens, range, rules }
    }
}

impl Drop for Parsed {
    fn drop(&mut self) {
        let statement = std::mem::replace(&mut self.statement, Statement::Checkpoint);
        on_fit_stack(self.nesting, || drop(statement));
    }
}

/// A statement of a text whose statements are all well formed.
#[derive(Debug)]
pub(crate) enum Written {
    /// As a tree.
    Parsed(Parsed),
    /// As the bytes of the text that it takes, which are parsed again when it is run, by the same rules.
    Range(Range<usize>, StringRules),
}

impl Written {
    /// Returns the tree of a statement of the text `sql`.
    pub(crate) fn parsed(&self, sql: &str) -> Result<Cow<'_, Parsed>> {
        match self {
            Written::Parsed(parsed) => Ok(Cow::Borrowed(parsed)),
            Written::Range(range, rules) => parse_range(sql, range.clone(), *rules).map(Cow::Owned),
        }
    }

    /// Returns the tree, of which nothing else is left.
    pub(crate) fn into_parsed(self, sql: &str) -> Result<Parsed> {
        match self {
            Written::Parsed(parsed) => Ok(parsed),
            Written::Range(range, rules) => parse_range(sql, range, rules),
        }
    }
}

fn parse_range(sql: &str, range: Range<usize>, rules: StringRules) -> Result<Parsed> {
    Ok(gnomon_parser::parse_range(sql, range, rules)?.into())
}

/// Returns about how much memory it takes to parse and bind a text of so many tokens, in bytes.
pub(crate) fn parsing_bytes(sql: &str, tokens: usize) -> usize {
    if sql.len() <= SHORT_BYTES {
        return 0;
    }
    tokens.saturating_mul(PARSING_TOKEN_BYTES).saturating_add(PARSING_COPIES * sql.len())
}

/// Parses a text of statements separated by semicolons. Empty statements are left out. `watch` is told now and then how
/// many tokens there are so far; its error ends the work. `notices` get those of names that were cut, and of strings.
///
/// # Errors
/// 42601 and others as PostgreSQL's grammar, 54000 for a text that is too long, 54001 for one that nests too deeply.
pub(crate) fn parse(
    sql: &str,
    rules: StringRules,
    watch: &mut dyn FnMut(usize) -> Result<()>,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Written>> {
    if sql.len() > SQL_BYTES_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("a statement of {} bytes exceeds the maximum of {SQL_BYTES_MAX}", sql.len()),
        ));
    }
    // Clients of the protocol cannot send a zero byte in a text; embedders can.
    if sql.contains('\0') {
        validate_text(sql.as_bytes())?;
    }
    watch(0)?;
    let mut refusal = None;
    let mut tell = |tokens: usize| {
        refusal = watch(tokens).err();
        refusal.is_some()
    };
    let read = parse_all(sql, rules, &mut tell, notices);
    match refusal {
        Some(refusal) => Err(refusal),
        None => {
            let (statements, tokens) = read?;
            watch(tokens)?;
            Ok(statements)
        }
    }
}

/// Returns the statements of a text, and the number of their tokens.
fn parse_all(
    sql: &str,
    rules: StringRules,
    tell: &mut dyn FnMut(usize) -> bool,
    notices: &mut Vec<Notice>,
) -> Result<(Vec<Written>, usize)> {
    let (mut statements, mut tokens) = (Vec::new(), 0);
    for parsed in Statements::new(sql, rules, tell)? {
        let parsed = parsed?;
        notices.extend(parsed.cut_names.iter().map(|(full, cut)| {
            let message = format!("identifier \"{full}\" will be truncated to \"{cut}\"");
            Notice::note(SqlState::NAME_TOO_LONG, message)
        }));
        notices.extend(parsed.warnings.iter().map(|warning| {
            SqlError::from(Box::new(warning.clone())).severity(Severity::Warning).located_in(sql)
        }));
        let parsed = Parsed::from(parsed);
        tokens += parsed.tokens;
        statements.push(match statements.len() < TREES_MAX {
            true => Written::Parsed(parsed),
            false => Written::Range(parsed.range.clone(), rules),
        });
    }
    Ok((statements, tokens))
}

/// True if a plan is made of a statement: a query, DML or CALL.
pub(crate) fn is_planned(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Call(_)
    )
}
