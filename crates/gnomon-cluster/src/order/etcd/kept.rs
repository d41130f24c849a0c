//! How far members need the log.
//!
//! A member says it by a key of its own. A full etcd takes no value, but it deletes keys: for that a member has a key for
//! each bit of a revision from its joining on, and deletes those of the bits that are set. As etcd takes values again, the
//! member says it by its key, and makes the missing ones anew with that.

use std::collections::BTreeMap;

use prost::bytes::Bytes;

use super::{
    LogError, Member, Refused, Shared, Space,
    keys::Keys,
    messages::{Compare, RequestOp},
};

/// Bits of a revision.
const BITS: u32 = 63;

impl Shared {
    pub(super) async fn keep_after(&self, member: Member, revision: u64) -> Result<(), LogError> {
        let (name, lease, has_lost_bits) = self.own(member)?;
        let compare = vec![Compare::created(&self.space.keys.member(&name), member.0 as i64)];
        let mut puts = vec![RequestOp::put(&self.space.keys.kept(&name), revision.to_string().into())];
        if has_lost_bits {
            puts.extend(self.space.bits(&name, lease));
        }
        if !self.space.client.txn(compare, puts, Vec::new()).await?.succeeded {
            return Err(Refused::Fenced.into());
        }
        self.note_bits(member, false);
        Ok(())
    }

    pub(super) async fn keep_after_when_full(&self, member: Member, revision: u64) -> Result<(), LogError> {
        let (name, _, has_lost_bits) = self.own(member)?;
        // Another one would add bits to those of the former revision.
        if has_lost_bits {
            return Err(LogError::Full("etcd was full already when this member said what it needs".into()));
        }
        // If no answer comes, they may be missing all the same.
        self.note_bits(member, true);
        let compare = vec![Compare::created(&self.space.keys.member(&name), member.0 as i64)];
        let deletes = (0..BITS).filter(|bit| revision >> bit & 1 == 1);
        let deletes = deletes.map(|bit| RequestOp::delete(&self.space.keys.bit(&name, bit))).collect();
        match self.space.client.txn(compare, deletes, Vec::new()).await?.succeeded {
            true => Ok(()),
            false => Err(Refused::Fenced.into()),
        }
    }

    /// The name and the lease of the member that has joined here, and whether some of its bits may be missing.
    fn own(&self, member: Member) -> Result<(String, i64, bool), Refused> {
        let joined = self.joined.lock();
        let own = joined.as_ref().filter(|own| own.member == member).ok_or(Refused::Fenced)?;
        Ok((own.name.clone(), own.lease, own.has_lost_bits))
    }

    fn note_bits(&self, member: Member, are_lost: bool) {
        if let Some(own) = self.joined.lock().as_mut().filter(|own| own.member == member) {
            own.has_lost_bits = are_lost;
        }
    }
}

impl Space {
    /// Makes the keys of all bits, for a member with a lease.
    pub(super) fn bits(&self, name: &str, lease: i64) -> Vec<RequestOp> {
        let put = |bit| RequestOp::put_with_lease(&self.keys.bit(name, bit), Bytes::new(), lease);
        (0..BITS).map(put).collect()
    }

    pub(super) async fn kept_after(&self) -> Result<BTreeMap<String, u64>, LogError> {
        let reads = [&self.keys.all_kept, &self.keys.all_bits].map(RequestOp::get_all);
        let answer = self.client.read(reads.to_vec()).await?;
        let mut kept: BTreeMap<String, u64> = BTreeMap::new();
        for kv in answer.found(0) {
            let revision = std::str::from_utf8(&kv.value).ok().and_then(|text| text.parse().ok());
            // Whoever has written something else there is served as one that needs everything.
            kept.insert(Keys::rest(&kv.key, &self.keys.all_kept).into_owned(), revision.unwrap_or(0));
        }
        // A member that is gone has none, and has then said what its key says.
        let mut bits: BTreeMap<String, u64> = BTreeMap::new();
        for (name, bit) in answer.found(1).iter().filter_map(|kv| self.keys.name_and_bit(&kv.key)) {
            if bit < BITS {
                *bits.entry(name).or_insert((1 << BITS) - 1) &= !(1 << bit);
            }
        }
        for (name, revision) in bits.into_iter().filter(|(_, revision)| *revision > 0) {
            let said = kept.entry(name).or_default();
            *said = revision.max(*said);
        }
        Ok(kept)
    }

    pub(super) async fn keep_nothing(&self, name: &str) -> Result<(), LogError> {
        let compare = vec![Compare::absent(&self.keys.member(name))];
        self.client.txn(compare, vec![RequestOp::delete(&self.keys.kept(name))], Vec::new()).await?;
        Ok(())
    }
}
