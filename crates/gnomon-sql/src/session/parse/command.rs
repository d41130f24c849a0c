//! Commands: the forms of statements, apart from those that keep the parser crate's form.

use sqlparser::ast::{self, Expr, Ident, ObjectName, Query, Statement};

use super::Parsed;

/// The command of a statement.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// A query, DML or DDL statement; of INSERT, its OVERRIDING clause.
    Sql(Box<Statement>, Option<Overriding>),
    /// BEGIN, START TRANSACTION.
    Begin {
        modes: Vec<Mode>,
        /// The command tag.
        tag: &'static str,
    },
    /// COMMIT, END.
    Commit { chain: bool },
    /// ROLLBACK, ABORT.
    Rollback { chain: bool },
    /// PREPARE TRANSACTION 'identifier'.
    PrepareTransaction(String),
    /// COMMIT PREPARED or ROLLBACK PREPARED 'identifier'.
    EndPrepared { gid: String, commit: bool },
    /// SAVEPOINT name.
    Savepoint(String),
    /// RELEASE name.
    Release(String),
    /// ROLLBACK TO name.
    RollbackTo(String),
    /// SET TRANSACTION, or SET SESSION CHARACTERISTICS AS TRANSACTION.
    SetTransaction { session: bool, modes: Vec<Mode> },
    /// SET; without values, to the default.
    Set { local: bool, name: String, values: Option<Vec<String>> },
    /// RESET; without a name, all.
    Reset(Option<String>),
    /// SET ROLE or SET SESSION AUTHORIZATION; none is the session's own user.
    SetRole(Option<String>),
    /// ALTER ROLE or ALTER DATABASE with SET or RESET: the value of a setting in new sessions of a role, or of all;
    /// without values it is removed, and without a name those of all settings are.
    SettingDefault {
        /// The name of the one of the two that it is.
        what: &'static str,
        /// The database that is named; there is one.
        database: Option<String>,
        role: Option<String>,
        name: Option<String>,
        values: Option<Vec<String>>,
    },
    /// SHOW; without a name, all.
    Show(Option<String>),
    /// PREPARE name (types) AS statement.
    Prepare { name: String, types: Vec<ast::DataType>, body: Box<Parsed> },
    /// EXECUTE name (values).
    Execute { name: String, arguments: Vec<Expr> },
    /// DEALLOCATE; without a name, all.
    Deallocate(Option<String>),
    /// DISCARD ALL, PLANS, SEQUENCES, TEMP.
    Discard(Discard),
    /// COPY.
    Copy(Box<Copy>),
    /// CREATE SEQUENCE.
    CreateSequence { name: ObjectName, if_not_exists: bool, options: Vec<SequenceOption> },
    /// ALTER SEQUENCE.
    AlterSequence { name: ObjectName, if_exists: bool, options: Vec<SequenceOption> },
    /// ALTER SEQUENCE, INDEX or VIEW ... RENAME TO.
    Rename { kind: &'static str, name: ObjectName, if_exists: bool, to: String },
    /// DROP of tables, indexes, sequences, views or schemas.
    Drop { kind: &'static str, names: Vec<ObjectName>, if_exists: bool, cascade: bool, concurrently: bool },
    /// CREATE PROCEDURE.
    CreateProcedure(Box<CreateProcedure>),
    /// DROP PROCEDURE; of each its name and, if they are given, the types of its parameters.
    DropProcedures { procedures: Vec<(ObjectName, Option<Vec<ast::DataType>>)>, if_exists: bool },
    /// COMMENT ON.
    Comment { kind: String, name: ObjectName, text: Option<String> },
    /// VACUUM: nothing to do, as pages are reclaimed all the time. Tables, options.
    Vacuum(Vec<ObjectName>, Vec<String>),
    /// ANALYZE: nothing to do. Tables, options.
    Analyze(Vec<ObjectName>, Vec<String>),
    /// CHECKPOINT: nothing to do, as checkpoints are taken as the log grows.
    Checkpoint,
    /// BACKUP TO STDOUT; of what has changed since another backup, if its name is given.
    Backup(Option<String>),
    /// LOCK TABLE.
    Lock { names: Vec<ObjectName>, mode: String, nowait: bool },
    /// DECLARE name CURSOR FOR query.
    Declare { name: String, hold: bool, body: Box<Parsed> },
    /// FETCH or MOVE; without a count, all.
    Fetch { name: String, count: FetchCount, discard: bool },
    /// CLOSE; without a name, all.
    Close(Option<String>),
    /// EXPLAIN; `ignored` are options that are on and show nothing.
    Explain { analyze: bool, summary: bool, ignored: Vec<String>, body: Box<Parsed> },
    /// A statement that PostgreSQL has and this does not.
    Unsupported(String),
}

/// CREATE PROCEDURE.
#[derive(Clone, Debug)]
pub(crate) struct CreateProcedure {
    /// Its name.
    pub name: ObjectName,
    /// OR REPLACE.
    pub or_replace: bool,
    /// Its parameters.
    pub parameters: Vec<NewParameter>,
    /// LANGUAGE, folded.
    pub language: String,
    /// The text of its statements.
    pub body: String,
}

/// A parameter of a new procedure.
#[derive(Clone, Debug)]
pub(crate) struct NewParameter {
    /// Its name.
    pub name: Option<String>,
    /// Its type.
    pub ty: ast::DataType,
    /// IN, INOUT.
    pub is_input: bool,
    /// OUT, INOUT.
    pub is_output: bool,
    /// DEFAULT.
    pub default: Option<Expr>,
}

/// OVERRIDING of INSERT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overriding {
    /// SYSTEM VALUE: identity columns GENERATED ALWAYS take what is given.
    System,
    /// USER VALUE: identity columns do not take what is given.
    User,
}

