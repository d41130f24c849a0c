//! Values of a script's variables: NULL, booleans, integers, doubles, and texts from outside.
//!
//! Promises: a text becomes what it reads as when an expression uses it, as in pgbench: `-D n=10` is an integer there.
//! Conversions fail with a message instead of giving another value: a double becomes the nearest integer, a boolean no
//! number.

use std::fmt;

/// The value of a variable or an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// TRUE or FALSE.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A double.
    Double(f64),
    /// A text of the command line or of a query, not read yet.
    Text(String),
}

impl Value {
    /// Reads a text as an expression does; the result is no text.
    ///
    /// # Errors
    /// That it is none of null, true, false and numbers.
    pub fn read(&self) -> Result<Value, String> {
        let Value::Text(text) = self else { return Ok(self.clone()) };
        let word = text.trim().to_ascii_lowercase();
        Ok(match word.as_str() {
            "null" => Value::Null,
            "true" | "t" | "yes" | "on" => Value::Bool(true),
            "false" | "f" | "no" | "off" => Value::Bool(false),
            _ => match word.parse() {
                Ok(int) => Value::Int(int),
                Err(_) => match word.parse::<f64>() {
                    Ok(double) if word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => {
                        Value::Double(double)
                    }
                    _ => return Err(format!("'{text}' is no number, boolean or null")),
                },
            },
        })
    }

    /// True if a condition with this value is met: TRUE, and numbers but zero.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Null | Value::Text(_) => false,
            Value::Bool(bool) => *bool,
            Value::Int(int) => *int != 0,
            Value::Double(double) => *double != 0.0,
        }
    }

    /// As a boolean.
    ///
    /// # Errors
    /// That it is none.
    pub fn as_bool(&self) -> Result<bool, String> {
        match self {
            Value::Bool(bool) => Ok(*bool),
            _ => Err(format!("{} is no boolean", self.kind())),
        }
    }

    /// As an integer; a double is rounded to the nearest one, halves to the even one.
    ///
    /// # Errors
    /// That it is no number, or that no integer is near.
    pub fn as_int(&self) -> Result<i64, String> {
        match self {
            Value::Int(int) => Ok(*int),
            // The bounds are powers of two, which doubles hold exactly.
            Value::Double(double)
                if (-(2f64.powi(63))..2f64.powi(63)).contains(&double.round_ties_even()) =>
            {
                Ok(double.round_ties_even() as i64)
            }
            Value::Double(double) => Err(format!("{double} is out of range of integers")),
            _ => Err(format!("{} is no integer", self.kind())),
        }
    }

    /// As a double.
    ///
    /// # Errors
    /// That it is no number.
    pub fn as_double(&self) -> Result<f64, String> {
        match self {
            Value::Int(int) => Ok(*int as f64),
            Value::Double(double) => Ok(*double),
            _ => Err(format!("{} is no number", self.kind())),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Value::Null => "NULL",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Double(_) => "a double",
            Value::Text(_) => "a text",
        }
    }
}

/// As a statement is given it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Bool(bool) => bool.fmt(f),
            Value::Int(int) => int.fmt(f),
            Value::Double(double) => double.fmt(f),
            Value::Text(text) => text.fmt(f),
        }
    }
}
