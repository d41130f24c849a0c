//! Clients of a simulated cluster: transactions begin, execute their steps at a member, and ask to commit.

#[cfg(test)]
use super::PlantedBug;
use super::{Change, Changes, Cluster, Event, Job, Read, Running, Step, Value, Violation, Which, Work};
use crate::protocol::{Access, Level, ReadSet, Touched, TxnName, Version};

impl Cluster<'_> {
    pub(super) fn arrive(&mut self, node: usize) -> Result<(), Violation> {
        let job = self.jobs.next(&mut self.rng);
        self.arrived += 1;
        if self.arrived < self.options.transactions {
            let average = self.options.interarrival_us;
            let after = self.about(average);
            let next = self.rng.below(self.nodes.len() as u64) as usize;
            self.schedule(after, Event::Arrive(next));
        }
        if !self.nodes[node].is_up {
            return Ok(());
        }
        let name = TxnName { member: self.nodes[node].member, number: self.next_number };
        let record = self.history.begin(name, job.level, self.now);
        self.begin(node, job, record)
    }

    pub(super) fn begin(&mut self, node: usize, job: Job, record: usize) -> Result<(), Violation> {
        let number = self.next_number;
        self.next_number += 1;
        let start = self.nodes[node].machine.version();
        self.history.start(record, start);
        let mut out = Vec::new();
        if job.is_call {
            let id = self.keep(Work::Call(job.clone()), record);
            let running = Running { job, record, step: 0, start, changes: Changes::default() };
            self.nodes[node].running.insert(number, running);
            self.nodes[node].machine.call(number, id, &mut out);
            return self.perform(node, out);
        }
        let declared = match self.options.which {
            Which::Paper { .. } => job.declared.clone(),
            Which::Used(_) => ReadSet::default(),
        };
        let (level, snapshot) = (job.level, start);
        #[cfg(test)]
        let (level, snapshot) = match (self.options.planted, level) {
            (Some(PlantedBug::IgnoresBegin), Level::KBound(_)) => (Level::Snapshot, snapshot),
            (Some(PlantedBug::WrongWindow), _) => (level, Version(start.0 + 1)),
            _ => (level, snapshot),
        };
        self.nodes[node].machine.begin(number, level, snapshot, declared, &mut out);
        let running = Running { job, record, step: 0, start, changes: Changes::default() };
        self.nodes[node].running.insert(number, running);
        let (at, after) = (self.at(node), self.options.times.step_us);
        self.schedule(after, Event::Step(at, number));
        self.perform(node, out)
    }

    /// Executes the next step of a transaction.
    pub(super) fn step(&mut self, node: usize, number: u64) -> Result<(), Violation> {
        let Some(mut running) = self.nodes[node].running.remove(&number) else { return Ok(()) };
        let mut out = Vec::new();
        let Some(step) = running.job.steps.get(running.step).cloned() else {
            let id = self.keep(Work::Changes(running.changes.clone()), running.record);
            #[cfg(test)]
            if self.is_planted(PlantedBug::AcknowledgesBeforeDelivery) {
                self.history.acknowledge(running.record, self.now);
            }
            self.nodes[node].running.insert(number, running);
            self.nodes[node].machine.request(number, id, &mut out);
            return self.perform(node, out);
        };
        let mut after = self.options.times.step_us;
        let (touched, reads) = match step {
            Step::Wait(wait_us) => {
                after += wait_us;
                Default::default()
            }
            step => {
                let is_read_committed = running.job.level == Level::ReadCommitted;
                let at = if is_read_committed { self.nodes[node].machine.version() } else { running.start };
                self.execute(node, step, at, running.record, &mut running.changes)
            }
        };
        self.history.touch(running.record, &touched, &reads);
        running.step += 1;
        self.nodes[node].running.insert(number, running);
        self.nodes[node].machine.note(number, touched, reads, &mut out);
        self.perform(node, out)?;
        let at = self.at(node);
        self.schedule(after, Event::Step(at, number));
        Ok(())
    }

    /// Executes a step on a member's data as of `at`. Returns what it touches and reads.
    pub(super) fn execute(
        &mut self,
        node: usize,
        step: Step,
        at: Version,
        record: usize,
        changes: &mut Changes,
    ) -> (Vec<Touched>, ReadSet) {
        let since = (self.history.records()[record].level == Level::ReadCommitted).then_some(at);
        let (mut touched, mut reads) = (Vec::new(), ReadSet::default());
        let data = &self.nodes[node].data;
        match step {
            Step::Read(table, key) => {
                if !changes.contains_key(&(table, key.clone())) {
                    reads.add_key(table, &key);
                    let value = data.get(table, &key, at).cloned();
                    self.history.read(record, Read { table, key, at, value });
                }
            }
            Step::Scan(table, range) => {
                let mut rows = data.scan(table, &range, at);
                rows.retain(|(key, _)| !changes.contains_key(&(table, key.clone())));
                #[cfg(test)]
                let forgets_gaps = self.is_planted(PlantedBug::ForgetsGaps);
                #[cfg(not(test))]
                let forgets_gaps = false;
                match forgets_gaps {
                    true => rows.iter().for_each(|(key, _)| reads.add_key(table, key)),
                    false => reads.add(table, range.clone()),
                }
                self.history.scan(record, table, range, at, rows);
            }
            Step::Append(table, key, item) => {
                let row = (table, key);
                let own = changes.get(&row).is_some();
                let value = match changes.remove(&row) {
                    Some(Change::Put(value)) => Some(value),
                    _ => data.get(table, &row.1, at).cloned(),
                };
                if !own {
                    reads.add_key(table, &row.1);
                    touched.push(Touched { since, ..Touched::row(table, &row.1, Access::Write) });
                    let read = Read { table, key: row.1.clone(), at, value: value.clone() };
                    self.history.read(record, read);
                }
                self.history.append(record, table, row.1.clone(), item);
                let mut items = match value {
                    Some(Value::List(items)) => items,
                    _ => Vec::new(),
                };
                items.push(item);
                changes.insert(row, Change::Put(Value::List(items)));
            }
            Step::Add { table, key, delta, at_least } => {
                touched.push(Touched { since, ..Touched::row(table, &key, Access::Commute(1)) });
                let change = changes.entry((table, key)).or_insert(Change::Add { delta: 0, at_least });
                if let Change::Add { delta: sum, .. } = change {
                    *sum += delta;
                }
            }
            Step::Wait(_) => {}
        }
        (touched, reads)
    }

    /// Runs a procedure in its turn, on what all members have. Returns what it changes and touches.
    pub(super) fn run_call(&mut self, node: usize, job: &Job, record: usize) -> (Changes, Vec<Touched>) {
        let at = self.nodes[node].machine.version();
        // What another member's run was told is the same.
        self.history.forget(record);
        self.history.start(record, at);
        let (mut changes, mut touched) = (Changes::default(), Vec::new());
        for step in job.steps.iter().cloned() {
            let (more, reads) = self.execute(node, step, at, record, &mut changes);
            self.history.touch(record, &more, &reads);
            touched.extend(more);
        }
        (changes, touched)
    }
}
