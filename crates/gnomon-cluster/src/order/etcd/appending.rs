//! Appending batches, in pieces if need be, and trimming the log.

use std::collections::BTreeSet;

use prost::{Message, bytes::Bytes};

use super::{
    LogError, Member, Refused, Shared, Space,
    client::Failure,
    keys::{Ack, Record},
    messages::{Compare, RequestOp},
};

/// Maximum bytes of a batch in one request; etcd takes 1.5 MiB.
pub(super) const PIECE_BYTES_MAX: usize = 1_000_000;

/// Maximum number of keys that one request deletes; etcd takes 128.
const DELETES_MAX: usize = 100;

/// The value of a key of pieces when the last one is there.
const COMPLETE: &[u8] = b"complete";

impl Shared {
    pub(super) async fn append(&self, member: Member, sequence: u64, bytes: Bytes) -> Result<u64, LogError> {
        let (name, bits) = self.own(member)?;
        // Before the log can be full again.
        let lost = bits.lost(&self.space, &name);
        let makes_bits = !lost.is_empty();
        let (revision, first) = self.space.append(member, &name, sequence, bytes, lost).await?;
        if let Some(first) = first.filter(|_| makes_bits) {
            self.note_bits_made(member, bits, first);
        }
        Ok(revision)
    }
}

impl Space {
    /// Appends a batch, and makes other changes with its first piece. Returns its revision, and that of the first piece if
    /// that was not there before.
    async fn append(
        &self,
        member: Member,
        name: &str,
        sequence: u64,
        bytes: Bytes,
        mut others: Vec<RequestOp>,
    ) -> Result<(u64, Option<i64>), LogError> {
        let (member_key, ack_key) = (self.keys.member(name), self.keys.ack(member));
        let pieces_key = self.keys.pieces(member, sequence);
        let pieces = bytes.len().div_ceil(PIECE_BYTES_MAX).max(1) as u64;
        // The state that the append expects, and the revision of the last piece. There is no batch 0, nor one before:
        // a request for it is answered with the number of the next one.
        let (mut ack, mut revision) = (Ack { batch: sequence.wrapping_sub(1), pieces: 0 }, 0);
        let mut first = None;
        loop {
            let piece = ack.pieces;
            let is_last = piece + 1 == pieces;
            let from = piece as usize * PIECE_BYTES_MAX;
            let record = Record::new(
                if piece > 0 { revision } else { 0 },
                !is_last,
                bytes.slice(from..bytes.len().min(from + PIECE_BYTES_MAX)),
            );
            let next = match is_last {
                true => Ack { batch: sequence, pieces: 0 },
                false => Ack { batch: sequence, pieces: piece + 1 },
            };
            let mut puts = vec![
                RequestOp::put(&self.keys.log, record.encode_to_vec().into()),
                RequestOp::put(&ack_key, next.to_bytes()),
            ];
            if pieces > 1 {
                let value = if is_last { COMPLETE } else { b"" };
                puts.push(RequestOp::put(&pieces_key, Bytes::from_static(value)));
            }
            puts.extend(others.iter().cloned());
            let is_next = match ack {
                Ack { batch: 0, pieces: 0 } => Compare::absent(&ack_key),
                ack => Compare::value(&ack_key, ack.to_bytes()),
            };
            let compare = vec![Compare::created(&member_key, member.0 as i64), is_next];
            let reads = vec![RequestOp::get(&member_key), RequestOp::get(&ack_key)];
            let answer = self.client.txn(compare, puts, reads).await?;
            if answer.succeeded {
                revision = answer.revision();
                first = first.or(Some(revision));
                others.clear();
                if is_last {
                    return Ok((revision as u64, first));
                }
                ack = next;
                continue;
            }
            // An answer was lost, or the batch is not the next one.
            if answer.found(0).first().is_none_or(|kv| kv.create_revision as u64 != member.0) {
                return Err(Refused::Fenced.into());
            }
            let found = answer.found(1).first();
            let known = found.map_or(Ok(Ack::default()), |kv| Ack::decode(kv.value.clone()));
            let known = known.map_err(|_| {
                let key = String::from_utf8_lossy(&ack_key);
                LogError::Foreign(format!(
                    "the key {key} in etcd cannot be read: see that nothing else writes there"
                ))
            })?;
            revision = found.map_or(0, |kv| kv.mod_revision);
            match known {
                Ack { batch, pieces: 0 } if batch == sequence && sequence > 0 => {
                    return Ok((revision as u64, first));
                }
                Ack { batch, pieces: done } if batch == sequence && done != ack.pieces && done < pieces => {
                    ack = known
                }
                Ack { batch, pieces: 0 } => return Err(Refused::OutOfSequence { expected: batch + 1 }.into()),
                Ack { batch, .. } => return Err(Refused::OutOfSequence { expected: batch }.into()),
            }
        }
    }

    /// Forgets the log up to a revision, but no version that a follower from there needs: not the newest one, and no
    /// piece of a batch whose last piece is not forgotten.
    pub(super) async fn trim(&self, upto: u64) -> Result<(), LogError> {
        let reads = [&self.keys.all_members, &self.keys.all_pieces].map(RequestOp::get_all);
        let answer =
            self.client.read([vec![RequestOp::get(&self.keys.log)], reads.to_vec()].concat()).await?;
        // Something else may have deleted it.
        let newest = answer.found(0).first().map_or(answer.revision(), |kv| kv.mod_revision);
        // No other member can append the rest of a batch.
        let heard: BTreeSet<Member> =
            answer.found(1).iter().map(|kv| Member(kv.create_revision as u64)).collect();
        let upto = i64::try_from(upto).unwrap_or(i64::MAX).min(newest);
        let mut bound = upto;
        let mut forgotten = Vec::new();
        for batch in answer.found(2) {
            let is_over = match &batch.value[..] {
                COMPLETE => batch.mod_revision <= upto,
                _ => self.keys.member_of_pieces(&batch.key).is_none_or(|member| !heard.contains(&member)),
            };
            match is_over {
                true => forgotten.push(RequestOp::delete(&batch.key)),
                false => bound = bound.min(batch.create_revision - 1),
            }
        }
        for deletes in forgotten.chunks(DELETES_MAX) {
            self.client.txn(Vec::new(), deletes.to_vec(), Vec::new()).await?;
        }
        match self.client.compact(bound).await {
            // It was trimmed further before.
            Err(Failure::Compacted) => Ok(()),
            answer => Ok(answer?),
        }
    }
}
