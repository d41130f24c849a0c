//! Binary data as text and back, digests, and unique identifiers.

use md5::{Digest, Md5};

use super::{
    arguments::{bytes, integer, invalid, text},
    declaration::Declarations,
};
use crate::{
    Result, SqlError, SqlState,
    types::{Context, Datum, Type, binary::validate_text, limit::Pace, text as text_form},
};

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Base64 lines end after so many characters (RFC 2045).
const BASE64_LINE: usize = 76;

fn encode_base64(cx: &Context, bytes: &[u8]) -> Result<String> {
    let mut pace = Pace::new(cx);
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + 4);
    let mut line = 0;
    for chunk in bytes.chunks(3) {
        pace.step(chunk.len())?;
        if line >= BASE64_LINE {
            out.push('\n');
            line = 0;
        }
        let group =
            chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let sextet = (group >> (18 - 6 * i)) & 63;
            out.push(if i <= chunk.len() { char::from(BASE64[sextet as usize]) } else { '=' });
        }
        line += 4;
    }
    Ok(out)
}

fn decode_base64(cx: &Context, text: &str) -> Result<Vec<u8>> {
    let mut pace = Pace::new(cx);
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut group, mut digits, mut padding) = (0_u32, 0, 0);
    for c in text.chars() {
        pace.step(1)?;
        if matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        let value = if c == '=' {
            padding += 1;
            if digits < 2 || padding > 2 {
                return Err(invalid("unexpected \"=\" while decoding base64 sequence"));
            }
            0
        } else {
            match BASE64.iter().position(|digit| char::from(*digit) == c) {
                Some(value) if padding == 0 => value as u32,
                _ => {
                    return Err(invalid(format!(
                        "invalid symbol \"{c}\" found while decoding base64 sequence"
                    )));
                }
            }
        };
        group = group << 6 | value;
        digits += 1;
        if digits == 4 {
            let [_, first, second, third] = group.to_be_bytes();
            out.extend(&[first, second, third][..3 - padding]);
            (group, digits, padding) = (0, 0, 0);
        }
    }
    if digits != 0 {
        return Err(invalid("invalid base64 end sequence")
            .hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}

fn encode_escape(cx: &Context, bytes: &[u8]) -> Result<String> {
    let mut pace = Pace::new(cx);
    let mut out = String::new();
    for byte in bytes {
        pace.step(1)?;
        match byte {
            b'\\' => out.push_str("\\\\"),
            1..=127 => out.push(char::from(*byte)),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    Ok(out)
}

fn unknown_encoding(name: &str) -> SqlError {
    invalid(format!("unrecognized encoding: \"{name}\""))
}

fn md5(bytes: &[u8]) -> Datum {
    let mut out = String::with_capacity(32);
    text_form::push_hex(&mut out, &Md5::digest(bytes));
    Datum::text(out)
}

/// Only UTF-8 is known as an encoding of text.
fn check_encoding(name: &str) -> Result<()> {
    if matches!(name.to_ascii_uppercase().as_str(), "UTF8" | "UTF-8" | "UNICODE" | "SQL_ASCII") {
        Ok(())
    } else {
        Err(SqlError::unsupported(format!("encoding \"{name}\"")))
    }
}

pub(super) fn declare(all: &mut Declarations) {
    all.add("encode", &[Type::Bytea, Type::Text], Type::Text, |cx, a| {
        let bytes = bytes(a, 0)?;
        let name = text(a, 1)?;
        Ok(Datum::text(match name.to_ascii_lowercase().as_str() {
            "hex" => {
                let mut out = String::new();
                text_form::push_hex(&mut out, bytes);
                out
            }
            "base64" => encode_base64(cx, bytes)?,
            "escape" => encode_escape(cx, bytes)?,
            _ => return Err(unknown_encoding(name)),
        }))
    });
    all.add("decode", &[Type::Text, Type::Text], Type::Bytea, |cx, a| {
        let (data, name) = (text(a, 0)?, text(a, 1)?);
        let bytes = match name.to_ascii_lowercase().as_str() {
            "hex" => text_form::parse_hex(data)?,
            "base64" => decode_base64(cx, data)?,
            "escape" => text_form::parse_escaped_bytes(data).ok_or_else(|| {
                SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea")
            })?,
            _ => return Err(unknown_encoding(name)),
        };
        Ok(Datum::Bytea(bytes.into()))
    });
    all.add("md5", &[Type::Text], Type::Text, |_, a| Ok(md5(text(a, 0)?.as_bytes())));
    all.add("md5", &[Type::Bytea], Type::Text, |_, a| Ok(md5(bytes(a, 0)?)));
    all.add("convert_from", &[Type::Bytea, Type::Text], Type::Text, |_, a| {
        check_encoding(text(a, 1)?)?;
        Ok(Datum::text(validate_text(bytes(a, 0)?)?))
    });
    all.add("convert_to", &[Type::Text, Type::Text], Type::Bytea, |_, a| {
        check_encoding(text(a, 1)?)?;
        Ok(Datum::Bytea(text(a, 0)?.as_bytes().into()))
    });
    all.add("get_byte", &[Type::Bytea, Type::Int4], Type::Int4, |_, a| {
        let (data, index) = (bytes(a, 0)?, integer(a, 1)?);
        let byte = usize::try_from(index).ok().and_then(|index| data.get(index));
        byte.map(|byte| Datum::Int4(i32::from(*byte))).ok_or_else(|| {
            SqlError::new(
                SqlState("2202E"),
                format!("index {index} out of valid range, 0..{}", data.len() as i64 - 1),
            )
        })
    });
    all.add::<Type>("gen_random_uuid", &[], Type::Uuid, |cx, _| {
        let random =
            (u128::from(cx.environment.random()) << 64 | u128::from(cx.environment.random())).to_be_bytes();
        Ok(Datum::Uuid(uuid::Builder::from_random_bytes(random).into_uuid().into_bytes()))
    })
    .volatile();
}
