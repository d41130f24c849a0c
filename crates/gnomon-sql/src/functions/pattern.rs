//! LIKE, and the functions that take patterns and regular expressions.

use super::{
    Eval,
    arguments::{bytes, integer, invalid, text},
    case::lower,
    declaration::Declarations,
    expression::{Expression, Flags, Found, compile},
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
const INT4: Type = Type::Int4;

fn escape_at_end() -> SqlError {
    SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "LIKE pattern must not end with escape character")
}

/// True if text matches a LIKE pattern, where `%` stands for anything, `_` for a character, and a backslash takes the
/// meaning of what follows.
///
/// # Errors
/// 22025 if the match reaches a backslash that ends the pattern, and text is left there.
pub(super) fn like(cx: &Context, text: &str, pattern: &str) -> Result<bool> {
    like_units(cx, text.as_bytes(), pattern.as_bytes(), &|bytes| {
        // A character: its first byte and those that continue it.
        1 + bytes.iter().skip(1).take_while(|byte| **byte & 0xc0 == 0x80).count()
    })
}

fn like_units(cx: &Context, text: &[u8], pattern: &[u8], width: &dyn Fn(&[u8]) -> usize) -> Result<bool> {
    let mut pace = Pace::new(cx);
    let (mut t, mut p) = (0, 0);
    let next_width = |t: usize| width(text.get(t..).unwrap_or_default());
    // Where to go on after a mismatch: behind the last `%`, one unit further in the text.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if t == text.len() {
            // Only `%` matches no text, and a later beginning would leave less of it.
            return Ok(pattern.get(p..).unwrap_or_default().iter().all(|byte| *byte == b'%'));
        }
        match pattern.get(p) {
            Some(b'%') => {
                // The units that must be there may as well come first.
                while let Some(wildcard @ (b'%' | b'_')) = pattern.get(p) {
                    match wildcard {
                        b'_' if t == text.len() => return Ok(false),
                        b'_' => t += next_width(t),
                        _ => {}
                    }
                    p += 1;
                }
                match pattern.get(p..) {
                    None | Some([]) => return Ok(true),
                    Some([b'\\']) => return Err(escape_at_end()),
                    Some(_) => retry = Some((t, p)),
                }
                continue;
            }
            Some(b'_') => {
                t += next_width(t);
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
                Some(_) => {}
            },
            Some(byte) if text.get(t) == Some(byte) => {
                t += 1;
                p += 1;
                continue;
            }
            Some(_) | None => {}
        }
        match retry {
            Some((from, after)) if from < text.len() => {
                pace.step(1 + t.saturating_sub(from))?;
                t = from + next_width(from);
                p = after;
                retry = Some((t, after));
            }
            _ => return Ok(false),
        }
    }
}

/// Returns the prefix of all matches of a LIKE pattern, and true if that is the whole match: bounds of an index scan.
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

