//! The revisions up to which members do not need the log.
//!
//! A member says it by a key of its own. A full etcd takes no value, but it deletes keys: for that a member has a key
//! for each bit of a revision from its joining on, and deletes those of the bits that are set; one too that is not
//! heard of any more and cannot join anew, which needs values. As etcd takes them again, the member says it by its
//! key, and makes the missing ones anew with that. A deletion names the revision at which the bits were made, so a
//! late request deletes no bits that were made later.

use std::collections::BTreeMap;

use prost::bytes::Bytes;

use super::{
    LogError, Member, Refused, Shared, Space,
    keys::Keys,
    messages::{Compare, RequestOp},
};

/// Bits of a revision. The last one is never set, so its key stays.
const BITS: u32 = 64;

/// The bits of the member that has joined here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits {
    /// The revision at which they were made last, or an earlier one.
    made_at: i64,
    /// Bits whose keys may be missing since.
    deleted: u64,
}

impl Bits {
    /// All of them are there since a revision.
    pub(super) fn made_at(revision: i64) -> Bits {
        Bits { made_at: revision, deleted: 0 }
    }

    /// Makes them anew, with what was said by them; nothing if they are all there.
    pub(super) fn lost(self, space: &Space, name: &str) -> Vec<RequestOp> {
        if self.deleted == 0 {
            return Vec::new();
        }
        let mut puts = space.make_bits(name);
        puts.push(RequestOp::put(&space.keys.kept(name), self.deleted.to_string().into()));
        puts
    }
}

impl Shared {
    pub(super) async fn keep_after(&self, member: Member, revision: u64) -> Result<(), LogError> {
        let (name, bits) = self.own(member)?;
        let compare = vec![Compare::created(&self.space.keys.member(&name), member.0 as i64)];
        let mut puts = vec![RequestOp::put(&self.space.keys.kept(&name), revision.to_string().into())];
        if bits.deleted != 0 {
            puts.extend(self.space.make_bits(&name));
        }
        let answer = self.space.client.txn(compare, puts, Vec::new()).await?;
        if !answer.succeeded {
            return Err(Refused::Fenced.into());
        }
        if bits.deleted != 0 {
            self.note_bits(member, Bits::made_at(answer.revision()));
        }
        Ok(())
    }

    pub(super) async fn keep_after_when_full(&self, member: Member, revision: u64) -> Result<(), LogError> {
        loop {
            let (name, bits) = self.own(member)?;
            // Together they would be more than either.
            if bits.deleted & !revision != 0 {
                return Err(LogError::Full("this member has said already what it needs".into()));
            }
            // Whether they are is not known without an answer.
            self.note_bits(member, Bits { deleted: revision, ..bits });
            let (live_key, last_bit) = (self.space.keys.live(&name), self.space.keys.bit(&name, BITS - 1));
            let compare = vec![Compare::modified(&last_bit, bits.made_at)];
            let deletes = (0..BITS).filter(|bit| revision >> bit & 1 == 1);
            let deletes = deletes.map(|bit| RequestOp::delete(&self.space.keys.bit(&name, bit))).collect();
            let reads = [&live_key, &last_bit].map(RequestOp::get).to_vec();
            let answer = self.space.client.txn(compare, deletes, reads).await?;
            if answer.succeeded {
                return Ok(());
            }
            let [live, bit] = [0, 1].map(|place| answer.found(place).first());
            match bit.filter(|_| live.is_some_and(|kv| kv.create_revision as u64 == member.0)) {
                // They were made anew, and the answer to that was lost.
                Some(bit) => self.note_bits(member, Bits::made_at(bit.mod_revision)),
                None => return Err(Refused::Fenced.into()),
            }
        }
    }

    /// The name of the member that has joined here, and its bits.
    pub(super) fn own(&self, member: Member) -> Result<(String, Bits), Refused> {
        let joined = self.joined.lock();
        let own = joined.as_ref().filter(|own| own.member == member).ok_or(Refused::Fenced)?;
        Ok((own.name.clone(), own.bits))
    }

    /// Notes that bits were made anew, unless the member knows of other ones by now.
    pub(super) fn note_bits_made(&self, member: Member, known: Bits, revision: i64) {
        if let Some(own) = self.joined.lock().as_mut().filter(|own| own.member == member)
            && own.bits.made_at == known.made_at
        {
            own.bits = Bits::made_at(revision);
        }
    }

    fn note_bits(&self, member: Member, bits: Bits) {
        if let Some(own) = self.joined.lock().as_mut().filter(|own| own.member == member) {
            own.bits = bits;
        }
    }
}

impl Space {
    /// Makes the keys of all bits.
    pub(super) fn make_bits(&self, name: &str) -> Vec<RequestOp> {
        let put = |bit| RequestOp::put(&self.keys.bit(name, bit), Bytes::new());
        (0..BITS).map(put).collect()
    }

    pub(super) async fn kept_after(&self) -> Result<BTreeMap<String, u64>, LogError> {
        let reads = [&self.keys.all_kept, &self.keys.all_bits].map(RequestOp::get_all);
        let answer = self.client.read(reads.to_vec()).await?;
        let mut kept: BTreeMap<String, u64> = BTreeMap::new();
        for kv in answer.found(0) {
            let revision = std::str::from_utf8(&kv.value).ok().and_then(|text| text.parse().ok());
            // A value that is not a revision means that the member needs everything.
            kept.insert(Keys::rest(&kv.key, &self.keys.all_kept).into_owned(), revision.unwrap_or(0));
        }
        // A name without any bit has never joined.
        let mut missing: BTreeMap<String, u64> = BTreeMap::new();
        for (name, bit) in answer.found(1).iter().filter_map(|kv| self.keys.name_and_bit(&kv.key)) {
            *missing.entry(name).or_insert(u64::MAX) &= !1_u64.checked_shl(bit).unwrap_or(0);
        }
        for (name, revision) in missing.into_iter().filter(|(_, revision)| *revision > 0) {
            let said = kept.entry(name).or_default();
            *said = revision.max(*said);
        }
        Ok(kept)
    }

    pub(super) async fn keep_nothing(&self, name: &str) -> Result<bool, LogError> {
        let compare = vec![Compare::absent(&self.keys.member(name))];
        let deletes =
            vec![RequestOp::delete(&self.keys.kept(name)), RequestOp::delete_all(&self.keys.bits(name))];
        Ok(self.client.txn(compare, deletes, Vec::new()).await?.succeeded)
    }
}
