//! From SQL text to commands.
//!
//! The text is cut into statements at its tokens, then each is parsed. Queries, DML and most DDL are the parser
//! crate's; statements that steer the session (transactions, settings, COPY, sequences, maintenance) are parsed here,
//! by PostgreSQL's grammar. Length and nesting are bounded before anything recurses over the tokens.

mod command;
mod depth;
mod escapes;
mod maintenance;
mod procedure;
mod reader;
mod setting;
mod stored;
#[cfg(test)]
mod tests;
mod text;
mod tokenize;
mod tokens;
mod unsupported;

use std::borrow::Cow;

use sqlparser::{
    ast::{self, Statement},
    dialect::PostgreSqlDialect,
    parser::Parser,
    tokenizer::{Token, TokenWithSpan},
};

use self::{
    depth::nesting,
    reader::Reader,
    text::{too_complex, unexpected},
    tokenize::tokens_of,
    tokens::{
        bracket_array_types, cast_interval_literals, complete_options, complete_trims, expand_table_queries,
        flatten_grouping, order_identity_options, order_partitioning, passed_over, take_column_names,
        take_overriding, write_row_locks,
    },
};
use crate::{Result, SqlError, SqlState, types::binary::validate_text};

pub(crate) use command::{
    Command, Copy, CopyRelation, CopyValue, CreateProcedure, Discard, FetchCount, Mode, NewParameter,
    Overriding, SequenceOption,
};
pub(crate) use depth::{on_deepest_stack, on_fit_stack};
pub(crate) use stored::{expression_text, parse_expression, parse_query, query_text};
pub(crate) use text::{fold, locate, plain_arguments};
pub(crate) use unsupported::hint as hint_instead;

/// The longest text of statements that is parsed, in bytes.
pub(crate) const SQL_BYTES_MAX: usize = 64 << 20;
/// The memory of a token while its statement is parsed and bound, in bytes: the token, its part of the tree and of
/// the plan.
const PARSING_TOKEN_BYTES: usize = 400;
/// How often a long text is in memory while it is parsed and bound: itself, its tokens, its tree and its plan.
const PARSING_COPIES: usize = 4;
/// The part that stays with a prepared statement; a star and a view make more of a token than a number.
const KEPT_TOKEN_BYTES: usize = 600;
/// Texts that are not longer than this need no look at the memory.
const SHORT_BYTES: usize = 16 << 10;
/// A tree takes 10 KB and more, however short its statement: so many are kept of a text.
const TREES_MAX: usize = 100;

/// A statement of a text.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    /// Its command.
    pub command: Command,
    /// How deep it nests; see [`on_fit_stack`].
    pub nesting: usize,
    /// Number of tokens of its text.
    pub tokens: usize,
}

impl Parsed {
    /// About how much memory its tree and a plan of it take, in bytes.
    pub fn bytes(&self) -> usize {
        self.tokens.saturating_mul(KEPT_TOKEN_BYTES)
    }
}

impl Drop for Parsed {
    fn drop(&mut self) {
        let command = std::mem::replace(&mut self.command, Command::Checkpoint);
        on_fit_stack(self.nesting, || drop(command));
    }
}

/// About how much memory it takes to parse and bind a text of so many tokens, in bytes.
pub(crate) fn parsing_bytes(sql: &str, tokens: usize) -> usize {
    if sql.len() <= SHORT_BYTES {
        return 0;
    }
    tokens.saturating_mul(PARSING_TOKEN_BYTES).saturating_add(PARSING_COPIES * sql.len())
}

/// A statement of a text whose statements are all well formed.
#[derive(Debug)]
pub(crate) enum Written {
    /// As a tree.
    Parsed(Parsed),
    /// As tokens, which take less memory. They are parsed again when the statement is run.
    Tokens(Vec<TokenWithSpan>),
}

impl Written {
    /// Returns the tree of a statement of the text `sql`.
    pub(crate) fn parsed(&self, sql: &str) -> Result<Cow<'_, Parsed>> {
        match self {
            Written::Parsed(parsed) => Ok(Cow::Borrowed(parsed)),
            Written::Tokens(tokens) => parse_statement(sql, tokens.clone()).map(Cow::Owned),
        }
    }

    /// Returns the tree, of which nothing else is left.
    pub(crate) fn into_parsed(self, sql: &str) -> Result<Parsed> {
        match self {
            Written::Parsed(parsed) => Ok(parsed),
            Written::Tokens(tokens) => parse_statement(sql, tokens),
        }
    }
}

/// Parses a text of statements separated by semicolons. Empty statements are left out. `watch` is told now and then how
/// many tokens there are so far; its error ends the work.
pub(crate) fn parse(sql: &str, watch: &mut dyn FnMut(usize) -> Result<()>) -> Result<Vec<Written>> {
    if sql.len() > SQL_BYTES_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("a statement of {} bytes exceeds the maximum of {SQL_BYTES_MAX}", sql.len()),
        ));
    }
    // Clients of the protocol cannot send a zero byte in a text; embedders can.
    if sql.contains('\0') {
        validate_text(b"\0")?;
    }
    let mut statements = Vec::new();
    let tokens = tokens_of(sql, watch)?;
    let count = tokens.len();
    let mut tokens = tokens.into_iter().filter(|token| token.token != Token::EOF).peekable();
    while tokens.peek().is_some() {
        let statement = procedure::take_statement(&mut tokens);
        if statement.is_empty() {
            continue;
        }
        statements.push(match statements.len() < TREES_MAX {
            true => Written::Parsed(parse_statement(sql, statement)?),
            false => {
                parse_statement(sql, statement.clone())?;
                Written::Tokens(statement)
            }
        });
        watch(count)?;
    }
    Ok(statements)
}

/// Returns how deep the parser crate may recurse for a statement of this nesting.
fn recursion_limit(nesting: usize) -> usize {
    nesting * 8 + 100
}

fn parse_statement(sql: &str, mut tokens: Vec<TokenWithSpan>) -> Result<Parsed> {
    let nesting = nesting(&tokens).ok_or_else(too_complex)?;
    let count = tokens.len();
    let overriding = take_overriding(&mut tokens);
    let names = take_column_names(&mut tokens);
    order_identity_options(&mut tokens);
    if let Some(word) = passed_over(&tokens) {
        return Err(
            SqlError::unsupported(tokens[word].token.to_string().to_uppercase()).at(tokens[word].span)
        );
    }
    complete_options(&mut tokens);
    order_partitioning(&mut tokens);
    bracket_array_types(&mut tokens);
    expand_table_queries(&mut tokens);
    write_row_locks(&mut tokens);
    complete_trims(&mut tokens);
    cast_interval_literals(&mut tokens);
    flatten_grouping(&mut tokens);
    let command = on_fit_stack(nesting, || {
        let mut parser = Parser::new(&PostgreSqlDialect {})
            .with_recursion_limit(recursion_limit(nesting))
            .with_tokens_with_locations(tokens);
        let mut command = Reader { parser: &mut parser, sql, overriding, tokens: count }.command()?;
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
    Ok(Parsed { command, nesting, tokens: count })
}
