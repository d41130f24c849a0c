//! Random values of every type, for the property tests of this folder and of `functions`.

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, RngSeed},
};

use super::{
    ColumnType, Context, Datum, FixedEnvironment, Interval, Numeric, Scalar, Tid, Type,
    datetime::{DATE_MAX, DATE_MIN, DAY, TIMESTAMP_END, TIMESTAMP_MIN, Zone},
};

/// So many cases from a fixed seed; `PROPTEST_CASES` and `PROPTEST_RNG_SEED` in the environment override both.
pub fn config(cases: u32) -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if matches!(config.rng_seed, RngSeed::Random) {
        config.rng_seed = RngSeed::Fixed(2024);
    }
    config
}

/// A context at 2024-06-15 12:00 UTC in Europe/Berlin.
pub fn with_context<R>(test: impl FnOnce(&Context) -> R) -> R {
    let environment = FixedEnvironment::at(771_768_000_000_000);
    let mut cx = Context::new(&environment);
    cx.zone = Zone::parse("Europe/Berlin").expect("a bundled zone");
    test(&cx)
}

fn small_or_any<T: Copy + std::fmt::Debug + Arbitrary + From<i8> + 'static>(
    least: T,
    most: T,
) -> BoxedStrategy<T> {
    prop_oneof![
        4 => any::<T>(),
        4 => any::<i8>().prop_map(T::from),
        1 => Just(least),
        1 => Just(most),
    ]
    .boxed()
}

fn numeric() -> BoxedStrategy<Numeric> {
    prop_oneof![
        1 => Just(Numeric::NaN),
        1 => Just(Numeric::Infinity),
        1 => Just(Numeric::NegativeInfinity),
        2 => Just(Numeric::zero()),
        10 => (any::<i64>(), 0_i64..30).prop_map(|(n, scale)| Numeric::new(n.into(), scale)),
        10 => (-999_i64..999, -6_i64..8).prop_map(|(n, scale)| Numeric::new(n.into(), scale)),
        5 => (any::<i128>(), 0_i64..60).prop_map(|(n, scale)| Numeric::new(n.into(), scale)),
    ]
    .boxed()
}

fn text() -> BoxedStrategy<String> {
    prop_oneof!["[ab\u{1}\u{7f}ÿ ]{0,6}", "\\PC{0,12}", "[\"\\\\{},()NULnul ]{0,8}"].boxed()
}

