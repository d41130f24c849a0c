//! Expressions.

use std::fmt::{self, Display, Formatter};

use super::{Clause, Quoted, commas};
use crate::ast::{
    Argument, Expr, FunctionCall, InSet, LikeKind, Operation, Over, QuantifiedOperand, SystemValue,
    SystemValueKind, Value,
};

/// Prints an operand, in parentheses unless it is whole by itself.
struct Operand<'a>(&'a Expr);

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_whole = match self.0 {
            Expr::Constant(constant) => match &constant.value {
                Value::Integer(number) => *number >= 0,
                Value::Number(number) => !number.starts_with('-'),
                _ => true,
            },
            Expr::Function(call) => {
                !call.is_sql_syntax
                    || !matches!(&*call.name.last().name, "timezone" | "overlaps" | "is_normalized")
            }
            Expr::Column(_)
            | Expr::Parameter(_)
            | Expr::Case(_)
            | Expr::Array(_)
            | Expr::Row(_)
            | Expr::Subquery(_)
            | Expr::Exists(_)
            | Expr::ArraySubquery(_)
            | Expr::SystemValue(_)
            | Expr::Coalesce(_)
            | Expr::Greatest(_)
            | Expr::Least(_)
            | Expr::NullIf(_)
            | Expr::Grouping(_)
            | Expr::Indirection(_) => true,
            _ => false,
        };
        if is_whole { self.0.fmt(f) } else { write!(f, "({})", self.0) }
    }
}

/// Returns the strength with which an operator between two operands binds, if chains of that strength associate to the
/// left.
fn chain_level(operation: &Operation) -> Option<u8> {
    if operation.left.is_none() || !operation.operator.schema.is_empty() {
        return None;
    }
    match &*operation.operator.symbol {
        "<" | ">" | "=" | "<=" | ">=" | "<>" => None,
        "+" | "-" => Some(1),
        "*" | "/" | "%" => Some(2),
        "^" => Some(3),
        _ => Some(0),
    }
}

/// True if the left operand of an operator needs no parentheses: long chains would nest too deeply with them.
fn goes_on(operation: &Operation, left: &Expr) -> bool {
    match left {
        Expr::Operation(before) => {
            let level = chain_level(operation);
            level.is_some() && level == chain_level(before)
        }
        _ => false,
    }
}

