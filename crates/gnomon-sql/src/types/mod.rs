//! Types and values: their text and binary forms, comparison, arithmetic, casts; keys and rows as bytes.
//!
//! Everything behaves as PostgreSQL 15 does, its messages and SQLSTATEs included, with these limits: arrays have
//! one dimension and begin at 1; text is UTF-8 and collates bytewise (collation "C").
//!
//! NULL is the caller's business wherever a function takes the text or bytes of one value; [`compare`], [`keys`]
//! and [`rows`] take NULLs as they come.

/// The pattern of the types that stand for objects of the catalog: regclass and its like.
macro_rules! registered {
    () => {
        $crate::types::Type::Regclass
            | $crate::types::Type::Regtype
            | $crate::types::Type::Regproc
            | $crate::types::Type::Regprocedure
            | $crate::types::Type::Regnamespace
            | $crate::types::Type::Regrole
            | $crate::types::Type::Regcollation
            | $crate::types::Type::Regoper
            | $crate::types::Type::Regoperator
            | $crate::types::Type::Regconfig
            | $crate::types::Type::Regdictionary
    };
}
pub(crate) use registered;

pub mod acl;
pub mod binary;
pub mod cast;
pub mod collation;
pub mod column;
pub mod compare;
mod context;
pub mod counted;
pub mod datetime;
pub mod encoding;
pub mod float;
mod info;
pub mod keys;
pub mod limit;
mod name;
pub mod numeric;
mod numeric_math;
pub mod rows;
pub mod shape;
pub(crate) mod tagged;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;
pub mod text;

pub use context::{Context, Environment, FixedEnvironment};
pub use info::TypeInfo;
pub(crate) use name::numeric_modifier;
pub use name::{
    column_type, format_type, known_type, modifier_of, or_unsupported_type, parse_type, parse_type_name,
};
pub use numeric::{Numeric, to_base_10000};

macro_rules! scalars {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A type of SQL values. Length, precision and scale are no part of it: see [`TypeMod`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "PostgreSQL's own type names")]
        pub enum Type {
            $($(#[$doc])* $name,)*
            /// A one-dimensional array of a scalar type.
            Array(Scalar),
            /// An array of any type, told by the value: of system tables.
            AnyArray,
            Void,
            /// A literal or parameter whose type is not known yet.
            Unknown,
            /// A type of values that only system tables hold.
            Catalog(CatalogText),
        }

        /// The element types of arrays: every type but arrays, void and unknown. Apart so that [`Type`] is `Copy`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "PostgreSQL's own type names")]
        pub enum Scalar {
            $($name,)*
        }

        impl Scalar {
            /// Every scalar type.
            pub const ALL: &[Scalar] = &[$(Scalar::$name,)*];
        }

        impl From<Scalar> for Type {
            fn from(scalar: Scalar) -> Type {
                match scalar { $(Scalar::$name => Type::$name,)* }
            }
        }

        impl Type {
            /// This type as the element of an array, if it can be one.
            pub fn scalar(self) -> Option<Scalar> {
                match self {
                    $(Type::$name => Some(Scalar::$name),)*
                    Type::Array(_) | Type::AnyArray | Type::Void | Type::Unknown | Type::Catalog(_) => None,
                }
            }
        }
    };
}

/// A type of values that system tables hold and show as text, and that cannot be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CatalogText {
    /// `pg_node_tree`: an expression or a query.
    NodeTree,
    /// `pg_ndistinct`: numbers of different combinations of values.
    NDistinct,
    /// `pg_dependencies`: dependencies between columns.
    Dependencies,
    /// `pg_mcv_list`: the most common combinations of values.
    McvList,
}

impl CatalogText {
    /// Every such type.
    pub const ALL: [CatalogText; 4] =
        [CatalogText::NodeTree, CatalogText::NDistinct, CatalogText::Dependencies, CatalogText::McvList];
}

