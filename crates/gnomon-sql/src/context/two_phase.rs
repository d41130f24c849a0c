//! Two-phase commit: PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED, and what is known of prepared
//! transactions.
//!
//! The engine keeps a prepared transaction with a note, here: version (1 byte, now 1), when it was prepared
//! (microseconds since 2000-01-01 00:00 UTC, 8 bytes, little-endian), the length of the user's name (2 bytes,
//! little-endian), the user's name, the database's name.
//!
//! A transaction that has changed the catalog cannot be prepared: others would have to wait for its end with every
//! statement, since each begins with the catalog.

use gnomon_engine::{Csn, Database, GID_BYTES_MAX};

use super::{Company, SessionContext};
use crate::{
    Result, SqlError, SqlState,
    catalog::system::PreparedTransaction,
    sink::{Tag, tag},
    types::text::cut_at_character,
};

/// The version of the note.
const VERSION: u8 = 1;
/// A user's or database's name is kept up to this length.
const NAME_BYTES_MAX: usize = 1024;

/// The note that SQL keeps of a prepared transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Note {
    prepared: i64,
    owner: String,
    database: String,
}

/// As much of a name as is kept.
fn kept(name: &str) -> &str {
    cut_at_character(name, NAME_BYTES_MAX)
}

impl Note {
    fn encode(&self) -> Vec<u8> {
        let (owner, database) = (kept(&self.owner), kept(&self.database));
        let mut note = vec![VERSION];
        note.extend_from_slice(&self.prepared.to_le_bytes());
        note.extend_from_slice(&(owner.len() as u16).to_le_bytes());
        note.extend_from_slice(owner.as_bytes());
        note.extend_from_slice(database.as_bytes());
        note
    }

    /// None if it is not of this form: the transaction was prepared by a program that uses the engine itself.
    fn decode(note: &[u8]) -> Option<Note> {
        let (&version, rest) = note.split_first()?;
        let (prepared, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (owner, database) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        (version == VERSION).then_some(Note {
            prepared: i64::from_le_bytes(*prepared),
            owner: String::from_utf8(owner.to_vec()).ok()?,
            database: String::from_utf8(database.to_vec()).ok()?,
        })
    }
}

/// The prepared transactions of a database, as `pg_prepared_xacts` shows them.
pub(crate) fn prepared_transactions(engine: &Database) -> Result<Vec<PreparedTransaction>> {
    let describe = |info: gnomon_engine::PreparedInfo| {
        let note = Note::decode(&info.note);
        let (prepared, names) = match note {
            Some(Note { prepared, owner, database }) => (Some(prepared), Some((owner, database))),
            None => (None, None),
        };
        PreparedTransaction { transaction: info.txn.0, gid: info.gid, prepared, names }
    };
    Ok(engine.prepared()?.into_iter().map(describe).collect())
}

/// Prepares the transaction in progress, which the session has no more afterwards, prepared or not.
/// `holds_cursor` tells that it has made a cursor that is to outlive it.
pub(crate) fn prepare(session: &mut SessionContext, gid: &str, holds_cursor: bool) -> Result<()> {
    let prepared = prepare_engine(session, gid, holds_cursor);
    session.leave_transaction();
    session.settings.end_transaction(prepared.is_ok());
    prepared
}

fn prepare_engine(session: &mut SessionContext, gid: &str, holds_cursor: bool) -> Result<()> {
    if !session.current.advisory.is_empty() {
        return Err(SqlError::unsupported("PREPARE TRANSACTION of one that holds advisory locks"));
    }
    if gid.len() > GID_BYTES_MAX {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("transaction identifier \"{gid}\" is too long"),
        ));
    }
    if session.has_own_catalog() {
        return Err(cannot("has changed the catalog")
            .hint("Commit tables, indexes, sequences, views and comments in a transaction of their own."));
    }
    if holds_cursor {
        return Err(cannot("has created a cursor WITH HOLD"));
    }
    // It may have done nothing as yet.
    session.engine_transaction(true, Csn::default())?;
    let Some(engine) = session.current.engine.take() else { return Ok(()) };
    let note = Note {
        prepared: session.shared.now(),
        owner: session.user.to_string(),
        database: session.database.to_string(),
    };
    let stored = engine.prepare(gid, &note.encode())?;
    session.last_csn = session.last_csn.max(stored);
    // All reservations of values that it has drawn came before.
    session.drawn.csn = Csn::default();
    Ok(())
}

/// COMMIT PREPARED or ROLLBACK PREPARED.
pub(crate) fn end(session: &mut SessionContext, gid: &str, commit: bool, company: Company) -> Result<Tag> {
    let what = if commit { "COMMIT PREPARED" } else { "ROLLBACK PREPARED" };
    session.refuse_in_transaction(what, company)?;
    let prepared = session.shared.engine.claim_prepared(gid)?;
    if let Some(note) = Note::decode(&prepared.info().note)
        && note.owner != kept(&session.user)
        && !session.options.is_owner
    {
        return Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            "permission denied to finish prepared transaction",
        )
        .hint(format!("Only \"{}\", who has prepared it, can do that.", note.owner)));
    }
    let ended = if commit { prepared.commit()? } else { prepared.rollback()? };
    session.last_csn = session.last_csn.max(ended);
    tag(what)
}

fn cannot(what: &str) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot PREPARE a transaction that {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_round_trip_and_others_are_told_from_them() {
        for owner in ["", "gnomon", "Jürgen"] {
            let note = Note { prepared: -5, owner: owner.into(), database: "db".into() };
            assert_eq!(Note::decode(&note.encode()), Some(note.clone()));
            assert_eq!(Note::decode(&note.encode()[..10]), None);
        }
        let long = Note { prepared: 1, owner: "é".repeat(5000), database: "d".repeat(5000) };
        assert!(long.encode().len() <= gnomon_engine::NOTE_BYTES_MAX);
        assert_eq!(Note::decode(&long.encode()).map(|note| note.owner.len()), Some(NAME_BYTES_MAX));
        assert_eq!(Note::decode(b""), None);
        assert_eq!(Note::decode(b"a note of another kind"), None);
    }
}
