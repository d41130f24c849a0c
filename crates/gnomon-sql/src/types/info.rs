//! Catalog data of each type: identifiers, names, sizes, categories, as `pg_type` of PostgreSQL 15 has it.

use super::{CatalogText, Scalar, Type};

/// A row of `pg_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeInfo {
    /// `oid`.
    pub oid: u32,
    /// `typname`, the internal name: `int4`; that of arrays begins with an underscore.
    pub typname: &'static str,
    /// The SQL name without modifier: `integer`; that of arrays is [`format_type`](super::format_type)'s.
    pub sql_name: &'static str,
    /// `typlen` in bytes; -1 for variable, -2 for a C string.
    pub length: i16,
    /// `typbyval`.
    pub by_value: bool,
    /// `typcategory`.
    pub category: char,
    /// `typispreferred`: the type of its category that resolution prefers.
    pub preferred: bool,
    /// `typarray`, 0 if there is none.
    pub array_oid: u32,
    /// `typalign`.
    pub align: char,
    /// `typstorage`.
    pub storage: char,
    /// `typcollation`: 100 (default), 950 (C), or 0.
    pub collation: u32,
    /// `typinput`; the names of the other functions follow from [`TypeInfo::function`].
    pub input: &'static str,
}

impl TypeInfo {
    /// The name of the type's function for `purpose`: `in`, `out`, `recv`, `send`, `typmodin`, `typmodout`.
    pub fn function(&self, purpose: &str) -> String {
        let stem = self.input.strip_suffix("in").unwrap_or(self.input);
        match purpose {
            // The modifier functions do not share the underscore of date_in and its like.
            "typmodin" | "typmodout" => format!("{}{purpose}", stem.trim_end_matches('_')),
            _ => format!("{stem}{purpose}"),
        }
    }

    /// True if the type takes a modifier (`typmodin` is not 0).
    pub fn has_modifier(&self) -> bool {
        matches!(
            self.typname.trim_start_matches('_'),
            "bpchar" | "varchar" | "numeric" | "time" | "timestamp" | "timestamptz" | "interval"
        )
    }
}

#[allow(clippy::too_many_arguments, reason = "a row of a table, columns in pg_type's order")]
const fn row(
    oid: u32,
    typname: &'static str,
    sql_name: &'static str,
    length: i16,
    category: char,
    preferred: bool,
    array_oid: u32,
    input: &'static str,
    align: char,
    storage: char,
) -> TypeInfo {
    let by_value = matches!(length, 1 | 2 | 4 | 8);
    let collation = match oid {
        19 | 1003 => 950,
        25 | 1042 | 1043 | 1009 | 1014 | 1015 | 194 | 3361 | 3402 | 5017 => 100,
        _ => 0,
    };
    TypeInfo {
        oid,
        typname,
        sql_name,
        length,
        by_value,
        category,
        preferred,
        array_oid,
        align,
        storage,
        collation,
        input,
    }
}

