//! Tokens put into a form that the parser crate reads, where its grammar is narrower than PostgreSQL's.

use std::ops::Range;

use sqlparser::{
    ast::Ident,
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::Overriding;
use crate::{
    query::{GROUP_BY_DISTINCT, WEAKER_ROW_LOCK},
    types::Type,
};

/// The keyword that an unquoted word is.
fn keyword(token: Option<&TokenWithSpan>) -> Keyword {
    match token.map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// True if it is this word, unquoted.
fn is(token: &TokenWithSpan, expected: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected))
}

/// Changes of a list of tokens, in the order of their places. They are made at once, since each by itself would move all
/// tokens behind it.
#[derive(Default)]
struct Edits(Vec<(Range<usize>, Vec<TokenWithSpan>)>);

impl Edits {
    /// Notes that the tokens of a range, which may be empty, are to be replaced.
    fn replace(&mut self, range: Range<usize>, by: impl IntoIterator<Item = TokenWithSpan>) {
        debug_assert!(self.0.last().is_none_or(|(before, _)| before.end <= range.start));
        self.0.push((range, by.into_iter().collect()));
    }

    fn apply(self, tokens: &mut Vec<TokenWithSpan>) {
        if self.0.is_empty() {
            return;
        }
        let mut before = std::mem::take(tokens).into_iter();
        let mut at = 0;
        for (range, by) in self.0 {
            tokens.extend(before.by_ref().take(range.start - at));
            before.by_ref().take(range.len()).for_each(drop);
            tokens.extend(by);
            at = range.end;
        }
        tokens.extend(before);
    }
}

/// Puts WITH (...) of a new table in front of its PARTITION BY, where the parser crate reads it.
pub(super) fn order_partitioning(tokens: &mut [TokenWithSpan]) {
    if keyword(tokens.first()) != Keyword::CREATE {
        return;
    }
    let by = tokens
        .windows(2)
        .position(|two| keyword(two.first()) == Keyword::PARTITION && keyword(two.get(1)) == Keyword::BY);
    let Some(by) = by else { return };
    // The list of columns has no parentheses in it but those of expressions, which are refused.
    let end = |from: usize| {
        tokens[from..].iter().position(|token| token.token == Token::RParen).map(|i| from + i + 1)
    };
    let Some(with) = end(by) else { return };
    if keyword(tokens.get(with)) == Keyword::WITH
        && let Some(end) = end(with)
    {
        tokens[by..end].rotate_left(with - by);
    }
}

/// Gives the options in the first `WITH (...)` of CREATE that have no value the one that they stand for, which the parser
/// crate wants to see.
pub(super) fn complete_options(tokens: &mut Vec<TokenWithSpan>) {
    if keyword(tokens.first()) != Keyword::CREATE {
        return;
    }
    let with = tokens
        .windows(2)
        .position(|two| keyword(two.first()) == Keyword::WITH && two[1].token == Token::LParen);
    let Some(with) = with else { return };
    let mut edits = Edits::default();
    let mut at = with + 2;
    while let Some(three) = tokens.get(at - 1..at + 2) {
        let begins = matches!(three[0].token, Token::LParen | Token::Comma);
        let ends = matches!(three[2].token, Token::RParen | Token::Comma);
        if begins && ends && matches!(three[1].token, Token::Word(_)) {
            let span = three[1].span;
            let value = [Token::Eq, Token::make_keyword("TRUE")];
            edits.replace(at + 1..at + 1, value.map(|token| TokenWithSpan { token, span }));
        }
        if tokens[at].token == Token::RParen {
            break;
        }
        at += 1;
    }
    edits.apply(tokens);
}

/// The first word in the columns of CREATE TABLE or ALTER TABLE that only other systems have and that the parser crate
/// passes over as if it were not there.
pub(super) fn passed_over(tokens: &[TokenWithSpan]) -> Option<usize> {
    let of_table = matches!(keyword(tokens.first()), Keyword::CREATE | Keyword::ALTER)
        && tokens.iter().take(5).any(|token| is(token, "table"));
    if !of_table {
        return None;
    }
    let mut depth = 0;
    tokens.iter().enumerate().position(|(at, token)| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        // In front of a type it is a column's name.
        let begins = at == 0 || matches!(tokens[at - 1].token, Token::LParen | Token::Comma);
        let is_order = depth == 1 && (is(token, "asc") || is(token, "desc"));
        !begins && (is_order || is(token, "auto_increment") || is(token, "autoincrement"))
    })
}