fn not(is_negated: bool) -> &'static str {
    if is_negated { "NOT " } else { "" }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Column(column) => {
                let star = match (column.has_star, column.fields.is_empty()) {
                    (true, true) => "*",
                    (true, false) => ".*",
                    (false, _) => "",
                };
                write!(f, "{}{star}", super::List(&column.fields, "."))
            }
            Expr::Constant(constant) => constant.value.fmt(f),
            Expr::Parameter(parameter) => write!(f, "${}", parameter.number),
            Expr::Default(_) => f.write_str("DEFAULT"),
            Expr::Indirection(indirection) => {
                match &indirection.base {
                    // A field of a column would be a longer name.
                    base @ (Expr::Column(_) | Expr::Parameter(_))
                        if matches!(
                            indirection.path.first(),
                            Some(crate::ast::Access::Subscript(_) | crate::ast::Access::Slice(..))
                        ) =>
                    {
                        base.fmt(f)?;
                    }
                    base @ Expr::Subquery(_) => base.fmt(f)?,
                    base => write!(f, "({base})")?,
                }
                indirection.path.iter().try_for_each(|access| access.fmt(f))
            }
            Expr::Operation(operation) => {
                match &operation.left {
                    Some(left) if goes_on(operation, left) => write!(f, "{left} ")?,
                    Some(left) => write!(f, "{} ", Operand(left))?,
                    None => {}
                }
                match &operation.right {
                    Expr::Operation(next) if operation.left.is_none() && next.left.is_none() => {
                        write!(f, "{} {}", operation.operator, operation.right)
                    }
                    right => write!(f, "{} {}", operation.operator, Operand(right)),
                }
            }
            Expr::Quantified(quantified) => {
                let symbol = match &*quantified.operator.symbol {
                    "~~" if quantified.operator.schema.is_empty() => "LIKE".to_owned(),
                    "~~*" if quantified.operator.schema.is_empty() => "ILIKE".to_owned(),
                    "!~~" if quantified.operator.schema.is_empty() => "NOT LIKE".to_owned(),
                    "!~~*" if quantified.operator.schema.is_empty() => "NOT ILIKE".to_owned(),
                    _ => quantified.operator.to_string(),
                };
                let word = if quantified.is_all { "ALL" } else { "ANY" };
                write!(f, "{} {symbol} {word} ", Operand(&quantified.left))?;
                match &quantified.right {
                    QuantifiedOperand::Query(query) => write!(f, "({query})"),
                    QuantifiedOperand::Array(array) => write!(f, "({array})"),
                }
            }
            Expr::And(chain) | Expr::Or(chain) => {
                let word = if matches!(self, Expr::And(_)) { " AND " } else { " OR " };
                let operands: Vec<Operand<'_>> = chain.operands.iter().map(Operand).collect();
                super::List(&operands, word).fmt(f)
            }
            Expr::Not(not) => match &not.operand {
                next @ Expr::Not(_) => write!(f, "NOT {next}"),
                operand => write!(f, "NOT {}", Operand(operand)),
            },
            Expr::IsNull(test) => write!(f, "{} IS {}NULL", Operand(&test.operand), not(test.is_negated)),
            Expr::IsBoolean(test) => {
                let value = match test.value {
                    Some(true) => "TRUE",
                    Some(false) => "FALSE",
                    None => "UNKNOWN",
                };
                write!(f, "{} IS {}{value}", Operand(&test.operand), not(test.is_negated))
            }
            Expr::IsDistinct(test) => {
                let not = not(test.is_negated);
                write!(f, "{} IS {not}DISTINCT FROM {}", Operand(&test.left), Operand(&test.right))
            }
            Expr::In(test) => {
                write!(f, "{} {}IN ", Operand(&test.operand), not(test.is_negated))?;
                match &test.set {
                    InSet::Query(query) => write!(f, "({query})"),
                    InSet::List(list) => write!(f, "({})", commas(list)),
                }
            }
            Expr::Like(like) => {
                let word = match like.kind {
                    LikeKind::Like => "LIKE",
                    LikeKind::Ilike => "ILIKE",
                    LikeKind::Similar => "SIMILAR TO",
                };
                let not = not(like.is_negated);
                write!(f, "{} {not}{word} {}", Operand(&like.operand), Operand(&like.pattern))?;
                match &like.escape {
                    Some(escape) => write!(f, " ESCAPE {}", Operand(escape)),
                    None => Ok(()),
                }
            }
            Expr::Between(between) => {
                let symmetric = if between.is_symmetric { "SYMMETRIC " } else { "" };
                write!(f, "{} {}BETWEEN {symmetric}", Operand(&between.operand), not(between.is_negated))?;
                write!(f, "{} AND {}", Operand(&between.low), Operand(&between.high))
            }
            Expr::Cast(cast) => write!(f, "{}::{}", Operand(&cast.operand), cast.ty),
            Expr::Collate(collate) => {
                write!(f, "{} COLLATE {}", Operand(&collate.operand), collate.collation)
            }
            Expr::Case(case) => {
                f.write_str("CASE")?;
                Clause(" ", case.operand.as_ref()).fmt(f)?;
                for (condition, result) in &case.branches {
                    write!(f, " WHEN {condition} THEN {result}")?;
                }
                Clause(" ELSE ", case.otherwise.as_ref()).fmt(f)?;
                f.write_str(" END")
            }
            Expr::Row(row) => {
                write!(f, "{}({})", if row.is_explicit { "ROW" } else { "" }, commas(&row.fields))
            }
            Expr::Array(array) => write!(f, "ARRAY[{}]", commas(&array.elements)),
            Expr::Subquery(subquery) => write!(f, "({})", subquery.query),
            Expr::Exists(subquery) => write!(f, "EXISTS ({})", subquery.query),
            Expr::ArraySubquery(subquery) => write!(f, "ARRAY({})", subquery.query),
            Expr::Function(call) => call.fmt(f),
            Expr::SystemValue(value) => value.fmt(f),
            Expr::Coalesce(list) => write!(f, "COALESCE({})", commas(&list.operands)),
            Expr::Greatest(list) => write!(f, "GREATEST({})", commas(&list.operands)),
            Expr::Least(list) => write!(f, "LEAST({})", commas(&list.operands)),
            Expr::Grouping(list) => write!(f, "GROUPING({})", commas(&list.operands)),
            Expr::NullIf(operands) => write!(f, "NULLIF({}, {})", operands.left, operands.right),
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Boolean(true) => f.write_str("true"),
            Value::Boolean(false) => f.write_str("false"),
            Value::Integer(number) => number.fmt(f),
            Value::Number(number) => f.write_str(number),
            Value::String(text) => Quoted(text).fmt(f),
            Value::Bits(digits) => write!(f, "B{}", Quoted(digits)),
            Value::Hex(digits) => write!(f, "X{}", Quoted(digits)),
        }
    }
}

