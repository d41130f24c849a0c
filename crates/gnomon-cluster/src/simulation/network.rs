//! The network of a simulated cluster: batches on their way to the log, and what was appended on its way to members.

#[cfg(test)]
use super::PlantedBug;
use super::{At, Cluster, Event, RESEND_US, Violation};
use crate::{
    order::{Appended, Foreign, Refused},
    protocol::{Entry, Member},
};

impl Cluster<'_> {
    pub(super) fn send(&mut self, node: usize) {
        let at = self.at(node);
        let member = self.nodes[node].member;
        let Some(batch) = self.nodes[node].sender.batch() else { return };
        let (sequence, entries) = (batch.sequence, batch.entries.clone());
        let faults = self.options.faults.lost_percent;
        let copies = match self.rng.below(100) {
            chance if chance < faults => 0,
            chance if chance < 2 * faults => 2,
            _ => 1,
        };
        if self.nodes[node].is_connected() {
            for _ in 0..copies {
                let after = self.one_way(node);
                self.schedule(after, Event::Request(at, member, sequence, entries.clone()));
            }
        }
        // An answer that is on its way is waited for.
        let times = &self.options.times;
        let way = times.to_log_us[node % times.to_log_us.len()] + 4 * times.jitter_us;
        self.schedule(RESEND_US + 2 * way, Event::Resend(at, sequence));
    }

    /// A batch has come to the log.
    pub(super) fn requested(&mut self, at: At, member: Member, sequence: u64, entries: Vec<Entry>) {
        if !self.is_log_up {
            return;
        }
        #[cfg(test)]
        let (before, copy) = (self.ledger.revision(), entries.clone());
        let answer = self.ledger.append(member, sequence, entries);
        #[cfg(test)]
        if self.is_planted(PlantedBug::AppendsAgain) && answer.is_ok() && self.ledger.revision() == before {
            self.ledger.append_anew(copy);
        }
        self.deliver_newest();
        let is_lost = self.rng.below(100) < self.options.faults.lost_percent;
        if self.nodes[at.node].is_connected() && !is_lost {
            let after = self.one_way(at.node);
            self.schedule(after, Event::Answer(at, sequence, answer));
        }
    }

    pub(super) fn answered(&mut self, at: At, sequence: u64, answer: Result<u64, Refused>) {
        let sender = &mut self.nodes[at.node].sender;
        match answer {
            Ok(_) => {
                sender.appended(sequence);
                if !sender.is_sending() {
                    self.send(at.node);
                }
            }
            Err(refused) => {
                if sender.refused(sequence, &refused) {
                    self.crash(at.node, false);
                }
            }
        }
    }

    /// Something else than a member writes into the log: a copy of what was appended before, or nothing that is known. For
    /// a follower of the log that is all the same.
    pub(super) fn write_foreign(&mut self) {
        if self.is_log_up {
            self.ledger.push_foreign(Foreign { what: "a copy".into(), bytes: 0 });
            #[cfg(test)]
            if self.is_planted(PlantedBug::TakesForeign) {
                self.deliver_copy();
            }
            self.deliver_newest();
        }
        let again = self.options.faults.foreign_us;
        self.fault(again, Event::Foreign);
    }

    /// A planted bug: has a foreign copy of a batch count.
    #[cfg(test)]
    fn deliver_copy(&mut self) {
        let all = self.ledger.after(0, usize::MAX).expect("nothing is trimmed");
        let commits = |appended: &&Appended| {
            appended.entries.iter().any(|entry| matches!(entry, Entry::Commit(_) | Entry::Call(..)))
        };
        let Some(entries) = all.iter().rev().find(commits).map(|appended| appended.entries.clone()) else {
            return;
        };
        self.told = self.ledger.revision();
        for node in 0..self.nodes.len() {
            if self.nodes[node].is_connected() {
                self.deliver(node, Appended::new(self.told, entries.clone()));
            }
        }
    }

    /// Sends what is new over all connections.
    pub(super) fn deliver_newest(&mut self) {
        let newest = self.ledger.after(self.told, usize::MAX).expect("nothing is trimmed");
        self.told = self.ledger.revision();
        for appended in newest {
            for node in 0..self.nodes.len() {
                if self.nodes[node].is_connected() {
                    self.deliver(node, appended.clone());
                }
            }
        }
    }

    pub(super) fn deliver(&mut self, node: usize, appended: Appended) {
        let arrives = (self.now + self.one_way(node)).max(self.nodes[node].stream_free_at);
        self.nodes[node].stream_free_at = arrives;
        let (at, stream) = (self.at(node), self.nodes[node].stream);
        self.schedule(arrives - self.now, Event::Delivery(at, stream, appended));
    }

    /// Makes a new connection, over which all comes that has not come yet.
    pub(super) fn connect(&mut self, node: usize) {
        if !self.nodes[node].is_connected() || !self.is_log_up {
            return;
        }
        #[cfg(test)]
        if self.is_planted(PlantedBug::DropsAfterReconnecting) && self.nodes[node].stream > 0 {
            self.nodes[node].received = self.ledger.revision().max(self.nodes[node].received);
        }
        self.nodes[node].stream += 1;
        self.nodes[node].stream_free_at = self.now;
        let missing = self.ledger.after(self.nodes[node].received, usize::MAX).expect("nothing is trimmed");
        missing.into_iter().for_each(|appended| self.deliver(node, appended));
        if self.nodes[node].sender.is_sending() {
            self.send(node);
        }
    }

    pub(super) fn delivered(
        &mut self,
        node: usize,
        stream: u64,
        appended: Appended,
    ) -> Result<(), Violation> {
        if stream != self.nodes[node].stream {
            return Ok(());
        }
        let life = self.nodes[node].life;
        self.nodes[node].received = appended.revision;
        let known = self.nodes[node].data.commits().last().map(|commit| commit.position);
        for (position, entry) in appended.positioned() {
            // A member that comes back gets the last revision that it has applied as a whole.
            if known.is_some_and(|known| position <= known) {
                continue;
            }
            if self.nodes[node].life != life {
                return Ok(());
            }
            let mut out = Vec::new();
            self.nodes[node].machine.deliver(position, entry, &mut out);
            self.perform(node, out)?;
        }
        // What was applied a while ago is on the disk.
        if self.rng.chance(1, 8) {
            self.nodes[node].durable = self.nodes[node].data.commits().len();
        }
        Ok(())
    }
}
