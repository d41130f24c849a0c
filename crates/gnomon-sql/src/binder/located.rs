//! The place of the statement that an error is about, as PostgreSQL shows it.

use gnomon_parser::{
    Position,
    ast::{Access, Constant, Expr, InSet, QuantifiedOperand, QueryBody, Value},
};

use crate::SqlError;

/// Gives an error about the value of an expression its place, unless it has one.
pub fn at_expr(error: SqlError, expr: &Expr) -> SqlError {
    error.at(position_of(expr))
}

/// Gives an error of binding an expression its place, unless something within has said where: a string that cannot be
/// read, or the operator, name or word of the expression.
pub(super) fn at_node(error: SqlError, expr: &Expr) -> SqlError {
    // PostgreSQL shows no place of these.
    const WITHOUT: [&str; 2] = ["could not determine polymorphic type", "could not find array type"];
    if WITHOUT.iter().any(|begin| error.report().message.starts_with(begin)) {
        return error;
    }
    let position = match expr {
        // What the string stands for may be missing.
        Expr::Cast(cast) if let Some((_, position)) = string_of(&cast.operand) => Some(position),
        _ if error.state().0.starts_with("22") => misread_string(&error, expr),
        _ => None,
    };
    error.at(position.unwrap_or_else(|| node_position(expr)))
}

/// Returns the place where the value of an expression begins: that of its leftmost part.
pub fn position_of(expr: &Expr) -> Position {
    let (mut expr, mut first) = (expr, Position::NONE);
    loop {
        expr = match expr {
            Expr::Cast(cast) => {
                // CAST stands before its operand, `::` behind it. A string becomes a value of the type.
                if string_of(&cast.operand).is_none() {
                    first = earlier(first, cast.position);
                }
                &cast.operand
            }
            other => match leftmost_operand(other) {
                Some(operand) => operand,
                None => return earlier(first, node_position(other)),
            },
        };
    }
}

/// True if an expression stands for all columns of a relation or row.
pub fn is_star(expr: &Expr) -> bool {
    match expr {
        Expr::Column(column) => column.has_star,
        Expr::Indirection(parts) => matches!(parts.path.last(), Some(Access::Star)),
        _ => false,
    }
}

/// Returns the place of the value at a position of a list, in which a star stands for several.
pub fn item_position<'e>(items: impl IntoIterator<Item = &'e Expr>, at: usize) -> Position {
    let mut numbered = items.into_iter().enumerate();
    numbered
        .find(|(number, item)| *number == at || is_star(item))
        .map_or(Position::NONE, |(_, item)| position_of(item))
}

/// Returns the place of the value of a column of a query, if the query writes it.
pub fn query_item_position(body: &QueryBody, at: usize) -> Position {
    match body {
        QueryBody::Values(values) => values.rows.first().map_or(Position::NONE, |row| item_position(row, at)),
        QueryBody::Query(query) => query_item_position(&query.body, at),
        body => column_position(body, at),
    }
}

/// Returns the place that PostgreSQL shows for a column of a query: where its first SELECT writes it. It shows none for
/// a column of VALUES.
pub fn column_position(body: &QueryBody, at: usize) -> Position {
    match body {
        QueryBody::Select(select) => item_position(select.targets.iter().map(|target| &target.value), at),
        QueryBody::Values(_) => Position::NONE,
        QueryBody::Query(query) => column_position(&query.body, at),
        QueryBody::SetOperations(chain) => column_position(&chain.first, at),
    }
}

fn earlier(one: Position, other: Position) -> Position {
    match (one.byte(), other.byte()) {
        (Some(one_at), Some(other_at)) if one_at <= other_at => one,
        (_, Some(_)) => other,
        _ => one,
    }
}

/// The operand that stands before the operator or word of an expression.
fn leftmost_operand(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Operation(operation) => operation.left.as_ref(),
        Expr::And(chain) | Expr::Or(chain) => chain.operands.first(),
        Expr::Quantified(quantified) => Some(&quantified.left),
        Expr::IsNull(test) => Some(&test.operand),
        Expr::IsBoolean(test) => Some(&test.operand),
        Expr::IsDistinct(test) => Some(&test.left),
        Expr::In(test) => Some(&test.operand),
        Expr::Like(like) => Some(&like.operand),
        Expr::Between(between) => Some(&between.operand),
        Expr::Collate(collate) => Some(&collate.operand),
        Expr::Indirection(indirection) => Some(&indirection.base),
        // The first argument of AT TIME ZONE is the zone, so PostgreSQL takes the place of AT.
        Expr::Function(call)
            if call.is_sql_syntax && matches!(&*call.name.last().name, "overlaps" | "is_normalized") =>
        {
            call.arguments.first().map(|argument| &argument.value)
        }
        _ => None,
    }
}

