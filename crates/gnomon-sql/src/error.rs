//! Errors as PostgreSQL reports them: SQLSTATE, message, detail, hint, position.

use std::fmt;

use gnomon_parser::{ErrorKind, Position};

/// The result of anything in SQL.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

/// A five-character SQLSTATE (PostgreSQL's Appendix A).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl SqlState {
    /// True if it is of the values that a query computes.
    pub(crate) fn is_of_data(self) -> bool {
        self.0.starts_with("22") || self.0.starts_with("21")
    }

    /// True if a statement that is computed in another way may not fail so: all but cancels, failures of transactions and
    /// of the database.
    pub(crate) fn may_be_avoided(self) -> bool {
        !["08", "25", "40", "55", "57", "58", "XX"].iter().any(|class| self.0.starts_with(class))
    }

    /// True if a statement was refused for objects that the catalog has or lacks: it may be good with a newer catalog.
    pub(crate) fn tells_of_names(self) -> bool {
        self.0.starts_with("42") || self.0.starts_with("3F")
    }
}

macro_rules! states {
    ($($name:ident = $code:literal,)*) => {
        #[allow(missing_docs, reason = "PostgreSQL's own condition names")]
        impl SqlState {
            $(pub const $name: SqlState = SqlState($code);)*
        }
    };
}

