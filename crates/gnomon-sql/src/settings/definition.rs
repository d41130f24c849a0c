//! The settings that there are: what values each takes, and its default.

use crate::{catalog::system::SERVER_VERSION, types::datetime::IntervalStyle};

/// The values that a setting takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Bool,
    /// An integer within bounds, in a unit.
    Int {
        min: i64,
        max: i64,
        unit: Unit,
    },
    Real {
        min: f64,
        max: f64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    Text,
    /// A comma-separated list of names.
    Names,
    Encoding,
    DateStyle,
    TimeZone,
    /// Cannot be set.
    Fixed,
}

/// The unit of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    None,
    Milliseconds,
    Kilobytes,
}

pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    /// True if clients are told of changes.
    pub(super) reported: bool,
    pub(super) description: &'static str,
}

const fn setting(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    description: &'static str,
) -> Definition {
    Definition { name, kind, default, reported: false, description }
}

const fn reported(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    description: &'static str,
) -> Definition {
    Definition { name, kind, default, reported: true, description }
}

/// The beginning of the descriptions of settings without effect; the reason follows.
pub(super) const NO_EFFECT: &str = "No effect: ";

const MS: Kind = Kind::Int { min: 0, max: i32::MAX as i64, unit: Unit::Milliseconds };
const KB: Kind = Kind::Int { min: 64, max: i32::MAX as i64, unit: Unit::Kilobytes };
const COUNT: Kind = Kind::Int { min: 0, max: i32::MAX as i64, unit: Unit::None };
const LEVELS: Kind = Kind::Word(&["serializable", "repeatable read", "read committed", "read uncommitted"]);
const MESSAGES: Kind = Kind::Word(&[
    "debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error", "fatal", "panic",
]);

macro_rules! settings {
    ($($id:ident = $definition:expr;)*) => {
        #[allow(non_camel_case_types, dead_code, reason = "the settings' own names, whose order gives their places")]
        pub(super) enum Id { $($id),* }
        /// In the order of their names, ignoring case.
        pub(super) static DEFINITIONS: &[Definition] = &[$($definition),*];
    };
}

