//! Functions against results that PostgreSQL 15 gave (`golden/`), through a binder just large enough for them.

use gnomon_parser::ast::{Cast, Constant, Expr, LikeKind, SystemValue, SystemValueKind, Value};
use proptest::prelude::*;

use super::{
    Comparison, Function, Given, ResolvedCall, Volatility, like_prefix, resolve_aggregate, resolve_call,
    resolve_cast, resolve_operator, resolve_set_function,
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        ColumnType, Context, Datum, Numeric, Type,
        cast::{self, CastContext, common_type},
        column_type,
        testing::{config, nullable, value, with_context},
        tests::shown,
        text,
    },
};

struct Bound {
    ty: Type,
    value: Datum,
}

fn convert(cx: &Context, bound: Bound, to: Type) -> Result<Datum> {
    let cast = resolve_cast(bound.ty, to.into(), CastContext::Explicit)
        .ok_or_else(|| cast::cannot_cast(bound.ty, to))?;
    cast.apply(cx, bound.value)
}

fn call(cx: &Context, function: &Function, arguments: Vec<Bound>) -> Result<Bound> {
    let values = arguments
        .into_iter()
        .zip(function.arguments())
        .map(|(bound, to)| convert(cx, bound, *to))
        .collect::<Result<Vec<Datum>>>()?;
    Ok(Bound { ty: function.returns(), value: function.call(cx, &values)? })
}

fn apply(cx: &Context, name: &str, arguments: Vec<Bound>) -> Result<Bound> {
    let types: Vec<Type> = arguments.iter().map(|bound| bound.ty).collect();
    let ResolvedCall { function, given } = resolve_call(name, types[..].into())?;
    let mut values = arguments.into_iter();
    let of = |(given, ty): (Given, &Type)| match given {
        Given::Argument(_) => values.next(),
        Given::Default(value) => Some(Bound { ty: *ty, value }),
    };
    let arguments = given.into_iter().zip(function.arguments()).filter_map(of).collect();
    call(cx, &function, arguments)
}

fn literal(value: &str) -> Bound {
    Bound { ty: Type::Unknown, value: Datum::text(value) }
}

fn operator(cx: &Context, name: &str, left: Option<Bound>, right: Bound) -> Result<Bound> {
    let function = resolve_operator(name, left.as_ref().map(|bound| bound.ty), right.ty)?;
    call(cx, &function, left.into_iter().chain([right]).collect())
}

/// A number that may have a sign, which belongs to it.
fn number(text: &str) -> Result<Bound> {
    let ty = match text.parse::<i64>() {
        Ok(value) if i32::try_from(value).is_ok() => Type::Int4,
        Ok(_) => Type::Int8,
        Err(_) => Type::Numeric,
    };
    with_context(|cx| Ok(Bound { ty, value: text::input(cx, text, ty.into())? }))
}

fn unsupported(expr: &Expr) -> SqlError {
    panic!("the test binder does not know {expr}: {expr:?}")
}

fn constant(value: &Value) -> Result<Bound> {
    match value {
        Value::Integer(value) => Ok(Bound { ty: Type::Int4, value: Datum::Int4(*value) }),
        Value::Number(text) => number(text),
        Value::String(text) => Ok(literal(text)),
        Value::Boolean(value) => Ok(Bound { ty: Type::Bool, value: Datum::Bool(*value) }),
        Value::Null => Ok(Bound { ty: Type::Unknown, value: Datum::Null }),
        Value::Bits(_) | Value::Hex(_) => panic!("the test binder does not know {value:?}"),
    }
}