/// The place of what an expression is: its operator, name or word.
fn node_position(expr: &Expr) -> Position {
    match expr {
        Expr::Column(column) => column.position,
        Expr::Constant(constant) => constant.position,
        Expr::Parameter(parameter) => parameter.position,
        Expr::Default(position) => *position,
        Expr::Indirection(indirection) => position_of(&indirection.base),
        Expr::Operation(operation) => operation.operator.position,
        Expr::Quantified(quantified) => quantified.operator.position,
        Expr::And(chain) | Expr::Or(chain) => chain.position,
        Expr::Not(not) => not.position,
        Expr::IsNull(test) => test.position,
        Expr::IsBoolean(test) => test.position,
        Expr::IsDistinct(test) => test.position,
        Expr::In(test) => test.position,
        Expr::Like(like) => like.position,
        Expr::Between(between) => between.position,
        Expr::Cast(cast) => match cast.position.byte() {
            Some(_) => cast.position,
            None => cast.ty.position,
        },
        Expr::Collate(collate) => collate.position,
        Expr::Case(case) => case.position,
        Expr::Row(row) => row.position,
        Expr::Array(array) => array.position,
        Expr::Subquery(subquery) | Expr::Exists(subquery) | Expr::ArraySubquery(subquery) => {
            subquery.position
        }
        Expr::Function(call) => call.position,
        Expr::SystemValue(value) => value.position,
        Expr::Coalesce(list) | Expr::Greatest(list) | Expr::Least(list) | Expr::Grouping(list) => {
            list.position
        }
        Expr::NullIf(nullif) => nullif.position,
        _ => Position::NONE,
    }
}

/// The place of the string among the operands that an error is about: the one that it shows, else the first.
fn misread_string(error: &SqlError, expr: &Expr) -> Option<Position> {
    let mut strings = operands(expr).into_iter().filter_map(string_of).peekable();
    let first = strings.peek()?.1;
    let message = &error.report().message;
    let shown = strings.find(|(text, _)| message.contains(&format!("\"{text}\"")));
    Some(shown.map_or(first, |(_, position)| position))
}

fn string_of(expr: &Expr) -> Option<(&str, Position)> {
    match expr {
        Expr::Constant(Constant { value: Value::String(text), position }) => Some((text, *position)),
        _ => None,
    }
}

/// The operands of an expression that binding it may convert.
fn operands(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Operation(operation) => operation.left.iter().chain([&operation.right]).collect(),
        Expr::Quantified(quantified) => {
            let array = match &quantified.right {
                QuantifiedOperand::Array(array) => Some(array),
                QuantifiedOperand::Query(_) => None,
            };
            [&quantified.left].into_iter().chain(array).collect()
        }
        Expr::And(chain) | Expr::Or(chain) => chain.operands.iter().collect(),
        Expr::Not(not) => vec![&not.operand],
        Expr::IsBoolean(test) => vec![&test.operand],
        Expr::IsDistinct(test) => vec![&test.left, &test.right],
        Expr::In(test) => {
            let list = match &test.set {
                InSet::List(list) => &list[..],
                InSet::Query(_) => &[],
            };
            [&test.operand].into_iter().chain(list).collect()
        }
        Expr::Like(like) => [&like.operand, &like.pattern].into_iter().chain(&like.escape).collect(),
        Expr::Between(between) => vec![&between.operand, &between.low, &between.high],
        Expr::Cast(cast) => match &cast.operand {
            Expr::Array(array) => array.elements.iter().collect(),
            operand => vec![operand],
        },
        Expr::Case(case) => {
            let results = case.branches.iter().flat_map(|(condition, result)| [condition, result]);
            case.operand.iter().chain(results).chain(&case.otherwise).collect()
        }
        Expr::Array(array) => array.elements.iter().collect(),
        Expr::Function(call) => {
            let ordered = if call.is_within_group { &call.order_by[..] } else { &[] };
            let arguments = call.arguments.iter().map(|argument| &argument.value);
            arguments.chain(ordered.iter().map(|item| &item.value)).collect()
        }
        Expr::Coalesce(list) | Expr::Greatest(list) | Expr::Least(list) => list.operands.iter().collect(),
        Expr::NullIf(nullif) => vec![&nullif.left, &nullif.right],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use gnomon_parser::ast::{QueryBody, Statement};

    use super::*;

    /// The expression of `SELECT expression`.
    fn selected(sql: &str) -> Expr {
        let parsed = gnomon_parser::parse(sql).expect(sql).pop().expect(sql);
        let Statement::Query(query) = parsed.statement else { panic!("{sql}") };
        let QueryBody::Select(mut select) = query.body else { panic!("{sql}") };
        select.targets.pop().expect(sql).value
    }

    /// Where PostgreSQL 15 reports an error about the value, and one about what the expression is.
    #[test]
    fn places_as_postgresql() {
        for (sql, value, node) in [
            ("SELECT a + b", 8, 10),
            ("SELECT - b", 8, 8),
            ("SELECT a + b * c || d", 8, 18),
            ("SELECT a AND b", 8, 10),
            ("SELECT a NOT IN (1)", 8, 10),
            ("SELECT a::int::text", 8, 14),
            ("SELECT CAST(a AS int)", 8, 8),
            ("SELECT CAST('a' AS int)", 13, 8),
            ("SELECT date 'a'", 13, 8),
            ("SELECT a AT TIME ZONE 'b'", 10, 10),
            ("SELECT f(a)", 8, 8),
            ("SELECT (f(a)).b", 9, 9),
            ("SELECT a[1] COLLATE \"C\"", 8, 13),
            ("SELECT ARRAY(SELECT 1)", 8, 8),
        ] {
            let expr = selected(sql);
            let at = |position: Position| position.character(sql);
            assert_eq!(
                (at(position_of(&expr)), at(node_position(&expr))),
                (Some(value), Some(node)),
                "{sql}"
            );
        }
    }

    /// Chains are as long as the parser lets them be.
    #[test]
    fn long_chains_have_places() {
        for link in ["::int", " + 1", " IS NORMALIZED", " COLLATE \"C\""] {
            let sql = format!("SELECT a{}", link.repeat(1000));
            assert_eq!(position_of(&selected(&sql)).character(&sql), Some(8), "{link}");
        }
    }
}