scalars! {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Varchar,
    /// `char(n)`, blank-padded.
    Bpchar,
    Bytea,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
    /// A place in a log: of system tables.
    PgLsn,
    /// `"char"`, one byte: of system tables.
    Char,
    /// Of system tables.
    Name,
    Oid,
    Regclass,
    Regtype,
    Regproc,
    Regprocedure,
    Regnamespace,
    /// The place of a row: `ctid`.
    Tid,
    /// The number of a transaction, in four bytes.
    Xid,
    /// The number of a command within its transaction.
    Cid,
    /// The number of a transaction.
    Xid8,
    Regrole,
    Regcollation,
    Regoper,
    Regoperator,
    Regconfig,
    Regdictionary,
    /// An array of smallint whose subscripts begin at 0: of system tables.
    Int2vector,
    /// An array of oid whose subscripts begin at 0: of system tables.
    Oidvector,
    /// An item of an access control list: of system tables.
    Aclitem,
    /// A row of values.
    Record,
}

impl Type {
    /// True for the types that stand for objects of the catalog: regclass and its like.
    pub fn is_registered(self) -> bool {
        matches!(self, registered!())
    }

    /// True for the types whose values are those of oid.
    pub fn is_oid_like(self) -> bool {
        self.is_registered() || matches!(self, Type::Oid | Type::Xid | Type::Cid)
    }

    /// True for the types whose values have an order.
    pub fn has_order(self) -> bool {
        match self {
            Type::Array(scalar) => Type::from(scalar).has_order(),
            ty => !matches!(ty, Type::Xid | Type::Cid | Type::Aclitem | Type::AnyArray | Type::Catalog(_)),
        }
    }

    /// True for the types that columns of tables and views cannot have.
    pub fn is_pseudo(self) -> bool {
        matches!(
            self,
            Type::Record | Type::Array(Scalar::Record) | Type::AnyArray | Type::Void | Type::Unknown
        )
    }

    /// The array type over this one, if there is one.
    pub fn array(self) -> Option<Type> {
        self.scalar().map(Type::Array)
    }

    /// The element type, if this is an array.
    pub fn element(self) -> Option<Type> {
        self.element_scalar().map(Type::from)
    }

    /// The type of the elements that the values hold, if this is an array.
    pub(crate) fn element_scalar(self) -> Option<Scalar> {
        match self {
            Type::Array(scalar) => Some(scalar),
            Type::Int2vector => Some(Scalar::Int2),
            Type::Oidvector => Some(Scalar::Oid),
            _ => None,
        }
    }

    /// True if this is int2vector or oidvector, whose text and subscripts are not those of arrays.
    pub fn is_vector(self) -> bool {
        matches!(self, Type::Int2vector | Type::Oidvector)
    }

    /// The subscript of an array's first element.
    pub fn first_subscript(self) -> i32 {
        i32::from(!self.is_vector())
    }
}

/// PostgreSQL's type modifier: -1 for none; `n + 4` for char(n) and varchar(n); `(p << 16 | s) + 4` for
/// numeric(p, s); the number of fractional digits for time, timestamp and timestamptz.
pub type TypeMod = i32;

/// A type as a column has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ColumnType {
    /// The type.
    pub ty: Type,
    /// Its length, or precision and scale.
    pub modifier: TypeMod,
}

impl From<Type> for ColumnType {
    fn from(ty: Type) -> ColumnType {
        ColumnType { ty, modifier: -1 }
    }
}

/// A value. text, varchar, name, aclitem and the types of [`CatalogText`] share [`Datum::Text`], oid, xid, cid and the
/// reg* types [`Datum::Oid`]; which one it is stands in the plan, not in the value. Everything else is told by the value
/// itself.
///
/// Comparison, hashing: [`compare`]. There is no `PartialEq`, since SQL has more than one equality.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as the types of the same names")]
pub enum Datum {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float4(f32),
    Float8(f64),
    Numeric(Numeric),
    /// text, varchar, name, aclitem and the types of [`CatalogText`].
    Text(Box<str>),
    /// char(n), with its trailing blanks, which comparison ignores.
    Bpchar(Box<str>),
    Bytea(Box<[u8]>),
    /// Days since 2000-01-01; `i32::MIN` and `MAX` are -infinity and infinity.
    Date(i32),
    /// Microseconds since midnight, 24:00 included.
    Time(i64),
    /// Microseconds since 2000-01-01 00:00; `i64::MIN` and `MAX` are -infinity and infinity.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 00:00 UTC; infinities likewise.
    Timestamptz(i64),
    Interval(Interval),
    Uuid([u8; 16]),
    PgLsn(u64),
    Char(u8),
    /// oid, xid, cid and the reg* types.
    Oid(u32),
    Tid(Tid),
    Xid8(u64),
    /// The elements, of which any may be NULL.
    Array(Scalar, Box<[Datum]>),
    Record(Box<[Datum]>),
}

