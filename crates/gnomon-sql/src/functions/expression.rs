//! Regular expressions: PostgreSQL's advanced ones, by the regex crate.
//!
//! The syntax is translated where the two differ (`\y`, `\m`, `\M`, `\A`, `\Z`, options at the front); back references
//! and lookaround are refused with 2201B. Both begin a match as early as possible. Where it ends, the regex crate takes
//! the first alternative that matches; PostgreSQL takes the longest match, or the shortest one if the first quantifier
//! of the expression is not greedy. So where the two can differ the end is looked for among all matches, and groups are
//! found by matching that much again.

use std::{cell::RefCell, rc::Rc};

use regex::{Regex, RegexBuilder};
use regex_automata::{
    Anchored, Input, MatchKind,
    nfa::thompson::{self, pikevm},
    util::syntax,
};
use regex_syntax::{
    ast::{
        Ast,
        RepetitionKind::{OneOrMore, Range, ZeroOrMore, ZeroOrOne},
        RepetitionRange, parse,
    },
    hir::{ClassUnicode, ClassUnicodeRange},
};

use super::{
    arguments::invalid,
    case::{lower_char, upper_char},
};
use crate::{Result, SqlError, SqlState};

/// A regular expression that compiles to more than this many bytes is refused.
const PROGRAM_BYTES_MAX: usize = 4 << 20;
/// How many compiled expressions a thread keeps.
const COMPILED_MAX: usize = 32;

/// The options of a regular expression: letters, of which `g` is left to the caller.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flags {
    ignore_case: bool,
    /// `^` and `$` match at lines.
    lines: bool,
    /// `.` and negated sets do not match newlines.
    newline_stops: bool,
    extended: bool,
    literal: bool,
    pub global: bool,
}

impl Flags {
    /// The usual options, with or without respect to case.
    pub(super) fn new(ignore_case: bool) -> Flags {
        Flags { ignore_case, ..Flags::default() }
    }

    /// The options that letters stand for.
    pub(super) fn parse(letters: &str) -> Result<Flags> {
        let mut flags = Flags::default();
        for c in letters.chars() {
            match c {
                'g' => flags.global = true,
                c if flags.set(c)? => {}
                _ => return Err(invalid(format!("invalid regular expression option: \"{c}\""))),
            }
        }
        Ok(flags)
    }

    /// Sets an option; false if there is none of this letter.
    fn set(&mut self, letter: char) -> Result<bool> {
        match letter {
            'i' => self.ignore_case = true,
            'c' => self.ignore_case = false,
            'n' | 'm' => (self.lines, self.newline_stops) = (true, true),
            's' => (self.lines, self.newline_stops) = (false, false),
            'p' => (self.lines, self.newline_stops) = (false, true),
            'w' => (self.lines, self.newline_stops) = (true, false),
            'x' => self.extended = true,
            't' => self.extended = false,
            'q' => self.literal = true,
            'b' | 'e' => {
                return Err(SqlError::unsupported(format!("the regular expression option \"{letter}\"")));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn refused(reason: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {reason}"))
}

/// A compiled expression.
pub(super) struct Expression {
    regex: Regex,
    ends: Option<Ends>,
}

/// Where matches end, if the regex crate may end them elsewhere.
struct Ends {
    shortest: bool,
    all: pikevm::PikeVM,
    cache: RefCell<pikevm::Cache>,
    /// The expression as one that matches up to the end of the text.
    whole: Regex,
}

/// A match: where its groups are, the whole of it first.
pub(super) struct Found(Vec<Option<(usize, usize)>>);

impl Found {
    /// Returns where the match begins.
    pub(super) fn start(&self) -> usize {
        self.0[0].map_or(0, |(start, _)| start)
    }

    /// Returns where the match ends.
    pub(super) fn end(&self) -> usize {
        self.0[0].map_or(0, |(_, end)| end)
    }

    /// Returns how many groups there are, the whole match included.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The text of a group, if it is part of the match.
    pub(super) fn group<'t>(&self, text: &'t str, number: usize) -> Option<&'t str> {
        let (start, end) = (*self.0.get(number)?)?;
        text.get(start..end)
    }

    /// Returns where a group begins and ends, if it is part of the match.
    pub(super) fn span(&self, number: usize) -> Option<(usize, usize)> {
        *self.0.get(number)?
    }
}

/// The matches of an expression, one after the other. An empty one may follow another one at once.
pub(super) struct Matches<'e, 't> {
    expression: &'e Expression,
    text: &'t str,
    next: Option<usize>,
}

impl Iterator for Matches<'_, '_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        let found = self.expression.find_at(self.text, self.next?)?;
        let end = found.end();
        self.next = match found.start() == end {
            false => Some(end),
            true => self.text.get(end..)?.chars().next().map(|c| end + c.len_utf8()),
        };
        Some(found)
    }
}

