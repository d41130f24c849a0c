//! LIKE, regular expressions, and the functions that take them.
//!
//! Regular expressions are those of the regex crate, to which PostgreSQL's advanced syntax is translated where the two
//! differ (`\y`, `\m`, `\M`, `\A`, `\Z`, embedded options); back references and lookaround are refused with 2201B.
//! Matching is leftmost-first where PostgreSQL takes the longest alternative.

use std::borrow::Cow;

use regex::{Captures, Regex, RegexBuilder};

use super::{
    Eval,
    arguments::{bytes, integer, invalid, text},
    resolve::Declarations,
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Context, Datum, Scalar, Type,
        limit::{Elements, Pace, check_bytes, push_str},
    },
};

const TEXT: Type = Type::Text;
const BOOL: Type = Type::Bool;

/// A regular expression that compiles to more than this many bytes is refused.
const PROGRAM_BYTES_MAX: usize = 4 << 20;

fn escape_at_end() -> SqlError {
    SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "LIKE pattern must not end with escape character")
}

/// Whether text matches a LIKE pattern, where `%` stands for anything, `_` for a character, and a backslash takes the
/// meaning of what follows.
///
/// # Errors
/// 22025 if the pattern ends with a backslash that the match reaches.
pub(super) fn like(cx: &Context, text: &str, pattern: &str) -> Result<bool> {
    like_units(cx, text.as_bytes(), pattern.as_bytes(), &|bytes| {
        // A character: its first byte and those that continue it.
        1 + bytes.iter().skip(1).take_while(|byte| **byte & 0xc0 == 0x80).count()
    })
}

fn like_units(cx: &Context, text: &[u8], pattern: &[u8], width: &dyn Fn(&[u8]) -> usize) -> Result<bool> {
    let mut pace = Pace::new(cx);
    let (mut t, mut p) = (0, 0);
    // Where to go on after a mismatch: behind the last `%`, one unit further in the text.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let matched = match pattern.get(p) {
            Some(b'%') => {
                while pattern.get(p) == Some(&b'%') {
                    p += 1;
                }
                if p == pattern.len() {
                    return Ok(true);
                }
                retry = Some((t, p));
                continue;
            }
            None => t == text.len(),
            Some(b'_') if t < text.len() => {
                t += width(text.get(t..).unwrap_or_default());
                p += 1;
                continue;
            }
            Some(b'\\') => match pattern.get(p + 1) {
                None => return Err(escape_at_end()),
                Some(byte) if text.get(t) == Some(byte) => {
                    t += 1;
                    p += 2;
                    continue;
                }
                Some(_) => false,
            },
            Some(byte) if text.get(t) == Some(byte) => {
                t += 1;
                p += 1;
                continue;
            }
            Some(_) => false,
        };
        if matched {
            return Ok(true);
        }
        match retry {
            Some((from, after)) if from < text.len() => {
                pace.step(1 + t.saturating_sub(from))?;
                t = from + width(text.get(from..).unwrap_or_default());
                p = after;
                retry = Some((t, after));
            }
            _ => return Ok(false),
        }
    }
}

/// What every match of a LIKE pattern begins with, and whether that is all of it: the bounds of an index scan.
pub fn like_prefix(pattern: &str) -> (String, bool) {
    let mut prefix = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' | '_' => return (prefix, false),
            '\\' => match chars.next() {
                Some(escaped) => prefix.push(escaped),
                None => return (prefix, false),
            },
            c => prefix.push(c),
        }
    }
    (prefix, true)
}