states! {
    SUCCESSFUL_COMPLETION = "00000",
    WARNING = "01000",
    CONNECTION_FAILURE = "08006",
    TRANSACTION_RESOLUTION_UNKNOWN = "08007",
    PROTOCOL_VIOLATION = "08P01",
    FEATURE_NOT_SUPPORTED = "0A000",
    CARDINALITY_VIOLATION = "21000",
    STRING_DATA_RIGHT_TRUNCATION = "22001",
    NUMERIC_VALUE_OUT_OF_RANGE = "22003",
    NULL_VALUE_NOT_ALLOWED = "22004",
    INVALID_DATETIME_FORMAT = "22007",
    DATETIME_FIELD_OVERFLOW = "22008",
    INVALID_TIME_ZONE_DISPLACEMENT_VALUE = "22009",
    SUBSTRING_ERROR = "22011",
    DIVISION_BY_ZERO = "22012",
    INTERVAL_FIELD_OVERFLOW = "22015",
    INVALID_REGULAR_EXPRESSION = "2201B",
    INVALID_ARGUMENT_FOR_LOGARITHM = "2201E",
    INVALID_ARGUMENT_FOR_POWER_FUNCTION = "2201F",
    INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION = "2201G",
    INVALID_ROW_COUNT_IN_LIMIT_CLAUSE = "2201W",
    INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE = "2201X",
    CHARACTER_NOT_IN_REPERTOIRE = "22021",
    INVALID_PARAMETER_VALUE = "22023",
    INVALID_ESCAPE_SEQUENCE = "22025",
    ARRAY_SUBSCRIPT_ERROR = "2202E",
    INVALID_TEXT_REPRESENTATION = "22P02",
    INVALID_BINARY_REPRESENTATION = "22P03",
    BAD_COPY_FILE_FORMAT = "22P04",
    UNTRANSLATABLE_CHARACTER = "22P05",
    SEQUENCE_GENERATOR_LIMIT_EXCEEDED = "2200H",
    NOT_NULL_VIOLATION = "23502",
    UNIQUE_VIOLATION = "23505",
    CHECK_VIOLATION = "23514",
    INVALID_CURSOR_STATE = "24000",
    ACTIVE_SQL_TRANSACTION = "25001",
    READ_ONLY_SQL_TRANSACTION = "25006",
    NO_ACTIVE_SQL_TRANSACTION = "25P01",
    IN_FAILED_SQL_TRANSACTION = "25P02",
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03",
    INVALID_SQL_STATEMENT_NAME = "26000",
    INVALID_AUTHORIZATION_SPECIFICATION = "28000",
    INVALID_PASSWORD = "28P01",
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01",
    INVALID_CURSOR_NAME = "34000",
    INVALID_SAVEPOINT = "3B001",
    INVALID_CATALOG_NAME = "3D000",
    INVALID_SCHEMA_NAME = "3F000",
    SERIALIZATION_FAILURE = "40001",
    DEADLOCK_DETECTED = "40P01",
    INSUFFICIENT_PRIVILEGE = "42501",
    SYNTAX_ERROR = "42601",
    INVALID_NAME = "42602",
    NAME_TOO_LONG = "42622",
    DUPLICATE_COLUMN = "42701",
    AMBIGUOUS_COLUMN = "42702",
    UNDEFINED_COLUMN = "42703",
    UNDEFINED_OBJECT = "42704",
    DUPLICATE_OBJECT = "42710",
    DUPLICATE_ALIAS = "42712",
    DUPLICATE_FUNCTION = "42723",
    AMBIGUOUS_FUNCTION = "42725",
    GROUPING_ERROR = "42803",
    DATATYPE_MISMATCH = "42804",
    WRONG_OBJECT_TYPE = "42809",
    CANNOT_COERCE = "42846",
    UNDEFINED_FUNCTION = "42883",
    UNDEFINED_TABLE = "42P01",
    UNDEFINED_PARAMETER = "42P02",
    DUPLICATE_CURSOR = "42P03",
    DUPLICATE_PREPARED_STATEMENT = "42P05",
    DUPLICATE_SCHEMA = "42P06",
    DUPLICATE_TABLE = "42P07",
    AMBIGUOUS_PARAMETER = "42P08",
    INVALID_COLUMN_REFERENCE = "42P10",
    INVALID_CURSOR_DEFINITION = "42P11",
    INVALID_FUNCTION_DEFINITION = "42P13",
    INVALID_TABLE_DEFINITION = "42P16",
    INDETERMINATE_DATATYPE = "42P18",
    INVALID_RECURSION = "42P19",
    DISK_FULL = "53100",
    OUT_OF_MEMORY = "53200",
    TOO_MANY_CONNECTIONS = "53300",
    PROGRAM_LIMIT_EXCEEDED = "54000",
    STATEMENT_TOO_COMPLEX = "54001",
    TOO_MANY_ARGUMENTS = "54023",
    TOO_MANY_COLUMNS = "54011",
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000",
    OBJECT_IN_USE = "55006",
    LOCK_NOT_AVAILABLE = "55P03",
    QUERY_CANCELED = "57014",
    ADMIN_SHUTDOWN = "57P01",
    CRASH_SHUTDOWN = "57P02",
    CANNOT_CONNECT_NOW = "57P03",
    IDLE_SESSION_TIMEOUT = "57P05",
    IO_ERROR = "58030",
    SNAPSHOT_TOO_OLD = "72000",
    INTERNAL_ERROR = "XX000",
    DATA_CORRUPTED = "XX001",
}

/// How grave a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's own words")]
pub enum Severity {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Fatal,
}

impl Severity {
    /// PostgreSQL's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Info => "INFO",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
        }
    }
}

/// An error as PostgreSQL would report it. Boxed inside, so that results stay small.
#[derive(Clone)]
pub struct SqlError(Box<Report>);

/// A report that is no error: `NOTICE`, `WARNING`.
pub type Notice = SqlError;