fn eval(cx: &Context, expr: &Expr) -> Result<Bound> {
    match expr {
        Expr::Constant(Constant { value, .. }) => constant(value),
        Expr::Cast(cast) => {
            let Cast { operand, ty, .. } = &**cast;
            explicit(cx, eval(cx, operand)?, column_type(ty)?)
        }
        Expr::Operation(operation) => {
            let left = operation.left.as_ref().map(|left| eval(cx, left)).transpose()?;
            operator(cx, &operation.operator.symbol, left, eval(cx, &operation.right)?)
        }
        Expr::Like(like) => {
            let mut pattern = eval(cx, &like.pattern)?;
            if let Some(escape) = &like.escape {
                pattern = apply(cx, "like_escape", vec![pattern, eval(cx, escape)?])?;
            }
            let name = match (like.kind, like.is_negated) {
                (LikeKind::Like, false) => "~~",
                (LikeKind::Like, true) => "!~~",
                (LikeKind::Ilike, false) => "~~*",
                (LikeKind::Ilike, true) => "!~~*",
                (LikeKind::Similar, _) => return Err(unsupported(expr)),
            };
            operator(cx, name, Some(eval(cx, &like.operand)?), pattern)
        }
        Expr::Function(call) => {
            let arguments = call.arguments.iter().map(|argument| eval(cx, &argument.value));
            apply(cx, &call.name.last().name, arguments.collect::<Result<Vec<Bound>>>()?)
        }
        Expr::SystemValue(SystemValue { kind: SystemValueKind::CurrentDate, precision: None, .. }) => {
            apply(cx, "current_date", Vec::new())
        }
        Expr::Array(array) => {
            let elements =
                array.elements.iter().map(|element| eval(cx, element)).collect::<Result<Vec<Bound>>>()?;
            let types: Vec<Type> = elements.iter().map(|bound| bound.ty).collect();
            let common = common_type(&types, "ARRAY")?;
            let values = elements
                .into_iter()
                .map(|bound| convert(cx, bound, common))
                .collect::<Result<Vec<Datum>>>()?;
            let scalar = common.scalar().expect("elements are scalars");
            Ok(Bound { ty: Type::Array(scalar), value: Datum::Array(scalar, values.into()) })
        }
        _ => Err(unsupported(expr)),
    }
}

fn explicit(cx: &Context, bound: Bound, to: ColumnType) -> Result<Bound> {
    let cast = resolve_cast(bound.ty, to, CastContext::Explicit)
        .ok_or_else(|| cast::cannot_cast(bound.ty, to.ty))?;
    Ok(Bound {
        ty: to.ty,
        value: if bound.value.is_null() { Datum::Null } else { cast.apply(cx, bound.value)? },
    })
}