/// A characteristic of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// ISOLATION LEVEL, by its lower-case name.
    Isolation(&'static str),
    /// READ ONLY, READ WRITE.
    ReadOnly(bool),
    /// DEFERRABLE or NOT DEFERRABLE: no snapshot has to wait here, so that it is shown only.
    Deferrable(bool),
}

/// The objects that DISCARD discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's own words")]
pub(crate) enum Discard {
    All,
    Plans,
    Sequences,
    Temp,
}

/// Which way and how far FETCH goes. Cursors go forward only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchCount {
    /// So many rows.
    Forward(usize),
    /// All that are left.
    All,
}

/// An option of CREATE and ALTER SEQUENCE.
#[derive(Clone, Debug)]
pub(crate) enum SequenceOption {
    /// AS type.
    As(ast::DataType),
    /// INCREMENT BY.
    Increment(i64),
    /// MINVALUE; none for NO MINVALUE.
    Min(Option<i64>),
    /// MAXVALUE; none for NO MAXVALUE.
    Max(Option<i64>),
    /// START WITH.
    Start(i64),
    /// RESTART; without a value, at its start.
    Restart(Option<i64>),
    /// CACHE, which is accepted: values are reserved in batches anyway.
    Cache(i64),
    /// CYCLE, NO CYCLE.
    Cycle(bool),
    /// OWNED BY table.column; none for NONE.
    OwnedBy(Option<ObjectName>),
}

/// A COPY statement.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// The table or query that is copied.
    pub relation: CopyRelation,
    /// TO rather than FROM.
    pub to: bool,
    /// True if the other end is STDIN or STDOUT rather than a file or program.
    pub standard: bool,
    /// The options, by lower-case name; a value is absent for bare words.
    pub options: Vec<(String, CopyValue)>,
    /// WHERE of COPY FROM.
    pub filter: Option<Expr>,
}

/// The table or query of a COPY.
#[derive(Clone, Debug)]
pub(crate) enum CopyRelation {
    /// A table, with a list of columns if one was given.
    Table(ObjectName, Vec<Ident>),
    /// A query.
    Query(Box<Query>),
}

/// The value of a COPY option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyValue {
    /// None was given.
    Absent,
    /// A word, number or string.
    Text(String),
    /// A list of columns.
    Columns(Vec<String>),
    /// `*`
    Star,
}

impl Command {
    /// The query, DML or CALL that a plan is made of, if it is one.
    pub(crate) fn planned(&self) -> Option<(&Statement, Option<Overriding>)> {
        let Command::Sql(statement, overriding) = self else { return None };
        let is_planned = matches!(
            **statement,
            Statement::Query(_)
                | Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Call(_)
        );
        is_planned.then_some((&**statement, *overriding))
    }
}