/// A pattern with another escape character as one with the backslash.
fn like_escape(pattern: &str, escape: &str) -> Result<String> {
    let mut chars = escape.chars();
    let (escape, more) = (chars.next(), chars.next());
    if more.is_some() {
        return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    let mut out = String::with_capacity(pattern.len());
    let mut escaped = false;
    for c in pattern.chars() {
        if Some(c) == escape && !escaped {
            out.push('\\');
            escaped = true;
        } else {
            if c == '\\' && !escaped {
                out.push('\\');
            }
            out.push(c);
            escaped = false;
        }
    }
    Ok(out)
}

/// An SQL pattern (SIMILAR TO) as a regular expression over the whole text.
fn similar(pattern: &str, escape: Option<&str>) -> Result<String> {
    let mut chars = escape.unwrap_or("\\").chars();
    let (escape, more) = (chars.next(), chars.next());
    if more.is_some() {
        return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    const BEGINNING: &str = "^(?:";
    let mut out = String::from(BEGINNING);
    let mut escaped = false;
    let mut in_brackets = false;
    let mut separators = 0;
    for c in pattern.chars() {
        if escaped && c == '"' && !in_brackets {
            // What stands between two separators is a group; what is before it takes as little as it can.
            separators += 1;
            match separators {
                1 => {
                    out.replace_range(..BEGINNING.len(), "^(?U:");
                    out.push_str(")(");
                }
                2 => out.push_str(")(?:"),
                _ => {
                    return Err(SqlError::new(
                        SqlState("2200C"),
                        "SQL regular expression may not contain more than two escape-double-quote separators",
                    ));
                }
            }
            escaped = false;
        } else if escaped {
            out.push('\\');
            out.push(c);
            escaped = false;
        } else if Some(c) == escape {
            escaped = true;
        } else if in_brackets {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
            in_brackets = c != ']';
        } else {
            match c {
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                '[' => {
                    out.push('[');
                    in_brackets = true;
                }
                '\\' | '.' | '^' | '$' => {
                    out.push('\\');
                    out.push(c);
                }
                c => out.push(c),
            }
        }
    }
    out.push_str(")$");
    Ok(out)
}

/// The options of a regular expression: letters, of which `g` is left to the caller.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Flags {
    ignore_case: bool,
    /// `^` and `$` match at lines.
    lines: bool,
    /// `.` and negated sets do not match newlines.
    newline_stops: bool,
    extended: bool,
    literal: bool,
    global: bool,
}

fn flags(letters: &str) -> Result<Flags> {
    let mut flags = Flags::default();
    for c in letters.chars() {
        match c {
            'g' => flags.global = true,
            'i' => flags.ignore_case = true,
            'c' => flags.ignore_case = false,
            'n' | 'm' => (flags.lines, flags.newline_stops) = (true, true),
            's' => (flags.lines, flags.newline_stops) = (false, false),
            'p' => flags.newline_stops = true,
            'w' => flags.lines = true,
            'x' => flags.extended = true,
            't' => flags.extended = false,
            'q' => flags.literal = true,
            'b' | 'e' => {}
            _ => return Err(invalid(format!("invalid regular expression option: \"{c}\""))),
        }
    }
    Ok(flags)
}

/// Writes PostgreSQL's syntax as the regex crate's.
fn translate(pattern: &str) -> Cow<'_, str> {
    // Directors and embedded options at the front: ***: is the usual syntax, (?i) is the same in both.
    let pattern = pattern.strip_prefix("***:").unwrap_or(pattern);
    if !pattern.contains(['\\', '[']) {
        return Cow::Borrowed(pattern);
    }
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars().peekable();
    let mut in_brackets = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('y') if !in_brackets => out.push_str(r"\b"),
                Some('Y') if !in_brackets => out.push_str(r"\B"),
                Some('m') if !in_brackets => out.push_str(r"\b{start}"),
                Some('M') if !in_brackets => out.push_str(r"\b{end}"),
                Some('Z') if !in_brackets => out.push_str(r"\z"),
                Some('e') => out.push_str(r"\x1B"),
                Some('b') if in_brackets => out.push_str(r"\x08"),
                Some('B') => out.push_str(r"\\"),
                Some(c) if c.is_ascii_alphanumeric() || c.is_ascii_punctuation() => {
                    out.push('\\');
                    out.push(c);
                }
                Some(c) => out.push(c),
                None => out.push('\\'),
            },
            '[' if in_brackets => {
                if matches!(chars.peek(), Some(':')) {
                    // A class such as [:alpha:], as it is.
                    out.push('[');
                    while let Some(c) = chars.next() {
                        out.push(c);
                        if c == ':' && chars.peek() == Some(&']') {
                            out.extend(chars.next());
                            break;
                        }
                    }
                } else {
                    out.push_str(r"\[");
                }
            }
            '[' => {
                in_brackets = true;
                out.push('[');
                out.extend(chars.next_if_eq(&'^'));
                if chars.next_if_eq(&']').is_some() {
                    out.push_str(r"\]");
                }
            }
            ']' if in_brackets => {
                in_brackets = false;
                out.push(']');
            }
            // What means set operations there, and themselves here.
            '&' | '~' if in_brackets => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn compile(pattern: &str, flags: Flags) -> Result<Regex> {
    thread_local! {
        // The last few, since a statement tests many rows with the same one.
        static COMPILED: std::cell::RefCell<Vec<(String, Flags, Regex)>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    COMPILED.with_borrow_mut(|compiled| {
        if let Some(index) = compiled.iter().position(|(p, f, _)| p == pattern && *f == flags) {
            let entry = compiled.remove(index);
            let regex = entry.2.clone();
            compiled.push(entry);
            return Ok(regex);
        }
        let translated = if flags.literal { Cow::Owned(regex::escape(pattern)) } else { translate(pattern) };
        let regex = RegexBuilder::new(&translated)
            .case_insensitive(flags.ignore_case)
            .multi_line(flags.lines)
            .dot_matches_new_line(!flags.newline_stops)
            .ignore_whitespace(flags.extended)
            .size_limit(PROGRAM_BYTES_MAX)
            .build()
            .map_err(|error| {
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                let reason = match reason {
                    "unclosed group" | "unopened group" => "parentheses () not balanced",
                    "unclosed character class" => "brackets [] not balanced",
                    "repetition operator missing expression" => "quantifier operand invalid",
                    "incomplete escape sequence, reached end of pattern prematurely" => {
                        "invalid escape \\ sequence"
                    }
                    reason if reason.starts_with("invalid repetition count range") => {
                        "invalid repetition count(s)"
                    }
                    reason => reason,
                };
                SqlError::new(
                    SqlState::INVALID_REGULAR_EXPRESSION,
                    format!("invalid regular expression: {reason}"),
                )
            })?;
        if compiled.len() >= 32 {
            compiled.remove(0);
        }
        compiled.push((pattern.to_owned(), flags, regex.clone()));
        Ok(regex)
    })
}

fn matches(text: &str, pattern: &str, ignore_case: bool) -> Result<bool> {
    Ok(compile(pattern, Flags { ignore_case, ..Flags::default() })?.is_match(text))
}

/// The groups of a match, or the whole of it if there are none.
fn groups(captures: &Captures) -> Datum {
    let texts: Vec<Datum> = captures
        .iter()
        .skip(usize::from(captures.len() > 1))
        .map(|group| group.map_or(Datum::Null, |group| Datum::text(group.as_str())))
        .collect();
    Datum::Array(Scalar::Text, texts.into())
}

/// Replaces matches; `\1` to `\9` and `\&` in the replacement stand for groups and the whole match.
fn replace(
    cx: &Context,
    regex: &Regex,
    text: &str,
    replacement: &str,
    (start, nth, all): (usize, usize, bool),
) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    let mut number = 0;
    for captures in regex.captures_iter(text) {
        // One search may run over all of the text.
        cx.environment.check_interrupt()?;
        let Some(whole) = captures.get(0) else { continue };
        if whole.start() < start {
            continue;
        }
        number += 1;
        if number < nth {
            continue;
        }
        push_str(&mut out, text.get(copied..whole.start()).unwrap_or_default())?;
        let (plain, rest) = replacement.split_at(replacement.find('\\').unwrap_or(replacement.len()));
        push_str(&mut out, plain)?;
        let mut chars = rest.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '\\' {
                out.push(c);
                continue;
            }
            match chars.next() {
                Some('&') => push_str(&mut out, whole.as_str())?,
                Some(digit @ '0'..='9') => {
                    let group = digit as usize - '0' as usize;
                    push_str(&mut out, captures.get(group).map_or("", |group| group.as_str()))?;
                }
                Some('\\') | None => out.push('\\'),
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
            }
        }
        check_bytes(out.len())?;
        copied = whole.end();
        if !all {
            break;
        }
    }
    push_str(&mut out, text.get(copied..).unwrap_or_default())?;
    Ok(out)
}