fn evaluate(sql: &str) -> String {
    let expr = gnomon_parser::parse_expression(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    with_context(|cx| {
        shown(eval(cx, &expr).and_then(|bound| {
            // An unknown literal of a result is text.
            (!bound.value.is_null()).then(|| text::output(cx, &bound.value, bound.ty)).transpose()
        }))
    })
}

/// Lines `expression => result`.
#[test]
fn expressions_as_postgresql() {
    let mut failures = Vec::new();
    for line in include_str!("golden/expressions.txt").lines() {
        let (sql, expected) = line.rsplit_once(" => ").expect("two parts");
        let result = evaluate(sql);
        if result != expected {
            failures.push(format!("{sql}:\n  expected {expected}\n  found    {result}"));
        }
    }
    assert!(failures.is_empty(), "{} differ\n{}", failures.len(), failures.join("\n"));
}

/// Lines `aggregate|type|values|result`: the values separated by blanks, those of a pair by a semicolon, `~` for NULL.
#[test]
fn aggregates_as_postgresql() {
    let mut failures = Vec::new();
    for line in include_str!("golden/aggregates.txt").lines() {
        let parts: Vec<&str> = line.splitn(4, '|').collect();
        let [name, type_name, values, expected] = parts[..] else { panic!("four parts: {line}") };
        let result = with_context(|cx| {
            let ty = crate::types::parse_type_name(type_name)?.ty;
            let is_of_pairs = name.starts_with("regr_") || name.starts_with("co") && name != "count";
            let given = match name {
                "string_agg" => vec![ty, Type::Unknown],
                _ if is_of_pairs => vec![ty; 2],
                _ => vec![ty],
            };
            let aggregate = resolve_aggregate(name, given[..].into(), false)?;
            let mut state = aggregate.accumulator();
            for value in values.split(' ').filter(|value| !value.is_empty()) {
                let argument = |value: &str| {
                    let value = if value == "~" { Datum::Null } else { text::input(cx, value, ty.into())? };
                    convert(cx, Bound { ty, value }, aggregate.arguments()[0])
                };
                let row = match value.split_once(';') {
                    Some((first, second)) => [argument(first)?, argument(second)?],
                    None => [argument(value)?, Datum::text(",")],
                };
                state.step(&row[..given.len()])?;
            }
            let value = state.finish()?;
            (!value.is_null()).then(|| text::output(cx, &value, aggregate.returns())).transpose()
        });
        let result = shown(result);
        if result != expected {
            failures
                .push(format!("{name}({type_name}) {values}:\n  expected {expected}\n  found    {result}"));
        }
    }
    assert!(failures.is_empty(), "{} differ\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn operators_tell_what_indexes_need() {
    let less = resolve_operator("<", Some(Type::Int4), Type::Int8).expect("integers compare");
    assert_eq!(less.comparison(), Some(Comparison::Less));
    assert_eq!(less.arguments(), [Type::Int8, Type::Int8]);
    assert_eq!(less.operator(), Some("<"));
    assert_eq!(less.volatility, Volatility::Immutable);
    let equal = resolve_operator("=", Some(Type::Bpchar), Type::Unknown).expect("char(n) compares");
    assert_eq!(equal.arguments(), [Type::Bpchar, Type::Bpchar]);
    let named = resolve_operator("!=", Some(Type::Varchar), Type::Unknown).expect("varchar compares");
    assert_eq!((named.name(), named.arguments()), ("<>", &[Type::Text, Type::Text][..]));
    assert_eq!(
        resolve_operator("+", Some(Type::Unknown), Type::Unknown).expect_err("no idea").state(),
        SqlState::AMBIGUOUS_FUNCTION
    );
}

#[test]
fn sets_as_postgresql() {
    let rows = |name: &str, arguments: &[&str], types: &[Type]| {
        with_context(|cx| -> Result<String> {
            let function = resolve_set_function(name, types.into())?;
            let values = arguments
                .iter()
                .zip(types)
                .zip(function.arguments())
                .map(|((argument, ty), to)| {
                    let value = text::input(cx, argument, (*ty).into())?;
                    convert(cx, Bound { ty: *ty, value }, *to)
                })
                .collect::<Result<Vec<Datum>>>()?;
            let ty = function.columns()[0].1;
            let rows = function.rows(&values, cx)?;
            Ok(rows.iter().map(|row| text::output(cx, &row[0], ty)).collect::<Result<Vec<_>>>()?.join(" "))
        })
    };
    let int = [Type::Int4; 3];
    assert_eq!(rows("generate_series", &["1", "4"], &int[..2]).expect("rows"), "1 2 3 4");
    assert_eq!(rows("generate_series", &["5", "1", "-2"], &int).expect("rows"), "5 3 1");
    assert_eq!(
        rows("generate_series", &["2147483646", "2147483647"], &int[..2]).expect("rows"),
        "2147483646 2147483647"
    );
    assert_eq!(rows("generate_series", &["3", "2"], &int[..2]).expect("rows"), "");
    assert_eq!(
        rows("generate_series", &["1", "2", "0"], &int).expect_err("no step").report().message,
        "step size cannot equal zero"
    );
    assert_eq!(
        rows("generate_series", &["1.1", "4", "1.3"], &[Type::Numeric; 3]).expect("rows"),
        "1.1 2.4 3.7"
    );
    assert_eq!(
        rows(
            "generate_series",
            &["2024-01-31", "2024-04-30", "1 month"],
            &[Type::Timestamp, Type::Timestamp, Type::Interval]
        )
        .expect("rows"),
        "2024-01-31 00:00:00 2024-02-29 00:00:00 2024-03-29 00:00:00 2024-04-29 00:00:00"
    );
    assert_eq!(rows("unnest", &["{a,b}"], &[Type::Array(crate::types::Scalar::Text)]).expect("rows"), "a b");
    assert_eq!(rows("regexp_split_to_table", &["a b c", " "], &[Type::Text; 2]).expect("rows"), "a b c");
}

#[test]
fn patterns_give_index_bounds() {
    assert_eq!(like_prefix("abc%"), ("abc".to_owned(), false));
    assert_eq!(like_prefix("a\\%b"), ("a%b".to_owned(), true));
    assert_eq!(like_prefix("_x"), (String::new(), false));
}

/// LIKE by definition, slow.
fn like_slowly(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|i| like_slowly(&text[i..], rest)),
        ['_', rest @ ..] => !text.is_empty() && like_slowly(&text[1..], rest),
        [c, rest @ ..] => text.first() == Some(c) && like_slowly(&text[1..], rest),
    }
}