settings! {
    application_name = reported("application_name", Kind::Text, "", "Sets the application name to be reported in statistics and logs.");
    backslash_quote = setting("backslash_quote", Kind::Word(&["safe_encoding", "on", "off"]), "safe_encoding", "No effect: quotes are doubled, or escaped in E'...' strings.");
    bytea_output = setting("bytea_output", Kind::Word(&["hex"]), "hex", "Sets the output format for bytea.");
    check_function_bodies = setting("check_function_bodies", Kind::Bool, "on", "No effect: procedures are always checked when they are made.");
    client_encoding = reported("client_encoding", Kind::Encoding, "UTF8", "Sets the client's character set encoding.");
    client_min_messages = setting("client_min_messages", MESSAGES, "notice", "Sets the message levels that are sent to the client.");
    DateStyle = reported("DateStyle", Kind::DateStyle, "ISO, MDY", "Sets the display format for date and time values.");
    deadlock_timeout = setting("deadlock_timeout", MS, "0", "Sets the time to wait on a lock before checking for deadlock; 0 is at once.");
    default_table_access_method = setting("default_table_access_method", Kind::Word(&["heap"]), "heap", "Sets the default table access method for new tables.");
    default_tablespace = setting("default_tablespace", Kind::Word(&["", "pg_default"]), "", "Sets the default tablespace to create tables and indexes in.");
    default_transaction_deferrable = setting("default_transaction_deferrable", Kind::Bool, "off", "No effect: transactions do not wait for a safe snapshot.");
    default_transaction_isolation = setting("default_transaction_isolation", LEVELS, "read committed", "Sets the isolation level of each new transaction.");
    default_transaction_read_only = reported("default_transaction_read_only", Kind::Bool, "off", "Sets the read-only status of new transactions.");
    enable_hashjoin = setting("enable_hashjoin", Kind::Bool, "on", "No effect: plans go by keys and the shape of the query alone.");
    enable_indexscan = setting("enable_indexscan", Kind::Bool, "on", "No effect: plans go by keys and the shape of the query alone.");
    enable_mergejoin = setting("enable_mergejoin", Kind::Bool, "on", "No effect: plans go by keys and the shape of the query alone.");
    enable_nestloop = setting("enable_nestloop", Kind::Bool, "on", "No effect: plans go by keys and the shape of the query alone.");
    enable_seqscan = setting("enable_seqscan", Kind::Bool, "on", "No effect: plans go by keys and the shape of the query alone.");
    extra_float_digits = setting("extra_float_digits", Kind::Int { min: -15, max: 3, unit: Unit::None }, "1", "Sets the number of digits displayed for floating-point values.");
    gnomon_k = setting("gnomon.k", Kind::Int { min: -1, max: i32::MAX as i64, unit: Unit::None }, "-1", "Sets how many commits a snapshot may have missed of what is read; -1 is any number.");
    gnomon_max_staleness = setting("gnomon.max_staleness", Kind::Int { min: -1, max: i32::MAX as i64, unit: Unit::Milliseconds }, "-1", "Sets how old a snapshot may be; -1 is any age.");
    gnomon_retries = setting("gnomon.retries", Kind::Int { min: 0, max: 1000, unit: Unit::None }, "30", "Sets how often a member of a cluster runs an autocommitted statement again that would fail with 40001; 0 is never.");
    gnomon_semantic_locks = setting("gnomon.semantic_locks", Kind::Bool, "on", "Lets updates that commute share locks.");
    idle_in_transaction_session_timeout = setting("idle_in_transaction_session_timeout", MS, "0", "Sets the maximum allowed idle time between queries, when in a transaction.");
    idle_session_timeout = setting("idle_session_timeout", MS, "0", "Sets the maximum allowed idle time between queries, when not in a transaction.");
    in_hot_standby = reported("in_hot_standby", Kind::Fixed, "off", "Shows whether the server is a standby.");
    integer_datetimes = reported("integer_datetimes", Kind::Fixed, "on", "Shows whether datetimes are integer based.");
    IntervalStyle = reported("IntervalStyle", Kind::Word(IntervalStyle::NAMES), "postgres", "Sets the display format for interval values.");
    is_superuser = reported("is_superuser", Kind::Fixed, "on", "Shows whether the current user is a superuser.");
    jit = setting("jit", Kind::Bool, "off", "No effect: expressions are not compiled.");
    lc_collate = setting("lc_collate", Kind::Fixed, "C", "Shows the collation order locale.");
    lc_ctype = setting("lc_ctype", Kind::Fixed, "C.UTF-8", "Shows the character classification locale.");
    lc_messages = setting("lc_messages", Kind::Text, "C", "No effect: messages are in English.");
    lc_monetary = setting("lc_monetary", Kind::Text, "C", "No effect: there is no type money, and formats are those of the locale C.");
    lc_numeric = setting("lc_numeric", Kind::Text, "C", "No effect: formats are those of the locale C.");
    lc_time = setting("lc_time", Kind::Text, "C", "No effect: formats are those of the locale C.");
    lock_timeout = setting("lock_timeout", MS, "0", "Sets the maximum allowed duration of any wait for a lock.");
    log_statement = setting("log_statement", Kind::Word(&["none", "ddl", "mod", "all"]), "none", "No effect: statements are not logged.");
    maintenance_work_mem = setting("maintenance_work_mem", KB, "65536", "No effect: indexes are built within the memory of any statement.");
    max_connections = setting("max_connections", Kind::Fixed, "100", "Shows the maximum number of concurrent connections.");
    max_identifier_length = setting("max_identifier_length", Kind::Fixed, "63", "Shows the maximum identifier length.");
    max_index_keys = setting("max_index_keys", Kind::Fixed, "32", "Shows the maximum number of index keys.");
    max_parallel_workers_per_gather = setting("max_parallel_workers_per_gather", COUNT, "0", "No effect: a statement runs on one thread.");
    max_prepared_transactions = setting("max_prepared_transactions", Kind::Fixed, "64", "Sets the maximum number of simultaneously prepared transactions.");
    password_encryption = setting("password_encryption", Kind::Word(&["scram-sha-256", "md5"]), "scram-sha-256", "No effect: passwords are encrypted by gnomon hash-password, as SCRAM-SHA-256.");
    quote_all_identifiers = setting("quote_all_identifiers", Kind::Bool, "off", "No effect: names are quoted where they must be.");
    random_page_cost = setting("random_page_cost", Kind::Real { min: 0.0, max: f64::MAX }, "4", "No effect: plans go by keys and the shape of the query alone.");
    row_security = setting("row_security", Kind::Bool, "on", "No effect: there are no policies.");
    search_path = setting("search_path", Kind::Names, "\"$user\", public", "Sets the schema search order for names that are not schema-qualified.");
    server_encoding = reported("server_encoding", Kind::Fixed, "UTF8", "Shows the server (database) character set encoding.");
    server_version = reported("server_version", Kind::Fixed, SERVER_VERSION, "Shows the server version.");
    server_version_num = setting("server_version_num", Kind::Fixed, "150000", "Shows the server version as an integer.");
    session_authorization = reported("session_authorization", Kind::Fixed, "", "Shows the session user name.");
    ssl = setting("ssl", Kind::Fixed, "off", "Shows whether SSL is on.");
    standard_conforming_strings = reported("standard_conforming_strings", Kind::Word(&["on"]), "on", "Causes '...' strings to treat backslashes literally.");
    statement_timeout = setting("statement_timeout", MS, "0", "Sets the maximum allowed duration of any statement.");
    synchronize_seqscans = setting("synchronize_seqscans", Kind::Bool, "on", "No effect: scans go by the order of keys.");
    synchronous_commit = setting("synchronous_commit", Kind::Word(&["on", "off", "local", "remote_write", "remote_apply"]), "on", "Sets whether a commit is durable before it is acknowledged.");
    temp_buffers = setting("temp_buffers", COUNT, "1024", "No effect: there are no temporary tables.");
    TimeZone = reported("TimeZone", Kind::TimeZone, "UTC", "Sets the time zone for displaying and interpreting time stamps.");
    transaction_deferrable = setting("transaction_deferrable", Kind::Bool, "off", "No effect: transactions do not wait for a safe snapshot.");
    transaction_isolation = setting("transaction_isolation", LEVELS, "read committed", "Sets the current transaction's isolation level.");
    transaction_read_only = setting("transaction_read_only", Kind::Bool, "off", "Sets the current transaction's read-only status.");
    work_mem = setting("work_mem", KB, "4096", "No effect: sorts and hashes of a statement take up to 256 MB together.");
    xmloption = setting("xmloption", Kind::Word(&["content", "document"]), "content", "No effect: there is no type xml.");
}

/// A transaction's own characteristics: they end with it, and RESET ALL leaves them.
pub(super) const CHARACTERISTICS: [usize; 3] = [
    Id::transaction_isolation as usize,
    Id::transaction_read_only as usize,
    Id::transaction_deferrable as usize,
];

pub(super) fn find(name: &str) -> Option<usize> {
    DEFINITIONS.iter().position(|definition| definition.name.eq_ignore_ascii_case(name))
}
