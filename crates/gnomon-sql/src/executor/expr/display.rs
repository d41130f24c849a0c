//! Expressions as EXPLAIN prints them.

use std::fmt;

use super::{Expr, ExprKind, SubqueryKind, on_deep_stack};
use crate::{
    executor::plan::AggregateCall,
    types::{Context, Datum, FixedEnvironment, cast::CastContext, format_type, text},
};

/// Prints an expression; columns by their names, with the relation's name if `qualified`.
pub struct DisplayExpr<'e> {
    /// The expression.
    pub expr: &'e Expr,
    /// True if columns are printed as `relation.column`.
    pub qualified: bool,
}

impl<'e> DisplayExpr<'e> {
    fn sub(&self, expr: &'e Expr) -> DisplayExpr<'e> {
        DisplayExpr { expr, qualified: self.qualified }
    }

    fn list(&self, f: &mut fmt::Formatter<'_>, items: &'e [Expr], separator: &str) -> fmt::Result {
        for (position, item) in items.iter().enumerate() {
            if position > 0 {
                f.write_str(separator)?;
            }
            fmt::Display::fmt(&self.sub(item), f)?;
        }
        Ok(())
    }
}

/// The name of a column without that of its relation; of a computed column, all of it.
pub fn own_name(label: &str) -> &str {
    match label.rsplit_once('.') {
        Some((_, column)) if !label.ends_with(')') => column,
        _ => label,
    }
}

fn constant(value: &Datum, expr: &Expr, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let environment = FixedEnvironment::default();
    let text = match value {
        Datum::Null => return f.write_str("NULL"),
        value => {
            text::output(&Context::new(&environment), value, expr.ty.ty).unwrap_or_else(|_| "...".to_owned())
        }
    };
    match value {
        Datum::Bool(_) | Datum::Int4(_) => f.write_str(if text == "t" {
            "true"
        } else if text == "f" {
            "false"
        } else {
            &text
        }),
        _ => write!(f, "'{}'::{}", text.replace('\'', "''"), format_type(expr.ty.ty, Some(expr.ty.modifier))),
    }
}

impl fmt::Display for DisplayExpr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        on_deep_stack(|| self.show(f))
    }
}

