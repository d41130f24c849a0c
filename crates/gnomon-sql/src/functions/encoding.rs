//! Binary data as text and back, digests, and unique identifiers.

use md5::{Digest, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::{
    arguments::{any, bytes, integer, invalid, text},
    declaration::Declarations,
};
use crate::{
    Result, SqlError, SqlState,
    types::{Context, Datum, Type, binary::send, encoding::Encoding, limit::Pace, text as text_form},
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

fn digest<D: Digest>(bytes: &[u8]) -> Datum {
    Datum::Bytea(D::digest(bytes).to_vec().into())
}

/// Returns a position within so many bytes or bits.
fn index_within(index: i64, length: usize) -> Result<usize> {
    usize::try_from(index).ok().filter(|index| *index < length).ok_or_else(|| {
        let message = format!("index {index} out of valid range, 0..{}", length as i64 - 1);
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
    })
}

/// Functions of single bytes and bits; the first bit of a byte is the lowest.
fn declare_bits(all: &mut Declarations) {
    all.add("get_byte", &[Type::Bytea, Type::Int4], Type::Int4, |_, a| {
        let data = bytes(a, 0)?;
        let at = index_within(integer(a, 1)?, data.len())?;
        Ok(Datum::Int4(data[at].into()))
    });
    all.add("set_byte", &[Type::Bytea, Type::Int4, Type::Int4], Type::Bytea, |_, a| {
        let mut data = bytes(a, 0)?.to_vec();
        let at = index_within(integer(a, 1)?, data.len())?;
        data[at] = integer(a, 2)? as u8;
        Ok(Datum::Bytea(data.into()))
    });
    all.add("get_bit", &[Type::Bytea, Type::Int8], Type::Int4, |_, a| {
        let data = bytes(a, 0)?;
        let at = index_within(integer(a, 1)?, data.len() * 8)?;
        Ok(Datum::Int4((data[at / 8] >> (at % 8) & 1).into()))
    });
    all.add("set_bit", &[Type::Bytea, Type::Int8, Type::Int4], Type::Bytea, |_, a| {
        let mut data = bytes(a, 0)?.to_vec();
        let at = index_within(integer(a, 1)?, data.len() * 8)?;
        match integer(a, 2)? {
            0 => data[at / 8] &= !(1 << (at % 8)),
            1 => data[at / 8] |= 1 << (at % 8),
            _ => return Err(invalid("new bit must be 0 or 1")),
        }
        Ok(Datum::Bytea(data.into()))
    });
    all.add("bit_count", &[Type::Bytea], Type::Int8, |_, a| {
        Ok(Datum::Int8(bytes(a, 0)?.iter().map(|byte| i64::from(byte.count_ones())).sum()))
    });
}

/// Functions that give a value's binary form, as the protocol sends it.
fn declare_binary_forms(all: &mut Declarations) {
    let functions = [
        ("boolsend", Type::Bool),
        ("int2send", Type::Int2),
        ("int4send", Type::Int4),
        ("int8send", Type::Int8),
        ("float4send", Type::Float4),
        ("float8send", Type::Float8),
        ("numeric_send", Type::Numeric),
        ("textsend", Type::Text),
        ("byteasend", Type::Bytea),
        ("date_send", Type::Date),
        ("time_send", Type::Time),
        ("timestamp_send", Type::Timestamp),
        ("timestamptz_send", Type::Timestamptz),
        ("interval_send", Type::Interval),
        ("uuid_send", Type::Uuid),
    ];
    for (name, ty) in functions {
        all.add(name, &[ty], Type::Bytea, |_, a| {
            let (value, mut out) = (any(a, 0)?, Vec::new());
            send(value, value.natural_type(), Encoding::UTF8, &mut out)?;
            Ok(Datum::Bytea(out.into()))
        });
    }
}

/// The encoding of a name; `role` says in an error which of a function's encodings it is.
fn encoding_named(role: &str, name: &str) -> Result<Encoding> {
    let encoding =
        Encoding::named(name).ok_or_else(|| invalid(format!("invalid {role}encoding name \"{name}\"")))?;
    match encoding.is_known() {
        true => Ok(encoding),
        false => Err(SqlError::unsupported(format!("encoding \"{name}\""))),
    }
}

/// Functions that bring text to other encodings, as bytes.
fn declare_conversions(all: &mut Declarations) {
    all.add("convert_from", &[Type::Bytea, Type::Text], Type::Text, |_, a| {
        let encoding = encoding_named("source ", text(a, 1)?)?;
        Ok(Datum::text(encoding.decode(bytes(a, 0)?)?))
    });
    all.add("convert_to", &[Type::Text, Type::Text], Type::Bytea, |_, a| {
        let encoding = encoding_named("destination ", text(a, 1)?)?;
        Ok(Datum::Bytea(encoding.encode(text(a, 0)?)?.into()))
    });
    all.add("convert", &[Type::Bytea, Type::Name, Type::Name], Type::Bytea, |_, a| {
        let from = encoding_named("source ", text(a, 1)?)?;
        let to = encoding_named("destination ", text(a, 2)?)?;
        Ok(Datum::Bytea(to.encode(&from.decode(bytes(a, 0)?)?)?.into()))
    });
    all.add("length", &[Type::Bytea, Type::Name], Type::Int4, |_, a| {
        let encoding = encoding_named("", text(a, 1)?)?;
        let characters = encoding.decode(bytes(a, 0)?)?.chars().count();
        Ok(Datum::Int4(i32::try_from(characters).unwrap_or(i32::MAX)))
    });
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
    declare_conversions(all);
    all.add("sha224", &[Type::Bytea], Type::Bytea, |_, a| Ok(digest::<Sha224>(bytes(a, 0)?)));
    all.add("sha256", &[Type::Bytea], Type::Bytea, |_, a| Ok(digest::<Sha256>(bytes(a, 0)?)));
    all.add("sha384", &[Type::Bytea], Type::Bytea, |_, a| Ok(digest::<Sha384>(bytes(a, 0)?)));
    all.add("sha512", &[Type::Bytea], Type::Bytea, |_, a| Ok(digest::<Sha512>(bytes(a, 0)?)));
    declare_bits(all);
    declare_binary_forms(all);
    all.add::<Type>("gen_random_uuid", &[], Type::Uuid, |cx, _| {
        let random =
            (u128::from(cx.environment.random()) << 64 | u128::from(cx.environment.random())).to_be_bytes();
        Ok(Datum::Uuid(uuid::Builder::from_random_bytes(random).into_uuid().into_bytes()))
    })
    .volatile();
}