/// Puts the options of identity columns, which stand in any order, into the one order that the parser crate reads.
pub(super) fn order_identity_options(tokens: &mut [TokenWithSpan]) {
    let rank = |word: Keyword| {
        use Keyword as K;
        [K::INCREMENT, K::MINVALUE, K::MAXVALUE, K::START, K::CACHE, K::CYCLE]
            .iter()
            .position(|known| *known == word)
    };
    let mut at = 0;
    while let Some(found) = tokens[at..].windows(2).position(|two| {
        two[1].token == Token::LParen
            && matches!(&two[0].token, Token::Word(word) if word.keyword == Keyword::IDENTITY)
    }) {
        let start = at + found + 2;
        let length = tokens[start..].iter().position(|token| token.token == Token::RParen);
        let Some(length) = length else { return };
        let inside = &mut tokens[start..start + length];
        let mut clauses: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
        let mut previous = Keyword::NoKeyword;
        for (i, token) in inside.iter().enumerate() {
            let word = keyword(Some(token));
            let of = if word == Keyword::NO { keyword(inside.get(i + 1)) } else { word };
            match (rank(of), clauses.last_mut()) {
                (Some(rank), _) if previous != Keyword::NO => clauses.push((rank, vec![token.clone()])),
                (_, Some((_, clause))) => clause.push(token.clone()),
                // Something else, which the parser crate refuses.
                (_, None) => return,
            }
            previous = word;
        }
        clauses.sort_by_key(|(rank, _)| *rank);
        for (place, token) in inside.iter_mut().zip(clauses.into_iter().flat_map(|(_, clause)| clause)) {
            *place = token;
        }
        at = start + length;
    }
}

/// Takes the list of bare names out of `CREATE TABLE name (names) AS`: the parser crate wants types there.
pub(super) fn take_column_names(tokens: &mut Vec<TokenWithSpan>) -> Vec<Ident> {
    let head = tokens.iter().take(4).position(|token| is(token, "table"));
    if !is(&tokens[0], "create") || head.is_none() {
        return Vec::new();
    }
    let Some(open) = tokens.iter().position(|token| token.token == Token::LParen) else { return Vec::new() };
    let Some(length) = tokens[open..].iter().position(|token| token.token == Token::RParen) else {
        return Vec::new();
    };
    let close = open + length;
    let names: Option<Vec<Ident>> = tokens[open + 1..close]
        .chunks(2)
        .map(|pair| match (&pair[0].token, pair.get(1).map(|token| &token.token)) {
            (Token::Word(word), None | Some(Token::Comma)) => Some(word.clone().into_ident(pair[0].span)),
            _ => None,
        })
        .collect();
    match names {
        Some(names) if tokens.get(close + 1).is_some_and(|token| is(token, "as") || is(token, "with")) => {
            tokens.drain(open..=close);
            names
        }
        _ => Vec::new(),
    }
}

/// Writes `TABLE name` where a query may stand as `SELECT * FROM name`, which is what it means.
pub(super) fn expand_table_queries(tokens: &mut Vec<TokenWithSpan>) {
    let first = keyword(tokens.first());
    let mut edits = Edits::default();
    for at in 0..tokens.len() {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        let begins_query = match (before.map(|token| &token.token), keyword(before)) {
            (None | Some(Token::LParen), _) => true,
            (_, Keyword::UNION | Keyword::ALL | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::DISTINCT) => {
                true
            }
            (_, Keyword::AS) => matches!(first, Keyword::CREATE | Keyword::PREPARE),
            (_, Keyword::FOR) => first == Keyword::DECLARE,
            (Some(Token::RParen), _) => {
                matches!(first, Keyword::INSERT | Keyword::WITH | Keyword::EXPLAIN)
            }
            (Some(Token::Word(_)), _) => matches!(first, Keyword::INSERT | Keyword::EXPLAIN),
            _ => false,
        };
        let names_one = matches!(tokens.get(at + 1).map(|token| &token.token), Some(Token::Word(_)))
            && keyword(tokens.get(at + 1)) != Keyword::FROM;
        if begins_query && names_one && keyword(tokens.get(at)) == Keyword::TABLE {
            let span = tokens[at].span;
            let query = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            edits.replace(at..at + 1, query.map(|token| TokenWithSpan { token, span }));
        }
    }
    edits.apply(tokens);
}