impl Datum {
    /// A text value.
    pub fn text(text: impl Into<Box<str>>) -> Datum {
        Datum::Text(text.into())
    }

    /// True if it is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// The value of a smallint, integer, bigint or oid.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Datum::Int2(value) => Some((*value).into()),
            Datum::Int4(value) => Some((*value).into()),
            Datum::Int8(value) => Some(*value),
            Datum::Oid(value) => Some((*value).into()),
            _ => None,
        }
    }

    /// The value of a real or double precision, and of an integer or numeric as near as a double precision is to it.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Datum::Int2(value) => Some((*value).into()),
            Datum::Int4(value) => Some((*value).into()),
            Datum::Int8(value) => Some(*value as f64),
            Datum::Float4(value) => Some((*value).into()),
            Datum::Float8(value) => Some(*value),
            Datum::Numeric(value) => Some(value.to_f64()),
            _ => None,
        }
    }

    /// The value of a text, varchar, name or char(n), the last with its trailing blanks.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Datum::Text(value) | Datum::Bpchar(value) => Some(value),
            _ => None,
        }
    }

    /// The value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Datum::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The type that the value itself tells: text for every text-like one but char(n), oid for the reg* types,
    /// unknown for NULL.
    pub fn natural_type(&self) -> Type {
        match self {
            Datum::Null => Type::Unknown,
            Datum::Bool(_) => Type::Bool,
            Datum::Int2(_) => Type::Int2,
            Datum::Int4(_) => Type::Int4,
            Datum::Int8(_) => Type::Int8,
            Datum::Float4(_) => Type::Float4,
            Datum::Float8(_) => Type::Float8,
            Datum::Numeric(_) => Type::Numeric,
            Datum::Text(_) => Type::Text,
            Datum::Bpchar(_) => Type::Bpchar,
            Datum::Bytea(_) => Type::Bytea,
            Datum::Date(_) => Type::Date,
            Datum::Time(_) => Type::Time,
            Datum::Timestamp(_) => Type::Timestamp,
            Datum::Timestamptz(_) => Type::Timestamptz,
            Datum::Interval(_) => Type::Interval,
            Datum::Uuid(_) => Type::Uuid,
            Datum::PgLsn(_) => Type::PgLsn,
            Datum::Char(_) => Type::Char,
            Datum::Oid(_) => Type::Oid,
            Datum::Tid(_) => Type::Tid,
            Datum::Xid8(_) => Type::Xid8,
            Datum::Array(scalar, _) => Type::Array(*scalar),
            Datum::Record(_) => Type::Record,
        }
    }
}

macro_rules! datum_from {
    ($($rust:ty => $kind:ident,)*) => {
        $(impl From<$rust> for Datum {
            fn from(value: $rust) -> Datum {
                Datum::$kind(value.into())
            }
        })*
    };
}

datum_from! {
    bool => Bool,
    i16 => Int2,
    i32 => Int4,
    i64 => Int8,
    f32 => Float4,
    f64 => Float8,
    Numeric => Numeric,
    &str => Text,
    String => Text,
    &[u8] => Bytea,
    Vec<u8> => Bytea,
}

/// None is NULL.
impl<T: Into<Datum>> From<Option<T>> for Datum {
    fn from(value: Option<T>) -> Datum {
        value.map_or(Datum::Null, Into::into)
    }
}

/// A span of time in units that do not convert into each other without a calendar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the units are the names")]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub micros: i64,
}

/// The place of a row, as PostgreSQL has it: of a block, and within that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid {
    /// The block.
    pub block: u32,
    /// The place within the block, from 1 on where there is a row.
    pub offset: u16,
}

/// A row of values.
pub type Row = Vec<Datum>;