/// The fields of a report.
#[derive(Clone, Debug)]
pub struct Report {
    /// How grave it is.
    pub severity: Severity,
    /// Its SQLSTATE.
    pub state: SqlState,
    /// The primary message.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
    /// Advice on what to do.
    pub hint: Option<String>,
    /// Where in the statement, in characters from 1.
    pub position: Option<usize>,
    /// Where it came up: what was being done, such as the line of a COPY.
    pub context: Option<String>,
    /// Schema, table, column, constraint, where they apply.
    pub schema: Option<String>,
    /// The table.
    pub table: Option<String>,
    /// The column.
    pub column: Option<String>,
    /// The constraint.
    pub constraint: Option<String>,
    /// The routine of PostgreSQL that reports it, where drivers act on its name.
    pub routine: Option<&'static str>,
    /// The byte of the statement's text that it is about. Where the text is known, `position` is computed from it.
    pub(crate) place: Option<Position>,
    /// The engine's error that it tells of.
    engine: Option<gnomon_engine::Error>,
}

impl SqlError {
    /// An error with this state and message (PostgreSQL's own wording where it has one).
    pub fn new(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(Report {
            severity: Severity::Error,
            state,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            schema: None,
            table: None,
            column: None,
            constraint: None,
            routine: None,
            place: None,
            engine: None,
        }))
    }

    /// The statement is well-formed but nothing here can do it.
    pub fn unsupported(what: impl fmt::Display) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// A notice of something skipped or left out.
    pub(crate) fn note(state: SqlState, message: impl Into<String>) -> Notice {
        SqlError::new(state, message).severity(Severity::Notice)
    }

    /// The notice that something has no effect, and why that is harmless.
    pub(crate) fn no_effect(what: &str, why: &str) -> Notice {
        SqlError::note(SqlState::SUCCESSFUL_COMPLETION, format!("{what} has no effect: {why}"))
    }

    /// With another severity.
    pub fn severity(mut self, severity: Severity) -> SqlError {
        self.0.severity = severity;
        self
    }
    /// With a detail.
    pub fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.0.detail = Some(detail.into());
        self
    }
    /// With the routine of PostgreSQL that reports it.
    pub fn routine(mut self, routine: &'static str) -> SqlError {
        self.0.routine = Some(routine);
        self
    }
    /// With a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.0.hint = Some(hint.into());
        self
    }
    /// With a position in the statement (characters from 1).
    pub fn position(mut self, position: usize) -> SqlError {
        self.0.position = Some(position);
        self
    }
    /// At this place in the statement, unless it has one already. Texts that the catalog keeps have no places.
    pub(crate) fn at(mut self, place: Position) -> SqlError {
        if self.0.place.is_none() && self.0.position.is_none() {
            self.0.place = place.byte().map(|_| place);
        }
        self
    }
    /// An error that says that no function of a name fits, with the schema in front of the name.
    pub(crate) fn with_schema(mut self, schema: &str, name: &str) -> Self {
        let report = &mut self.0;
        let is_about_it = matches!(report.state, SqlState::UNDEFINED_FUNCTION | SqlState::AMBIGUOUS_FUNCTION);
        let begin = format!("function {name}(");
        if is_about_it
            && report.place.is_none()
            && let Some(rest) = report.message.strip_prefix(&begin)
        {
            report.message = format!("function {schema}.{name}({rest}");
        }
        self
    }
    /// With its place in `text` as PostgreSQL counts it.
    pub(crate) fn located_in(mut self, text: &str) -> SqlError {
        if let Some(place) = self.0.place.take() {
            self.0.position = place.character(text);
        }
        self
    }
    /// At no place of the statement: it is another's.
    pub(crate) fn unplaced(mut self) -> SqlError {
        (self.0.place, self.0.position) = (None, None);
        self
    }
    /// With where it came up.
    pub fn context(mut self, context: impl Into<String>) -> SqlError {
        self.0.context = Some(context.into());
        self
    }
    /// With the table that it is about.
    pub fn table(mut self, schema: &str, table: &str) -> SqlError {
        self.0.schema = Some(schema.into());
        self.0.table = Some(table.into());
        self
    }
    /// With the column that it is about.
    pub fn column(mut self, column: &str) -> SqlError {
        self.0.column = Some(column.into());
        self
    }
    /// With the constraint that it is about.
    pub fn constraint(mut self, constraint: &str) -> SqlError {
        self.0.constraint = Some(constraint.into());
        self
    }
    /// Its fields.
    pub fn report(&self) -> &Report {
        &self.0
    }
    /// The engine's error that it tells of, if it is one.
    pub(crate) fn engine(&self) -> Option<&gnomon_engine::Error> {
        self.0.engine.as_ref()
    }
    /// Its SQLSTATE.
    pub fn state(&self) -> SqlState {
        self.0.state
    }
}