/// Every function on random values of its types: an error perhaps, never a panic.
#[test]
fn no_function_panics() {
    // These make as much text or as many digits as they are asked for: slow, not wrong.
    const SLOW: [&str; 9] =
        ["repeat", "lpad", "rpad", "factorial", "exp", "power", "pow", "numeric_power", "dpow"];
    let mut runner = proptest::test_runner::TestRunner::new(config(1));
    let rounds: usize = std::env::var("FUNCTION_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let mut panics = Vec::new();
    with_context(|cx| {
        for (declaration, is_operator) in super::registry::native_declarations() {
            if SLOW.contains(&declaration.0) || declaration.0 == "^" {
                continue;
            }
            let (name, types) = declaration;
            let function = if is_operator {
                match types[..] {
                    [right] => resolve_operator(name, None, right),
                    [left, right] => resolve_operator(name, Some(left), right),
                    _ => unreachable!("operators have one or two operands"),
                }
            } else {
                resolve_call(name, types[..].into()).map(|call| call.function)
            };
            let function = function.unwrap_or_else(|error| panic!("{name}{types:?}: {error:?}"));
            for _ in 0..rounds {
                let values: Vec<Datum> = function
                    .arguments()
                    .iter()
                    .map(|ty| {
                        use proptest::strategy::ValueTree;
                        nullable(*ty).new_tree(&mut runner).expect("a value").current()
                    })
                    .collect();
                let result =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| function.call(cx, &values)));
                if result.is_err() {
                    panics.push(format!("{name} on {values:?}"));
                }
            }
        }
    });
    assert!(panics.is_empty(), "these panic:\n{}", panics.join("\n"));
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn like_agrees_with_its_definition(text in "[aé]{0,6}", pattern in "[aé%_]{0,6}") {
        let (t, p): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
        prop_assert_eq!(with_context(|cx| super::pattern::like(cx, &text, &pattern)).expect("no escapes"), like_slowly(&t, &p));
    }

    #[test]
    fn templates_and_patterns_never_panic(
        template in "([YMDHISQWJG,.:;/ \"90VSL]|MI|SS|MON|Day|FM|TH|th|PR|EEEE|RN|HH12|HH24|TZ|OF|AM|YYYY|DDD|US){0,8}",
        input in "[-+0-9 :./,aJMSé]{0,16}",
        pattern in "[a-c%_\\\\\\[\\](){}*+?^$|.:-]{0,8}",
        timestamp in value(Type::Timestamp),
        number in value(Type::Numeric),
    ) {
        with_context(|cx| {
            let calls = [
                ("to_char", [timestamp, Datum::text(template.as_str())]),
                ("to_char", [number, Datum::text(template.as_str())]),
                ("to_date", [Datum::text(input.as_str()), Datum::text(template.as_str())]),
                ("to_timestamp", [Datum::text(input.as_str()), Datum::text(template.as_str())]),
                ("to_number", [Datum::text(input.as_str()), Datum::text(template.as_str())]),
                ("regexp_match", [Datum::text(input.as_str()), Datum::text(pattern.as_str())]),
                ("like", [Datum::text(input.as_str()), Datum::text(pattern.as_str())]),
                ("similar_to_escape", [Datum::text(pattern.as_str()), Datum::text("#")]),
                ("format", [Datum::text(format!("%{pattern}{input}")), Datum::text("x")]),
            ];
            for (name, values) in calls {
                let types: Vec<Type> = values.iter().map(Datum::natural_type).collect();
                let _ = resolve_call(name, types[..].into()).map(|call| call.function).expect(name).call(cx, &values);
            }
        });
    }

    #[test]
    fn numeric_division_inverts_multiplication(a in any::<i64>(), b in any::<i32>(), scale in 0_i64..6) {
        prop_assume!(b != 0);
        let (a, b) = (Numeric::new(a.into(), scale), Numeric::from(i64::from(b)));
        let product = a.mul(&b).expect("small");
        prop_assert_eq!(product.div(&b).expect("not zero"), a);
    }

    #[test]
    fn roots_and_logarithms_invert(n in 1_i64..1_000_000_000_000, scale in 0_i64..12) {
        let value = Numeric::new(n.into(), scale);
        let root = value.sqrt_to_scale(40).expect("positive");
        prop_assert_eq!(root.mul(&root).expect("small").round(20), value.round(20));
        let back = value.ln().expect("positive").exp().expect("small");
        let error = back.sub(&value).expect("small").abs();
        let tolerance = value.mul(&Numeric::parse("1e-12").expect("a numeric")).expect("small");
        prop_assert!(error <= tolerance, "{value} {back}");
    }
}

/// An environment that counts how often the interrupt is looked at.
#[derive(Default)]
struct Looks(std::cell::Cell<usize>);