impl Type {
    /// Returns its row of `pg_type`.
    pub const fn info(self) -> TypeInfo {
        match self {
            Type::Bool => row(16, "bool", "boolean", 1, 'B', true, 1000, "boolin", 'c', 'p'),
            Type::Bytea => row(17, "bytea", "bytea", -1, 'U', false, 1001, "byteain", 'i', 'x'),
            Type::Char => row(18, "char", "\"char\"", 1, 'Z', false, 1002, "charin", 'c', 'p'),
            Type::Name => row(19, "name", "name", 64, 'S', false, 1003, "namein", 'c', 'p'),
            Type::Int8 => row(20, "int8", "bigint", 8, 'N', false, 1016, "int8in", 'd', 'p'),
            Type::Int2 => row(21, "int2", "smallint", 2, 'N', false, 1005, "int2in", 's', 'p'),
            Type::Int4 => row(23, "int4", "integer", 4, 'N', false, 1007, "int4in", 'i', 'p'),
            Type::Regproc => row(24, "regproc", "regproc", 4, 'N', false, 1008, "regprocin", 'i', 'p'),
            Type::Text => row(25, "text", "text", -1, 'S', true, 1009, "textin", 'i', 'x'),
            Type::Oid => row(26, "oid", "oid", 4, 'N', true, 1028, "oidin", 'i', 'p'),
            Type::Float4 => row(700, "float4", "real", 4, 'N', false, 1021, "float4in", 'i', 'p'),
            Type::Float8 => row(701, "float8", "double precision", 8, 'N', true, 1022, "float8in", 'd', 'p'),
            Type::Unknown => row(705, "unknown", "unknown", -2, 'X', false, 0, "unknownin", 'c', 'p'),
            Type::Bpchar => row(1042, "bpchar", "character", -1, 'S', false, 1014, "bpcharin", 'i', 'x'),
            Type::Varchar => {
                row(1043, "varchar", "character varying", -1, 'S', false, 1015, "varcharin", 'i', 'x')
            }
            Type::Date => row(1082, "date", "date", 4, 'D', false, 1182, "date_in", 'i', 'p'),
            Type::Time => {
                row(1083, "time", "time without time zone", 8, 'D', false, 1183, "time_in", 'd', 'p')
            }
            Type::Timestamp => row(
                1114,
                "timestamp",
                "timestamp without time zone",
                8,
                'D',
                false,
                1115,
                "timestamp_in",
                'd',
                'p',
            ),
            Type::Timestamptz => row(
                1184,
                "timestamptz",
                "timestamp with time zone",
                8,
                'D',
                true,
                1185,
                "timestamptz_in",
                'd',
                'p',
            ),
            Type::Interval => row(1186, "interval", "interval", 16, 'T', true, 1187, "interval_in", 'd', 'p'),
            Type::Numeric => row(1700, "numeric", "numeric", -1, 'N', false, 1231, "numeric_in", 'i', 'm'),
            Type::Regclass => row(2205, "regclass", "regclass", 4, 'N', false, 2210, "regclassin", 'i', 'p'),
            Type::Regtype => row(2206, "regtype", "regtype", 4, 'N', false, 2211, "regtypein", 'i', 'p'),
            Type::Regprocedure => {
                row(2202, "regprocedure", "regprocedure", 4, 'N', false, 2207, "regprocedurein", 'i', 'p')
            }
            Type::Record => row(2249, "record", "record", -1, 'P', false, 2287, "record_in", 'd', 'x'),
            Type::AnyArray => row(2277, "anyarray", "anyarray", -1, 'P', false, 0, "anyarray_in", 'd', 'x'),
            Type::Void => row(2278, "void", "void", 4, 'P', false, 0, "void_in", 'i', 'p'),
            Type::Uuid => row(2950, "uuid", "uuid", 16, 'U', false, 2951, "uuid_in", 'c', 'p'),
            Type::PgLsn => row(3220, "pg_lsn", "pg_lsn", 8, 'U', false, 3221, "pg_lsn_in", 'd', 'p'),
            Type::Regnamespace => {
                row(4089, "regnamespace", "regnamespace", 4, 'N', false, 4090, "regnamespacein", 'i', 'p')
            }
            Type::Tid => row(27, "tid", "tid", 6, 'U', false, 1010, "tidin", 's', 'p'),
            Type::Xid => row(28, "xid", "xid", 4, 'U', false, 1011, "xidin", 'i', 'p'),
            Type::Cid => row(29, "cid", "cid", 4, 'U', false, 1012, "cidin", 'i', 'p'),
            Type::Xid8 => row(5069, "xid8", "xid8", 8, 'U', false, 271, "xid8in", 'd', 'p'),
            Type::Regrole => row(4096, "regrole", "regrole", 4, 'N', false, 4097, "regrolein", 'i', 'p'),
            Type::Regcollation => {
                row(4191, "regcollation", "regcollation", 4, 'N', false, 4192, "regcollationin", 'i', 'p')
            }
            Type::Regoper => row(2203, "regoper", "regoper", 4, 'N', false, 2208, "regoperin", 'i', 'p'),
            Type::Regoperator => {
                row(2204, "regoperator", "regoperator", 4, 'N', false, 2209, "regoperatorin", 'i', 'p')
            }
            Type::Regconfig => {
                row(3734, "regconfig", "regconfig", 4, 'N', false, 3735, "regconfigin", 'i', 'p')
            }
            Type::Regdictionary => {
                row(3769, "regdictionary", "regdictionary", 4, 'N', false, 3770, "regdictionaryin", 'i', 'p')
            }
            Type::Int2vector => {
                row(22, "int2vector", "int2vector", -1, 'A', false, 1006, "int2vectorin", 'i', 'p')
            }
            Type::Oidvector => {
                row(30, "oidvector", "oidvector", -1, 'A', false, 1013, "oidvectorin", 'i', 'p')
            }
            Type::Aclitem => row(1033, "aclitem", "aclitem", 12, 'U', false, 1034, "aclitemin", 'i', 'p'),
            Type::Catalog(CatalogText::NodeTree) => catalog_text(194, "pg_node_tree", "pg_node_tree_in"),
            Type::Catalog(CatalogText::NDistinct) => catalog_text(3361, "pg_ndistinct", "pg_ndistinct_in"),
            Type::Catalog(CatalogText::Dependencies) => {
                catalog_text(3402, "pg_dependencies", "pg_dependencies_in")
            }
            Type::Catalog(CatalogText::McvList) => catalog_text(5017, "pg_mcv_list", "pg_mcv_list_in"),
            Type::Array(scalar) => array(scalar),
        }
    }

    /// Its `pg_type.oid`.
    pub const fn oid(self) -> u32 {
        self.info().oid
    }

