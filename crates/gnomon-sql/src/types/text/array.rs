//! Arrays as text: `{1,NULL,"a b"}`; int2vector and oidvector: `1 2`.

use super::{input as input_value, is_space, write};
use crate::{
    Result, SqlError, SqlState,
    types::{
        ColumnType, Context, Datum, Scalar, Type, TypeMod,
        limit::{Elements, Pace, check_bytes},
    },
};

fn malformed(text: &str, detail: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("malformed array literal: \"{text}\""))
        .detail(detail)
}

/// Reads an array whose elements have this type and modifier.
pub(super) fn input(cx: &Context, text: &str, scalar: Scalar, modifier: TypeMod) -> Result<Datum> {
    let mut rest = text.trim_matches(is_space);
    if rest.starts_with('[') {
        let (bounds, body) =
            rest.split_once('=').ok_or_else(|| malformed(text, "Missing \"=\" after array dimensions."))?;
        if !bounds.starts_with("[1:") || bounds.matches('[').count() != 1 {
            return Err(SqlError::unsupported(
                "an array with several dimensions or a lower bound other than 1",
            ));
        }
        rest = body.trim_start_matches(is_space);
    }
    let body = rest
        .strip_prefix('{')
        .ok_or_else(|| malformed(text, "Array value must start with \"{\" or dimension information."))?;
    let element_type = ColumnType { ty: scalar.into(), modifier };
    let mut elements = Elements::default();
    let mut pace = Pace::new(cx);
    let mut chars = body.chars().peekable();
    let mut after_comma = false;
    let closed = |chars: &mut std::iter::Peekable<std::str::Chars>| {
        chars.all(is_space).then_some(()).ok_or_else(|| malformed(text, "Junk after closing right brace."))
    };
    loop {
        while chars.next_if(|c| is_space(*c)).is_some() {}
        let Some(&first) = chars.peek() else { return Err(malformed(text, "Unexpected end of input.")) };
        let mut word = String::new();
        let mut quoted = false;
        match first {
            '}' if elements.items().is_empty() && !after_comma => {
                chars.next();
                closed(&mut chars)?;
                return Ok(elements.into_array(scalar));
            }
            '}' | ',' => return Err(malformed(text, &format!("Unexpected \"{first}\" character."))),
            '{' => return Err(SqlError::unsupported("an array with several dimensions")),
            '"' => {
                quoted = true;
                chars.next();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') => {
                            word.push(
                                chars.next().ok_or_else(|| malformed(text, "Unexpected end of input."))?,
                            );
                        }
                        Some(c) => word.push(c),
                        None => return Err(malformed(text, "Unexpected end of input.")),
                    }
                }
                while chars.next_if(|c| is_space(*c)).is_some() {}
            }
            _ => {
                // Blanks at the end are none of it, unless escaped.
                let mut kept = 0;
                while let Some(c) = chars.next_if(|c| !matches!(c, ',' | '}')) {
                    match c {
                        '\\' => {
                            word.push(
                                chars.next().ok_or_else(|| malformed(text, "Unexpected end of input."))?,
                            );
                            kept = word.len();
                            quoted = true;
                        }
                        '"' => return Err(malformed(text, "Unexpected array element.")),
                        '{' => return Err(malformed(text, "Unexpected \"{\" character.")),
                        c => {
                            word.push(c);
                            if !is_space(c) {
                                kept = word.len();
                            }
                        }
                    }
                }
                word.truncate(kept);
            }
        }
        pace.step(word.len())?;
        elements.push(if !quoted && word.eq_ignore_ascii_case("null") {
            Datum::Null
        } else {
            input_value(cx, &word, element_type)?
        })?;
        match chars.next() {
            Some(',') => after_comma = true,
            Some('}') => {
                closed(&mut chars)?;
                return Ok(elements.into_array(scalar));
            }
            Some(_) => return Err(malformed(text, "Unexpected array element.")),
            None => return Err(malformed(text, "Unexpected end of input.")),
        }
    }
}

/// Writes an array.
pub(super) fn output(cx: &Context, scalar: Scalar, elements: &[Datum], out: &mut String) -> Result<()> {
    let start = out.len();
    let mut pace = Pace::new(cx);
    out.push('{');
    let mut word = String::new();
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if element.is_null() {
            out.push_str("NULL");
            continue;
        }
        word.clear();
        write(cx, element, scalar.into(), &mut word)?;
        pace.step(word.len())?;
        let quote = word.is_empty()
            || word.eq_ignore_ascii_case("null")
            || word.contains(|c: char| matches!(c, '"' | '\\' | '{' | '}' | ',') || is_space(c));
        if quote {
            out.push('"');
            for c in word.chars() {
                if matches!(c, '"' | '\\') {
                    out.push('\\');
                }
                out.push(c);
            }
            out.push('"');
        } else {
            out.push_str(&word);
        }
        check_bytes(out.len() - start)?;
    }
    out.push('}');
    Ok(())
}

/// Reads an int2vector or oidvector: its elements between blanks.
pub(super) fn input_vector(cx: &Context, whole: &str, scalar: Scalar) -> Result<Datum> {
    let mut elements = Elements::default();
    let mut pace = Pace::new(cx);
    for word in whole.split(is_space).filter(|word| !word.is_empty()) {
        pace.step(word.len())?;
        elements.push(input_value(cx, word, Type::from(scalar).into())?)?;
    }
    Ok(elements.into_array(scalar))
}

/// Writes an int2vector or oidvector.
pub(super) fn output_vector(
    cx: &Context,
    scalar: Scalar,
    elements: &[Datum],
    out: &mut String,
) -> Result<()> {
    let start = out.len();
    let mut pace = Pace::new(cx);
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        write(cx, element, scalar.into(), out)?;
        pace.step(size_of::<Datum>())?;
        check_bytes(out.len() - start)?;
    }
    Ok(())
}
