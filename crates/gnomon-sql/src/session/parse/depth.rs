//! How deep a statement nests, measured on its tokens before anything recurses over them, and the stack for it.
//!
//! The measure is an upper bound of the depth of the statement's tree. What opens a bracket, a CASE, a query or a
//! join is a level: parser, binder, planner and executor recurse into it. A chain of binary operators (`a + b + c`) is
//! parsed in a loop, but makes a tree as deep as it is long; a link of it takes less stack, since the binder and the
//! executor look after theirs themselves, and what is left are small functions that copy, visit or drop the tree. The
//! binder makes one list of a chain of AND, OR or UNION, so only the parser's tree of it is deep.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

/// How many levels a statement may nest.
pub(super) const NESTING_MAX: usize = 1000;
/// As many links of a chain of operators count as a level.
const LINKS_PER_LEVEL: usize = 4;
/// How many links the chains on one path may have, other than those of AND, OR and UNION: expressions as deep as
/// that can be dropped on the stack of any thread.
pub(super) const LINKS_MAX: usize = 5000;
/// How many links of AND, OR and UNION one path may have.
pub(super) const FLAT_LINKS_MAX: usize = 20_000;
/// Statements nested deeper than this run on a stack of their own.
const NESTING_ON_STACK: usize = 40;
/// Stack for one level of nesting, in bytes: parser, binder, planner and executor, unoptimised.
const LEVEL_STACK_BYTES: usize = 48 << 10;

/// Runs `f` with stack enough for a statement of this nesting.
pub(crate) fn on_fit_stack<R>(nesting: usize, f: impl FnOnce() -> R) -> R {
    if nesting <= NESTING_ON_STACK { f() } else { stacker::grow(nesting * LEVEL_STACK_BYTES, f) }
}

/// Runs `f` with stack enough for any statement: for work on what the catalog keeps, which is not measured again.
pub(crate) fn on_deepest_stack<R>(f: impl FnOnce() -> R) -> R {
    on_fit_stack(NESTING_MAX + (LINKS_MAX + FLAT_LINKS_MAX) / LINKS_PER_LEVEL, f)
}

/// How tightly operators bind, loosest first. One that binds tighter begins a new chain in each operand of a looser
/// one.
#[derive(Clone, Copy)]
enum Strength {
    Or,
    And,
    Not,
    Compare,
    Other,
    Add,
    Multiply,
    Sign,
    Tightest,
}

const STRENGTHS: usize = Strength::Tightest as usize + 1;

/// The contents of a pair of brackets, or the whole statement.
#[derive(Default)]
struct Level {
    /// True if CASE opened it, which END closes.
    is_case: bool,
    /// True if commas separate members of FROM, which are joined one by one.
    in_from: bool,
    /// Joins, INTERSECT and EXCEPT, in levels.
    chained: usize,
    /// UNIONs, in links.
    unions: usize,
    /// The longest chains of operators of the present item, by strength, and how long they are here.
    chains: [(usize, usize); STRENGTHS],
    /// The depth of brackets in the present item.
    below: Depth,
    /// The depth of the items before.
    items: Depth,
}

/// The depth of a part of a statement.
#[derive(Clone, Copy, Default)]
struct Depth {
    levels: usize,
    /// Links of chains other than those of AND, OR and UNION.
    links: usize,
    /// Links of AND, OR and UNION.
    flat_links: usize,
}

impl Depth {
    fn max(self, other: Depth) -> Depth {
        Depth {
            levels: self.levels.max(other.levels),
            links: self.links.max(other.links),
            flat_links: self.flat_links.max(other.flat_links),
        }
    }
}

impl Level {
    fn operator(&mut self, strength: Strength) {
        let at = strength as usize;
        self.chains[at + 1..].iter_mut().for_each(|(_, here)| *here = 0);
        let (longest, here) = &mut self.chains[at];
        *here += 1;
        *longest = (*longest).max(*here);
    }

    /// Ends an item: chains of operators do not go over a comma or the beginning of a clause.
    fn separate(&mut self) {
        let mut depth = std::mem::take(&mut self.below);
        for (at, (longest, _)) in std::mem::take(&mut self.chains).into_iter().enumerate() {
            let kind = match at {
                // The parser recurses into the operand of a prefix.
                at if at == Strength::Not as usize || at == Strength::Sign as usize => &mut depth.levels,
                at if at <= Strength::And as usize => &mut depth.flat_links,
                _ => &mut depth.links,
            };
            *kind += longest;
        }
        self.items = self.items.max(depth);
    }
}

