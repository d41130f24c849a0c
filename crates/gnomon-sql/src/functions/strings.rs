//! String functions. Lengths and positions count characters, from 1; of bytea they count bytes.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use super::{
    Eval,
    arguments::{any, array, bytes, count, integer, invalid, text},
    case,
    declaration::{Declarations, Param},
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Context, Datum, Type,
        compare::trim_blanks,
        limit::{Pace, check_bytes, push_str},
        text as text_form,
    },
};

const TEXT: Type = Type::Text;
const INT4: Type = Type::Int4;
const BYTEA: Type = Type::Bytea;
const BPCHAR: Type = Type::Bpchar;

/// Ends of the part that `substring` takes of `length` units, counted from 0.
fn part(start: i64, wanted: Option<i64>, length: usize) -> Result<std::ops::Range<usize>> {
    let end = match wanted {
        Some(wanted) if wanted < 0 => {
            return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
        }
        Some(wanted) => start.saturating_add(wanted),
        None => i64::MAX,
    };
    let clamp = |position: i64| usize::try_from((position - 1).max(0)).unwrap_or(usize::MAX).min(length);
    let (from, to) = (clamp(start), clamp(end));
    Ok(from..to.max(from))
}

/// The byte position of the character with this number from 0; the length if there are not so many.
fn at_char(text: &str, number: usize) -> usize {
    if number >= text.len() {
        return text.len();
    }
    text.char_indices().nth(number).map_or(text.len(), |(position, _)| position)
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn substring_text(text: &str, start: i64, wanted: Option<i64>) -> Result<Datum> {
    let range = part(start, wanted, text.len())?;
    let from = at_char(text, range.start);
    let rest = text.get(from..).unwrap_or_default();
    let to = at_char(rest, range.end - range.start);
    Ok(Datum::text(rest.get(..to).unwrap_or_default()))
}

fn substring_bytes(bytes: &[u8], start: i64, wanted: Option<i64>) -> Result<Datum> {
    let range = part(start, wanted, bytes.len())?;
    Ok(Datum::Bytea(bytes.get(range).unwrap_or_default().into()))
}

/// The number of the first character of `needle` in `haystack`, from 1; 0 if it is not in it.
fn position(haystack: &str, needle: &str) -> usize {
    haystack.find(needle).map_or(0, |at| chars(haystack.get(..at).unwrap_or_default()) + 1)
}

/// `count` characters of `fill`, repeated.
fn padding(cx: &Context, fill: &str, wanted: usize) -> Result<String> {
    if fill.is_empty() {
        return Ok(String::new());
    }
    check_bytes(wanted)?;
    let (rounds, rest) = (wanted / chars(fill), wanted % chars(fill));
    let rest = fill.get(..at_char(fill, rest)).unwrap_or_default();
    check_bytes(fill.len().saturating_mul(rounds).saturating_add(rest.len()))?;
    Ok(repeat(cx, fill, rounds)? + rest)
}

fn pad(cx: &Context, a: &[Datum], fill: &str, left: bool) -> Result<Datum> {
    let text = text(a, 0)?;
    let length = usize::try_from(integer(a, 1)?).unwrap_or(0);
    let have = chars(text);
    if have >= length {
        return Ok(Datum::text(text.get(..at_char(text, length)).unwrap_or_default()));
    }
    let padding = padding(cx, fill, length - have)?;
    Ok(Datum::text(if left { padding + text } else { format!("{text}{padding}") }))
}

#[derive(Clone, Copy)]
enum Side {
    Both,
    Left,
    Right,
}

fn trim(text: &str, set: &str, side: Side) -> Datum {
    // A long set is looked up by hash, so that the time does not grow with the product of two long texts.
    let hashed: HashSet<char> = if set.len() > 32 { set.chars().collect() } else { HashSet::new() };
    let in_set = |c: char| if hashed.is_empty() { set.contains(c) } else { hashed.contains(&c) };
    Datum::text(match side {
        Side::Both => text.trim_matches(in_set),
        Side::Left => text.trim_start_matches(in_set),
        Side::Right => text.trim_end_matches(in_set),
    })
}

fn trim_bytes(a: &[Datum], side: Side) -> Result<Datum> {
    let mut rest = bytes(a, 0)?;
    let mut set = [false; 256];
    bytes(a, 1)?.iter().for_each(|byte| set[usize::from(*byte)] = true);
    if !matches!(side, Side::Right) {
        while let [first, tail @ ..] = rest
            && set[usize::from(*first)]
        {
            rest = tail;
        }
    }
    if !matches!(side, Side::Left) {
        while let [head @ .., last] = rest
            && set[usize::from(*last)]
        {
            rest = head;
        }
    }
    Ok(Datum::Bytea(rest.into()))
}

/// The text of an argument of any type, as `concat` and `format` show it.
pub(super) fn shown(cx: &Context, datum: &Datum) -> Result<String> {
    text_form::output(cx, datum, datum.natural_type())
}

/// The texts of values with a separator between each two; of NULL the text `null`, or nothing at all.
fn joined(cx: &Context, parts: &[Datum], separator: &str, null: Option<&str>) -> Result<Datum> {
    let mut out = String::new();
    let mut pace = Pace::new(cx);
    let mut first = true;
    for part in parts {
        let shown = match (part, null) {
            (Datum::Null, None) => continue,
            (Datum::Null, Some(null)) => Cow::Borrowed(null),
            (Datum::Text(text), _) => Cow::Borrowed(&**text),
            (part, _) => Cow::Owned(shown(cx, part)?),
        };
        if !std::mem::take(&mut first) {
            push_str(&mut out, separator)?;
        }
        push_str(&mut out, &shown)?;
        pace.step(separator.len() + shown.len())?;
    }
    Ok(Datum::text(out))
}

/// `whole` with every `from` replaced.
fn replace(cx: &Context, whole: &str, from: &str, to: &str) -> Result<Datum> {
    if from.is_empty() {
        return Ok(Datum::text(whole));
    }
    let mut pace = Pace::new(cx);
    let mut count = 0_usize;
    for piece in whole.split(from) {
        pace.step(piece.len() + from.len())?;
        count += 1;
    }
    let kept = whole.len() - (count - 1) * from.len();
    let length = (count - 1).saturating_mul(to.len()).saturating_add(kept);
    check_bytes(length)?;
    let mut out = String::with_capacity(length);
    for (number, piece) in whole.split(from).enumerate() {
        if number > 0 {
            out.push_str(to);
        }
        out.push_str(piece);
        pace.step(piece.len() + to.len())?;
    }
    Ok(Datum::text(out))
}

/// `whole` with each character of `from` replaced by the one at its place in `to`, or left out if there is none.
fn translate(cx: &Context, whole: &str, from: &str, to: &str) -> Result<Datum> {
    let mut pace = Pace::new(cx);
    let mut map: HashMap<char, Option<char>> = HashMap::new();
    let mut to = to.chars();
    for c in from.chars() {
        pace.step(1)?;
        let replacement = to.next();
        map.entry(c).or_insert(replacement);
    }
    let mut out = String::with_capacity(whole.len());
    for c in whole.chars() {
        pace.step(1)?;
        out.extend(map.get(&c).copied().unwrap_or(Some(c)));
    }
    Ok(Datum::text(out))
}

fn split_part(a: &[Datum]) -> Result<Datum> {
    let (text, separator, number) = (text(a, 0)?, text(a, 1)?, integer(a, 2)?);
    if number == 0 {
        return Err(invalid("field position must not be zero"));
    }
    let index = usize::try_from(number.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let found = if separator.is_empty() {
        (index == 0).then_some(text)
    } else if number > 0 {
        text.split(separator).nth(index)
    } else {
        // From the end, of the same pieces: overlapping separators are cut from the front.
        let pieces: Vec<&str> = text.split(separator).collect();
        pieces.len().checked_sub(index + 1).and_then(|i| pieces.get(i)).copied()
    };
    Ok(Datum::text(found.unwrap_or_default()))
}

/// As quoted SQL identifiers are: only if it needs quotes.
pub fn quote_ident(name: &str) -> String {
    let plain = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !is_reserved(name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// PostgreSQL's key words that cannot be a column's name without quotes, and those that `quote_ident` quotes too.
fn is_reserved(word: &str) -> bool {
    const WORDS: &str = " all analyse analyze and any array as asc asymmetric authorization between bigint binary bit \
        boolean both case cast char character check coalesce collate collation column concurrently constraint create \
        cross current_catalog current_date current_role current_schema current_time current_timestamp current_user \
        dec decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign \
        freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect \
        interval into is isnull join lateral leading least left like limit localtime localtimestamp national natural \
        nchar none normalize not notnull null nullif numeric offset on only or order out outer overlaps overlay \
        placing position precision primary real references returning right row select session_user setof similar \
        smallint some substring symmetric table tablesample then time timestamp to trailing treat trim true union \
        unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement \
        xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable ";
    WORDS.split_ascii_whitespace().any(|reserved| reserved == word)
}

/// As an SQL literal; with a backslash in it, as an escape string.
pub(super) fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

/// The characters from the last to the first.
fn reverse(cx: &Context, text: &str) -> Result<String> {
    let mut pace = Pace::new(cx);
    let mut out = String::with_capacity(text.len());
    for c in text.chars().rev() {
        pace.step(1)?;
        out.push(c);
    }
    Ok(out)
}

/// Repeats a text so often.
fn repeat(cx: &Context, text: &str, times: usize) -> Result<String> {
    const BLOCK_BYTES: usize = 64 << 10;
    let length = text.len().saturating_mul(times);
    check_bytes(length)?;
    if text.is_empty() {
        return Ok(String::new());
    }
    let mut pace = Pace::new(cx);
    let mut out = String::with_capacity(length);
    let in_block = (BLOCK_BYTES / text.len()).clamp(1, times.max(1));
    let block = text.repeat(in_block);
    for _ in 0..times / in_block {
        pace.step(block.len())?;
        out.push_str(&block);
    }
    out.push_str(block.get(..text.len() * (times % in_block)).unwrap_or_default());
    Ok(out)
}

pub(super) fn declare(all: &mut Declarations) {
    lengths(all);
    parts(all);
    changes(all);
    joins(all);
    codes(all);
}

fn lengths(all: &mut Declarations) {
    for name in ["length", "char_length", "character_length"] {
        all.add(name, &[TEXT], INT4, |_, a| count(chars(text(a, 0)?)));
        all.add(name, &[BPCHAR], INT4, |_, a| count(chars(trim_blanks(text(a, 0)?))));
    }
    all.add("length", &[BYTEA], INT4, |_, a| count(bytes(a, 0)?.len()));
    all.add("octet_length", &[TEXT], INT4, |_, a| count(text(a, 0)?.len()));
    all.add("octet_length", &[BPCHAR], INT4, |_, a| count(text(a, 0)?.len()));
    all.add("octet_length", &[BYTEA], INT4, |_, a| count(bytes(a, 0)?.len()));
    all.add("bit_length", &[TEXT], INT4, |_, a| count(text(a, 0)?.len() * 8));
    all.add("bit_length", &[BYTEA], INT4, |_, a| count(bytes(a, 0)?.len() * 8));
    for name in ["strpos", "position"] {
        all.add(name, &[TEXT, TEXT], INT4, |_, a| count(position(text(a, 0)?, text(a, 1)?)));
    }
    all.add("position", &[BYTEA, BYTEA], INT4, |cx, a| {
        let (haystack, needle) = (bytes(a, 0)?, bytes(a, 1)?);
        if needle.is_empty() {
            return Ok(Datum::Int4(1));
        }
        let mut pace = Pace::new(cx);
        for (at, window) in haystack.windows(needle.len()).enumerate() {
            pace.step(needle.len())?;
            if window == needle {
                return count(at + 1);
            }
        }
        count(0)
    });
    all.add("starts_with", &[TEXT, TEXT], Type::Bool, |_, a| {
        Ok(Datum::Bool(text(a, 0)?.starts_with(text(a, 1)?)))
    });
}

fn parts(all: &mut Declarations) {
    for name in ["substr", "substring"] {
        all.add(name, &[TEXT, INT4], TEXT, |_, a| substring_text(text(a, 0)?, integer(a, 1)?, None));
        all.add(name, &[TEXT, INT4, INT4], TEXT, |_, a| {
            substring_text(text(a, 0)?, integer(a, 1)?, Some(integer(a, 2)?))
        });
        all.add(name, &[BYTEA, INT4], BYTEA, |_, a| substring_bytes(bytes(a, 0)?, integer(a, 1)?, None));
        all.add(name, &[BYTEA, INT4, INT4], BYTEA, |_, a| {
            substring_bytes(bytes(a, 0)?, integer(a, 1)?, Some(integer(a, 2)?))
        });
    }
    all.add("left", &[TEXT, INT4], TEXT, |_, a| {
        let (text, wanted) = (text(a, 0)?, integer(a, 1)?);
        let keep = if wanted < 0 { chars(text) as i64 + wanted } else { wanted };
        let end = at_char(text, usize::try_from(keep).unwrap_or(0));
        Ok(Datum::text(text.get(..end).unwrap_or_default()))
    });
    all.add("right", &[TEXT, INT4], TEXT, |_, a| {
        let (text, wanted) = (text(a, 0)?, integer(a, 1)?);
        let skip = if wanted < 0 { -wanted } else { chars(text) as i64 - wanted };
        let start = at_char(text, usize::try_from(skip).unwrap_or(0));
        Ok(Datum::text(text.get(start..).unwrap_or_default()))
    });
    all.add("split_part", &[TEXT, TEXT, INT4], TEXT, |_, a| split_part(a));
    let trims: [(&'static str, Eval, Eval, Eval); 3] = [
        (
            "btrim",
            |_, a| Ok(trim(text(a, 0)?, " ", Side::Both)),
            |_, a| Ok(trim(text(a, 0)?, text(a, 1)?, Side::Both)),
            |_, a| trim_bytes(a, Side::Both),
        ),
        (
            "ltrim",
            |_, a| Ok(trim(text(a, 0)?, " ", Side::Left)),
            |_, a| Ok(trim(text(a, 0)?, text(a, 1)?, Side::Left)),
            |_, a| trim_bytes(a, Side::Left),
        ),
        (
            "rtrim",
            |_, a| Ok(trim(text(a, 0)?, " ", Side::Right)),
            |_, a| Ok(trim(text(a, 0)?, text(a, 1)?, Side::Right)),
            |_, a| trim_bytes(a, Side::Right),
        ),
    ];
    for (name, blanks, set, of_bytes) in trims {
        all.add(name, &[TEXT], TEXT, blanks);
        all.add(name, &[TEXT, TEXT], TEXT, set);
        all.add(name, &[BYTEA, BYTEA], BYTEA, of_bytes);
    }
}

/// Checks the part that OVERLAY replaces.
fn check_replaced(start: i64, length: i64) -> Result<()> {
    if start <= 0 {
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    match i32::try_from(start + length) {
        Ok(_) => Ok(()),
        Err(_) => Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range")),
    }
}

fn overlay(a: &[Datum]) -> Result<Datum> {
    let (original, new, start) = (text(a, 0)?, text(a, 1)?, integer(a, 2)?);
    let length = if a.len() > 3 { integer(a, 3)? } else { chars(new) as i64 };
    check_replaced(start, length)?;
    let head = at_char(original, usize::try_from(start - 1).unwrap_or(0));
    let tail = at_char(original, usize::try_from((start + length - 1).max(0)).unwrap_or(0));
    let (head, tail) = (original.get(..head).unwrap_or_default(), original.get(tail..).unwrap_or_default());
    check_bytes(head.len() + new.len() + tail.len())?;
    Ok(Datum::text(format!("{head}{new}{tail}")))
}

fn overlay_bytes(a: &[Datum]) -> Result<Datum> {
    let (original, new, start) = (bytes(a, 0)?, bytes(a, 1)?, integer(a, 2)?);
    let length = if a.len() > 3 { integer(a, 3)? } else { new.len() as i64 };
    check_replaced(start, length)?;
    let at = |position: i64| usize::try_from(position.max(0)).unwrap_or(usize::MAX).min(original.len());
    let (head, tail) = (&original[..at(start - 1)], &original[at(start + length - 1)..]);
    check_bytes(head.len() + new.len() + tail.len())?;
    Ok(Datum::Bytea([head, new, tail].concat().into()))
}

fn changes(all: &mut Declarations) {
    all.add("lower", &[TEXT], TEXT, |_, a| Ok(Datum::text(case::lower(text(a, 0)?))));
    all.add("upper", &[TEXT], TEXT, |_, a| Ok(Datum::text(case::upper(text(a, 0)?))));
    all.add("initcap", &[TEXT], TEXT, |cx, a| case::initcap(cx, text(a, 0)?).map(Datum::text));
    all.add("reverse", &[TEXT], TEXT, |cx, a| reverse(cx, text(a, 0)?).map(Datum::text));
    all.add("replace", &[TEXT, TEXT, TEXT], TEXT, |cx, a| replace(cx, text(a, 0)?, text(a, 1)?, text(a, 2)?));
    all.add("translate", &[TEXT, TEXT, TEXT], TEXT, |cx, a| {
        translate(cx, text(a, 0)?, text(a, 1)?, text(a, 2)?)
    });
    all.add("repeat", &[TEXT, INT4], TEXT, |cx, a| {
        repeat(cx, text(a, 0)?, usize::try_from(integer(a, 1)?).unwrap_or(0)).map(Datum::text)
    });
    all.add("lpad", &[TEXT, INT4], TEXT, |cx, a| pad(cx, a, " ", true));
    all.add("lpad", &[TEXT, INT4, TEXT], TEXT, |cx, a| pad(cx, a, text(a, 2)?, true));
    all.add("rpad", &[TEXT, INT4], TEXT, |cx, a| pad(cx, a, " ", false));
    all.add("rpad", &[TEXT, INT4, TEXT], TEXT, |cx, a| pad(cx, a, text(a, 2)?, false));
    all.add("overlay", &[TEXT, TEXT, INT4], TEXT, |_, a| overlay(a));
    all.add("overlay", &[TEXT, TEXT, INT4, INT4], TEXT, |_, a| overlay(a));
    all.add("overlay", &[BYTEA, BYTEA, INT4], BYTEA, |_, a| overlay_bytes(a));
    all.add("overlay", &[BYTEA, BYTEA, INT4, INT4], BYTEA, |_, a| overlay_bytes(a));
}

/// Counts the arguments that are NULL, or are not.
fn count_nulls(a: &[Datum], are_null: bool) -> Result<Datum> {
    count(a.iter().filter(|argument| argument.is_null() == are_null).count())
}

fn joins(all: &mut Declarations) {
    all.add("num_nulls", &[Param::Any], INT4, |_, a| count_nulls(a, true)).variadic().not_strict();
    all.add("num_nonnulls", &[Param::Any], INT4, |_, a| count_nulls(a, false)).variadic().not_strict();
    all.add("concat", &[Param::Any], TEXT, |cx, a| joined(cx, a, "", None)).variadic().not_strict().stable();
    all.add("concat_ws", &[Param::Is(TEXT), Param::Any], TEXT, |cx, a| match a {
        [Datum::Null, ..] | [] => Ok(Datum::Null),
        [_, parts @ ..] => joined(cx, parts, text(a, 0)?, None),
    })
    .variadic()
    .not_strict()
    .stable();
    all.add("quote_ident", &[TEXT], TEXT, |_, a| Ok(Datum::text(quote_ident(text(a, 0)?))));
    for name in ["quote_literal", "quote_nullable"] {
        all.add(name, &[Param::Is(TEXT)], TEXT, |_, a| Ok(Datum::text(quote_literal(text(a, 0)?))));
        all.add(name, &[Param::AnyAsText], TEXT, |_, a| Ok(Datum::text(quote_literal(text(a, 0)?)))).stable();
    }
    // NULL is a literal too, for the second of them.
    for declaration in all.named("quote_nullable") {
        declaration.not_strict();
        declaration.body = super::declaration::DeclaredBody::Native(|_, a| {
            Ok(Datum::text(if any(a, 0)?.is_null() { "NULL".to_owned() } else { quote_literal(text(a, 0)?) }))
        });
    }
    all.add("array_to_string", &[Param::AnyArray, Param::Is(TEXT)], TEXT, |cx, a| {
        let (_, elements) = array(a, 0)?;
        joined(cx, elements, text(a, 1)?, None)
    })
    .stable();
    all.add("array_to_string", &[Param::AnyArray, Param::Is(TEXT), Param::Is(TEXT)], TEXT, |cx, a| {
        let ([Datum::Array(_, elements), separator, null], false) = (a, any(a, 1)?.is_null()) else {
            return Ok(Datum::Null);
        };
        let null = if null.is_null() { None } else { Some(shown(cx, null)?) };
        joined(cx, elements, &shown(cx, separator)?, null.as_deref())
    })
    .not_strict()
    .stable();
}

fn codes(all: &mut Declarations) {
    all.add("ascii", &[TEXT], INT4, |_, a| {
        Ok(Datum::Int4(text(a, 0)?.chars().next().map_or(0, |c| u32::from(c) as i32)))
    });
    all.add("chr", &[INT4], TEXT, |_, a| {
        let code = integer(a, 0)?;
        if code == 0 {
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "null character not permitted"));
        }
        if code < 0 {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "character number must be positive",
            ));
        }
        let c = u32::try_from(code).ok().and_then(char::from_u32);
        c.map(|c| Datum::text(c.to_string())).ok_or_else(|| {
            let is_surrogate = (0xd800..0xe000).contains(&code);
            let reason = if is_surrogate { "not valid" } else { "too large" };
            SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("requested character {reason} for encoding: {code}"),
            )
        })
    });
    all.add("nameconcatoid", &[Type::Name, Type::Oid], Type::Name, |_, a| {
        let suffix = match any(a, 1)? {
            Datum::Oid(oid) => format!("_{oid}"),
            _ => String::new(),
        };
        let name = text_form::cut_name_before(text(a, 0)?, suffix.len());
        Ok(Datum::text(format!("{name}{suffix}")))
    });
    all.add("to_hex", &[INT4], TEXT, |_, a| Ok(Datum::text(format!("{:x}", integer(a, 0)? as i32))));
    all.add("to_hex", &[Type::Int8], TEXT, |_, a| Ok(Datum::text(format!("{:x}", integer(a, 0)?))));
}