/// Values of a type, never NULL (elements of arrays may be).
pub fn value(ty: Type) -> BoxedStrategy<Datum> {
    match ty {
        Type::Bool => any::<bool>().prop_map(Datum::Bool).boxed(),
        Type::Int2 => small_or_any(i16::MIN, i16::MAX).prop_map(Datum::Int2).boxed(),
        Type::Int4 => small_or_any(i32::MIN, i32::MAX).prop_map(Datum::Int4).boxed(),
        Type::Int8 => small_or_any(i64::MIN, i64::MAX).prop_map(Datum::Int8).boxed(),
        Type::Float4 => prop_oneof![
            8 => any::<f32>(),
            1 => Just(-0.0_f32),
            1 => Just(0.0_f32),
            1 => Just(f32::NAN),
            1 => Just(f32::INFINITY),
            1 => Just(f32::NEG_INFINITY),
            4 => (-1000_i16..1000).prop_map(|n| f32::from(n) / 8.0),
        ]
        .prop_map(Datum::Float4)
        .boxed(),
        Type::Float8 => prop_oneof![
            8 => any::<f64>(),
            1 => Just(-0.0_f64),
            1 => Just(0.0_f64),
            1 => Just(f64::NAN),
            1 => Just(f64::INFINITY),
            1 => Just(f64::NEG_INFINITY),
            4 => (-1000_i16..1000).prop_map(|n| f64::from(n) / 8.0),
        ]
        .prop_map(Datum::Float8)
        .boxed(),
        Type::Numeric => numeric().prop_map(Datum::Numeric).boxed(),
        Type::Text | Type::Varchar | Type::Name => text().prop_map(Datum::text).boxed(),
        Type::Bpchar => text().prop_map(|text| Datum::Bpchar(text.into())).boxed(),
        Type::Bytea => vec(prop_oneof![any::<u8>(), 0_u8..3, 254_u8..=255], 0..8)
            .prop_map(|bytes| Datum::Bytea(bytes.into()))
            .boxed(),
        Type::Date => prop_oneof![
            1 => Just(i32::MIN), 1 => Just(i32::MAX), 5 => DATE_MIN..=DATE_MAX, 5 => -9_000_i32..9_000
        ]
        .prop_map(Datum::Date)
        .boxed(),
        Type::Time => (0..=DAY).prop_map(Datum::Time).boxed(),
        Type::Timestamp => timestamp().prop_map(Datum::Timestamp).boxed(),
        Type::Timestamptz => timestamp().prop_map(Datum::Timestamptz).boxed(),
        Type::Interval => (
            small_or_any(i32::MIN, i32::MAX),
            small_or_any(i32::MIN, i32::MAX),
            prop_oneof![any::<i64>(), (-50_i64..50).prop_map(|hours| hours * DAY / 24)],
        )
            .prop_map(|(months, days, micros)| Datum::Interval(Interval { months, days, micros }))
            .boxed(),
        Type::PgLsn => any::<u64>().prop_map(Datum::PgLsn).boxed(),
        Type::Uuid => any::<[u8; 16]>().prop_map(Datum::Uuid).boxed(),
        Type::Tid => {
            (any::<u32>(), any::<u16>()).prop_map(|(block, offset)| Datum::Tid(Tid { block, offset })).boxed()
        }
        Type::Xid8 => any::<u64>().prop_map(Datum::Xid8).boxed(),
        Type::Char => (0_u8..128).prop_map(Datum::Char).boxed(),
        Type::Oid | Type::Xid | Type::Cid | registered!() => any::<u32>().prop_map(Datum::Oid).boxed(),
        Type::Int2vector => vec(value(Type::Int2), 0..4)
            .prop_map(|elements| Datum::Array(Scalar::Int2, elements.into()))
            .boxed(),
        Type::Oidvector => vec(value(Type::Oid), 0..4)
            .prop_map(|elements| Datum::Array(Scalar::Oid, elements.into()))
            .boxed(),
        Type::Array(scalar) => vec(nullable(scalar.into()), 0..4)
            .prop_map(move |elements| Datum::Array(scalar, elements.into()))
            .boxed(),
        Type::Record | Type::AnyArray | Type::Void | Type::Unknown | Type::Aclitem | Type::Catalog(_) => {
            Just(Datum::text("")).boxed()
        }
    }
}

fn timestamp() -> BoxedStrategy<i64> {
    prop_oneof![
        1 => Just(i64::MIN),
        1 => Just(i64::MAX),
        5 => TIMESTAMP_MIN + DAY..TIMESTAMP_END - DAY,
        5 => (-1_000_000_i64..1_000_000).prop_map(|minutes| minutes * 60_000_000),
    ]
    .boxed()
}

/// Values of a type, sometimes NULL.
pub fn nullable(ty: Type) -> BoxedStrategy<Datum> {
    prop_oneof![1 => Just(Datum::Null), 6 => value(ty)].boxed()
}

/// Types that columns can have.
pub fn column_type() -> impl Strategy<Value = Type> {
    // Items of access control lists need the roles of a catalog.
    let beyond = [Scalar::Record, Scalar::Aclitem];
    let scalars = Scalar::ALL.iter().copied().filter(|scalar| !beyond.contains(scalar));
    let all: Vec<Type> = scalars.clone().map(Type::from).chain(scalars.map(Type::Array)).collect();
    proptest::sample::select(all)
}

/// A type without modifier.
pub fn plain(ty: Type) -> ColumnType {
    ColumnType::from(ty)
}
