//! A member's side of appending, without I/O.

use super::{Entry, Refused};

/// Entries that are appended together, and are kept until the log has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its number among those of its member, from 1.
    pub sequence: u64,
    /// The entries, in the order in which they were pushed.
    pub entries: Vec<Entry>,
}

/// Bytes of changes from which on a batch takes no further entry.
const BYTES_MAX: usize = 4 << 20;

/// Entries of a member on their way into the order. One batch is on its way at a time, and has what waits when it
/// sets out; it is sent again, as it was, until the log has answered.
#[derive(Debug)]
pub struct Sender {
    /// At most so many entries go into a batch.
    entries_max: usize,
    sent: Option<Batch>,
    sequence: u64,
    waiting: Vec<Entry>,
}

impl Sender {
    /// A sender of a member that has appended nothing yet.
    pub fn new(entries_max: usize) -> Sender {
        Sender { entries_max: entries_max.max(1), sent: None, sequence: 0, waiting: Vec::new() }
    }

    /// Adds an entry.
    pub fn push(&mut self, entry: Entry) {
        self.waiting.push(entry);
    }

    /// The batch that is on its way, or a new one; none if there is nothing to be sent.
    pub fn batch(&mut self) -> Option<&Batch> {
        if self.sent.is_none() && !self.waiting.is_empty() {
            self.sequence += 1;
            let mut bytes = 0;
            let fits = |entry: &&Entry| {
                let before = bytes;
                bytes += entry.bytes();
                before < BYTES_MAX
            };
            let count = self.waiting.iter().take(self.entries_max).take_while(fits).count();
            let rest = self.waiting.split_off(count);
            let entries = std::mem::replace(&mut self.waiting, rest);
            self.sent = Some(Batch { sequence: self.sequence, entries });
        }
        self.sent.as_ref()
    }

    /// True if a batch is on its way.
    pub fn is_sending(&self) -> bool {
        self.sent.is_some()
    }

    /// Notes that a batch is appended. Answers that come late tell nothing new.
    pub fn appended(&mut self, sequence: u64) {
        if self.sent.as_ref().is_some_and(|sent| sent.sequence == sequence) {
            self.sent = None;
        }
    }

    /// The log has refused a batch: whether the member must stop. An answer to an earlier try of a batch that was
    /// appended since tells nothing.
    pub fn refused(&self, sequence: u64, refused: &Refused) -> bool {
        match refused {
            Refused::OutOfSequence { expected } => {
                self.sent.as_ref().is_some_and(|sent| sent.sequence == sequence && *expected < sequence)
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Member, TxnName};

    #[test]
    fn a_batch_stays_what_it_was_until_it_is_answered() {
        let entry = |number| Entry::Begin(TxnName { member: Member(1), number });
        let mut sender = Sender::new(2);
        assert_eq!(sender.batch(), None);
        sender.push(entry(1));
        assert_eq!(sender.batch().unwrap().entries, [entry(1)]);
        (2..5).for_each(|number| sender.push(entry(number)));
        assert_eq!(sender.batch().unwrap().entries, [entry(1)]);
        sender.appended(1);
        let second = Batch { sequence: 2, entries: vec![entry(2), entry(3)] };
        assert_eq!(sender.batch(), Some(&second));
        sender.appended(1);
        assert_eq!(sender.batch(), Some(&second), "an answer that was late");
        assert!(!sender.refused(2, &Refused::OutOfSequence { expected: 3 }));
        assert!(sender.refused(2, &Refused::OutOfSequence { expected: 1 }));
        assert!(sender.refused(2, &Refused::Fenced));
        sender.appended(2);
        assert_eq!(sender.batch().unwrap().sequence, 3);
    }

    #[test]
    fn a_batch_has_so_many_bytes_and_one_entry_at_least() {
        let call = |bytes| Entry::Call(TxnName { member: Member(1), number: 1 }, vec![0; bytes]);
        let mut sender = Sender::new(100);
        for bytes in [BYTES_MAX + 1, 1, BYTES_MAX - 1, 1] {
            sender.push(call(bytes));
        }
        let counts = [1, 2, 1].map(|count| {
            let batch = sender.batch().unwrap().clone();
            sender.appended(batch.sequence);
            (batch.entries.len(), count)
        });
        assert!(counts.iter().all(|(found, count)| found == count), "{counts:?}");
    }
}