/// The matches of a set-returning function: rows of groups.
pub(super) fn regexp_matches(cx: &Context, a: &[Datum]) -> Result<Vec<Datum>> {
    let flags = if a.len() > 2 { flags(text(a, 2)?)? } else { Flags::default() };
    let regex = compile(text(a, 1)?, flags)?;
    let limit = if flags.global { usize::MAX } else { 1 };
    let mut out = Elements::default();
    for captures in regex.captures_iter(text(a, 0)?).take(limit) {
        cx.environment.check_interrupt()?;
        out.push(groups(&captures))?;
    }
    Ok(out.into_items())
}

/// The pieces between matches. An empty match at the ends or next to another match splits nothing off.
pub(super) fn regexp_split(cx: &Context, a: &[Datum]) -> Result<Elements> {
    let flags = if a.len() > 2 { flags(text(a, 2)?)? } else { Flags::default() };
    if flags.global {
        return Err(invalid("regexp_split_to_array() does not support the \"global\" option"));
    }
    let regex = compile(text(a, 1)?, flags)?;
    let whole = text(a, 0)?;
    let mut out = Elements::default();
    let mut from = 0;
    for found in regex.find_iter(whole) {
        cx.environment.check_interrupt()?;
        if found.is_empty() && (found.start() == from || found.start() == whole.len()) {
            continue;
        }
        out.push(Datum::text(whole.get(from..found.start()).unwrap_or_default()))?;
        from = found.end();
    }
    out.push(Datum::text(whole.get(from..).unwrap_or_default()))?;
    Ok(out)
}