impl crate::types::Environment for Looks {
    fn clock(&self) -> i64 {
        0
    }
    fn random(&self) -> u64 {
        0
    }
    fn set_seed(&self, _: u64) {}
    fn check_interrupt(&self) -> Result<()> {
        self.0.set(self.0.get() + 1);
        Ok(())
    }
}

/// 35 calls with arguments of 2 MiB to 8 MiB: in front of each and behind it the interrupt is looked at, and in long loops
/// too.
#[test]
fn long_calls_look_at_the_interrupt() {
    const IN_LOOPS: usize = 4;
    const AROUND: usize = 2;
    let long = |bytes: usize| literal(&"ab".repeat(bytes / 2));
    let mib = 1 << 20;
    let text = |text: &str| literal(text);
    let number = |number: i32| Bound { ty: Type::Int4, value: Datum::Int4(number) };
    let bytes = |length: usize| Bound { ty: Type::Bytea, value: Datum::Bytea(vec![7; length].into()) };
    let numeric = |digits: usize| Bound {
        ty: Type::Numeric,
        value: Datum::Numeric(Numeric::parse(&"7".repeat(digits)).unwrap()),
    };
    let calls: Vec<(&str, Vec<Bound>, usize)> = vec![
        ("replace", vec![long(4 * mib), text("a"), text("cd")], IN_LOOPS),
        ("replace", vec![long(4 * mib), text("x"), text("cd")], AROUND),
        ("translate", vec![long(4 * mib), text("a"), text("x")], IN_LOOPS),
        ("translate", vec![text("a"), long(4 * mib), long(4 * mib)], IN_LOOPS),
        ("repeat", vec![text("ab"), number(4 << 20)], IN_LOOPS),
        ("lpad", vec![text("ab"), number(8 << 20), text("xy")], IN_LOOPS),
        ("rpad", vec![text("ab"), number(8 << 20), text("xy")], IN_LOOPS),
        ("rpad", vec![text("ab"), number(8 << 20)], IN_LOOPS),
        ("initcap", vec![long(4 * mib)], IN_LOOPS),
        ("reverse", vec![long(4 * mib)], IN_LOOPS),
        ("upper", vec![long(2 * mib)], AROUND),
        ("lower", vec![long(2 * mib)], AROUND),
        ("length", vec![long(2 * mib)], AROUND),
        ("md5", vec![bytes(2 * mib)], AROUND),
        ("overlay", vec![long(2 * mib), text("x"), number(3)], AROUND),
        ("substring", vec![long(2 * mib), number(2)], AROUND),
        ("split_part", vec![long(2 * mib), text("a"), number(-1)], AROUND),
        ("strpos", vec![long(2 * mib), text("x")], AROUND),
        ("btrim", vec![long(2 * mib), text("x")], AROUND),
        ("quote_literal", vec![long(2 * mib)], AROUND),
        ("concat", vec![long(2 * mib), long(2 * mib)], IN_LOOPS),
        ("encode", vec![bytes(4 * mib), text("base64")], IN_LOOPS),
        ("encode", vec![bytes(4 * mib), text("escape")], IN_LOOPS),
        ("encode", vec![bytes(2 * mib), text("hex")], AROUND),
        ("decode", vec![long(4 * mib), text("base64")], IN_LOOPS),
        ("decode", vec![long(2 * mib), text("hex")], AROUND),
        ("convert_to", vec![long(2 * mib), text("UTF8")], AROUND),
        ("regexp_replace", vec![long(2 * mib), text("a"), text("b"), text("g")], IN_LOOPS),
        ("regexp_match", vec![long(2 * mib), text("x")], AROUND),
        ("regexp_count", vec![long(2 * mib), text("a")], IN_LOOPS),
        ("string_to_array", vec![long(2 * mib), text("a")], AROUND),
        ("factorial", vec![number(6000)], IN_LOOPS),
        ("power", vec![numeric(2000), numeric(1)], AROUND),
        ("sqrt", vec![numeric(2000)], AROUND),
        ("ln", vec![numeric(2000)], AROUND),
    ];
    assert_eq!(calls.len(), 35);
    for (name, arguments, least) in calls {
        let environment = Looks::default();
        let cx = Context::new(&environment);
        let types: Vec<Type> = arguments.iter().map(|bound| bound.ty).collect();
        apply(&cx, name, arguments).unwrap_or_else(|error| panic!("{name}{types:?}: {error:?}"));
        let looks = environment.0.get();
        assert!(looks >= least, "{name}{types:?} looked {looks} times");
    }
}