    /// The type with this `pg_type.oid`.
    pub fn from_oid(oid: u32) -> Option<Type> {
        Type::all().find(|ty| ty.oid() == oid)
    }

    /// Every type.
    pub fn all() -> impl Iterator<Item = Type> {
        let scalars = Scalar::ALL.iter().copied();
        let with_arrays = scalars.clone().map(Type::from).chain(scalars.map(Type::Array));
        with_arrays
            .chain([Type::AnyArray, Type::Void, Type::Unknown])
            .chain(CatalogText::ALL.map(Type::Catalog))
    }

    /// Its `typcategory`.
    pub const fn category(self) -> char {
        self.info().category
    }

    /// Its `typispreferred`.
    pub const fn preferred(self) -> bool {
        self.info().preferred
    }
}

const fn catalog_text(oid: u32, name: &'static str, input: &'static str) -> TypeInfo {
    row(oid, name, name, -1, 'Z', false, 0, input, 'i', 'x')
}

const fn array(scalar: Scalar) -> TypeInfo {
    let (element, typname, sql_name) = match scalar {
        Scalar::Bool => (Type::Bool, "_bool", "boolean[]"),
        Scalar::Int2 => (Type::Int2, "_int2", "smallint[]"),
        Scalar::Int4 => (Type::Int4, "_int4", "integer[]"),
        Scalar::Int8 => (Type::Int8, "_int8", "bigint[]"),
        Scalar::Float4 => (Type::Float4, "_float4", "real[]"),
        Scalar::Float8 => (Type::Float8, "_float8", "double precision[]"),
        Scalar::Numeric => (Type::Numeric, "_numeric", "numeric[]"),
        Scalar::Text => (Type::Text, "_text", "text[]"),
        Scalar::Varchar => (Type::Varchar, "_varchar", "character varying[]"),
        Scalar::Bpchar => (Type::Bpchar, "_bpchar", "character[]"),
        Scalar::Bytea => (Type::Bytea, "_bytea", "bytea[]"),
        Scalar::Date => (Type::Date, "_date", "date[]"),
        Scalar::Time => (Type::Time, "_time", "time without time zone[]"),
        Scalar::Timestamp => (Type::Timestamp, "_timestamp", "timestamp without time zone[]"),
        Scalar::Timestamptz => (Type::Timestamptz, "_timestamptz", "timestamp with time zone[]"),
        Scalar::Interval => (Type::Interval, "_interval", "interval[]"),
        Scalar::Uuid => (Type::Uuid, "_uuid", "uuid[]"),
        Scalar::PgLsn => (Type::PgLsn, "_pg_lsn", "pg_lsn[]"),
        Scalar::Char => (Type::Char, "_char", "\"char\"[]"),
        Scalar::Name => (Type::Name, "_name", "name[]"),
        Scalar::Oid => (Type::Oid, "_oid", "oid[]"),
        Scalar::Regclass => (Type::Regclass, "_regclass", "regclass[]"),
        Scalar::Regtype => (Type::Regtype, "_regtype", "regtype[]"),
        Scalar::Regproc => (Type::Regproc, "_regproc", "regproc[]"),
        Scalar::Regprocedure => (Type::Regprocedure, "_regprocedure", "regprocedure[]"),
        Scalar::Regnamespace => (Type::Regnamespace, "_regnamespace", "regnamespace[]"),
        Scalar::Tid => (Type::Tid, "_tid", "tid[]"),
        Scalar::Xid => (Type::Xid, "_xid", "xid[]"),
        Scalar::Cid => (Type::Cid, "_cid", "cid[]"),
        Scalar::Xid8 => (Type::Xid8, "_xid8", "xid8[]"),
        Scalar::Regrole => (Type::Regrole, "_regrole", "regrole[]"),
        Scalar::Regcollation => (Type::Regcollation, "_regcollation", "regcollation[]"),
        Scalar::Regoper => (Type::Regoper, "_regoper", "regoper[]"),
        Scalar::Regoperator => (Type::Regoperator, "_regoperator", "regoperator[]"),
        Scalar::Regconfig => (Type::Regconfig, "_regconfig", "regconfig[]"),
        Scalar::Regdictionary => (Type::Regdictionary, "_regdictionary", "regdictionary[]"),
        Scalar::Int2vector => (Type::Int2vector, "_int2vector", "int2vector[]"),
        Scalar::Oidvector => (Type::Oidvector, "_oidvector", "oidvector[]"),
        Scalar::Aclitem => (Type::Aclitem, "_aclitem", "aclitem[]"),
        Scalar::Record => (Type::Record, "_record", "record[]"),
    };
    let element = element.info();
    let align = if element.align == 'd' { 'd' } else { 'i' };
    let category = if element.category == 'P' { 'P' } else { 'A' };
    row(element.array_oid, typname, sql_name, -1, category, false, 0, "array_in", align, 'x')
}