/// What of a text a regular expression matches: its first group, if it has one.
fn matched(whole: &str, pattern: &str) -> Result<Datum> {
    let regex = compile(pattern, Flags::default())?;
    let Some(captures) = regex.captures(whole) else { return Ok(Datum::Null) };
    let wanted = usize::from(captures.len() > 1);
    Ok(captures.get(wanted).map_or(Datum::Null, |group| Datum::text(group.as_str())))
}

pub(super) fn declare(all: &mut Declarations) {
    all.add("like_escape", &[TEXT, TEXT], TEXT, |_, a| {
        like_escape(text(a, 0)?, text(a, 1)?).map(Datum::text)
    });
    all.add("like", &[TEXT, TEXT], BOOL, |cx, a| like(cx, text(a, 0)?, text(a, 1)?).map(Datum::Bool));
    all.add("similar_to_escape", &[TEXT], TEXT, |_, a| similar(text(a, 0)?, None).map(Datum::text));
    all.add("similar_to_escape", &[TEXT, TEXT], TEXT, |_, a| {
        similar(text(a, 0)?, Some(text(a, 1)?)).map(Datum::text)
    });
    all.add("substring", &[TEXT, TEXT], TEXT, |_, a| matched(text(a, 0)?, text(a, 1)?));
    all.add("substring", &[TEXT, TEXT, TEXT], TEXT, |_, a| {
        matched(text(a, 0)?, &similar(text(a, 1)?, Some(text(a, 2)?))?)
    });
    let regexp_match: Eval = |_, a| {
        let flags = if a.len() > 2 { flags(text(a, 2)?)? } else { Flags::default() };
        if flags.global {
            return Err(invalid("regexp_match() does not support the \"global\" option")
                .hint("Use the regexp_matches function instead."));
        }
        let regex = compile(text(a, 1)?, flags)?;
        Ok(regex.captures(text(a, 0)?).map_or(Datum::Null, |captures| groups(&captures)))
    };
    let array = Type::Array(Scalar::Text);
    all.add("regexp_match", &[TEXT, TEXT], array, regexp_match);
    all.add("regexp_match", &[TEXT, TEXT, TEXT], array, regexp_match);
    let split: Eval = |cx, a| Ok(regexp_split(cx, a)?.into_array(Scalar::Text));
    all.add("regexp_split_to_array", &[TEXT, TEXT], array, split);
    all.add("regexp_split_to_array", &[TEXT, TEXT, TEXT], array, split);
    let regexp_replace: Eval = |cx, a| {
        let flags = if a.len() > 3 { flags(text(a, 3)?)? } else { Flags::default() };
        let regex = compile(text(a, 1)?, flags)?;
        replace(cx, &regex, text(a, 0)?, text(a, 2)?, (0, 1, flags.global)).map(Datum::text)
    };
    all.add("regexp_replace", &[TEXT, TEXT, TEXT], TEXT, regexp_replace);
    all.add("regexp_replace", &[TEXT, TEXT, TEXT, TEXT], TEXT, regexp_replace);
    let counted: Eval = |cx, a| {
        let regex = compile(text(a, 1)?, Flags::default())?;
        let mut found = 0;
        for _ in regex.find_iter(text(a, 0)?) {
            cx.environment.check_interrupt()?;
            found += 1;
        }
        super::arguments::count(found)
    };
    all.add("regexp_count", &[TEXT, TEXT], Type::Int4, counted);
    let like_test: Eval = |_, a| {
        let flags = if a.len() > 2 { flags(text(a, 2)?)? } else { Flags::default() };
        Ok(Datum::Bool(compile(text(a, 1)?, flags)?.is_match(text(a, 0)?)))
    };
    all.add("regexp_like", &[TEXT, TEXT], BOOL, like_test);
    all.add("regexp_like", &[TEXT, TEXT, TEXT], BOOL, like_test);
    all.add("regexp_replace", &[TEXT, TEXT, TEXT, Type::Int4, Type::Int4, TEXT], TEXT, |cx, a| {
        let flags = flags(text(a, 5)?)?;
        let regex = compile(text(a, 1)?, flags)?;
        let whole = text(a, 0)?;
        let (start, nth) = (integer(a, 3)?, integer(a, 4)?);
        if start <= 0 {
            return Err(invalid(format!("invalid value for parameter \"start\": {start}")));
        }
        if nth < 0 {
            return Err(invalid(format!("invalid value for parameter \"n\": {nth}")));
        }
        let skip = usize::try_from(start - 1).unwrap_or(usize::MAX);
        let start = whole.char_indices().nth(skip).map_or(whole.len(), |(position, _)| position);
        let nth_match = usize::try_from(nth).unwrap_or(1).max(1);
        replace(cx, &regex, whole, text(a, 2)?, (start, nth_match, nth == 0)).map(Datum::text)
    });
}

