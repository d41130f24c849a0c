//! Members of a simulated cluster: what their state machines want done, what they apply, and their ends and beginnings.

use gnomon_engine::Conflict;

use super::{Cluster, ENTRIES_MAX, End, Event, FAULT_US, GONE_US, Violation, Which, Work, data::Applied};
#[cfg(test)]
use super::{PlantedBug, data::Changes};
use crate::{
    order::Sender,
    protocol::{self, Action, Apply, Outcome},
};

impl Cluster<'_> {
    pub(super) fn perform(&mut self, node: usize, actions: Vec<Action>) -> Result<(), Violation> {
        for action in actions {
            match action {
                Action::Append(entry) => {
                    self.nodes[node].sender.push(entry);
                    if !self.nodes[node].sender.is_sending() {
                        self.send(node);
                    }
                }
                Action::Broadcast(txn, commits) => {
                    for to in (0..self.nodes.len()).filter(|to| *to != node) {
                        let after = self.one_way(node) + self.one_way(to);
                        let at = self.at(to);
                        self.schedule(after, Event::Decision(at, txn, commits));
                    }
                }
                Action::Apply(apply) => {
                    let times = &self.options.times;
                    let is_own = apply.txn.member == self.nodes[node].member;
                    let range = if is_own { times.apply_own_us.clone() } else { times.apply_us.clone() };
                    self.nodes[node].applying = Some(apply);
                    let (at, after) = (self.at(node), self.within(&range));
                    self.schedule(after, Event::Applied(at));
                }
                // Jobs that are simulated do the same everywhere.
                Action::Compare(..) => {}
                Action::Refuse(number, reason) => {
                    if let Some(running) = self.nodes[node].running.remove(&number) {
                        self.history.end(running.record, End::Refused(reason), self.now);
                    }
                }
                Action::Committed(number, version) => {
                    if let Some(running) = self.nodes[node].running.remove(&number) {
                        self.history.end(running.record, End::Committed(version), self.now);
                    }
                }
                Action::Restart(number) => {
                    let Some(running) = self.nodes[node].running.remove(&number) else { continue };
                    match self.options.which {
                        Which::Paper { restarts: true } => {
                            self.history.forget(running.record);
                            self.begin(node, running.job, running.record)?;
                        }
                        _ => self.history.end(running.record, End::Refused(Conflict::Stale.into()), self.now),
                    }
                }
                Action::Fenced => {
                    self.crash(node, false);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(super) fn applied(&mut self, node: usize) -> Result<(), Violation> {
        let Some(apply) = self.nodes[node].applying.take() else {
            unreachable!("something is applied");
        };
        let Apply { version, position, work, .. } = apply;
        let (protocol::Work::Changes(_, id) | protocol::Work::Call(id)) = &work;
        let id = u64::from_le_bytes(id.as_slice().try_into().expect("eight bytes"));
        let (kept, record) = self.work[id as usize].clone();
        let (changes, more) = match kept {
            Work::Changes(changes) => (changes, Vec::new()),
            Work::Call(job) => self.run_call(node, &job, record),
        };
        let touched = match work {
            protocol::Work::Changes(touched, _) => touched,
            protocol::Work::Call(_) => more.clone(),
        };
        let commit = Applied { version, position, touched };
        #[cfg(test)]
        let (changes, late) = match self.is_planted(PlantedBug::AppliesOutOfOrder) {
            true => match self.nodes[node].late.take() {
                None if self.rng.chance(1, 4) => {
                    self.nodes[node].late = Some(changes);
                    (Changes::default(), None)
                }
                late => (changes, late),
            },
            false => (changes, None),
        };
        let is_applied = self.nodes[node].data.apply(commit, &changes);
        #[cfg(test)]
        if let Some(late) = late {
            self.nodes[node].data.change(version, &late);
        }
        let outcome = match is_applied {
            true => Outcome::Committed(more),
            false => Outcome::Refused(Conflict::Bound.into()),
        };
        if is_applied {
            self.history.order(node, version, record)?;
        }
        let mut out = Vec::new();
        self.nodes[node].machine.applied(outcome, &mut out);
        self.perform(node, out)
    }

    /// Ends a life of a member. If it crashes, what is not durable is lost.
    pub(super) fn crash(&mut self, node: usize, forgets: bool) {
        if forgets {
            let again = self.options.faults.crash_us;
            self.fault(again, Event::Crash(node));
        }
        if !self.nodes[node].is_up {
            return;
        }
        self.nodes[node].is_up = false;
        self.nodes[node].life += 1;
        self.nodes[node].stream += 1;
        for running in std::mem::take(&mut self.nodes[node].running).into_values() {
            self.history.end(running.record, End::Unknown, self.now);
        }
        if forgets {
            let (durable, all) = (self.nodes[node].durable, self.nodes[node].data.commits().len());
            let kept = durable + self.rng.below((all - durable) as u64 + 1) as usize;
            self.nodes[node].data.cut(kept);
            self.nodes[node].durable = kept;
        }
        self.watch(node);
        let after = self.rng.below(FAULT_US);
        self.schedule(after, Event::Restart(node));
    }

    /// Begins a new life of a member, which joins as soon as the others hold it for gone.
    pub(super) fn restart(&mut self, node: usize) -> Result<(), Violation> {
        if !self.is_log_up || self.nodes[node].is_cut {
            self.schedule(GONE_US, Event::Restart(node));
            return Ok(());
        }
        // The name is its own: it need not wait until the log misses it.
        self.ledger.gone(self.nodes[node].member);
        self.deliver_newest();
        let member = self.ledger.join(&format!("node {node}"), "").expect("it is gone");
        let machine = self.machine(member, &self.nodes[node].data);
        let received = self.nodes[node].data.commits().last().map_or(0, |commit| commit.position.revision);
        let state = &mut self.nodes[node];
        state.member = member;
        state.machine = machine;
        state.sender = Sender::new(ENTRIES_MAX);
        // Of the revision of its last commit, later entries may be missing.
        state.received = received.saturating_sub(1);
        state.is_up = true;
        state.applying = None;
        self.connect(node);
        Ok(())
    }
}