impl Expression {
    /// True if it matches anywhere.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The first match.
    pub(super) fn find(&self, text: &str) -> Option<Found> {
        self.find_at(text, 0)
    }

    /// All matches from a byte position on, if there is one to begin at.
    pub(super) fn matches_from<'e, 't>(&'e self, text: &'t str, from: Option<usize>) -> Matches<'e, 't> {
        Matches { expression: self, text, next: from }
    }

    fn find_at(&self, text: &str, from: usize) -> Option<Found> {
        let groups = |captures: &regex::Captures| -> Vec<Option<(usize, usize)>> {
            captures.iter().map(|group| group.map(|group| (group.start(), group.end()))).collect()
        };
        let mut found = Found(groups(&self.regex.captures_at(text, from)?));
        let Some(ends) = &self.ends else { return Some(found) };
        let start = found.start();
        let input = Input::new(text).range(start..).anchored(Anchored::Yes).earliest(ends.shortest);
        let end = ends.all.find(&mut ends.cache.borrow_mut(), input).map(|found| found.end());
        let Some(end) = end.filter(|end| *end != found.end()) else { return Some(found) };
        let again = text.get(..end).and_then(|text| ends.whole.captures_at(text, start));
        if let Some(captures) = again {
            found = Found(groups(&captures));
        }
        found.0[0] = Some((start, end));
        Some(found)
    }

    fn new(pattern: &str, flags: Flags) -> Result<Expression> {
        let (translated, flags) = translate(pattern, flags)?;
        let build = |pattern: &str| {
            RegexBuilder::new(pattern)
                .case_insensitive(flags.ignore_case)
                .multi_line(flags.lines)
                .dot_matches_new_line(!flags.newline_stops)
                .ignore_whitespace(flags.extended)
                .size_limit(PROGRAM_BYTES_MAX)
                .build()
                .map_err(|error| describe(&error))
        };
        let regex = build(&translated)?;
        let mut parser = parse::ParserBuilder::new();
        let ast = parser.ignore_whitespace(flags.extended).build().parse(&translated);
        let ast = ast.map_err(|error| refused(&error.kind().to_string()))?;
        if !has_choice(&ast) {
            return Ok(Expression { regex, ends: None });
        }
        let syntax = syntax::Config::new()
            .case_insensitive(flags.ignore_case)
            .multi_line(flags.lines)
            .dot_matches_new_line(!flags.newline_stops)
            .ignore_whitespace(flags.extended);
        let all = pikevm::Builder::new()
            .configure(pikevm::Config::new().match_kind(MatchKind::All))
            .thompson(thompson::Config::new().nfa_size_limit(Some(PROGRAM_BYTES_MAX)))
            .syntax(syntax)
            .build(&translated)
            .map_err(|error| refused(&error.to_string()))?;
        // A comment of the extended syntax ends with its line.
        let line_end = if flags.extended { "\n" } else { "" };
        let whole = build(&format!("(?:{translated}{line_end})\\z"))?;
        let cache = RefCell::new(all.create_cache());
        let shortest = greediness(&ast) == Some(false);
        Ok(Expression { regex, ends: Some(Ends { shortest, all, cache, whole }) })
    }
}

/// The compiled expression of a pattern.
///
/// # Errors
/// 2201B if the pattern is none.
pub(super) fn compile(pattern: &str, flags: Flags) -> Result<Rc<Expression>> {
    type Compiled = (String, Flags, Rc<Expression>);
    thread_local! {
        // The last few, since a statement tests many rows with the same one.
        static COMPILED: RefCell<Vec<Compiled>> = const { RefCell::new(Vec::new()) };
    }
    COMPILED.with_borrow_mut(|compiled| {
        if let Some(index) = compiled.iter().position(|(p, f, _)| p == pattern && *f == flags) {
            let entry = compiled.remove(index);
            let expression = entry.2.clone();
            compiled.push(entry);
            return Ok(expression);
        }
        let expression = Rc::new(Expression::new(pattern, flags)?);
        if compiled.len() >= COMPILED_MAX {
            compiled.remove(0);
        }
        compiled.push((pattern.to_owned(), flags, expression.clone()));
        Ok(expression)
    })
}

