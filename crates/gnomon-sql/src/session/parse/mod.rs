//! From SQL text to commands.
//!
//! The text is cut into statements at its tokens, then each is parsed. Queries, DML and most DDL are the parser
//! crate's; statements that steer the session (transactions, settings, COPY, sequences, maintenance) are parsed here,
//! by PostgreSQL's grammar. Length and nesting are bounded before anything recurses over the tokens.

mod command;
mod reader;
#[cfg(test)]
mod tests;
mod text;
mod tokens;
mod unsupported;

use sqlparser::{
    ast::{self, Statement},
    dialect::PostgreSqlDialect,
    keywords::Keyword,
    parser::Parser,
    tokenizer::{Token, TokenWithSpan, Tokenizer},
};

use self::{
    reader::Reader,
    text::{tokenizer_error, too_complex, unexpected},
    tokens::{
        expand_table_queries, order_identity_options, strengthen_row_locks, take_column_names,
        take_overriding,
    },
};
use crate::{Result, SqlError, SqlState};

pub(crate) use command::{Command, Copy, CopyRelation, CopyValue, Discard, FetchCount, Mode, SequenceOption};
pub(crate) use text::{fold, locate};
pub(crate) use unsupported::hint as hint_instead;

/// The longest text of statements that is parsed, in bytes.
pub(crate) const SQL_BYTES_MAX: usize = 64 << 20;
/// How deep expressions, subqueries and chains of operators and joins may nest.
const NESTING_MAX: usize = 1000;
/// Statements nested deeper than this run on a stack of their own.
const NESTING_ON_STACK: usize = 40;
/// Stack for one level of nesting, in bytes: parser, binder, planner and executor, unoptimised.
const LEVEL_STACK_BYTES: usize = 48 << 10;

/// A statement of a text.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    /// What it asks for.
    pub command: Command,
    /// How deep it nests; see [`on_fit_stack`].
    pub nesting: usize,
}
/// Runs `f` with stack enough for a statement of this nesting.
pub(crate) fn on_fit_stack<R>(nesting: usize, f: impl FnOnce() -> R) -> R {
    if nesting <= NESTING_ON_STACK { f() } else { stacker::grow(nesting * LEVEL_STACK_BYTES, f) }
}

/// Parses a text of statements separated by semicolons. Empty statements are left out.
pub(crate) fn parse(sql: &str) -> Result<Vec<Parsed>> {
    if sql.len() > SQL_BYTES_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("a statement of {} bytes exceeds the maximum of {SQL_BYTES_MAX}", sql.len()),
        ));
    }
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql)
        .tokenize_with_location()
        .map_err(|error| tokenizer_error(&error, sql))?;
    let mut statements = Vec::new();
    let mut rest = tokens
        .into_iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .flat_map(split_signs)
        .peekable();
    while rest.peek().is_some() {
        let mut tokens: Vec<TokenWithSpan> = Vec::new();
        for token in rest.by_ref() {
            match token.token {
                Token::SemiColon => break,
                Token::EOF => {}
                _ => tokens.push(token),
            }
        }
        if !tokens.is_empty() {
            statements.push(parse_statement(sql, tokens)?);
        }
    }
    Ok(statements)
}

/// Cuts the signs off an operator that cannot end in them: `3>-1` compares with -1. An operator of several characters
/// ends in `+` or `-` only if it has one of the characters that no standard operator has.
fn split_signs(token: TokenWithSpan) -> Vec<TokenWithSpan> {
    let Token::CustomBinaryOperator(operator) = &token.token else { return vec![token] };
    let head = &operator[..operator.trim_end_matches(['+', '-']).len().max(1)];
    if head.len() == operator.len() || operator.contains(|c| "~!@#%^&|`?".contains(c)) {
        return vec![token];
    }
    let Ok(mut tokens) = Tokenizer::new(&PostgreSqlDialect {}, head).tokenize() else { return vec![token] };
    tokens.extend(
        operator[head.len()..].chars().map(|sign| if sign == '+' { Token::Plus } else { Token::Minus }),
    );
    tokens.into_iter().map(|part| TokenWithSpan { token: part, span: token.span }).collect()
}

fn parse_statement(sql: &str, mut tokens: Vec<TokenWithSpan>) -> Result<Parsed> {
    let nesting = nesting(&tokens);
    if nesting > NESTING_MAX {
        return Err(too_complex());
    }
    let overriding = take_overriding(&mut tokens);
    let names = take_column_names(&mut tokens);
    order_identity_options(&mut tokens);
    expand_table_queries(&mut tokens);
    strengthen_row_locks(&mut tokens);
    let command = on_fit_stack(nesting, || {
        let mut parser = Parser::new(&PostgreSqlDialect {})
            .with_recursion_limit(nesting * 8 + 100)
            .with_tokens_with_locations(tokens);
        let mut command = Reader { parser: &mut parser, sql, overriding }.command()?;
        if let Command::Sql(statement, _) = &mut command
            && let Statement::CreateTable(create) = statement.as_mut()
            && create.columns.is_empty()
        {
            let column =
                |name| ast::ColumnDef { name, data_type: ast::DataType::Unspecified, options: Vec::new() };
            create.columns = names.into_iter().map(column).collect();
        }
        match parser.peek_token_ref().token {
            Token::EOF => Ok(command),
            _ => Err(unexpected(&parser, sql)),
        }
    })?;
    Ok(Parsed { command, nesting })
}

/// An upper bound of how deep recursion over these tokens goes: brackets, and chains of operators, which parse into
/// trees as deep as the chain is long. A comma ends a chain of operators, but not one of joins or set operations.
fn nesting(tokens: &[TokenWithSpan]) -> usize {
    struct Level {
        operators: usize,
        chained: usize,
        below: usize,
    }
    let mut levels = vec![Level { operators: 0, chained: 0, below: 0 }];
    let mut deepest = 0;
    for token in tokens {
        let Some(level) = levels.last_mut() else { break };
        match &token.token {
            Token::LParen | Token::LBracket => {
                let below = level.below + level.operators + level.chained + 1;
                levels.push(Level { operators: 0, chained: 0, below });
            }
            Token::RParen | Token::RBracket => {
                if levels.len() > 1 {
                    levels.pop();
                }
            }
            Token::Comma => level.operators = 0,
            Token::Word(word) => match word.keyword {
                Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::BETWEEN
                | Keyword::COLLATE
                | Keyword::AT
                | Keyword::EXPLAIN
                | Keyword::PREPARE
                | Keyword::WITH => level.operators += 1,
                Keyword::CASE | Keyword::JOIN | Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT => {
                    level.chained += 1;
                }
                _ => {}
            },
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period => {}
            _ => level.operators += 1,
        }
        if let Some(level) = levels.last() {
            deepest = deepest.max(level.below + level.operators + level.chained);
        }
    }
    deepest
}
