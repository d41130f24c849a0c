//! Calls in the order of all members of a cluster: their encoding, how they are ordered, and how each member runs
//! them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Body, Call, KnownProcedure, Procedure, Procedures, RUNS_MAX, declared::Declared};
use crate::{
    Error, Reaction, Result,
    sync::Arc,
    txn::{Handle, Replicator, Ticket, Transaction},
};

/// Bytes of memory that the writes of a call may take: the same at all members, whatever their options say.
const WRITES_BYTES_MAX: usize = 256 << 20;

impl KnownProcedure {
    /// Encodes a call for the order: a hash of the code (8 bytes, little-endian), the length of the name (1 byte) and
    /// the name, the parameters.
    fn ordered(&self, params: &[u8]) -> Vec<u8> {
        let Procedure { name, code, .. } = &self.procedure;
        [&code.to_le_bytes(), &[name.len() as u8][..], name.as_bytes(), params].concat()
    }
}

/// Orders a call, and returns its answer when it has run here. The ticket is of its commit, or of what a refusal
/// has seen.
pub(super) fn order_call(
    handle: &Arc<Handle>,
    replicator: &dyn Replicator,
    registered: &KnownProcedure,
    params: &[u8],
) -> Result<(Result<Vec<u8>>, Ticket)> {
    if let Body::Replay(_) = registered.procedure.body {
        return Err(Error::NoSuchProcedure((*registered.procedure.name).into()));
    }
    let mut runs = 0;
    loop {
        runs += 1;
        match replicator.call(registered.ordered(params)) {
            // It has not run: the member was held for gone.
            Err(Error::Serialization(_)) if runs < RUNS_MAX => {}
            called => {
                let (csn, answer) = called?;
                if answer.is_ok() {
                    registered.counts.note_commit(0);
                }
                return Ok((answer, Ticket::new(handle.clone(), csn)));
            }
        }
    }
}

/// Runs a call that [`KnownProcedure::ordered`] has made, alone, in a transaction that is not to be committed. Returns
/// the procedure's name and what it answers, too, wherever it runs; it fails with what it need not meet elsewhere.
pub(crate) fn run_call(
    handle: &Arc<Handle>,
    procedures: &Procedures,
    call: &[u8],
) -> Result<(String, Transaction, Result<Vec<u8>>)> {
    let damaged = || Error::Operation("a call in the order of the cluster cannot be read".into());
    let (code, rest) = call.split_first_chunk().ok_or_else(damaged)?;
    let (name_bytes, rest) = rest.split_first().ok_or_else(damaged)?;
    let (name, params) = rest.split_at_checked((*name_bytes).into()).ok_or_else(damaged)?;
    let name = std::str::from_utf8(name).map_err(|_| damaged())?;
    let Procedure { code: own, body, .. } = &procedures.get(name, params)?.procedure;
    let Body::Run(body) = body else { return Err(Error::NoSuchProcedure(name.into())) };
    if *own != u64::from_le_bytes(*code) {
        return Err(Error::ProcedureDiffers(name.into()));
    }
    let mut txn = Transaction::alone(handle.clone(), Some(WRITES_BYTES_MAX));
    let mut call = Call {
        txn: &mut txn,
        declared: &Declared::Nothing,
        is_within: true,
        digest: 0,
        failed: None,
        is_ordered: true,
    };
    let answer = catch_unwind(AssertUnwindSafe(|| body(&mut call, params)));
    let answer = match call.failed {
        Some(error) if error.reaction() != Reaction::FixInput => return Err(error),
        // It writes as much wherever it runs.
        Some(error @ Error::TransactionTooLarge) => Err(error),
        // It depends on the program, which may be another one there.
        Some(error @ Error::NoSuchOperation { .. }) => return Err(error),
        Some(error) => Err(error),
        None => answer.unwrap_or_else(|_| Err(Error::procedure("the procedure panicked"))),
    };
    Ok((name.to_owned(), txn, answer))
}