fn describe(error: &regex::Error) -> SqlError {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    refused(match reason {
        "backreferences are not supported" => {
            return SqlError::unsupported("a back reference in a regular expression");
        }
        reason if reason.starts_with("look-around") => {
            return SqlError::unsupported("a lookahead or lookbehind in a regular expression");
        }
        "unclosed group" | "unopened group" => "parentheses () not balanced",
        "unclosed character class" => "brackets [] not balanced",
        "repetition operator missing expression" => "quantifier operand invalid",
        "incomplete escape sequence, reached end of pattern prematurely" => "invalid escape \\ sequence",
        reason if reason.starts_with("invalid repetition count range") => "invalid repetition count(s)",
        reason => reason,
    })
}

/// True if matches that begin at one place may end at several ones by more than one quantifier.
fn has_choice(ast: &Ast) -> bool {
    fn count(ast: &Ast) -> usize {
        match ast {
            Ast::Alternation(_) => 2,
            Ast::Repetition(repetition) => {
                let fixed = matches!(&repetition.op.kind, Range(RepetitionRange::Exactly(_)));
                usize::from(!fixed) + count(&repetition.ast)
            }
            Ast::Group(group) => count(&group.ast),
            Ast::Concat(concat) => concat.asts.iter().map(count).sum(),
            _ => 0,
        }
    }
    count(ast) > 1
}

/// True if an expression prefers its longest match, false if its shortest, none if it has but one length.
fn greediness(ast: &Ast) -> Option<bool> {
    match ast {
        Ast::Alternation(_) => Some(true),
        Ast::Repetition(repetition) => match &repetition.op.kind {
            Range(RepetitionRange::Exactly(_)) => greediness(&repetition.ast),
            ZeroOrOne | ZeroOrMore | OneOrMore | Range(_) => Some(repetition.greedy),
        },
        Ast::Group(group) => greediness(&group.ast),
        Ast::Concat(concat) => concat.asts.iter().find_map(greediness),
        _ => None,
    }
}

/// Takes the director and the embedded options off the front of a pattern.
fn take_options<'p>(pattern: &'p str, flags: &mut Flags) -> Result<&'p str> {
    if flags.literal {
        return Ok(pattern);
    }
    let mut rest = pattern;
    if let Some(literal) = pattern.strip_prefix("***=") {
        flags.literal = true;
        return Ok(literal);
    }
    if let Some(after) = pattern.strip_prefix("***") {
        rest = after.strip_prefix(':').ok_or_else(|| refused("quantifier operand invalid"))?;
    }
    let Some((letters, after)) = rest.strip_prefix("(?").and_then(|rest| rest.split_once(')')) else {
        return Ok(rest);
    };
    if letters.is_empty() || !letters.bytes().all(|b| b.is_ascii_alphabetic()) {
        return Ok(rest);
    }
    for letter in letters.chars() {
        if !flags.set(letter)? {
            return Err(refused("invalid embedded option"));
        }
    }
    Ok(after)
}

/// Returns the class of the characters that a letter stands for where case is ignored, its own in lower and in upper
/// case; none if the regex crate takes the same ones. It may take more: `k` stands for the Kelvin sign there.
fn cases(c: char) -> Option<String> {
    let class = |chars: &[char]| ClassUnicode::new(chars.iter().map(|c| ClassUnicodeRange::new(*c, *c)));
    let (lower, upper) = (lower_char(c), upper_char(c));
    let mut folded = class(&[c]);
    folded.case_fold_simple();
    (folded != class(&[lower, upper])).then(|| format!("(?-i:[{lower}{upper}])"))
}

/// Writes a character that stands for itself.
fn push_literal(c: char, flags: Flags, out: &mut String) {
    match flags.ignore_case.then(|| cases(c)).flatten() {
        Some(class) => out.push_str(&class),
        None if flags.literal => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        None => out.push(c),
    }
}