impl fmt::Debug for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.state.0, self.0.message)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for SqlError {}

/// Returns the detail of a conflict's report, if there is more to report than its reason.
fn detail_of(conflict: gnomon_engine::Conflict) -> Option<&'static str> {
    use gnomon_engine::Conflict as C;
    Some(match conflict {
        C::Write => "Another one was first that has changed what this one changes or has locked.",
        C::Read => "Another one was first that has changed what this one has read.",
        C::Prepared => "A prepared transaction, which has not ended, holds what this one needs.",
        C::Stale => "The snapshot has missed more commits of what was read than gnomon.k allows.",
        C::TooOld => "What others have changed since the snapshot is not kept any more.",
        C::Bound => "What it took of a number was not there any more when its turn came among all commits.",
        C::Gone => "The cluster held this member for gone when the transaction was to commit.",
        _ => return None,
    })
}

impl From<Box<gnomon_parser::Error>> for SqlError {
    fn from(error: Box<gnomon_parser::Error>) -> Self {
        let error = *error;
        let mut told = SqlError::new(SqlState(error.kind.sqlstate()), error.message).at(error.position);
        told.0.detail = error.detail.map(str::to_owned);
        match error.hint {
            Some(hint) => told.hint(hint),
            None if error.kind == ErrorKind::TooComplex => told.hint("Nest the statement less deeply."),
            None => told,
        }
    }
}

