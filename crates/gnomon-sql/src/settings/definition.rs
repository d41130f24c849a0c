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
        unit: Unit,
    },
    /// One of these words.
    Word(&'static [&'static str]),
    Text,
    /// A name of printable ASCII; other characters become question marks.
    Name,
    /// A comma-separated list of names.
    Names,
    Encoding,
    DateStyle,
    TimeZone,
    /// The user, or none.
    Role,
    /// Cannot be set.
    Fixed,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    None,
    Milliseconds,
    Bytes,
    Kilobytes,
    /// Of 8 kB.
    Blocks,
}

impl Unit {
    /// Returns its name, as `pg_settings` has it.
    pub(super) fn name(self) -> Option<&'static str> {
        Some(match self {
            Unit::None => return None,
            Unit::Milliseconds => "ms",
            Unit::Bytes => "B",
            Unit::Kilobytes => "kB",
            Unit::Blocks => "8kB",
        })
    }
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
const COST: Kind = Kind::Real { min: 0.0, max: f64::MAX, unit: Unit::None };
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
    allow_system_table_mods = setting("allow_system_table_mods", Kind::Word(&["off"]), "off", "Allows modifications of the structure of system tables; it cannot.");
    application_name = reported("application_name", Kind::Name, "", "Sets the application name to be reported in statistics and logs.");
    array_nulls = setting("array_nulls", Kind::Word(&["on"]), "on", "Enables input of NULL elements in arrays.");
    backend_flush_after = setting("backend_flush_after", Kind::Int { min: 0, max: 256, unit: Unit::Blocks }, "0", "No effect: the buffer pool has its own reads and writes.");
    backslash_quote = setting("backslash_quote", Kind::Word(&["safe_encoding", "on", "off"]), "safe_encoding", "Sets whether \"\\'\" is allowed in string literals.");
    bytea_output = setting("bytea_output", Kind::Word(&["escape", "hex"]), "hex", "Sets the output format for bytea.");
    check_function_bodies = setting("check_function_bodies", Kind::Bool, "on", "Check routine bodies during CREATE FUNCTION and CREATE PROCEDURE.");
    client_encoding = reported("client_encoding", Kind::Encoding, "UTF8", "Sets the client's character set encoding.");
    client_min_messages = setting("client_min_messages", MESSAGES, "notice", "Sets the message levels that are sent to the client.");
    commit_delay = setting("commit_delay", Kind::Int { min: 0, max: 100000, unit: Unit::None }, "0", "No effect: commits of several sessions share a write without a delay.");
    commit_siblings = setting("commit_siblings", Kind::Int { min: 0, max: 1000, unit: Unit::None }, "5", "No effect: commits of several sessions share a write without a delay.");
    compute_query_id = setting("compute_query_id", Kind::Word(&["auto", "regress", "on", "off"]), "auto", "No effect: pg_stat_statements has identifiers of statements anyway.");
    constraint_exclusion = setting("constraint_exclusion", Kind::Word(&["partition", "on", "off"]), "partition", "No effect: plans go by statistics and costs of the engine's own.");
    cpu_index_tuple_cost = setting("cpu_index_tuple_cost", COST, "0.005", "No effect: plans go by statistics and costs of the engine's own.");
    cpu_operator_cost = setting("cpu_operator_cost", COST, "0.0025", "No effect: plans go by statistics and costs of the engine's own.");
    cpu_tuple_cost = setting("cpu_tuple_cost", COST, "0.01", "No effect: plans go by statistics and costs of the engine's own.");
    cursor_tuple_fraction = setting("cursor_tuple_fraction", Kind::Real { min: 0.0, max: 1.0, unit: Unit::None }, "0.1", "No effect: plans go by statistics and costs of the engine's own.");
    DateStyle = reported("DateStyle", Kind::DateStyle, "ISO, MDY", "Sets the display format for date and time values.");
    deadlock_timeout = setting("deadlock_timeout", MS, "0", "Sets the time to wait on a lock before checking for deadlock; 0 is at once.");
    debug_pretty_print = setting("debug_pretty_print", Kind::Bool, "on", "No effect: statements are not logged.");
    debug_print_parse = setting("debug_print_parse", Kind::Bool, "off", "No effect: statements are not logged.");
    debug_print_plan = setting("debug_print_plan", Kind::Bool, "off", "No effect: statements are not logged.");
    debug_print_rewritten = setting("debug_print_rewritten", Kind::Bool, "off", "No effect: statements are not logged.");
    default_statistics_target = setting("default_statistics_target", Kind::Int { min: 1, max: 10000, unit: Unit::None }, "100", "Sets the default statistics target: how many common values and groups of values ANALYZE keeps.");
    default_table_access_method = setting("default_table_access_method", Kind::Word(&["heap"]), "heap", "Sets the default table access method for new tables.");
    default_tablespace = setting("default_tablespace", Kind::Word(&["", "pg_default"]), "", "Sets the default tablespace to create tables and indexes in.");
    default_toast_compression = setting("default_toast_compression", Kind::Word(&["pglz", "lz4"]), "pglz", "No effect: values are not compressed.");
    default_transaction_deferrable = setting("default_transaction_deferrable", Kind::Bool, "off", "No effect: transactions do not wait for a safe snapshot.");
    default_transaction_isolation = setting("default_transaction_isolation", LEVELS, "read committed", "Sets the isolation level of each new transaction.");
    default_transaction_read_only = reported("default_transaction_read_only", Kind::Bool, "off", "Sets the read-only status of new transactions.");
    default_with_oids = setting("default_with_oids", Kind::Word(&["off"]), "off", "Makes tables with OIDs; there are none.");
    effective_cache_size = setting("effective_cache_size", Kind::Int { min: 1, max: i32::MAX as i64, unit: Unit::Blocks }, "524288", "No effect: plans go by statistics and costs of the engine's own.");
    effective_io_concurrency = setting("effective_io_concurrency", Kind::Int { min: 0, max: 1000, unit: Unit::None }, "1", "No effect: the buffer pool has its own reads and writes.");
    enable_async_append = setting("enable_async_append", Kind::Bool, "on", "No effect: a statement runs on one thread.");
    enable_bitmapscan = setting("enable_bitmapscan", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_gathermerge = setting("enable_gathermerge", Kind::Bool, "on", "No effect: a statement runs on one thread.");
    enable_hashagg = setting("enable_hashagg", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_hashjoin = setting("enable_hashjoin", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_incremental_sort = setting("enable_incremental_sort", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_indexonlyscan = setting("enable_indexonlyscan", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_indexscan = setting("enable_indexscan", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_material = setting("enable_material", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_memoize = setting("enable_memoize", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_mergejoin = setting("enable_mergejoin", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_nestloop = setting("enable_nestloop", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_parallel_append = setting("enable_parallel_append", Kind::Bool, "on", "No effect: a statement runs on one thread.");
    enable_parallel_hash = setting("enable_parallel_hash", Kind::Bool, "on", "No effect: a statement runs on one thread.");
    enable_partition_pruning = setting("enable_partition_pruning", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_partitionwise_aggregate = setting("enable_partitionwise_aggregate", Kind::Bool, "off", "No effect: plans go by statistics and costs of the engine's own.");
    enable_partitionwise_join = setting("enable_partitionwise_join", Kind::Bool, "off", "No effect: plans go by statistics and costs of the engine's own.");
    enable_seqscan = setting("enable_seqscan", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_sort = setting("enable_sort", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    enable_tidscan = setting("enable_tidscan", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    escape_string_warning = setting("escape_string_warning", Kind::Bool, "on", "Warn about backslash escapes in ordinary string literals.");
    exit_on_error = setting("exit_on_error", Kind::Word(&["off"]), "off", "Terminates the session on any error; it does not.");
    extra_float_digits = setting("extra_float_digits", Kind::Int { min: -15, max: 3, unit: Unit::None }, "1", "Sets the number of digits displayed for floating-point values.");
    force_parallel_mode = setting("force_parallel_mode", Kind::Word(&["off", "on", "regress"]), "off", "No effect: a statement runs on one thread.");
    from_collapse_limit = setting("from_collapse_limit", Kind::Int { min: 1, max: i32::MAX as i64, unit: Unit::None }, "8", "No effect: plans go by statistics and costs of the engine's own.");
    geqo = setting("geqo", Kind::Bool, "on", "No effect: plans go by statistics and costs of the engine's own.");
    geqo_effort = setting("geqo_effort", Kind::Int { min: 1, max: 10, unit: Unit::None }, "5", "No effect: plans go by statistics and costs of the engine's own.");
    geqo_generations = setting("geqo_generations", COUNT, "0", "No effect: plans go by statistics and costs of the engine's own.");
    geqo_pool_size = setting("geqo_pool_size", COUNT, "0", "No effect: plans go by statistics and costs of the engine's own.");
    geqo_seed = setting("geqo_seed", Kind::Real { min: 0.0, max: 1.0, unit: Unit::None }, "0", "No effect: plans go by statistics and costs of the engine's own.");
    geqo_selection_bias = setting("geqo_selection_bias", Kind::Real { min: 1.5, max: 2.0, unit: Unit::None }, "2", "No effect: plans go by statistics and costs of the engine's own.");
    geqo_threshold = setting("geqo_threshold", Kind::Int { min: 2, max: i32::MAX as i64, unit: Unit::None }, "12", "No effect: plans go by statistics and costs of the engine's own.");
    gin_fuzzy_search_limit = setting("gin_fuzzy_search_limit", COUNT, "0", "No effect: there are no GIN indexes.");
    gin_pending_list_limit = setting("gin_pending_list_limit", KB, "4096", "No effect: there are no GIN indexes.");
    gnomon_k = setting("gnomon.k", Kind::Int { min: -1, max: i32::MAX as i64, unit: Unit::None }, "-1", "Sets how many commits a snapshot may have missed of what is read; -1 is any number.");
    gnomon_max_staleness = setting("gnomon.max_staleness", Kind::Int { min: -1, max: i32::MAX as i64, unit: Unit::Milliseconds }, "-1", "Sets how old a snapshot may be; -1 is any age.");
    gnomon_retries = setting("gnomon.retries", Kind::Int { min: 0, max: 1000, unit: Unit::None }, "30", "Sets how often a member of a cluster runs an autocommitted statement again that would fail with 40001; 0 is never.");
    gnomon_semantic_locks = setting("gnomon.semantic_locks", Kind::Bool, "on", "Lets updates that commute share locks.");
    hash_mem_multiplier = setting("hash_mem_multiplier", Kind::Real { min: 1.0, max: 1000.0, unit: Unit::None }, "2", "No effect: sorts and hashes of a statement take up to 256 MB together.");
    idle_in_transaction_session_timeout = setting("idle_in_transaction_session_timeout", MS, "0", "Sets the maximum allowed idle time between queries, when in a transaction.");
    idle_session_timeout = setting("idle_session_timeout", MS, "0", "Sets the maximum allowed idle time between queries, when not in a transaction.");
    ignore_checksum_failure = setting("ignore_checksum_failure", Kind::Word(&["off"]), "off", "Continues processing after a checksum failure; it never does.");
    in_hot_standby = reported("in_hot_standby", Kind::Fixed, "off", "Shows whether the server is a standby.");
    integer_datetimes = reported("integer_datetimes", Kind::Fixed, "on", "Shows whether datetimes are integer based.");
    IntervalStyle = reported("IntervalStyle", Kind::Word(IntervalStyle::NAMES), "postgres", "Sets the display format for interval values.");
    is_superuser = reported("is_superuser", Kind::Fixed, "on", "Shows whether the current user is a superuser.");
    jit = setting("jit", Kind::Bool, "off", "No effect: expressions are not compiled.");
    jit_above_cost = setting("jit_above_cost", Kind::Real { min: -1.0, max: f64::MAX, unit: Unit::None }, "100000", "No effect: expressions are not compiled.");
    jit_dump_bitcode = setting("jit_dump_bitcode", Kind::Bool, "off", "No effect: expressions are not compiled.");
    jit_expressions = setting("jit_expressions", Kind::Bool, "on", "No effect: expressions are not compiled.");
    jit_inline_above_cost = setting("jit_inline_above_cost", Kind::Real { min: -1.0, max: f64::MAX, unit: Unit::None }, "500000", "No effect: expressions are not compiled.");
    jit_optimize_above_cost = setting("jit_optimize_above_cost", Kind::Real { min: -1.0, max: f64::MAX, unit: Unit::None }, "500000", "No effect: expressions are not compiled.");
    jit_tuple_deforming = setting("jit_tuple_deforming", Kind::Bool, "on", "No effect: expressions are not compiled.");
    join_collapse_limit = setting("join_collapse_limit", Kind::Int { min: 1, max: i32::MAX as i64, unit: Unit::None }, "8", "No effect: plans go by statistics and costs of the engine's own.");
    lc_collate = setting("lc_collate", Kind::Fixed, "C.UTF-8", "Shows the collation order locale.");
    lc_ctype = setting("lc_ctype", Kind::Fixed, "C.UTF-8", "Shows the character classification locale.");
    lc_messages = setting("lc_messages", Kind::Text, "C", "No effect: messages are in English.");
    lc_monetary = setting("lc_monetary", Kind::Text, "C", "No effect: there is no type money, and formats are those of the locale C.");
    lc_numeric = setting("lc_numeric", Kind::Text, "C", "No effect: formats are those of the locale C.");
    lc_time = setting("lc_time", Kind::Text, "C", "No effect: formats are those of the locale C.");
    lo_compat_privileges = setting("lo_compat_privileges", Kind::Bool, "off", "No effect: there are no large objects.");
    lock_timeout = setting("lock_timeout", MS, "0", "Sets the maximum allowed duration of any wait for a lock.");
    log_duration = setting("log_duration", Kind::Bool, "off", "No effect: statements are not logged.");
    log_error_verbosity = setting("log_error_verbosity", Kind::Word(&["terse", "default", "verbose"]), "default", "No effect: the server's log has its own lines.");
    log_executor_stats = setting("log_executor_stats", Kind::Bool, "off", "No effect: statements are not logged.");
    log_lock_waits = setting("log_lock_waits", Kind::Bool, "off", "No effect: statements are not logged.");
    log_min_duration_sample = setting("log_min_duration_sample", Kind::Int { min: -1, max: i32::MAX as i64, unit: Unit::Milliseconds }, "-1", "No effect: statements are not logged.");
    log_min_duration_statement = setting("log_min_duration_statement", Kind::Int { min: -1, max: i32::MAX as i64, unit: Unit::Milliseconds }, "-1", "No effect: statements are not logged.");
    log_min_error_statement = setting("log_min_error_statement", Kind::Word(&["debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log", "fatal", "panic"]), "error", "No effect: statements are not logged.");
    log_min_messages = setting("log_min_messages", Kind::Word(&["debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log", "fatal", "panic"]), "warning", "No effect: the server's log has its own lines.");
    log_parameter_max_length = setting("log_parameter_max_length", Kind::Int { min: -1, max: 1073741823, unit: Unit::Bytes }, "-1", "No effect: statements are not logged.");
    log_parameter_max_length_on_error = setting("log_parameter_max_length_on_error", Kind::Int { min: -1, max: 1073741823, unit: Unit::Bytes }, "0", "No effect: statements are not logged.");
    log_parser_stats = setting("log_parser_stats", Kind::Bool, "off", "No effect: statements are not logged.");
    log_planner_stats = setting("log_planner_stats", Kind::Bool, "off", "No effect: statements are not logged.");
    log_replication_commands = setting("log_replication_commands", Kind::Bool, "off", "No effect: the server's log has its own lines.");
    log_statement = setting("log_statement", Kind::Word(&["none", "ddl", "mod", "all"]), "none", "No effect: statements are not logged.");
    log_statement_sample_rate = setting("log_statement_sample_rate", Kind::Real { min: 0.0, max: 1.0, unit: Unit::None }, "1", "No effect: statements are not logged.");
    log_statement_stats = setting("log_statement_stats", Kind::Bool, "off", "No effect: statements are not logged.");
    log_temp_files = setting("log_temp_files", Kind::Int { min: -1, max: i32::MAX as i64, unit: Unit::Kilobytes }, "-1", "No effect: statements are not logged.");
    log_transaction_sample_rate = setting("log_transaction_sample_rate", Kind::Real { min: 0.0, max: 1.0, unit: Unit::None }, "0", "No effect: statements are not logged.");
    logical_decoding_work_mem = setting("logical_decoding_work_mem", KB, "65536", "No effect: there is no logical replication.");
    maintenance_io_concurrency = setting("maintenance_io_concurrency", Kind::Int { min: 0, max: 1000, unit: Unit::None }, "10", "No effect: the buffer pool has its own reads and writes.");
    maintenance_work_mem = setting("maintenance_work_mem", Kind::Int { min: 1024, max: i32::MAX as i64, unit: Unit::Kilobytes }, "65536", "Sets the memory in which rows and entries are sorted that fill new trees of tables and indexes, up to 128 MB.");
    max_connections = setting("max_connections", Kind::Fixed, "100", "Shows the maximum number of concurrent connections.");
    max_identifier_length = setting("max_identifier_length", Kind::Fixed, "63", "Shows the maximum identifier length.");
    max_index_keys = setting("max_index_keys", Kind::Fixed, "32", "Shows the maximum number of index keys.");
    max_parallel_maintenance_workers = setting("max_parallel_maintenance_workers", Kind::Int { min: 0, max: 1024, unit: Unit::None }, "2", "No effect: a statement runs on one thread.");
    max_parallel_workers = setting("max_parallel_workers", Kind::Int { min: 0, max: 1024, unit: Unit::None }, "8", "No effect: a statement runs on one thread.");
    max_parallel_workers_per_gather = setting("max_parallel_workers_per_gather", COUNT, "0", "No effect: a statement runs on one thread.");
    max_prepared_transactions = setting("max_prepared_transactions", Kind::Fixed, "64", "Sets the maximum number of simultaneously prepared transactions.");
    min_parallel_index_scan_size = setting("min_parallel_index_scan_size", Kind::Int { min: 0, max: 715827882, unit: Unit::Blocks }, "64", "No effect: a statement runs on one thread.");
    min_parallel_table_scan_size = setting("min_parallel_table_scan_size", Kind::Int { min: 0, max: 715827882, unit: Unit::Blocks }, "1024", "No effect: a statement runs on one thread.");
    parallel_leader_participation = setting("parallel_leader_participation", Kind::Bool, "on", "No effect: a statement runs on one thread.");
    parallel_setup_cost = setting("parallel_setup_cost", COST, "1000", "No effect: a statement runs on one thread.");
    parallel_tuple_cost = setting("parallel_tuple_cost", COST, "0.1", "No effect: a statement runs on one thread.");
    password_encryption = setting("password_encryption", Kind::Word(&["scram-sha-256", "md5"]), "scram-sha-256", "No effect: passwords are encrypted by gnomon hash-password, as SCRAM-SHA-256.");
    pg_stat_statements_max = setting("pg_stat_statements.max", Kind::Fixed, "5000", "Shows the most forms of statements that pg_stat_statements keeps.");
    pg_stat_statements_save = setting("pg_stat_statements.save", Kind::Word(&["off"]), "off", "Saves the statistics of statements when the server stops; they are not.");
    pg_stat_statements_track = setting("pg_stat_statements.track", Kind::Word(&["none", "top"]), "top", "Selects which statements pg_stat_statements counts; those within procedures are not.");
    pg_stat_statements_track_planning = setting("pg_stat_statements.track_planning", Kind::Word(&["off"]), "off", "Selects whether the time of planning is counted; it is not.");
    pg_stat_statements_track_utility = setting("pg_stat_statements.track_utility", Kind::Bool, "on", "Selects whether pg_stat_statements counts other commands than queries, INSERT, UPDATE, DELETE and CALL.");
    plan_cache_mode = setting("plan_cache_mode", Kind::Word(&["auto", "force_generic_plan", "force_custom_plan"]), "auto", "Sets whether texts of statements that differ in their literals share a plan: auto for short ones from the second on.");
    quote_all_identifiers = setting("quote_all_identifiers", Kind::Bool, "off", "No effect: names are quoted where they must be.");
    random_page_cost = setting("random_page_cost", COST, "4", "No effect: plans go by statistics and costs of the engine's own.");
    recursive_worktable_factor = setting("recursive_worktable_factor", Kind::Real { min: 0.001, max: 1000000.0, unit: Unit::None }, "10", "No effect: plans go by statistics and costs of the engine's own.");
    role = setting("role", Kind::Role, "none", "Sets the current role.");
    row_security = setting("row_security", Kind::Bool, "on", "No effect: there are no policies.");
    search_path = setting("search_path", Kind::Names, "\"$user\", public", "Sets the schema search order for names that are not schema-qualified.");
    seq_page_cost = setting("seq_page_cost", COST, "1", "No effect: plans go by statistics and costs of the engine's own.");
    server_encoding = reported("server_encoding", Kind::Fixed, "UTF8", "Shows the server (database) character set encoding.");
    server_version = reported("server_version", Kind::Fixed, SERVER_VERSION, "Shows the server version.");
    server_version_num = setting("server_version_num", Kind::Fixed, "150000", "Shows the server version as an integer.");
    session_authorization = reported("session_authorization", Kind::Fixed, "", "Shows the session user name.");
    session_replication_role = setting("session_replication_role", Kind::Word(&["origin", "replica", "local"]), "origin", "No effect: there are no triggers and rules.");
    ssl = setting("ssl", Kind::Fixed, "off", "Shows whether SSL is on.");
    standard_conforming_strings = reported("standard_conforming_strings", Kind::Bool, "on", "Causes '...' strings to treat backslashes literally.");
    statement_timeout = setting("statement_timeout", MS, "0", "Sets the maximum allowed duration of any statement.");
    stats_fetch_consistency = setting("stats_fetch_consistency", Kind::Word(&["none", "cache", "snapshot"]), "cache", "No effect: statistics are read as they are.");
    synchronize_seqscans = setting("synchronize_seqscans", Kind::Bool, "on", "No effect: scans go by the order of keys.");
    synchronous_commit = setting("synchronous_commit", Kind::Word(&["on", "off", "local", "remote_write", "remote_apply"]), "on", "Sets whether a commit is durable before it is acknowledged.");
    temp_buffers = setting("temp_buffers", Kind::Int { min: 100, max: 1_073_741_823, unit: Unit::Blocks }, "1024", "No effect: there are no temporary tables.");
    temp_tablespaces = setting("temp_tablespaces", Kind::Word(&["", "pg_default"]), "", "Sets the tablespaces to use for temporary tables and sort files.");
    TimeZone = reported("TimeZone", Kind::TimeZone, "UTC", "Sets the time zone for displaying and interpreting time stamps.");
    timezone_abbreviations = setting("timezone_abbreviations", Kind::Word(&["Default"]), "Default", "Selects a file of time zone abbreviations.");
    trace_notify = setting("trace_notify", Kind::Bool, "off", "No effect: the server's log has its own lines.");
    trace_sort = setting("trace_sort", Kind::Bool, "off", "No effect: the server's log has its own lines.");
    track_activities = setting("track_activities", Kind::Bool, "on", "No effect: what is counted is counted always.");
    track_counts = setting("track_counts", Kind::Bool, "on", "No effect: what is counted is counted always.");
    track_functions = setting("track_functions", Kind::Word(&["none", "pl", "all"]), "none", "No effect: what is counted is counted always.");
    track_io_timing = setting("track_io_timing", Kind::Bool, "off", "No effect: I/O is not timed for statements.");
    track_wal_io_timing = setting("track_wal_io_timing", Kind::Bool, "off", "No effect: I/O is not timed for statements.");
    transaction_deferrable = setting("transaction_deferrable", Kind::Bool, "off", "No effect: transactions do not wait for a safe snapshot.");
    transaction_isolation = setting("transaction_isolation", LEVELS, "read committed", "Sets the current transaction's isolation level.");
    transaction_read_only = setting("transaction_read_only", Kind::Bool, "off", "Sets the current transaction's read-only status.");
    transform_null_equals = setting("transform_null_equals", Kind::Word(&["off"]), "off", "Treats \"expr=NULL\" as \"expr IS NULL\"; it does not.");
    update_process_title = setting("update_process_title", Kind::Bool, "on", "No effect: all sessions are threads of one process.");
    vacuum_cost_delay = setting("vacuum_cost_delay", Kind::Real { min: 0.0, max: 100.0, unit: Unit::Milliseconds }, "0", "No effect: space is reclaimed all the time, without vacuum.");
    vacuum_cost_limit = setting("vacuum_cost_limit", Kind::Int { min: 1, max: 10000, unit: Unit::None }, "200", "No effect: space is reclaimed all the time, without vacuum.");
    vacuum_cost_page_dirty = setting("vacuum_cost_page_dirty", Kind::Int { min: 0, max: 10000, unit: Unit::None }, "20", "No effect: space is reclaimed all the time, without vacuum.");
    vacuum_cost_page_hit = setting("vacuum_cost_page_hit", Kind::Int { min: 0, max: 10000, unit: Unit::None }, "1", "No effect: space is reclaimed all the time, without vacuum.");
    vacuum_cost_page_miss = setting("vacuum_cost_page_miss", Kind::Int { min: 0, max: 10000, unit: Unit::None }, "2", "No effect: space is reclaimed all the time, without vacuum.");
    vacuum_failsafe_age = setting("vacuum_failsafe_age", Kind::Int { min: 0, max: 2100000000, unit: Unit::None }, "1600000000", "No effect: space is reclaimed all the time, without vacuum.");
    vacuum_freeze_min_age = setting("vacuum_freeze_min_age", Kind::Int { min: 0, max: 1000000000, unit: Unit::None }, "50000000", "No effect: space is reclaimed all the time, without vacuum.");
    vacuum_freeze_table_age = setting("vacuum_freeze_table_age", Kind::Int { min: 0, max: 2000000000, unit: Unit::None }, "150000000", "No effect: space is reclaimed all the time, without vacuum.");
    vacuum_multixact_failsafe_age = setting("vacuum_multixact_failsafe_age", Kind::Int { min: 0, max: 2100000000, unit: Unit::None }, "1600000000", "No effect: space is reclaimed all the time, without vacuum.");
    vacuum_multixact_freeze_min_age = setting("vacuum_multixact_freeze_min_age", Kind::Int { min: 0, max: 1000000000, unit: Unit::None }, "5000000", "No effect: space is reclaimed all the time, without vacuum.");
    vacuum_multixact_freeze_table_age = setting("vacuum_multixact_freeze_table_age", Kind::Int { min: 0, max: 2000000000, unit: Unit::None }, "150000000", "No effect: space is reclaimed all the time, without vacuum.");
    wal_compression = setting("wal_compression", Kind::Word(&["pglz", "lz4", "zstd", "on", "off"]), "off", "No effect: logs have their own form.");
    wal_init_zero = setting("wal_init_zero", Kind::Bool, "on", "No effect: logs have their own form.");
    wal_recycle = setting("wal_recycle", Kind::Bool, "on", "No effect: logs have their own form.");
    wal_sender_timeout = setting("wal_sender_timeout", MS, "60000", "No effect: there are no WAL senders.");
    wal_skip_threshold = setting("wal_skip_threshold", Kind::Int { min: 0, max: i32::MAX as i64, unit: Unit::Kilobytes }, "2048", "No effect: logs have their own form.");
    work_mem = setting("work_mem", KB, "4096", "No effect: sorts and hashes of a statement take up to 256 MB together.");
    xmlbinary = setting("xmlbinary", Kind::Word(&["base64", "hex"]), "base64", "No effect: there is no type xml.");
    xmloption = setting("xmloption", Kind::Word(&["content", "document"]), "content", "No effect: there is no type xml.");
    zero_damaged_pages = setting("zero_damaged_pages", Kind::Word(&["off"]), "off", "Continues processing past damaged pages; it never does.");
}

/// A transaction's own characteristics: they end with it, and RESET ALL leaves them.
pub(super) const CHARACTERISTICS: [usize; 3] = [
    Id::transaction_isolation as usize,
    Id::transaction_read_only as usize,
    Id::transaction_deferrable as usize,
];

/// The role: RESET ALL leaves it.
pub(super) const ROLE: usize = Id::role as usize;

/// Settings that PostgreSQL does not list.
const UNLISTED: [usize; 4] = [
    Id::default_with_oids as usize,
    Id::is_superuser as usize,
    Id::role as usize,
    Id::session_authorization as usize,
];

impl Definition {
    /// True if SHOW ALL and `pg_settings` have it.
    pub(super) fn is_listed(&self) -> bool {
        !UNLISTED.iter().any(|id| DEFINITIONS[*id].name == self.name)
    }
}

pub(super) fn find(name: &str) -> Option<usize> {
    DEFINITIONS.iter().position(|definition| definition.name.eq_ignore_ascii_case(name))
}
