//! An ordered log as plain data.

use super::{Appended, BTreeMap, Entry, Foreign, Member, Refused, VecDeque};

/// A member that is in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Its number.
    pub member: Member,
    /// The name that it has given itself.
    pub name: String,
    /// The address at which it is reached.
    pub address: String,
    /// True if it was heard of lately.
    pub is_alive: bool,
}

#[derive(Debug)]
struct Joined {
    name: String,
    address: String,
    /// Number of its batches that were appended.
    batches: u64,
    /// The revision of the last one.
    revision: u64,
}

/// The appended entries, and the members that may append.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The newest revision; joining and leaving take one too.
    revision: u64,
    appended: VecDeque<Appended>,
    /// The newest revision at which something was appended.
    newest: u64,
    /// The newest revision that is not kept.
    trimmed: u64,
    members: BTreeMap<Member, Joined>,
    /// The number of the data that it is for.
    data: Option<u64>,
    /// By name, the revision up to which a member needs nothing any more.
    kept_after: BTreeMap<String, u64>,
}

impl Ledger {
    /// Returns the newest revision.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the newest revision at which something was appended, 0 if nothing was: a member that has followed up
    /// to it has all.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The members.
    pub fn members(&self) -> impl Iterator<Item = MemberInfo> + '_ {
        self.members.iter().map(|(member, joined)| MemberInfo {
            member: *member,
            name: joined.name.clone(),
            address: joined.address.clone(),
            is_alive: true,
        })
    }

    /// The number of the data that it is for: those that are claimed, if it is for none yet.
    pub fn data(&mut self, claimed: Option<u64>) -> Option<u64> {
        self.data = self.data.or(claimed);
        self.data
    }

    /// A member needs nothing any more up to a revision.
    ///
    /// # Errors
    /// [`Refused::Fenced`].
    pub fn keep_after(&mut self, member: Member, revision: u64) -> Result<(), Refused> {
        let joined = self.members.get(&member).ok_or(Refused::Fenced)?;
        self.kept_after.insert(joined.name.clone(), revision);
        Ok(())
    }

    /// A member is reached somewhere else.
    ///
    /// # Errors
    /// [`Refused::Fenced`].
    pub fn reached_at(&mut self, member: Member, address: &str) -> Result<(), Refused> {
        let joined = self.members.get_mut(&member).ok_or(Refused::Fenced)?;
        address.clone_into(&mut joined.address);
        Ok(())
    }

    /// Returns the revision up to which each name needs nothing any more.
    pub fn kept_after(&self) -> &BTreeMap<String, u64> {
        &self.kept_after
    }

    /// Stops keeping entries for a name, unless a member with it is there. Returns true if it is not.
    pub fn keep_nothing(&mut self, name: &str) -> bool {
        let is_there = self.members.values().any(|joined| joined.name == name);
        if !is_there {
            self.kept_after.remove(name);
        }
        !is_there
    }

    /// Adds a member by a name that no other one has, and gives it a number that no other one had.
    ///
    /// # Errors
    /// [`Refused::NameInUse`].
    pub fn join(&mut self, name: &str, address: &str) -> Result<Member, Refused> {
        if self.members.values().any(|joined| joined.name == name) {
            return Err(Refused::NameInUse(name.to_owned()));
        }
        self.revision += 1;
        let member = Member(self.revision);
        let (name, address) = (name.to_owned(), address.to_owned());
        self.members.insert(member, Joined { name, address, batches: 0, revision: 0 });
        Ok(member)
    }

    /// Appends the batch number `sequence` of a member, counted from 1, unless that was appended before. Returns its
    /// revision.
    ///
    /// # Errors
    /// [`Refused::Fenced`] and [`Refused::OutOfSequence`].
    pub fn append(&mut self, member: Member, sequence: u64, entries: Vec<Entry>) -> Result<u64, Refused> {
        let joined = self.members.get_mut(&member).ok_or(Refused::Fenced)?;
        if sequence == joined.batches && sequence > 0 {
            return Ok(joined.revision);
        }
        if sequence != joined.batches + 1 {
            return Err(Refused::OutOfSequence { expected: joined.batches + 1 });
        }
        joined.batches = sequence;
        joined.revision = self.revision + 1;
        self.push(entries);
        Ok(self.revision)
    }

    fn push(&mut self, entries: Vec<Entry>) {
        self.revision += 1;
        self.newest = self.revision;
        self.appended.push_back(Appended::new(self.revision, entries));
    }

    /// Something else than a member writes into the log.
    pub fn push_foreign(&mut self, foreign: Foreign) {
        self.push(Vec::new());
        if let Some(appended) = self.appended.back_mut() {
            appended.foreign = Some(foreign);
        }
    }

    /// A planted bug: appends what may have been appended before.
    #[cfg(test)]
    pub(crate) fn append_anew(&mut self, entries: Vec<Entry>) {
        self.push(entries);
    }

    /// A member is gone, by its own wish or because it was not heard of: it cannot append any more, which stands in the
    /// order. Nothing happens if it was gone before.
    pub fn gone(&mut self, member: Member) {
        if self.members.remove(&member).is_some() {
            self.push(vec![Entry::Gone(member)]);
        }
    }

    /// Returns what was appended after a revision, in at most `batches_max` batches.
    ///
    /// # Errors
    /// [`Refused::Trimmed`].
    pub fn after(&self, revision: u64, batches_max: usize) -> Result<Vec<Appended>, Refused> {
        if revision < self.trimmed {
            return Err(Refused::Trimmed { from: self.trimmed });
        }
        let first = self.appended.partition_point(|appended| appended.revision <= revision);
        Ok(self.appended.range(first..).take(batches_max).cloned().collect())
    }

    /// Forgets what was appended up to a revision. A member that has followed up to the newest one can go on.
    pub fn trim(&mut self, upto: u64) {
        self.trimmed = self.trimmed.max(upto.min(self.newest));
        while self.appended.front().is_some_and(|appended| appended.revision <= self.trimmed) {
            self.appended.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::TxnName;

    fn begin(member: Member, number: u64) -> Entry {
        Entry::Begin(TxnName { member, number })
    }

    #[test]
    fn batches_are_appended_once_and_in_their_order() {
        let mut ledger = Ledger::default();
        let (a, b) = (ledger.join("a", "").unwrap(), ledger.join("b", "").unwrap());
        assert_ne!(a, b);
        assert_eq!(ledger.join("a", ""), Err(Refused::NameInUse("a".into())));
        let first = ledger.append(a, 1, vec![begin(a, 1), begin(a, 2)]).unwrap();
        assert_eq!(ledger.append(a, 1, vec![begin(a, 1), begin(a, 2)]), Ok(first), "an answer was lost");
        assert_eq!(ledger.append(a, 3, vec![begin(a, 4)]), Err(Refused::OutOfSequence { expected: 2 }));
        assert_eq!(ledger.append(b, 0, Vec::new()), Err(Refused::OutOfSequence { expected: 1 }));
        let second = ledger.append(b, 1, vec![begin(b, 1)]).unwrap();
        assert!(second > first);
        let revisions = |after| {
            let batches = ledger.after(after, 9).unwrap();
            batches.iter().map(|batch| (batch.revision, batch.entries.len())).collect::<Vec<_>>()
        };
        assert_eq!(revisions(0), [(first, 2), (second, 1)]);
        assert_eq!(revisions(first), [(second, 1)]);
        assert_eq!(ledger.after(0, 1).unwrap().len(), 1);
        let positions: Vec<_> =
            ledger.after(0, 1).unwrap().remove(0).positioned().map(|(position, _)| position.index).collect();
        assert_eq!(positions, [0, 1]);
    }

    #[test]
    fn who_is_gone_appends_nothing_and_comes_back_as_somebody_else() {
        let mut ledger = Ledger::default();
        let a = ledger.join("a", "").unwrap();
        ledger.gone(a);
        ledger.gone(a);
        assert_eq!(ledger.append(a, 1, vec![begin(a, 1)]), Err(Refused::Fenced));
        let again = ledger.join("a", "").unwrap();
        assert_ne!(a, again);
        assert_eq!(ledger.members().map(|info| info.member).collect::<Vec<_>>(), [again]);
        let all: Vec<Entry> =
            ledger.after(0, 9).unwrap().into_iter().flat_map(|batch| batch.entries).collect();
        assert_eq!(all, [Entry::Gone(a)]);
    }

    #[test]
    fn what_is_trimmed_cannot_be_followed() {
        let mut ledger = Ledger::default();
        let a = ledger.join("a", "").unwrap();
        let revisions: Vec<u64> =
            (1..=3).map(|batch| ledger.append(a, batch, vec![begin(a, batch)]).unwrap()).collect();
        ledger.trim(revisions[1]);
        assert_eq!(ledger.after(0, 9), Err(Refused::Trimmed { from: revisions[1] }));
        assert_eq!(ledger.after(revisions[1], 9).unwrap().len(), 1);
        ledger.trim(0);
        assert_eq!(ledger.after(revisions[1], 9).unwrap().len(), 1);
    }
}