pub(super) fn declare_operators(all: &mut Declarations) {
    fn fold(text: &str) -> String {
        text.to_lowercase()
    }
    let table: [(&'static str, Eval); 8] = [
        ("~~", |cx, a| like(cx, text(a, 0)?, text(a, 1)?).map(Datum::Bool)),
        ("!~~", |cx, a| like(cx, text(a, 0)?, text(a, 1)?).map(|found| Datum::Bool(!found))),
        ("~~*", |cx, a| like(cx, &fold(text(a, 0)?), &fold(text(a, 1)?)).map(Datum::Bool)),
        ("!~~*", |cx, a| like(cx, &fold(text(a, 0)?), &fold(text(a, 1)?)).map(|found| Datum::Bool(!found))),
        ("~", |_, a| matches(text(a, 0)?, text(a, 1)?, false).map(Datum::Bool)),
        ("!~", |_, a| matches(text(a, 0)?, text(a, 1)?, false).map(|found| Datum::Bool(!found))),
        ("~*", |_, a| matches(text(a, 0)?, text(a, 1)?, true).map(Datum::Bool)),
        ("!~*", |_, a| matches(text(a, 0)?, text(a, 1)?, true).map(|found| Datum::Bool(!found))),
    ];
    for (name, eval) in table {
        for left in [TEXT, Type::Bpchar, Type::Name] {
            all.add(name, &[left, TEXT], BOOL, eval);
        }
    }
    all.add("~~", &[Type::Bytea, Type::Bytea], BOOL, |cx, a| {
        like_units(cx, bytes(a, 0)?, bytes(a, 1)?, &|_| 1).map(Datum::Bool)
    });
    all.add("!~~", &[Type::Bytea, Type::Bytea], BOOL, |cx, a| {
        like_units(cx, bytes(a, 0)?, bytes(a, 1)?, &|_| 1).map(|found| Datum::Bool(!found))
    });
}