impl DisplayExpr<'_> {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.expr.kind {
            ExprKind::Const(value) => constant(value, self.expr, f),
            ExprKind::Column { label, .. } if self.qualified => f.write_str(label),
            ExprKind::Column { label, .. } => f.write_str(own_name(label)),
            // It has the column's name.
            ExprKind::System { key, .. } => fmt::Display::fmt(&self.sub(key), f),
            ExprKind::Param(position) => write!(f, "${}", position + 1),
            ExprKind::Slot(slot) => write!(f, "outer.{slot}"),
            ExprKind::Call { function, args } => match (function.operator(), &args[..]) {
                (Some(operator), [left, right]) => {
                    write!(f, "({} {operator} {})", self.sub(left), self.sub(right))
                }
                (Some(operator), [arg]) => write!(f, "({operator} {})", self.sub(arg)),
                _ => {
                    write!(f, "{}(", function.name())?;
                    let (first, array) = args.split_at(args.len() - usize::from(function.is_spread()));
                    self.list(f, first, ", ")?;
                    if let [array] = array {
                        let separator = if first.is_empty() { "" } else { ", " };
                        write!(f, "{separator}VARIADIC {}", self.sub(array))?;
                    }
                    f.write_str(")")
                }
            },
            ExprKind::Cast { arg, context } => match context {
                CastContext::Explicit => {
                    let ty = self.expr.ty;
                    write!(f, "({})::{}", self.sub(arg), format_type(ty.ty, Some(ty.modifier)))
                }
                CastContext::Implicit | CastContext::Compared | CastContext::Assignment => {
                    fmt::Display::fmt(&self.sub(arg), f)
                }
            },
            ExprKind::And(args) => {
                f.write_str("(")?;
                self.list(f, args, " AND ")?;
                f.write_str(")")
            }
            ExprKind::Or(args) => {
                f.write_str("(")?;
                self.list(f, args, " OR ")?;
                f.write_str(")")
            }
            ExprKind::Not(arg) => write!(f, "(NOT {})", self.sub(arg)),
            ExprKind::IsNull { arg, negated } => {
                write!(f, "({} IS {}NULL)", self.sub(arg), if *negated { "NOT " } else { "" })
            }
            ExprKind::IsBool { arg, value, negated } => {
                let value = match value {
                    Some(true) => "TRUE",
                    Some(false) => "FALSE",
                    None => "UNKNOWN",
                };
                write!(f, "({} IS {}{value})", self.sub(arg), if *negated { "NOT " } else { "" })
            }
            ExprKind::Distinct { args, negated, .. } => {
                f.write_str("(")?;
                let separator = if *negated { " IS NOT DISTINCT FROM " } else { " IS DISTINCT FROM " };
                self.list(f, args, separator)?;
                f.write_str(")")
            }
            ExprKind::Case { arms, otherwise } => {
                f.write_str("CASE")?;
                for (condition, result) in arms {
                    write!(f, " WHEN {} THEN {}", self.sub(condition), self.sub(result))?;
                }
                write!(f, " ELSE {} END", self.sub(otherwise))
            }
            ExprKind::Coalesce(args) => {
                f.write_str("COALESCE(")?;
                self.list(f, args, ", ")?;
                f.write_str(")")
            }
            ExprKind::Extreme { greatest, args, .. } => {
                f.write_str(if *greatest { "GREATEST(" } else { "LEAST(" })?;
                self.list(f, args, ", ")?;
                f.write_str(")")
            }
            ExprKind::AnyAll { function, all, left, array, .. } => {
                let quantifier = if *all { "ALL" } else { "ANY" };
                let operator = function.operator().unwrap_or("?");
                write!(f, "({} {operator} {quantifier} ({}))", self.sub(left), self.sub(array))
            }
            ExprKind::Array(_, args) => {
                f.write_str("ARRAY[")?;
                self.list(f, args, ", ")?;
                f.write_str("]")
            }
            ExprKind::Row(args) => {
                f.write_str("ROW(")?;
                self.list(f, args, ", ")?;
                f.write_str(")")
            }
            ExprKind::RowCompare { pairs } => {
                f.write_str("(ROW(")?;
                for side in [0, 1] {
                    for (position, pair) in pairs.iter().enumerate() {
                        let separator = if position > 0 { ", " } else { "" };
                        write!(f, "{separator}{}", self.sub(&pair.args[side]))?;
                    }
                    if side == 0 {
                        let operator = pairs.last().and_then(|pair| pair.order.operator()).unwrap_or("?");
                        write!(f, ") {operator} ROW(")?;
                    }
                }
                f.write_str("))")
            }
            ExprKind::Subscript { array, index, .. } => write!(f, "{}[{}]", self.sub(array), self.sub(index)),
            ExprKind::Slice { array, from, to, .. } => {
                write!(f, "{}[", self.sub(array))?;
                if let Some(from) = from {
                    fmt::Display::fmt(&self.sub(from), f)?;
                }
                f.write_str(":")?;
                if let Some(to) = to {
                    fmt::Display::fmt(&self.sub(to), f)?;
                }
                f.write_str("]")
            }
            ExprKind::SetPart { array, part, value } => {
                write!(f, "{}[", self.sub(array))?;
                if let Some(from) = &part.from {
                    fmt::Display::fmt(&self.sub(from), f)?;
                }
                if part.is_slice {
                    f.write_str(":")?;
                }
                if let Some(to) = &part.to {
                    fmt::Display::fmt(&self.sub(to), f)?;
                }
                write!(f, "] := {}", self.sub(value))
            }
            ExprKind::Field { record, index } => write!(f, "({}).f{}", self.sub(record), index + 1),
            ExprKind::Let { slot, value, body } => {
                write!(f, "(outer.{slot} := {} IN {})", self.sub(value), self.sub(body))
            }
            ExprKind::SetCall { function, args } => {
                write!(f, "{}(", function.name())?;
                self.list(f, args, ", ")?;
                f.write_str(")")
            }
            ExprKind::Subquery(subquery) => {
                let what = match &subquery.kind {
                    SubqueryKind::Exists => "EXISTS ",
                    SubqueryKind::Scalar | SubqueryKind::Row => "",
                    SubqueryKind::Array(_) => "ARRAY ",
                    SubqueryKind::Quantified { all: true, .. } => "ALL ",
                    SubqueryKind::Quantified { hash: Some(_), .. } if !subquery.correlated => "hashed ANY ",
                    SubqueryKind::Quantified { .. } => "ANY ",
                };
                let number = subquery.id + 1;
                match subquery.keyed {
                    None => write!(f, "({what}SubPlan {number})"),
                    Some(_) => write!(f, "({what}SubPlan {number} or hashed SubPlan {number})"),
                }
            }
            ExprKind::Aggregate(_) => f.write_str("aggregate"),
            ExprKind::Grouping(args) => {
                f.write_str("GROUPING(")?;
                self.list(f, args, ", ")?;
                f.write_str(")")
            }
            ExprKind::Window(_) => f.write_str("window"),
        }
    }
}

impl fmt::Display for AggregateCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, exprs: &[Expr]| {
            for (position, expr) in exprs.iter().enumerate() {
                let separator = if position > 0 { ", " } else { "" };
                write!(f, "{separator}{}", DisplayExpr { expr, qualified: false })?;
            }
            Ok(())
        };
        write!(f, "{}(", self.function.name())?;
        if self.function.direct().is_some() {
            list(f, &self.direct)?;
            f.write_str(") WITHIN GROUP (ORDER BY ")?;
        } else if self.distinct {
            f.write_str("DISTINCT ")?;
        } else if self.args.is_empty() {
            f.write_str("*")?;
        }
        list(f, &self.args)?;
        f.write_str(")")
    }
}