/// Writes `TRIM(TRAILING FROM x)` and its like with the blank that they take off, which the parser crate wants to see.
pub(super) fn complete_trims(tokens: &mut Vec<TokenWithSpan>) {
    let mut edits = Edits::default();
    for at in 0..tokens.len().saturating_sub(3) {
        let is_trim = is(&tokens[at], "trim") && tokens[at + 1].token == Token::LParen;
        let side = keyword(tokens.get(at + 2));
        if is_trim
            && matches!(side, Keyword::LEADING | Keyword::TRAILING | Keyword::BOTH)
            && keyword(tokens.get(at + 3)) == Keyword::FROM
        {
            let blank = Token::SingleQuotedString(" ".to_owned());
            edits.replace(at + 3..at + 3, [TokenWithSpan { token: blank, span: tokens[at + 2].span }]);
        }
    }
    edits.apply(tokens);
}

/// Rewrites PostgreSQL's locking clauses as the parser crate reads them: those for the sake of foreign keys as the
/// stronger ones with a name that tells ([`WEAKER_ROW_LOCK`]), and those for several tables as one for each.
pub(super) fn write_row_locks(tokens: &mut Vec<TokenWithSpan>) {
    let mut edits = Edits::default();
    let mut at = 0;
    while at < tokens.len() {
        let words = [0, 1, 2, 3].map(|n| keyword(tokens.get(at + n)));
        let (is_weaker, length) = match words {
            [Keyword::FOR, Keyword::NO, Keyword::KEY, Keyword::UPDATE] => (true, 4),
            [Keyword::FOR, Keyword::KEY, Keyword::SHARE, _] => (true, 3),
            [Keyword::FOR, Keyword::UPDATE | Keyword::SHARE, ..] => (false, 2),
            _ => {
                at += 1;
                continue;
            }
        };
        let start = at;
        at += length;
        // The first and the last word are the stronger lock.
        let strength = [tokens[start].clone(), tokens[at - 1].clone()];
        let span = tokens[at - 1].span;
        let with_span = |token| TokenWithSpan { token, span };
        let mark = || with_span(Token::make_word(WEAKER_ROW_LOCK, Some('"')));
        if keyword(tokens.get(at)) != Keyword::OF {
            if is_weaker {
                let of = [with_span(Token::make_keyword("OF")), mark()];
                edits.replace(start..at, strength.into_iter().chain(of));
            }
            continue;
        }
        let begin = at + 1;
        let is_of_list = |token: &TokenWithSpan| match &token.token {
            Token::Word(word) => word.quote_style.is_some() || !ends_lock(word.keyword),
            token => matches!(token, Token::Comma | Token::Period),
        };
        let names = tokens[begin..].iter().take_while(|token| is_of_list(token)).count();
        let end = begin + names;
        let names = &tokens[begin..end];
        let patience = match [0, 1].map(|n| keyword(tokens.get(end + n))) {
            [Keyword::NOWAIT, _] => 1,
            [Keyword::SKIP, Keyword::LOCKED] => 2,
            _ => 0,
        };
        let patience = &tokens[end..end + patience];
        let mut written = Vec::new();
        for name in names.split(|token| token.token == Token::Comma) {
            written.extend(strength.iter().chain([&tokens[at]]).cloned());
            if is_weaker {
                written.extend([mark(), with_span(Token::Period)]);
            }
            written.extend(name.iter().cloned());
            written.extend(patience.iter().cloned());
        }
        let next = end + patience.len();
        edits.replace(start..next, written);
        at = next;
    }
    edits.apply(tokens);
}

/// True if a word stands behind the names of a locking clause.
fn ends_lock(word: Keyword) -> bool {
    matches!(
        word,
        Keyword::NOWAIT
            | Keyword::SKIP
            | Keyword::FOR
            | Keyword::LIMIT
            | Keyword::OFFSET
            | Keyword::FETCH
            | Keyword::UNION
            | Keyword::EXCEPT
            | Keyword::INTERSECT
            | Keyword::ON
            | Keyword::RETURNING
    )
}

/// Takes `OVERRIDING {SYSTEM | USER} VALUE` out of an INSERT's tokens: the parser crate does not know it.
pub(super) fn take_overriding(tokens: &mut Vec<TokenWithSpan>) -> Option<Overriding> {
    if !["insert", "with", "prepare", "explain"].iter().any(|first| is(&tokens[0], first)) {
        return None;
    }
    let at = tokens.windows(3).position(|three| {
        is(&three[0], "overriding")
            && (is(&three[1], "system") || is(&three[1], "user"))
            && is(&three[2], "value")
    })?;
    let system = is(&tokens[at + 1], "system");
    tokens.drain(at..at + 3);
    Some(if system { Overriding::System } else { Overriding::User })
}