impl From<gnomon_engine::Error> for SqlError {
    fn from(error: gnomon_engine::Error) -> Self {
        use gnomon_engine::{Error as E, InterruptReason as Why};
        let (state, message) = match &error {
            E::Deadlock => (SqlState::DEADLOCK_DETECTED, "deadlock detected".to_owned()),
            E::Serialization(conflict) => (SqlState::SERIALIZATION_FAILURE, conflict.to_string()),
            E::SnapshotTooOld => (SqlState::SNAPSHOT_TOO_OLD, "snapshot too old".to_owned()),
            E::LockTimeout => {
                (SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout".to_owned())
            }
            E::Interrupted(Why::Cancel) => {
                (SqlState::QUERY_CANCELED, "canceling statement due to user request".to_owned())
            }
            E::Interrupted(Why::Timeout) => {
                (SqlState::QUERY_CANCELED, "canceling statement due to statement timeout".to_owned())
            }
            E::Interrupted(Why::Shutdown) => {
                (SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command".to_owned())
            }
            E::KeyExists => (SqlState::UNIQUE_VIOLATION, error.to_string()),
            E::KeyTooLong { .. } | E::ValueTooLong { .. } => {
                (SqlState::PROGRAM_LIMIT_EXCEEDED, error.to_string())
            }
            E::NoSuchTree(_) => (SqlState::UNDEFINED_TABLE, error.to_string()),
            E::ReadOnly => (SqlState::READ_ONLY_SQL_TRANSACTION, error.to_string()),
            E::BadOption(_) => (SqlState::INVALID_PARAMETER_VALUE, error.to_string()),
            E::GidInUse(gid) => {
                (SqlState::DUPLICATE_OBJECT, format!("transaction identifier \"{gid}\" is already in use"))
            }
            E::NoSuchGid(gid) => (
                SqlState::UNDEFINED_OBJECT,
                format!("prepared transaction with identifier \"{gid}\" does not exist"),
            ),
            E::GidBusy(gid) => (
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("prepared transaction with identifier \"{gid}\" is busy"),
            ),
            E::GidTooLong { .. } => (SqlState::INVALID_PARAMETER_VALUE, error.to_string()),
            E::TooManyPrepared { max: 0 } => {
                (SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "prepared transactions are disabled".to_owned())
            }
            E::TooManyPrepared { .. } => {
                (SqlState::OUT_OF_MEMORY, "maximum number of prepared transactions reached".to_owned())
            }
            E::CannotPrepare(what) => {
                (SqlState::FEATURE_NOT_SUPPORTED, format!("cannot PREPARE a transaction that {what}"))
            }
            E::Unsupported(_) => (SqlState::FEATURE_NOT_SUPPORTED, error.to_string()),
            E::TransactionTooLarge => (SqlState::OUT_OF_MEMORY, error.to_string()),
            E::DiskFull => (SqlState::DISK_FULL, error.to_string()),
            E::Poisoned(_) => (SqlState::CRASH_SHUTDOWN, error.to_string()),
            E::Closed => (SqlState::ADMIN_SHUTDOWN, error.to_string()),
            E::Apart(_) => (SqlState::CANNOT_CONNECT_NOW, error.to_string()),
            E::Unresolved(_) => (SqlState::TRANSACTION_RESOLUTION_UNKNOWN, error.to_string()),
            E::Corrupt { .. } => (SqlState::DATA_CORRUPTED, error.to_string()),
            E::NotADatabase { .. } | E::TooNew { .. } | E::TooOld { .. } => {
                (SqlState::INVALID_CATALOG_NAME, error.to_string())
            }
            E::BackupChain(_) => (SqlState::INVALID_PARAMETER_VALUE, error.to_string()),
            E::InUse { .. } => (SqlState::OBJECT_IN_USE, error.to_string()),
            _ => (SqlState::IO_ERROR, error.to_string()),
        };
        let hint = match &error {
            E::Deadlock | E::Serialization(_) => "The transaction might succeed if retried.",
            E::DiskFull => {
                "Free disk space, or change fewer rows at a time; TRUNCATE and DROP TABLE need little of it."
            }
            E::Apart(_) => {
                "Nothing of it is committed: run it at another member, or here when this one is with the others again."
            }
            E::Unresolved(_) => "It may have committed: look it up before you run it again.",
            E::TransactionTooLarge => "Load or change fewer rows in one transaction.",
            E::CannotPrepare(_) => "COMMIT it instead, or run it again in parts that can be prepared.",
            E::TooManyPrepared { max } if *max > 0 => {
                "COMMIT PREPARED or ROLLBACK PREPARED those that pg_prepared_xacts lists and nobody will end, \
                 or let there be more (max_prepared_transactions)."
            }
            E::Unsupported(_) => "Use a database that recovers by shadow paging.",
            E::Corrupt { .. } => {
                "Stop what has the database open; `gnomon verify` on its directory lists the damage."
            }
            _ => "",
        };
        let mut told = SqlError::new(state, message);
        told.0.hint = (!hint.is_empty()).then(|| hint.into());
        if let E::Serialization(conflict) = &error {
            told.0.detail = detail_of(*conflict).map(Into::into);
        }
        told.0.engine = Some(error);
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let corrupt =
            gnomon_engine::Error::Corrupt { file: "pages".into(), page: 7, detail: "checksum".into() };
        for (error, state, hint) in [
            (gnomon_engine::Error::DiskFull, SqlState::DISK_FULL, "TRUNCATE and DROP TABLE"),
            (gnomon_engine::Error::Unsupported("mirror"), SqlState::FEATURE_NOT_SUPPORTED, "shadow paging"),
            (corrupt, SqlState::DATA_CORRUPTED, "gnomon verify"),
        ] {
            let error = SqlError::from(error);
            assert_eq!(error.state(), state);
            assert!(error.report().hint.as_deref().is_some_and(|text| text.contains(hint)), "{error}");
        }
    }
}