/// A pattern with another escape character, or byte, as one with the backslash.
fn like_escape<T, O>(pattern: impl Iterator<Item = T>, mut escape: impl Iterator<Item = T>) -> Result<O>
where
    T: Copy + PartialEq + From<u8>,
    O: Default + Extend<T>,
{
    let (escape, more) = (escape.next(), escape.next());
    if more.is_some() {
        return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    let backslash = T::from(b'\\');
    let mut out = O::default();
    let mut escaped = false;
    for c in pattern {
        if Some(c) == escape && !escaped {
            out.extend([backslash]);
            escaped = true;
        } else {
            out.extend((c == backslash && !escaped).then_some(backslash).into_iter().chain([c]));
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
            // The part between two separators is a group; the part before it takes as little as it can.
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

fn matches(text: &str, pattern: &str, ignore_case: bool) -> Result<bool> {
    Ok(compile(pattern, Flags::new(ignore_case))?.is_match(text))
}

/// The groups of a match, or the whole of it if there are none.
fn groups(text: &str, found: &Found) -> Datum {
    let first = usize::from(found.len() > 1);
    let texts = (first..found.len()).map(|group| found.group(text, group).map_or(Datum::Null, Datum::text));
    Datum::Array(Scalar::Text, texts.collect::<Vec<Datum>>().into())
}

/// The options among the arguments, if there are any.
fn flags_of(a: &[Datum], position: usize) -> Result<Flags> {
    if a.len() > position { Flags::parse(text(a, position)?) } else { Ok(Flags::default()) }
}

/// As [`flags_of`], for a function that looks for one match.
fn flags_without_global(a: &[Datum], position: usize, name: &str) -> Result<Flags> {
    let flags = flags_of(a, position)?;
    match flags.global {
        true => Err(invalid(format!("{name}() does not support the \"global\" option"))),
        false => Ok(flags),
    }
}

/// Replaces matches; `\1` to `\9` and `\&` in the replacement stand for groups and the whole match.
fn replace(
    cx: &Context,
    regex: &Expression,
    text: &str,
    replacement: &str,
    (start, nth, all): (Option<usize>, usize, bool),
) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    let mut number = 0;
    for found in regex.matches_from(text, start) {
        // One search may run over all of the text.
        cx.environment.check_interrupt()?;
        number += 1;
        if number < nth {
            continue;
        }
        push_str(&mut out, text.get(copied..found.start()).unwrap_or_default())?;
        let (plain, rest) = replacement.split_at(replacement.find('\\').unwrap_or(replacement.len()));
        push_str(&mut out, plain)?;
        let mut chars = rest.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '\\' {
                out.push(c);
                continue;
            }
            match chars.next() {
                Some('&') => push_str(&mut out, found.group(text, 0).unwrap_or_default())?,
                Some(digit @ '0'..='9') => {
                    let group = digit as usize - '0' as usize;
                    push_str(&mut out, found.group(text, group).unwrap_or_default())?;
                }
                Some('\\') | None => out.push('\\'),
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
            }
        }
        check_bytes(out.len())?;
        copied = found.end();
        if !all {
            break;
        }
    }
    push_str(&mut out, text.get(copied..).unwrap_or_default())?;
    Ok(out)
}

/// The matches of a set-returning function: rows of groups.
pub(super) fn regexp_matches(cx: &Context, a: &[Datum]) -> Result<Vec<Datum>> {
    let flags = flags_of(a, 2)?;
    let regex = compile(text(a, 1)?, flags)?;
    let limit = if flags.global { usize::MAX } else { 1 };
    let mut out = Elements::default();
    let whole = text(a, 0)?;
    for found in regex.matches_from(whole, Some(0)).take(limit) {
        cx.environment.check_interrupt()?;
        out.push(groups(whole, &found))?;
    }
    Ok(out.into_items())
}

/// The pieces between matches. An empty match at the ends or next to another match splits nothing off.
pub(super) fn regexp_split(cx: &Context, a: &[Datum], name: &str) -> Result<Elements> {
    let flags = flags_without_global(a, 2, name)?;
    let regex = compile(text(a, 1)?, flags)?;
    let whole = text(a, 0)?;
    let mut out = Elements::default();
    let (mut from, mut last_end) = (0, 0);
    for found in regex.matches_from(whole, Some(0)) {
        cx.environment.check_interrupt()?;
        let splits = found.start() < whole.len() && found.end() > last_end;
        last_end = found.end();
        if splits {
            out.push(Datum::text(whole.get(from..found.start()).unwrap_or_default()))?;
            from = found.end();
        }
    }
    out.push(Datum::text(whole.get(from..).unwrap_or_default()))?;
    Ok(out)
}

/// Returns the part of a text that a regular expression matches: its first group, if it has one.
fn matched(whole: &str, pattern: &str) -> Result<Datum> {
    let Some(found) = compile(pattern, Flags::default())?.find(whole) else { return Ok(Datum::Null) };
    Ok(found.group(whole, usize::from(found.len() > 1)).map_or(Datum::Null, Datum::text))
}

/// The byte position of the argument "start", which counts characters from 1; none beyond the end of the text, where
/// nothing matches.
fn start_of(a: &[Datum], position: usize, whole: &str) -> Result<Option<usize>> {
    let start = if a.len() > position { integer(a, position)? } else { 1 };
    if start <= 0 {
        return Err(invalid_parameter("start", start));
    }
    let skip = usize::try_from(start - 1).unwrap_or(usize::MAX);
    Ok(whole.char_indices().map(|(position, _)| position).chain([whole.len()]).nth(skip))
}

/// An argument that must be at least `least`; 1 if it is not there.
fn number_of(a: &[Datum], position: usize, name: &str, least: i64) -> Result<usize> {
    let value = if a.len() > position { integer(a, position)? } else { 1 };
    if value < least { Err(invalid_parameter(name, value)) } else { Ok(usize::try_from(value).unwrap_or(0)) }
}

fn invalid_parameter(name: &str, value: i64) -> SqlError {
    invalid(format!("invalid value for parameter \"{name}\": {value}"))
}

/// The group of the n-th match that regexp_instr and regexp_substr are about: where it begins and ends.
fn found_group(cx: &Context, a: &[Datum], flags: Flags, group_at: usize) -> Result<Option<(usize, usize)>> {
    let whole = text(a, 0)?;
    let start = start_of(a, 2, whole)?;
    let nth = number_of(a, 3, "n", 1)?;
    let group = if a.len() > group_at { number_of(a, group_at, "subexpr", 0)? } else { 0 };
    let regex = compile(text(a, 1)?, flags)?;
    let mut matches = regex.matches_from(whole, start);
    for _ in 1..nth {
        cx.environment.check_interrupt()?;
        if matches.next().is_none() {
            return Ok(None);
        }
    }
    Ok(matches.next().and_then(|found| found.span(group)))
}

pub(super) fn declare(all: &mut Declarations) {
    all.add("like_escape", &[TEXT, TEXT], TEXT, |_, a| {
        like_escape::<char, String>(text(a, 0)?.chars(), text(a, 1)?.chars()).map(Datum::text)
    });
    all.add("like_escape", &[Type::Bytea, Type::Bytea], Type::Bytea, |_, a| {
        like_escape::<u8, Vec<u8>>(bytes(a, 0)?.iter().copied(), bytes(a, 1)?.iter().copied())
            .map(|pattern| Datum::Bytea(pattern.into()))
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
        let flags = flags_without_global(a, 2, "regexp_match")
            .map_err(|error| error.hint("Use the regexp_matches function instead."))?;
        let whole = text(a, 0)?;
        let found = compile(text(a, 1)?, flags)?.find(whole);
        Ok(found.map_or(Datum::Null, |found| groups(whole, &found)))
    };
    let array = Type::Array(Scalar::Text);
    all.add("regexp_match", &[TEXT, TEXT], array, regexp_match);
    all.add("regexp_match", &[TEXT, TEXT, TEXT], array, regexp_match);
    let split: Eval = |cx, a| Ok(regexp_split(cx, a, "regexp_split_to_array")?.into_array(Scalar::Text));
    all.add("regexp_split_to_array", &[TEXT, TEXT], array, split);
    all.add("regexp_split_to_array", &[TEXT, TEXT, TEXT], array, split);
    let like_test: Eval = |_, a| {
        let flags = flags_without_global(a, 2, "regexp_like")?;
        Ok(Datum::Bool(compile(text(a, 1)?, flags)?.is_match(text(a, 0)?)))
    };
    all.add("regexp_like", &[TEXT, TEXT], BOOL, like_test);
    all.add("regexp_like", &[TEXT, TEXT, TEXT], BOOL, like_test);
    declare_replacing(all);
    declare_counting(all);
}

fn declare_replacing(all: &mut Declarations) {
    let regexp_replace: Eval = |cx, a| {
        if a.len() > 3
            && let Some(digit) = text(a, 3)?.chars().next().filter(char::is_ascii_digit)
        {
            return Err(invalid(format!("invalid regular expression option: \"{digit}\"")).hint(
                "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly.",
            ));
        }
        let flags = flags_of(a, 3)?;
        let regex = compile(text(a, 1)?, flags)?;
        replace(cx, &regex, text(a, 0)?, text(a, 2)?, (Some(0), 1, flags.global)).map(Datum::text)
    };
    all.add("regexp_replace", &[TEXT, TEXT, TEXT], TEXT, regexp_replace);
    all.add("regexp_replace", &[TEXT, TEXT, TEXT, TEXT], TEXT, regexp_replace);
    let from_nth: Eval = |cx, a| {
        let flags = flags_of(a, 5)?;
        let whole = text(a, 0)?;
        let start = start_of(a, 3, whole)?;
        // Without N the option "g" decides.
        let nth = if a.len() > 4 { number_of(a, 4, "n", 0)? } else { usize::from(!flags.global) };
        let regex = compile(text(a, 1)?, flags)?;
        replace(cx, &regex, whole, text(a, 2)?, (start, nth.max(1), nth == 0)).map(Datum::text)
    };
    let parts = [TEXT, TEXT, TEXT, INT4, INT4, TEXT];
    for count in 4..=parts.len() {
        all.add("regexp_replace", &parts[..count], TEXT, from_nth);
    }
}

fn declare_counting(all: &mut Declarations) {
    let counted: Eval = |cx, a| {
        let flags = flags_without_global(a, 3, "regexp_count")?;
        let whole = text(a, 0)?;
        let start = start_of(a, 2, whole)?;
        let mut found = 0;
        for _ in compile(text(a, 1)?, flags)?.matches_from(whole, start) {
            cx.environment.check_interrupt()?;
            found += 1;
        }
        super::arguments::count(found)
    };
    let parts = [TEXT, TEXT, INT4, TEXT];
    for count in 2..=parts.len() {
        all.add("regexp_count", &parts[..count], INT4, counted);
    }
    let instr: Eval = |cx, a| {
        let end = if a.len() > 4 { integer(a, 4)? } else { 0 };
        if !(0..=1).contains(&end) {
            return Err(invalid_parameter("endoption", end));
        }
        let flags = flags_without_global(a, 5, "regexp_instr")?;
        let whole = text(a, 0)?;
        let position = found_group(cx, a, flags, 6)?.map(|(from, to)| if end == 1 { to } else { from });
        let characters = position.and_then(|position| whole.get(..position)).map(|head| head.chars().count());
        super::arguments::count(characters.map_or(0, |before| before + 1))
    };
    let parts = [TEXT, TEXT, INT4, INT4, INT4, TEXT, INT4];
    for count in 2..=parts.len() {
        all.add("regexp_instr", &parts[..count], INT4, instr);
    }
    let substr: Eval = |cx, a| {
        let flags = flags_without_global(a, 4, "regexp_substr")?;
        let found = found_group(cx, a, flags, 5)?;
        Ok(found.and_then(|(from, to)| text(a, 0).ok()?.get(from..to)).map_or(Datum::Null, Datum::text))
    };
    let parts = [TEXT, TEXT, INT4, INT4, TEXT, INT4];
    for count in 2..=parts.len() {
        all.add("regexp_substr", &parts[..count], TEXT, substr);
    }
}

pub(super) fn declare_operators(all: &mut Declarations) {
    let table: [(&'static str, Eval); 8] = [
        ("~~", |cx, a| like(cx, text(a, 0)?, text(a, 1)?).map(Datum::Bool)),
        ("!~~", |cx, a| like(cx, text(a, 0)?, text(a, 1)?).map(|found| Datum::Bool(!found))),
        ("~~*", |cx, a| like(cx, &lower(text(a, 0)?), &lower(text(a, 1)?)).map(Datum::Bool)),
        ("!~~*", |cx, a| like(cx, &lower(text(a, 0)?), &lower(text(a, 1)?)).map(|found| Datum::Bool(!found))),
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