/// Writes `interval(3) 'text'` as `'text'::interval(3)`: the parser crate forgets the precision of the one. Behind
/// TIME ZONE it stays, as the value of SET.
pub(super) fn cast_interval_literals(tokens: &mut Vec<TokenWithSpan>) {
    let mut edits = Edits::default();
    let mut at = 0;
    while at + 4 < tokens.len() {
        let [name, open, digits, close, text] = &tokens[at..at + 5] else { break };
        let is_value = at > 0 && keyword(tokens.get(at - 1)) == Keyword::ZONE;
        let is_literal = is(name, "interval")
            && !is_value
            && open.token == Token::LParen
            && close.token == Token::RParen
            && matches!(text.token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_));
        if is_literal {
            let colons = TokenWithSpan { token: Token::DoubleColon, span: name.span };
            edits.replace(at..at + 5, [text, &colons, name, open, digits, close].map(Clone::clone));
            at += 4;
        }
        at += 1;
    }
    edits.apply(tokens);
}

/// Writes forms of GROUP BY that the parser crate does not know by those that it does: GROUPING SETS within GROUPING
/// SETS is a part of its list, ALL is what holds anyway, and DISTINCT becomes the first item.
pub(super) fn flatten_grouping(tokens: &mut Vec<TokenWithSpan>) {
    // For each parenthesis that is open, whether it is the list of GROUPING SETS and whether it goes.
    let mut open: Vec<(bool, bool)> = Vec::new();
    let mut edits = Edits::default();
    let mut at = 0;
    while at < tokens.len() {
        let words = [0, 1].map(|n| keyword(tokens.get(at + n)));
        let lists = words == [Keyword::GROUPING, Keyword::SETS];
        match &tokens[at].token {
            Token::Word(_) if lists && tokens.get(at + 2).is_some_and(|t| t.token == Token::LParen) => {
                let nested = open.last().is_some_and(|(sets, _)| *sets);
                open.push((true, nested));
                if nested {
                    edits.replace(at..at + 3, []);
                }
                at += 2;
            }
            Token::LParen => open.push((false, false)),
            Token::RParen if open.pop().is_some_and(|(_, goes)| goes) => edits.replace(at..at + 1, []),
            Token::Word(_) if words == [Keyword::GROUP, Keyword::BY] => {
                let next = keyword(tokens.get(at + 2));
                let span = tokens[at].span;
                match next {
                    Keyword::ALL => edits.replace(at + 2..at + 3, []),
                    Keyword::DISTINCT => {
                        let name = Token::make_word(GROUP_BY_DISTINCT, Some('"'));
                        let call = [name, Token::LParen, Token::RParen, Token::Comma];
                        edits.replace(at + 2..at + 3, call.map(|token| TokenWithSpan { token, span }));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        at += 1;
    }
    edits.apply(tokens);
}

/// Writes the types `text ARRAY` and `integer ARRAY[3]` as `text[]` and `integer[3]`.
pub(super) fn bracket_array_types(tokens: &mut Vec<TokenWithSpan>) {
    let mut edits = Edits::default();
    for at in 1..tokens.len() {
        if keyword(tokens.get(at)) == Keyword::ARRAY && ends_type(&tokens[at - 1]) {
            let following = |n: usize| tokens.get(at + n).map(|token| &token.token);
            match (following(1), following(2), following(3)) {
                (Some(Token::LBracket), Some(Token::Number(..)), Some(Token::RBracket)) => {
                    edits.replace(at..at + 1, []);
                }
                (Some(Token::LBracket | Token::LParen), ..) => {}
                _ => {
                    let span = tokens[at].span;
                    let brackets = [Token::LBracket, Token::RBracket];
                    edits.replace(at..at + 1, brackets.map(|token| TokenWithSpan { token, span }));
                }
            }
        }
    }
    edits.apply(tokens);
}

/// True if the name of a type may end in this token, and an expression cannot go on with ARRAY behind it.
fn ends_type(token: &TokenWithSpan) -> bool {
    match &token.token {
        Token::RParen => true,
        Token::Word(word) if word.quote_style.is_none() => {
            let word = word.value.to_lowercase();
            let is_end = ["precision", "varying", "zone", "char", "dec", "decimal", "float", "int"];
            let names = |ty: Type| ty.info().typname == word || ty.info().sql_name == word;
            is_end.contains(&word.as_str()) || Type::all().any(names)
        }
        _ => false,
    }
}
