//! Names and types.

use std::fmt::{self, Display, Formatter};

use super::{List, commas};
use crate::{
    Keyword,
    ast::{Access, Alias, Constant, Expr, Ident, OperatorName, QualifiedName, RelationName, TypeName, Value},
};

impl Display for Ident {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let begins = self.name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
        let is_plain = begins
            && self
                .name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            && Keyword::of(&self.name).is_none_or(Keyword::may_name_anything);
        match is_plain {
            true => f.write_str(&self.name),
            false => write!(f, "\"{}\"", self.name.replace('"', "\"\"")),
        }
    }
}

impl Display for QualifiedName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        List(&self.0, ".").fmt(f)
    }
}

impl Display for RelationName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for part in [&self.catalog, &self.schema].into_iter().flatten() {
            write!(f, "{part}.")?;
        }
        self.name.fmt(f)
    }
}

impl Display for OperatorName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.schema.is_empty() {
            true => f.write_str(&self.symbol),
            false => write!(f, "OPERATOR({}.{})", List(&self.schema, "."), self.symbol),
        }
    }
}

impl Display for Alias {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        if !self.columns.is_empty() {
            write!(f, " ({})", commas(&self.columns))?;
        }
        Ok(())
    }
}

impl Display for Access {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Access::Field(name) => write!(f, ".{name}"),
            Access::Star => f.write_str(".*"),
            Access::Subscript(at) => write!(f, "[{at}]"),
            Access::Slice(from, to) => {
                f.write_str("[")?;
                from.iter().try_for_each(|from| from.fmt(f))?;
                f.write_str(":")?;
                to.iter().try_for_each(|to| to.fmt(f))?;
                f.write_str("]")
            }
        }
    }
}

/// The type in the standard's words, before and behind its modifiers; none if only its name will do.
fn standard(ty: &TypeName) -> Option<(&'static str, &'static str)> {
    let [schema, name] = &ty.name.0[..] else { return None };
    if &*schema.name != "pg_catalog" {
        return None;
    }
    Some(match (&*name.name, ty.modifiers.len()) {
        ("int2", 0) => ("smallint", ""),
        ("int4", 0) => ("integer", ""),
        ("int8", 0) => ("bigint", ""),
        ("float4", 0) => ("real", ""),
        ("float8", 0) => ("double precision", ""),
        ("bool", 0) => ("boolean", ""),
        ("numeric", _) => ("numeric", ""),
        ("bit", 1) => ("bit", ""),
        ("varbit", _) => ("bit varying", ""),
        ("varchar", 0 | 1) => ("character varying", ""),
        ("bpchar", 1) => ("character", ""),
        ("timestamp", 0 | 1) => ("timestamp", " without time zone"),
        ("timestamptz", 0 | 1) => ("timestamp", " with time zone"),
        ("time", 0 | 1) => ("time", " without time zone"),
        ("timetz", 0 | 1) => ("time", " with time zone"),
        _ => return None,
    })
}

/// The words of an interval's fields, by their mask.
fn fields(mask: i32) -> Option<&'static str> {
    Some(match mask {
        0x4 => "year",
        0x2 => "month",
        0x8 => "day",
        0x400 => "hour",
        0x800 => "minute",
        0x1000 => "second",
        0x6 => "year to month",
        0x408 => "day to hour",
        0xc08 => "day to minute",
        0x1c08 => "day to second",
        0xc00 => "hour to minute",
        0x1c00 => "hour to second",
        0x1800 => "minute to second",
        _ => return None,
    })
}

fn number(expr: &Expr) -> Option<i32> {
    match expr {
        Expr::Constant(Constant { value: Value::Integer(number), .. }) => Some(*number),
        _ => None,
    }
}

impl TypeName {
    /// Prints an interval with its fields or precision; false if it is another type.
    fn interval(&self, f: &mut Formatter<'_>) -> Result<bool, fmt::Error> {
        let is_interval = matches!(&self.name.0[..], [schema, name]
            if &*schema.name == "pg_catalog" && &*name.name == "interval");
        if !is_interval {
            return Ok(false);
        }
        let numbers: Option<Vec<i32>> = self.modifiers.iter().map(number).collect();
        match numbers.as_deref() {
            Some([]) => f.write_str("interval")?,
            Some([0x7fff, precision]) => write!(f, "interval({precision})")?,
            Some([mask, rest @ ..]) if fields(*mask).is_some() => {
                write!(f, "interval {}", fields(*mask).unwrap_or_default())?;
                if let Some(precision) = rest.first() {
                    write!(f, "({precision})")?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Display for TypeName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_set {
            f.write_str("SETOF ")?;
        }
        if !self.interval(f)? {
            let (before, behind) = standard(self).unwrap_or_default();
            match before {
                "" => self.name.fmt(f)?,
                words => f.write_str(words)?,
            }
            if !self.modifiers.is_empty() {
                write!(f, "({})", commas(&self.modifiers))?;
            }
            f.write_str(behind)?;
        }
        if self.is_reference {
            f.write_str("%TYPE")?;
        }
        for bound in &self.bounds {
            match bound {
                Some(bound) => write!(f, "[{bound}]")?,
                None => f.write_str("[]")?,
            }
        }
        Ok(())
    }
}