/// Returns how deep recursion over these tokens goes, in levels; none if it is too deep.
pub(super) fn nesting(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut levels = vec![Level::default()];
    let close = |levels: &mut Vec<Level>| {
        let Some(mut level) = levels.pop() else { return Depth::default() };
        level.separate();
        let depth = Depth {
            levels: level.items.levels + level.chained + 1,
            links: level.items.links,
            flat_links: level.items.flat_links + level.unions,
        };
        if let Some(around) = levels.last_mut() {
            around.below = around.below.max(depth);
        }
        depth
    };
    let mut previous = &Token::EOF;
    for TokenWithSpan { token, .. } in tokens {
        let Some(level) = levels.last_mut() else { break };
        match token {
            Token::LParen | Token::LBracket => levels.push(Level::default()),
            Token::RParen | Token::RBracket => {
                if levels.len() > 1 {
                    close(&mut levels);
                }
            }
            Token::Comma => {
                level.separate();
                level.chained += usize::from(level.in_from);
            }
            Token::Word(word) if *previous != Token::Period => match word.keyword {
                Keyword::OR => level.operator(Strength::Or),
                Keyword::AND => level.operator(Strength::And),
                Keyword::NOT => level.operator(Strength::Not),
                Keyword::IS | Keyword::LIKE | Keyword::ILIKE | Keyword::BETWEEN | Keyword::IN => {
                    level.operator(Strength::Compare);
                }
                Keyword::COLLATE | Keyword::AT => level.operator(Strength::Tightest),
                Keyword::CASE => levels.push(Level { is_case: true, ..Level::default() }),
                Keyword::END if level.is_case => {
                    close(&mut levels);
                }
                Keyword::FROM => {
                    level.separate();
                    level.in_from = !is_keyword(previous, &[Keyword::DISTINCT]);
                }
                Keyword::JOIN | Keyword::EXPLAIN | Keyword::PREPARE => level.chained += 1,
                Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT => {
                    level.separate();
                    level.in_from = false;
                    let is_union = word.keyword == Keyword::UNION;
                    *(if is_union { &mut level.unions } else { &mut level.chained }) += 1;
                }
                keyword if BEGINS_CLAUSE.contains(&keyword) => {
                    level.separate();
                    level.in_from &= keyword == Keyword::ON;
                }
                _ => {}
            },
            Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period => {}
            // In front of an operand, not between two.
            _ if !ends_operand(previous) => level.operator(Strength::Sign),
            Token::Eq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq => {
                level.operator(Strength::Compare);
            }
            Token::Plus | Token::Minus => level.operator(Strength::Add),
            Token::Mul | Token::Div | Token::Mod => level.operator(Strength::Multiply),
            Token::Caret | Token::DoubleColon => level.operator(Strength::Tightest),
            _ => level.operator(Strength::Other),
        }
        previous = token;
    }
    while levels.len() > 1 {
        close(&mut levels);
    }
    let Depth { levels, links, flat_links } = close(&mut levels);
    let nesting = levels + (links + flat_links) / LINKS_PER_LEVEL;
    (levels <= NESTING_MAX && links <= LINKS_MAX && flat_links <= FLAT_LINKS_MAX).then_some(nesting)
}

/// Keywords that begin a part of a statement with expressions of its own.
const BEGINS_CLAUSE: [Keyword; 15] = [
    Keyword::WHEN,
    Keyword::THEN,
    Keyword::ELSE,
    Keyword::SELECT,
    Keyword::WHERE,
    Keyword::ON,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::ORDER,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::VALUES,
    Keyword::SET,
    Keyword::RETURNING,
    Keyword::CHECK,
];

/// Keywords that an operand follows, other than those that begin a clause.
const BEFORE_OPERAND: [Keyword; 9] = [
    Keyword::AND,
    Keyword::OR,
    Keyword::NOT,
    Keyword::LIKE,
    Keyword::ILIKE,
    Keyword::BETWEEN,
    Keyword::CASE,
    Keyword::BY,
    Keyword::DEFAULT,
];

fn is_keyword(token: &Token, keywords: &[Keyword]) -> bool {
    matches!(token, Token::Word(word) if keywords.contains(&word.keyword))
}

/// True if an operand can end with this token, so that an operator after it stands between two.
fn ends_operand(token: &Token) -> bool {
    match token {
        Token::Word(_) => !is_keyword(token, &BEGINS_CLAUSE) && !is_keyword(token, &BEFORE_OPERAND),
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::DollarQuotedString(_)
        | Token::NationalStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::HexStringLiteral(_)
        | Token::Placeholder(_)
        | Token::RParen
        | Token::RBracket => true,
        _ => false,
    }
}
