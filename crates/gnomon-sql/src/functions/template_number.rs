//! `to_char` and `to_number` of numbers: pictures such as `FM9,990.00`.

use super::{
    arguments::{any, numeric, text},
    resolve::Declarations,
    template::{ordinal_ending, template_of},
};
use crate::{
    Result, SqlError, SqlState,
    types::{Datum, Numeric, Type},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    /// `9` or `0` before the point or after it.
    Digit {
        zero: bool,
    },
    Point,
    Group,
    /// `S`
    Sign,
    /// `MI`
    Minus,
    /// `PL`
    Plus,
    /// `SG`
    Either,
    Ordinal {
        upper: bool,
    },
    Currency,
    Literal(char),
}

/// A picture, taken apart.
#[derive(Default)]
struct Picture {
    items: Vec<Item>,
    /// FM: no padding.
    tight: bool,
    /// PR: negative numbers in angle brackets.
    brackets: bool,
    /// RN
    roman: Option<bool>,
    /// EEEE
    scientific: bool,
    /// Digits before the point, after it, and after V.
    whole: usize,
    fraction: usize,
    shifted: usize,
    /// The first `0` among the digits before the point.
    zero_from: Option<usize>,
    /// One behind the last `0` among the digits after it.
    zero_to: usize,
}

impl Picture {
    fn parse(template: &str) -> Result<Picture> {
        let mut picture = Picture::default();
        let mut after_point = false;
        let mut after_v = false;
        let mut rest = template;
        let syntax = |message: &str| SqlError::new(SqlState::SYNTAX_ERROR, message);
        while let Some(c) = rest.chars().next() {
            if c == '"' {
                let (quoted, after) =
                    rest.get(1..).unwrap_or_default().split_once('"').unwrap_or((&rest[1..], ""));
                picture.items.extend(quoted.chars().map(Item::Literal));
                rest = after;
                continue;
            }
            let two = rest.get(..2).unwrap_or_default().to_ascii_uppercase();
            let four = rest.get(..4).unwrap_or_default().to_ascii_uppercase();
            let mut taken = 2;
            if four == "EEEE" {
                picture.scientific = true;
                taken = 4;
            } else {
                match two.as_str() {
                    "FM" => picture.tight = true,
                    "MI" => picture.items.push(Item::Minus),
                    "PL" => picture.items.push(Item::Plus),
                    "SG" => picture.items.push(Item::Either),
                    "PR" => picture.brackets = true,
                    "RN" => picture.roman = Some(rest.starts_with('R')),
                    "TH" => picture.items.push(Item::Ordinal { upper: rest.starts_with('T') }),
                    _ => {
                        taken = c.len_utf8();
                        match c {
                            '9' | '0' => {
                                let zero = c == '0';
                                if after_v {
                                    picture.shifted += 1;
                                }
                                if after_point {
                                    picture.fraction += 1;
                                    if zero {
                                        picture.zero_to = picture.fraction;
                                    }
                                } else {
                                    if zero && picture.zero_from.is_none() {
                                        picture.zero_from = Some(picture.whole);
                                    }
                                    picture.whole += 1;
                                }
                                picture.items.push(Item::Digit { zero });
                            }
                            '.' | 'D' | 'd' => {
                                if after_point {
                                    return Err(syntax("multiple decimal points"));
                                }
                                after_point = true;
                                picture.items.push(Item::Point);
                            }
                            ',' | 'G' | 'g' => picture.items.push(Item::Group),
                            'S' | 's' => picture.items.push(Item::Sign),
                            'L' | 'l' => picture.items.push(Item::Currency),
                            'V' | 'v' => after_v = true,
                            'B' | 'b' => {}
                            c => picture.items.push(Item::Literal(c)),
                        }
                    }
                }
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(picture)
    }

    /// Whether the picture says where the sign goes.
    fn places_sign(&self) -> bool {
        self.brackets || self.items.iter().any(|item| matches!(item, Item::Sign | Item::Minus | Item::Either))
    }
}

fn roman(value: i64) -> String {
    let table = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut rest = value;
    let mut out = String::new();
    for (number, letters) in table {
        while rest >= number {
            out.push_str(letters);
            rest -= number;
        }
    }
    out
}

fn show(value: &Numeric, picture: &Picture) -> Result<String> {
    if let Some(upper) = picture.roman {
        let shown = match value.to_i64() {
            Some(number @ 1..=3999) => roman(number),
            _ => "#".repeat(15),
        };
        let shown = if upper { shown } else { shown.to_lowercase() };
        return Ok(if picture.tight { shown } else { format!("{shown:>15}") });
    }
    if picture.scientific {
        return Ok(scientific(value, picture));
    }
    let shift = Numeric::from(10_i64).power(&Numeric::from(picture.shifted as i64))?;
    let rounded = value.mul(&shift)?.round(picture.fraction as i64);
    let negative = rounded.signum() < 0;
    let (digits, special) = match &rounded {
        Numeric::Finite(_) => (rounded.abs().to_string(), false),
        _ => (String::new(), true),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    // A zero before the point is not shown where digits follow the point.
    let dropped = picture.tight && fraction.trim_end_matches('0').is_empty() && picture.zero_to == 0;
    let whole = if whole == "0" && picture.fraction > 0 && !dropped { "" } else { whole };
    let overflows = special || whole.len() > picture.whole;
    Ok(layout(picture, negative, whole, fraction, overflows))
}

fn layout(picture: &Picture, negative: bool, whole: &str, fraction: &str, overflows: bool) -> String {
    let blank_count = if overflows { 0 } else { picture.whole - whole.len() };
    // Zeroes fill from the first `0` of the picture on.
    let number_from = picture.zero_from.map_or(blank_count, |zero| zero.min(blank_count));
    let sign_first = !picture.places_sign()
        || picture.brackets
        || picture.items.iter().position(|item| *item == Item::Sign)
            < picture.items.iter().position(|item| matches!(item, Item::Digit { .. }))
            && picture.items.contains(&Item::Sign);
    let anchored_sign = if picture.brackets {
        if negative {
            "<"
        } else if picture.tight {
            ""
        } else {
            " "
        }
    } else if picture.items.contains(&Item::Sign) {
        if negative { "-" } else { "+" }
    } else if negative {
        "-"
    } else if picture.tight {
        ""
    } else {
        " "
    };
    // Under FM trailing zeroes go, but for those that the picture has as `0`.
    let kept = fraction.trim_end_matches('0').len().max(picture.zero_to);
    let fraction_shown = if picture.tight && !overflows { kept } else { picture.fraction };

    let mut out = String::new();
    let (mut position, mut fraction_position) = (0, 0);
    let mut past_point = false;
    let mut sign_written = !sign_first;
    let put_sign = |out: &mut String, written: &mut bool| {
        if !*written {
            out.push_str(anchored_sign);
            *written = true;
        }
    };
    for item in &picture.items {
        match item {
            Item::Digit { .. } if past_point => {
                if fraction_position < fraction_shown {
                    out.push(if overflows {
                        '#'
                    } else {
                        fraction.as_bytes().get(fraction_position).map_or('0', |digit| char::from(*digit))
                    });
                }
                fraction_position += 1;
            }
            Item::Digit { .. } => {
                if position < number_from {
                    if !picture.tight {
                        out.push(' ');
                    }
                } else {
                    put_sign(&mut out, &mut sign_written);
                    out.push(if overflows {
                        '#'
                    } else if position < blank_count {
                        '0'
                    } else {
                        whole.as_bytes().get(position - blank_count).map_or(' ', |digit| char::from(*digit))
                    });
                }
                position += 1;
            }
            Item::Point => {
                put_sign(&mut out, &mut sign_written);
                out.push('.');
                past_point = true;
            }
            Item::Group if past_point || position > number_from => out.push(','),
            Item::Group if picture.tight => {}
            Item::Group => out.push(' '),
            Item::Sign if sign_first => {}
            Item::Sign | Item::Either => out.push(if negative { '-' } else { '+' }),
            Item::Minus if negative => out.push('-'),
            Item::Plus if !negative => out.push('+'),
            Item::Minus | Item::Plus if picture.tight => {}
            Item::Minus | Item::Plus => out.push(' '),
            Item::Ordinal { upper } => {
                if !negative && picture.fraction == 0 {
                    out.push_str(ordinal_ending(whole, *upper));
                }
            }
            Item::Currency => {
                if !picture.tight {
                    out.push(' ');
                }
            }
            Item::Literal(c) => out.push(*c),
        }
    }
    put_sign(&mut out, &mut sign_written);
    if picture.brackets {
        if negative {
            out.push('>');
        } else if !picture.tight {
            out.push(' ');
        }
    }
    out
}

fn scientific(value: &Numeric, picture: &Picture) -> String {
    let Numeric::Finite(_) = value else {
        let width = picture.whole + picture.fraction + 6;
        return "#".repeat(width);
    };
    let digits = value.abs().to_string().replace('.', "");
    let significant = digits.trim_start_matches('0');
    let exponent = if significant.is_empty() { 0 } else { significant.len() as i64 - 1 - value.scale() };
    let scaled = if exponent >= 0 {
        value.abs().div(&power_of_ten(exponent))
    } else {
        value.abs().mul(&power_of_ten(-exponent))
    };
    let mut mantissa = scaled.unwrap_or_else(|_| Numeric::zero()).round(picture.fraction as i64);
    let mut exponent = exponent;
    if mantissa >= Numeric::from(10_i64) {
        mantissa = mantissa.div(&Numeric::from(10_i64)).unwrap_or(mantissa).round(picture.fraction as i64);
        exponent += 1;
    }
    let sign = if value.signum() < 0 { "-" } else { " " };
    let shown = format!("{sign}{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    if picture.tight { shown.trim_start().to_owned() } else { shown }
}

fn power_of_ten(exponent: i64) -> Numeric {
    Numeric::parse(&format!("1e{exponent}")).unwrap_or_else(|_| Numeric::zero())
}

/// Reads a number that a picture made: digits, point and sign are taken, all else is passed over.
fn read(input: &str) -> Result<Datum> {
    let mut digits = String::new();
    let mut negative = false;
    for c in input.chars() {
        match c {
            '0'..='9' => digits.push(c),
            '.' if !digits.contains('.') => digits.push('.'),
            '-' | '<' => negative = true,
            _ => {}
        }
    }
    if !digits.contains(|c: char| c.is_ascii_digit()) {
        return Err(SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            "invalid input syntax for type numeric: \" \"",
        ));
    }
    let value = Numeric::parse(&digits)?;
    Ok(Datum::Numeric(if negative { value.negate() } else { value }))
}

/// A number of any type as a numeric; a double with the digits that it holds for sure.
fn as_numeric(a: &[Datum]) -> Result<Numeric> {
    Ok(match any(a, 0)? {
        Datum::Int4(value) => Numeric::from(i64::from(*value)),
        Datum::Int8(value) => Numeric::from(*value),
        Datum::Float8(value) if value.is_nan() => Numeric::NaN,
        Datum::Float8(value) if value.is_infinite() => Numeric::Infinity,
        Datum::Float8(value) => Numeric::parse(&format!("{value:.14e}"))?.trim_scale(),
        Datum::Float4(value) if value.is_nan() => Numeric::NaN,
        Datum::Float4(value) if value.is_infinite() => Numeric::Infinity,
        Datum::Float4(value) => Numeric::parse(&format!("{value:.5e}"))?.trim_scale(),
        _ => numeric(a, 0)?.clone(),
    })
}

pub(super) fn declare(all: &mut Declarations) {
    for ty in [Type::Int4, Type::Int8, Type::Float4, Type::Float8, Type::Numeric] {
        all.add("to_char", &[ty, Type::Text], Type::Text, |_, a| {
            show(&as_numeric(a)?, &Picture::parse(template_of(a)?)?).map(Datum::text)
        })
        .stable();
    }
    all.add("to_number", &[Type::Text, Type::Text], Type::Numeric, |_, a| {
        Picture::parse(template_of(a)?)?;
        read(text(a, 0)?)
    })
    .stable();
}