impl Display for SystemValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            SystemValueKind::CurrentDate => "CURRENT_DATE",
            SystemValueKind::CurrentTime => "CURRENT_TIME",
            SystemValueKind::CurrentTimestamp => "CURRENT_TIMESTAMP",
            SystemValueKind::LocalTime => "LOCALTIME",
            SystemValueKind::LocalTimestamp => "LOCALTIMESTAMP",
            SystemValueKind::CurrentRole => "CURRENT_ROLE",
            SystemValueKind::CurrentUser => "CURRENT_USER",
            SystemValueKind::SessionUser => "SESSION_USER",
            SystemValueKind::User => "USER",
            SystemValueKind::CurrentCatalog => "CURRENT_CATALOG",
            SystemValueKind::CurrentSchema => "CURRENT_SCHEMA",
        })?;
        match self.precision {
            Some(precision) => write!(f, "({precision})"),
            None => Ok(()),
        }
    }
}

impl Display for Argument {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} => {}", self.value),
            None => self.value.fmt(f),
        }
    }
}

impl FunctionCall {
    /// Prints what the standard has its own words for; false if that is not so.
    fn worded(&self, f: &mut Formatter<'_>) -> Result<bool, fmt::Error> {
        let operands: Vec<&Expr> = self.arguments.iter().map(|argument| &argument.value).collect();
        match (&*self.name.last().name, &operands[..]) {
            ("timezone", [zone, value]) => write!(f, "{} AT TIME ZONE {}", Operand(value), Operand(zone))?,
            ("overlaps", [a, b, c, d]) => write!(f, "({a}, {b}) OVERLAPS ({c}, {d})")?,
            ("is_normalized", [value]) => write!(f, "{} IS NORMALIZED", Operand(value))?,
            ("is_normalized", [value, form]) => {
                let form = form.to_string();
                write!(f, "{} IS {} NORMALIZED", Operand(value), form.trim_matches('\''))?;
            }
            ("normalize", [value]) => write!(f, "NORMALIZE({value})")?,
            ("normalize", [value, form]) => {
                let form = form.to_string();
                write!(f, "NORMALIZE({value}, {})", form.trim_matches('\''))?;
            }
            ("pg_collation_for", [value]) => write!(f, "COLLATION FOR ({value})")?,
            ("extract", [field, value]) => write!(f, "EXTRACT({field} FROM {value})")?,
            ("position", [value, part]) => write!(f, "POSITION({} IN {})", Operand(part), Operand(value))?,
            ("ltrim", _) => write!(f, "TRIM(LEADING FROM {})", commas(&operands))?,
            ("rtrim", _) => write!(f, "TRIM(TRAILING FROM {})", commas(&operands))?,
            ("btrim", _) => write!(f, "TRIM(BOTH FROM {})", commas(&operands))?,
            ("overlay", [value, by, from]) => write!(f, "OVERLAY({value} PLACING {by} FROM {from})")?,
            ("overlay", [value, by, from, length]) => {
                write!(f, "OVERLAY({value} PLACING {by} FROM {from} FOR {length})")?;
            }
            ("substring", [value, from]) => write!(f, "SUBSTRING({value} FROM {from})")?,
            ("substring", [value, from, length]) => write!(f, "SUBSTRING({value} FROM {from} FOR {length})")?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Display for FunctionCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.is_sql_syntax || !self.worded(f)? {
            write!(f, "{}(", self.name)?;
            if self.is_distinct {
                f.write_str("DISTINCT ")?;
            }
            if self.has_star {
                f.write_str("*")?;
            }
            for (at, argument) in self.arguments.iter().enumerate() {
                if at > 0 {
                    f.write_str(", ")?;
                }
                if self.is_variadic && at + 1 == self.arguments.len() {
                    f.write_str("VARIADIC ")?;
                }
                argument.fmt(f)?;
            }
            if !self.order_by.is_empty() && !self.is_within_group {
                write!(f, " ORDER BY {}", commas(&self.order_by))?;
            }
            f.write_str(")")?;
        }
        if self.is_within_group {
            write!(f, " WITHIN GROUP (ORDER BY {})", commas(&self.order_by))?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " FILTER (WHERE {filter})")?;
        }
        match &self.over {
            None => Ok(()),
            Some(Over::Name(name)) => write!(f, " OVER {name}"),
            Some(Over::Window(window)) => write!(f, " OVER {window}"),
        }
    }
}
