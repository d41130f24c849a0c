//! The syntax tree: what a text says, before any name in it is looked up.
//!
//! It has the shape of PostgreSQL's raw parse trees. Names are folded and cut to their length; spellings that mean a
//! call are calls (`trim(both from x)` is `pg_catalog.btrim(x)`), names of types in the standard's words are those of
//! the catalog (`integer` is `pg_catalog.int4`), and parentheses are gone. A node has the position that PostgreSQL
//! reports in errors about it.
//!
//! Fields that are named as their clauses have no comment of their own.

mod alter;
mod ddl;
mod dml;
mod expr;
mod name;
mod query;
mod utility;

pub use self::{alter::*, ddl::*, dml::*, expr::*, name::*, query::*, utility::*};
use crate::Position;

/// A statement.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "a variant has the name of its statement")]
#[non_exhaustive]
pub enum Statement {
    Query(Box<Query>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Truncate(Truncate),
    CreateTable(Box<CreateTable>),
    CreateTableAs(Box<CreateTableAs>),
    CreateIndex(Box<CreateIndex>),
    CreateView(Box<CreateView>),
    CreateSequence(CreateSequence),
    CreateSchema(CreateSchema),
    CreateExtension(CreateExtension),
    CreateProcedure(Box<CreateProcedure>),
    AlterTable(AlterTable),
    AlterSequence(AlterSequence),
    Rename(Rename),
    /// ALTER ROLE, USER or DATABASE with SET or RESET.
    SettingDefault(SettingDefault),
    Drop(Drop),
    DropRoutine(DropRoutine),
    DropAbsent(DropAbsent),
    AlterOwner(AlterOwner),
    Comment(Box<Comment>),
    Transaction(Transaction),
    Set(Set),
    Reset(SettingName),
    Show(SettingName),
    Prepare(Prepare),
    Execute(Execute),
    /// DEALLOCATE; without a name, all.
    Deallocate(Option<Ident>),
    Discard(Discard),
    Copy(Box<Copy>),
    DeclareCursor(DeclareCursor),
    Fetch(Fetch),
    /// CLOSE; without a name, all.
    Close(Option<Ident>),
    Explain(Explain),
    Vacuum(Maintenance),
    Analyze(Maintenance),
    Reindex(Reindex),
    Cluster(Cluster),
    Call(Box<FunctionCall>),
    Lock(Lock),
    Checkpoint,
    /// UNLISTEN; without a name, of all channels.
    Unlisten(Option<Ident>),
    Backup(Backup),
    /// A statement of PostgreSQL's grammar that has no tree here.
    Unsupported(Unsupported),
}

/// A statement or clause of PostgreSQL's grammar that the tree does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsupported {
    /// Its name, as an error says it: `MERGE`, `CREATE FUNCTION`.
    pub feature: String,
    /// Where it stands.
    pub position: Position,
}
