//! Random scripts against a reference that says the rules in the plainest way: lists, pairwise comparison, and a
//! graph search over all owners.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::lock::{park::Outcome, shard::OVERTAKEN_MAX};

const OWNERS: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask {
        owner: usize,
        lock: usize,
        mode: usize,
    },
    Try {
        owner: usize,
        lock: usize,
        mode: usize,
    },
    GiveUp {
        owner: usize,
    },
    Release {
        owner: usize,
        lock: usize,
    },
    End {
        owner: usize,
    },
    Mark {
        owner: usize,
    },
    Back {
        owner: usize,
    },
    /// From now on what it waited for is noticed after every step, or not.
    Doze {
        owner: usize,
        dozes: bool,
    },
}

fn locks() -> [LockName<'static>; 5] {
    [LockName::whole(TREES, 1), key(b"a"), key(b"b"), LockName::end(GAPS, 1), LockName::whole(PASSES, 1)]
}

fn step() -> impl Strategy<Value = Step> {
    let (owner, lock, mode) = (0..OWNERS, 0..locks().len(), 0..8_usize);
    prop_oneof![
        12 => (owner.clone(), lock.clone(), mode.clone())
            .prop_map(|(owner, lock, mode)| Step::Ask { owner, lock, mode }),
        2 => (owner.clone(), lock.clone(), mode).prop_map(|(owner, lock, mode)| Step::Try { owner, lock, mode }),
        1 => owner.clone().prop_map(|owner| Step::GiveUp { owner }),
        1 => (owner.clone(), lock).prop_map(|(owner, lock)| Step::Release { owner, lock }),
        2 => owner.clone().prop_map(|owner| Step::End { owner }),
        1 => owner.clone().prop_map(|owner| Step::Mark { owner }),
        1 => owner.clone().prop_map(|owner| Step::Back { owner }),
        2 => (owner, proptest::bool::ANY).prop_map(|(owner, dozes)| Step::Doze { owner, dozes }),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Request {
    owner: usize,
    lock: usize,
    mode: Mode,
    conversion: bool,
    overtaken: u32,
}

#[derive(Default)]
struct Model {
    held: Vec<(usize, usize, Mode)>,
    queues: Vec<Vec<Request>>,
    /// Requests that were granted, in their order, while their owners doze.
    asleep: Vec<Request>,
    /// The locks that each owner held at its mark.
    marks: [Vec<(usize, Mode)>; OWNERS],
}

impl Model {
    fn new() -> Model {
        Model { queues: vec![Vec::new(); locks().len()], ..Model::default() }
    }

    fn modes(lock: usize) -> Modes {
        tables()[locks()[lock].table.index()].modes
    }

    fn mode(&self, owner: usize, lock: usize) -> Option<Mode> {
        self.held.iter().find(|h| h.0 == owner && h.1 == lock).map(|h| h.2)
    }

    fn set(&mut self, owner: usize, lock: usize, mode: Option<Mode>) {
        self.held.retain(|h| (h.0, h.1) != (owner, lock));
        self.held.extend(mode.map(|mode| (owner, lock, mode)));
    }

    /// Returns the owners that a request would wait for behind these earlier ones.
    fn in_the_way(&self, request: &Request, earlier: &[Request]) -> BTreeSet<usize> {
        let modes = Model::modes(request.lock);
        let holders = self.held.iter().filter(|&&(owner, lock, mode)| {
            owner != request.owner && lock == request.lock && !modes.admits(mode, request.mode)
        });
        let waiters = earlier.iter().filter(|e| {
            let friends = modes.admits(e.mode, request.mode) && modes.admits(request.mode, e.mode);
            !request.conversion && !friends
        });
        holders.map(|h| h.0).chain(waiters.map(|e| e.owner)).collect()
    }

    /// True if a new request takes the lock before holders that doze: puts these back to the head of the queue.
    fn overtakes(&mut self, request: &Request) -> bool {
        let modes = Model::modes(request.lock);
        let stands: BTreeSet<usize> = self.in_the_way(request, &[]);
        let overtaken: Vec<Request> = self
            .asleep
            .iter()
            .filter(|a| a.lock == request.lock && stands.contains(&a.owner))
            .filter(|a| !a.conversion && a.overtaken < OVERTAKEN_MAX)
            .copied()
            .collect();
        if request.conversion
            || modes.is_instant(request.mode)
            || stands.is_empty()
            || overtaken.len() < stands.len()
            || self.queues[request.lock].iter().any(|r| r.conversion)
        {
            return false;
        }
        self.asleep.retain(|a| !overtaken.contains(a));
        self.held.retain(|h| h.1 != request.lock || !stands.contains(&h.0));
        let again = overtaken.into_iter().map(|a| Request { overtaken: a.overtaken + 1, ..a });
        self.queues[request.lock].splice(0..0, again);
        true
    }

    fn grant(&mut self, request: &Request) {
        if !Model::modes(request.lock).is_instant(request.mode) {
            self.set(request.owner, request.lock, Some(request.mode));
        }
    }

    /// Grants until nothing more can be granted.
    fn settle(&mut self) {
        for lock in 0..self.queues.len() {
            let mut at = 0;
            while at < self.queues[lock].len() {
                let request = self.queues[lock][at];
                if self.in_the_way(&request, &self.queues[lock][..at]).is_empty() {
                    self.queues[lock].remove(at);
                    self.grant(&request);
                    self.asleep.push(request);
                    at = 0;
                } else {
                    at += 1;
                }
            }
        }
    }

    /// Wakes the granted owners that do not doze, and returns them.
    fn wake(&mut self, dozes: &[bool; OWNERS]) -> BTreeSet<usize> {
        let woken = self.asleep.extract_if(.., |request| !dozes[request.owner]);
        woken.map(|request| request.owner).collect()
    }

    /// None if nothing changes, else the request that it comes to.
    fn request(&self, owner: usize, lock: usize, mode: Mode) -> Option<Request> {
        let modes = Model::modes(lock);
        let before = self.mode(owner, lock);
        let joined = before.map_or(mode, |before| modes.supremum(before, mode));
        let target = if modes.is_instant(mode) { mode } else { joined };
        (before != Some(joined)).then_some(Request {
            owner,
            lock,
            mode: target,
            conversion: before.is_some(),
            overtaken: 0,
        })
    }

    fn waiting(&self) -> impl Iterator<Item = (&Request, BTreeSet<usize>)> {
        self.queues.iter().flat_map(|q| q.iter().enumerate().map(|(at, r)| (r, self.in_the_way(r, &q[..at]))))
    }

    /// Returns all owners that `from` waits for, however indirectly.
    fn reachable(&self, from: usize) -> BTreeSet<usize> {
        let edges: Vec<(usize, BTreeSet<usize>)> = self.waiting().map(|(r, way)| (r.owner, way)).collect();
        let mut reached = BTreeSet::new();
        let mut todo = vec![from];
        while let Some(owner) = todo.pop() {
            for next in edges.iter().filter(|e| e.0 == owner).flat_map(|e| &e.1) {
                if reached.insert(*next) {
                    todo.push(*next);
                }
            }
        }
        reached
    }

    fn leave(&mut self, owner: usize) {
        self.queues.iter_mut().for_each(|q| q.retain(|r| r.owner != owner));
    }
}

fn check(steps: &[Step]) -> Result<(), TestCaseError> {
    let manager = manager();
    let mut actors: Vec<_> = (0..OWNERS).map(|owner| Actor::new(&manager, owner as u64)).collect();
    let mut marks = [None; OWNERS];
    let mut model = Model::new();
    let mut dozes = [false; OWNERS];
    for &step in steps {
        let mut deadlocked = BTreeSet::new();
        let mut asked = None;
        match step {
            Step::Ask { owner, lock, mode } | Step::Try { owner, lock, mode } => {
                let mode = Mode::new(mode % Model::modes(lock).count());
                if actors[owner].wait.is_some() {
                    continue;
                }
                let request = model.request(owner, lock, mode);
                let free = request.is_none_or(|r| {
                    model.in_the_way(&r, &model.queues[lock]).is_empty() || model.overtakes(&r)
                });
                if let Step::Try { .. } = step {
                    prop_assert_eq!(actors[owner].owner.try_lock(locks()[lock], mode), free);
                } else {
                    match actors[owner].ask(locks()[lock], mode) {
                        Ok(granted) => prop_assert_eq!(granted, free),
                        Err(_) => {
                            prop_assert!(!free);
                            deadlocked.insert(owner);
                        }
                    }
                    if let (false, Some(request)) = (free, request) {
                        let queue = &mut model.queues[lock];
                        let conversions = queue.iter().filter(|r| r.conversion).count();
                        queue.insert(if request.conversion { conversions } else { queue.len() }, request);
                        asked = Some(owner);
                    }
                }
                if let (true, Some(request)) = (free, request) {
                    model.grant(&request);
                }
            }
            Step::GiveUp { owner } => {
                let granted = model.asleep.extract_if(.., |r| r.owner == owner).next().is_some();
                prop_assert_eq!(actors[owner].give_up().is_some(), granted);
                model.leave(owner);
            }
            _ if matches!(
                step,
                Step::Release { owner, .. } | Step::End { owner } | Step::Mark { owner } | Step::Back { owner }
                    if actors[owner].wait.is_some()
            ) =>
            {
                continue;
            }
            Step::Release { owner, lock } => {
                let held = model.mode(owner, lock).is_some();
                prop_assert_eq!(actors[owner].owner.release(locks()[lock]), held);
                model.set(owner, lock, None);
                model.marks[owner].retain(|m| m.0 != lock);
            }
            Step::End { owner } => {
                actors[owner].owner.release_all();
                model.held.retain(|h| h.0 != owner);
                marks[owner] = None;
            }
            Step::Doze { owner, dozes: now } => dozes[owner] = now,
            Step::Mark { owner } => {
                marks[owner] = Some(actors[owner].owner.mark());
                model.marks[owner] = model.held.iter().filter(|h| h.0 == owner).map(|h| (h.1, h.2)).collect();
            }
            Step::Back { owner } => {
                let Some(mark) = marks[owner] else { continue };
                actors[owner].owner.release_since(mark);
                model.held.retain(|h| h.0 != owner);
                model.held.extend(model.marks[owner].iter().map(|&(lock, mode)| (owner, lock, mode)));
            }
        }
        let mut granted = BTreeSet::new();
        // A victim's outcome is final, noticed or not.
        let is_victim = |actor: &Actor| actor.owner.try_outcome() == Some(Outcome::Victim);
        for (owner, actor) in
            actors.iter_mut().enumerate().filter(|(owner, actor)| !dozes[*owner] || is_victim(actor))
        {
            match actor.poll() {
                None => {}
                Some(Ok(())) => drop(granted.insert(owner)),
                Some(Err(_)) => drop(deadlocked.insert(owner)),
            }
        }
        for &victim in &deadlocked {
            let cause = asked.expect("only a request that waits completes a deadlock");
            prop_assert!(
                model.reachable(cause).contains(&victim) && model.reachable(victim).contains(&cause),
                "{} was in no deadlock with {}",
                victim,
                cause
            );
        }
        deadlocked.iter().for_each(|&victim| model.leave(victim));
        model.settle();
        prop_assert_eq!(granted, model.wake(&dozes), "granted by {:?}", step);
        for (owner, actor) in actors.iter().enumerate() {
            prop_assert!(!model.reachable(owner).contains(&owner), "{} is in a deadlock still", owner);
            for (lock, name) in locks().into_iter().enumerate() {
                prop_assert_eq!(actor.owner.held_mode(name), model.mode(owner, lock));
            }
            let asleep = model.asleep.iter().any(|r| r.owner == owner);
            let count = model.held.iter().filter(|h| h.0 == owner).count() as u64;
            prop_assert!(asleep || actor.owner.held_count() == count);
            let waits = model.queues.iter().flatten().any(|r| r.owner == owner);
            prop_assert_eq!(actor.wait.is_some(), waits || asleep);
        }
    }
    for actor in &mut actors {
        actor.give_up();
    }
    drop(actors);
    prop_assert!(manager.snapshot().is_empty());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn does_what_the_reference_does(steps in proptest::collection::vec(step(), 1..120)) {
        check(&steps)?;
    }
}