/// Writes PostgreSQL's syntax as the regex crate's.
fn translate(pattern: &str, mut flags: Flags) -> Result<(String, Flags)> {
    let pattern = take_options(pattern, &mut flags)?;
    if flags.literal {
        flags.extended = false;
        let mut out = String::with_capacity(pattern.len() + 8);
        pattern.chars().for_each(|c| push_literal(c, flags, &mut out));
        return Ok((out, flags));
    }
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    // A quantifier must not follow another one.
    let mut quantified = false;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let was_quantified = std::mem::take(&mut quantified);
        rest = match c {
            '\\' => escape(after, false, &mut out),
            '[' if rest.starts_with("[[:<:]]") || rest.starts_with("[[:>:]]") => {
                out.push_str(if rest.starts_with("[[:<:]]") { r"\b{start}" } else { r"\b{end}" });
                &rest["[[:<:]]".len()..]
            }
            '[' => brackets(after, flags, &mut out),
            '*' | '+' | '?' => {
                if was_quantified {
                    return Err(refused("quantifier operand invalid"));
                }
                out.push(c);
                quantified = true;
                lazy(after, &mut out)
            }
            '{' if after.starts_with(|c: char| c.is_ascii_digit()) => {
                if was_quantified {
                    return Err(refused("quantifier operand invalid"));
                }
                let Some((bounds, after)) = after.split_once('}') else {
                    return Err(refused("braces {} not balanced"));
                };
                out.push_str(&format!("{{{bounds}}}"));
                quantified = true;
                lazy(after, &mut out)
            }
            '{' => {
                out.push_str(r"\{");
                after
            }
            c => {
                push_literal(c, flags, &mut out);
                after
            }
        };
    }
    Ok((out, flags))
}

/// The mark of a quantifier that is not greedy.
fn lazy<'p>(rest: &'p str, out: &mut String) -> &'p str {
    match rest.strip_prefix('?') {
        Some(after) => {
            out.push('?');
            after
        }
        None => rest,
    }
}

/// An escape: the characters that follow a backslash.
fn escape<'p>(rest: &'p str, in_brackets: bool, out: &mut String) -> &'p str {
    let Some(c) = rest.chars().next() else {
        out.push('\\');
        return rest;
    };
    let after = &rest[c.len_utf8()..];
    match (c, in_brackets) {
        ('y', false) => out.push_str(r"\b"),
        ('Y', false) => out.push_str(r"\B"),
        ('m', false) => out.push_str(r"\b{start}"),
        ('M', false) => out.push_str(r"\b{end}"),
        ('Z', false) => out.push_str(r"\z"),
        ('e', _) => out.push_str(r"\x1B"),
        ('b', true) => out.push_str(r"\x08"),
        ('b', false) => out.push_str(r"\x08"),
        ('B', _) => out.push_str(r"\\"),
        ('c', _) if after.starts_with(|c: char| c.is_ascii()) => {
            let control = after.bytes().next().unwrap_or(0) & 0x1f;
            out.push_str(&format!("\\x{control:02x}"));
            return &after[1..];
        }
        (c, _) if c.is_ascii_alphanumeric() || c.is_ascii_punctuation() => {
            out.push('\\');
            out.push(c);
        }
        (c, _) => out.push(c),
    }
    after
}

/// A bracket expression, behind its bracket.
fn brackets<'p>(rest: &'p str, flags: Flags, out: &mut String) -> &'p str {
    let mut rest = rest;
    out.push('[');
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        if flags.newline_stops {
            out.push_str(r"\n");
        }
        rest = after;
    }
    if let Some(after) = rest.strip_prefix(']') {
        out.push_str(r"\]");
        rest = after;
    }
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            ']' => {
                out.push(']');
                return after;
            }
            '\\' => escape(after, true, out),
            '[' => match after.chars().next() {
                Some(':') => match after.find(":]") {
                    // A class such as [:alpha:], as it is.
                    Some(end) => {
                        out.push_str(&rest[..end + 3]);
                        &after[end + 2..]
                    }
                    None => after,
                },
                Some(kind @ ('.' | '=')) => match after[1..].find(&format!("{kind}]")) {
                    // A collating element or an equivalence class: here only one of itself.
                    Some(end) => {
                        out.push_str(&regex::escape(&after[1..1 + end]));
                        &after[1 + end + 2..]
                    }
                    None => after,
                },
                _ => {
                    out.push_str(r"\[");
                    after
                }
            },
            // These mean set operations there, and themselves here.
            '&' | '~' => {
                out.push('\\');
                out.push(c);
                after
            }
            c if c.is_whitespace() || c == '#' => {
                out.push_str(&format!("\\x{{{:x}}}", c as u32));
                after
            }
            c => {
                out.push(c);
                after
            }
        };
    }
    rest
}
