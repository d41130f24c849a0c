//! Values against results that PostgreSQL 15 gave (`golden/`), and round trips of random ones.

use std::cmp::Ordering;

use proptest::{collection::vec, prelude::*};

use super::{
    ColumnType, Datum, Type, binary,
    compare::{RowKey, compare, compare_rows},
    encoding::Encoding,
    format_type,
    keys::{self, KeyColumn},
    modifier_of, parse_type_name, rows,
    testing::{column_type, config, nullable, plain, value, with_context},
    text,
};
use crate::{Result, SqlState};

/// A result as the golden files write it: `=` value, `~` NULL, `!` SQLSTATE and report.
pub fn shown(result: Result<Option<String>>) -> String {
    match result {
        Ok(Some(text)) => format!("={text}"),
        Ok(None) => "~".to_owned(),
        Err(error) => {
            let report = error.report();
            let mut out = format!("!{} {}", report.state.0, report.message);
            if let Some(detail) = &report.detail {
                out += &format!(" DETAIL {detail}");
            }
            if let Some(hint) = &report.hint {
                out += &format!(" HINT {hint}");
            }
            out
        }
    }
}

/// Lines `type|text|result`: the type reads the text and shows it.
#[test]
fn input_as_postgresql() {
    let mut failures = Vec::new();
    for line in include_str!("golden/input.txt").lines() {
        let (case, expected) = line.rsplit_once('|').expect("three parts");
        let (type_name, input) = case.split_once('|').expect("three parts");
        let result = with_context(|cx| {
            let target = parse_type_name(type_name)?;
            text::input(cx, input, target).and_then(|datum| text::output(cx, &datum, target.ty).map(Some))
        });
        let result = shown(result);
        if result != expected {
            failures.push(format!("{type_name} {input:?}:\n  expected {expected}\n  found    {result}"));
        }
    }
    assert!(failures.is_empty(), "{} differ\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn type_names_come_back() {
    for ty in Type::all().filter(|ty| *ty != Type::Record) {
        let name = format_type(ty, Some(-1));
        assert_eq!(parse_type_name(&name).expect(&name).ty, ty, "{name}");
        assert_eq!(Type::from_oid(ty.oid()), Some(ty));
    }
    for name in [
        "numeric(10,2)",
        "character(5)",
        "character varying(20)",
        "timestamp(3) without time zone",
        "timestamp(0) with time zone",
        "time(6) without time zone",
        "interval day to second(3)",
        "interval year to month",
        "numeric(3,-2)",
        "character varying(7)[]",
    ] {
        let parsed = parse_type_name(name).expect(name);
        assert_eq!(format_type(parsed.ty, Some(parsed.modifier)), name);
    }
    assert_eq!(
        parse_type_name("varchar(0)").expect_err("too short").state(),
        SqlState::INVALID_PARAMETER_VALUE
    );
    assert_eq!(
        parse_type_name("numeric(1001)").expect_err("too long").state(),
        SqlState::INVALID_PARAMETER_VALUE
    );
    assert_eq!(parse_type_name("json; drop").expect_err("no name").state(), SqlState::SYNTAX_ERROR);
    assert_eq!(parse_type_name("char").expect("char").modifier, 5);
    assert_eq!(parse_type_name("bpchar").expect("bpchar").modifier, -1);
    assert_eq!(parse_type_name("float(24)").expect("float").ty, Type::Float4);
    assert_eq!(parse_type_name("\"char\"").expect("char").ty, Type::Char);
    assert_eq!(parse_type_name("pg_catalog.int8").expect("int8").ty, Type::Int8);
    assert_eq!(modifier_of(Type::Numeric, &[10, 2]).expect("modifier"), (10 << 16 | 2) + 4);
    assert_eq!(Type::Date.info().function("recv"), "date_recv");
    assert_eq!(Type::Timestamp.info().function("typmodin"), "timestamptypmodin");
    assert_eq!(Type::Int4.info().function("out"), "int4out");
}

/// Equal, or both NaN; arrays and rows by elements.
fn identical(a: &Datum, b: &Datum) -> bool {
    compare(a, b).is_eq()
        && with_context(|cx| {
            text::output(cx, a, a.natural_type()).ok() == text::output(cx, b, b.natural_type()).ok()
        })
}

fn typed_value() -> impl Strategy<Value = (Type, Datum)> {
    column_type().prop_flat_map(|ty| (Just(ty), value(ty)))
}

fn typed_pair() -> impl Strategy<Value = (Type, Datum, Datum)> {
    column_type().prop_flat_map(|ty| (Just(ty), nullable(ty), nullable(ty)))
}

fn typed_rows() -> impl Strategy<Value = (Vec<KeyColumn>, Vec<Datum>, Vec<Datum>)> {
    vec((column_type(), any::<bool>(), any::<bool>()), 1..4).prop_flat_map(|columns| {
        let values: Vec<_> = columns.iter().map(|(ty, ..)| nullable(*ty)).collect();
        // The second row often shares a beginning with the first.
        let second = (values.clone(), vec(any::<bool>(), columns.len()));
        let columns: Vec<KeyColumn> = columns
            .into_iter()
            .map(|(ty, descending, nulls_first)| KeyColumn { ty: plain(ty), descending, nulls_first })
            .collect();
        (Just(columns), values, second).prop_map(|(columns, first, (second, shared))| {
            let second = first
                .iter()
                .zip(second)
                .zip(shared)
                .map(|((first, second), shared)| if shared { first.clone() } else { second })
                .collect();
            (columns, first, second)
        })
    })
}

/// The key of several columns; shorter than `columns` if there are fewer values (a prefix).
fn encode_row(datums: &[Datum], columns: &[KeyColumn]) -> Vec<u8> {
    let mut out = Vec::with_capacity(datums.len() * 9);
    for (datum, column) in datums.iter().zip(columns) {
        keys::encode(&mut out, datum, column.descending, column.nulls_first);
    }
    out
}

/// True for a vector without elements, or an array with one.
fn has_empty_vector(datum: &Datum, ty: Type) -> bool {
    let (Datum::Array(_, elements), Some(scalar)) = (datum, ty.element_scalar()) else { return false };
    (ty.is_vector() && elements.is_empty())
        || elements.iter().any(|element| has_empty_vector(element, scalar.into()))
}

/// The order that a key's columns ask for.
fn expected_order(columns: &[KeyColumn], a: &[Datum], b: &[Datum]) -> Ordering {
    for ((column, a), b) in columns.iter().zip(a).zip(b) {
        let ordering = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if column.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if column.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if column.descending => compare(b, a),
            (false, false) => compare(a, b),
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

fn hash_of(row: &[Datum]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    RowKey(row.into()).hash(&mut hasher);
    hasher.finish()
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn text_round_trips((ty, datum) in typed_value()) {
        // The names of objects need a catalog; a "char" of 0 and a text array of "char" show as nothing.
        prop_assume!(!format!("{ty:?}").contains("Reg"));
        with_context(|cx| {
            let shown = text::output(cx, &datum, ty).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
            let read = text::input(cx, &shown, plain(ty)).map_err(|e| TestCaseError::fail(format!("{shown}: {e:?}")))?;
            prop_assert!(identical(&datum, &read), "{shown} {datum:?} {read:?}");
            Ok(())
        })?;
    }

    #[test]
    fn binary_round_trips((ty, datum) in typed_value()) {
        // As in PostgreSQL, a vector without elements is not received.
        prop_assume!(!has_empty_vector(&datum, ty));
        let mut bytes = Vec::new();
        binary::send(&datum, ty, Encoding::UTF8, &mut bytes).unwrap();
        let read = binary::receive(&bytes, plain(ty), Encoding::UTF8).expect("what was sent");
        prop_assert!(identical(&datum, &read), "{datum:?} {read:?}");
    }

    #[test]
    fn damaged_binary_is_an_error(ty in column_type(), bytes in vec(any::<u8>(), 0..40)) {
        let _ = binary::receive(&bytes, plain(ty), Encoding::UTF8);
    }

    #[test]
    fn order_is_total((_, a, b) in typed_pair(), (_, c, _) in typed_pair()) {
        prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
        prop_assert!(compare(&a, &a).is_eq());
        let mut sorted = [&a, &b, &c];
        sorted.sort_by(|x, y| compare(x, y));
        prop_assert!(compare(sorted[0], sorted[2]).is_le());
        if compare(&a, &b).is_eq() {
            prop_assert_eq!(hash_of(&[a]), hash_of(&[b]));
        }
    }

    #[test]
    fn keys_order_as_values((columns, a, b) in typed_rows()) {
        let (first, second) = (encode_row(&a, &columns), encode_row(&b, &columns));
        prop_assert_eq!(first.cmp(&second), expected_order(&columns, &a, &b), "{:?} {:?}", a, b);
        if first != second {
            prop_assert!(!first.starts_with(&second) && !second.starts_with(&first));
        }
        for prefix in 0..=a.len() {
            let begin = encode_row(&a[..prefix], &columns);
            let inside = keys::prefix_end(&begin).is_none_or(|end| second < end) && second >= begin;
            prop_assert_eq!(inside, expected_order(&columns, &a[..prefix], &b[..prefix]).is_eq());
        }
        let decoded = keys::decode_row(&first, &columns).expect("what was encoded");
        prop_assert_eq!(compare_rows(&decoded, &a), Ordering::Equal, "{:?} {:?}", decoded, a);
    }

    #[test]
    fn damaged_keys_are_errors(ty in column_type(), descending: bool, bytes in vec(prop_oneof![any::<u8>(), 0_u8..5], 0..24)) {
        let column = KeyColumn { ty: plain(ty), descending, nulls_first: false };
        let _ = keys::decode_row(&bytes, &[column]);
    }

    #[test]
    fn rows_round_trip((columns, row, _) in typed_rows(), wanted in vec(any::<bool>(), 3)) {
        let types: Vec<ColumnType> = columns.iter().map(|column| column.ty).collect();
        let bytes = rows::encode(&row, &types).expect("values of these types");
        // Two columns were added since.
        let mut now = types.clone();
        now.extend([plain(Type::Int4), plain(Type::Text)]);
        let read = rows::decode(&bytes, &now).expect("what was encoded");
        prop_assert_eq!(read.len(), row.len());
        for (read, datum) in read.iter().zip(&row) {
            // char(n) without a length loses its blanks.
            prop_assert!(compare(read, datum).is_eq());
        }
        let wanted: Vec<usize> = (0..now.len()).filter(|i| wanted.get(*i).copied().unwrap_or(true)).collect();
        let mut some = vec![Datum::Bool(true); now.len()];
        let stored = rows::decode_columns(&bytes, &now, &wanted, &mut some).expect("what was encoded");
        prop_assert_eq!(stored, row.len());
        for (index, datum) in some.iter().enumerate() {
            if wanted.contains(&index) && index < stored {
                prop_assert!(compare(datum, &row[index]).is_eq());
            } else {
                prop_assert!(matches!(datum, Datum::Bool(true)));
            }
        }
    }

    #[test]
    fn damaged_rows_are_errors(types in vec(column_type(), 0..4), bytes in vec(prop_oneof![any::<u8>(), 0_u8..9], 0..40)) {
        let types: Vec<ColumnType> = types.into_iter().map(plain).collect();
        if let Err(error) = rows::decode(&bytes, &types) {
            prop_assert_eq!(error.state(), SqlState::DATA_CORRUPTED);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(ty in column_type(), input in "[-+:./ 0-9a-zA-Z{},\"\\\\]{0,20}") {
        with_context(|cx| {
            let _ = text::input(cx, &input, plain(ty));
        });
    }
}

/// Values that look different and are equal.
#[test]
fn equal_values_hash_and_encode_alike() {
    let interval = |months, days, hours: i64| {
        Datum::Interval(super::Interval { months, days, micros: hours * super::datetime::HOUR })
    };
    let pairs = [
        (Datum::Bpchar("a".into()), Datum::Bpchar("a   ".into())),
        (Datum::Numeric("1.5".parse_numeric()), Datum::Numeric("1.500".parse_numeric())),
        (Datum::Numeric("100".parse_numeric()), Datum::Numeric("1e2".parse_numeric())),
        (Datum::Numeric("0".parse_numeric()), Datum::Numeric("-0.00".parse_numeric())),
        (Datum::Float8(0.0), Datum::Float8(-0.0)),
        (Datum::Float4(0.0), Datum::Float4(-0.0)),
        (Datum::Float8(f64::NAN), Datum::Float8(-f64::NAN)),
        (interval(1, 0, 0), interval(0, 30, 0)),
        (interval(0, 1, 0), interval(0, 0, 24)),
    ];
    for (a, b) in pairs {
        assert!(compare(&a, &b).is_eq(), "{a:?} {b:?}");
        assert_eq!(hash_of(std::slice::from_ref(&a)), hash_of(std::slice::from_ref(&b)), "{a:?} {b:?}");
        let key = |datum: &Datum| {
            let mut out = Vec::new();
            keys::encode(&mut out, datum, false, false);
            out
        };
        assert_eq!(key(&a), key(&b), "{a:?} {b:?}");
    }
}

#[test]
fn binary_forms_as_postgresql() {
    let hex = |datum: &Datum, ty: Type| {
        let mut bytes = Vec::new();
        binary::send(datum, ty, Encoding::UTF8, &mut bytes).unwrap();
        let mut out = String::new();
        text::push_hex(&mut out, &bytes);
        out
    };
    let numeric = |text: &str| Datum::Numeric(text.parse_numeric());
    assert_eq!(hex(&numeric("12345.678"), Type::Numeric), "0003000100000003000109291a7c");
    assert_eq!(hex(&numeric("-0.00010"), Type::Numeric), "0001ffff400000050001");
    assert_eq!(hex(&numeric("0.00"), Type::Numeric), "0000000000000002");
    assert_eq!(hex(&numeric("NaN"), Type::Numeric), "00000000c0000000");
    assert_eq!(hex(&numeric("10000"), Type::Numeric), "00010001000000000001");
    let array = Datum::Array(super::Scalar::Int4, Box::new([Datum::Int4(1), Datum::Null]));
    assert_eq!(
        hex(&array, Type::Array(super::Scalar::Int4)),
        "0000000100000001000000170000000200000001\
         0000000400000001ffffffff"
    );
}

trait ParseNumeric {
    fn parse_numeric(&self) -> super::Numeric;
}

impl ParseNumeric for str {
    fn parse_numeric(&self) -> super::Numeric {
        super::Numeric::parse(self).expect("a numeric")
    }
}
