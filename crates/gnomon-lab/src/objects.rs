//! The benchmark on complex objects in virtual time: the strategies S1, S2 and S2/PS on as many processors as one likes, to put beside what
//! the engine does.
//!
//! The same transactions as [`measure`](gnomon_bench::objects::measure) runs take their locks, are served and force logs, and nothing
//! else takes time: neither the engine's own work nor its latches. What a force takes is a parameter. Deadlocks are
//! found at once, and the request that completes one is the victim: with two levels the operation if it was for a page,
//! else the transaction. An operation runs again after a random delay of up to the time that it has taken: at once, two
//! would be in each other's way without end.
//!
//! Not here: the buffer pool, spheres (a force takes the same time, however much it writes), operations at once.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use gnomon_bench::objects::{
    Objects, Retry,
    choose::{Plan, choose_references},
    place::{Accesses, At, accesses_of, locks_of},
};
use gnomon_engine::{Strategy, env::Rng};
use serde::Serialize;

use crate::simulation::{
    Simulation, Station,
    locks::{LockTable, Mode, NotGranted},
};

/// Subobjects of 16 bytes on a page of 2 KiB.
const SUBOBJECTS_A_PAGE: u32 = 112;
/// The locks of level 1 have this bit.
const LEVEL_1: u64 = 1 << 63;

/// What a simulated run found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// Transactions a second.
    pub tps: f64,
    /// The mean response time, from DMP and throughput.
    pub response_ms: f64,
    /// Lock waits of each transaction that committed, on both levels.
    pub wait_ms: f64,
    /// Transactions that were begun again, for each that committed.
    pub restarts: f64,
}

/// Runs so many clients for a simulated time after a warm-up. A force of a log takes `force_ms`.
pub fn simulate(
    strategy: Strategy,
    settings: &Objects,
    clients: usize,
    force_ms: f64,
    seed: u64,
    (warm_up, measured): (Duration, Duration),
) -> Simulated {
    let simulation = Simulation::default();
    let mut rng = Rng::from_seed(seed);
    let world = Rc::new(World {
        references: (0..settings.objects)
            .map(|object| choose_references(settings, object, &mut rng))
            .collect(),
        locks: LockTable::detecting(&simulation),
        processors: Station::new(&simulation, settings.processors as usize),
        force: Duration::from_secs_f64(force_ms / 1e3),
        service: Duration::from_secs_f64(settings.service_ms / 1e3),
        committed: Cell::new(0),
        restarted: Cell::new(0),
        simulation: simulation.clone(),
        settings: settings.clone(),
        strategy,
    });
    for client in 0..clients {
        simulation.start(world.clone().client(client as u64, Rng::from_seed(rng.next_u64())));
    }
    let counts = || (world.committed.get(), world.restarted.get(), world.locks.waited());
    simulation.run_until(warm_up);
    let before = counts();
    simulation.run_until(warm_up + measured);
    let after = counts();
    simulation.end();
    let committed = (after.0 - before.0) as f64;
    let tps = committed / measured.as_secs_f64();
    Simulated {
        tps,
        response_ms: clients as f64 / tps * 1e3,
        wait_ms: (after.2 - before.2).as_secs_f64() * 1e3 / committed,
        restarts: (after.1 - before.1) as f64 / committed,
    }
}

struct World {
    strategy: Strategy,
    settings: Objects,
    references: Vec<Vec<At>>,
    locks: LockTable,
    processors: Station,
    force: Duration,
    service: Duration,
    committed: Cell<u64>,
    restarted: Cell<u64>,
    simulation: Simulation,
}

/// Locks that are held.
#[derive(Default)]
struct Held(RefCell<Vec<u64>>);

/// Why an operation did not end.
enum Failed {
    /// It is to be run again.
    Operation,
    /// The transaction is.
    Transaction,
}

impl World {
    async fn client(self: Rc<Self>, owner: u64, mut rng: Rng) {
        loop {
            let mut plan = Plan::choose(&self.settings, &mut rng);
            loop {
                let began = self.simulation.now();
                let (pages, subobjects) = (Held::default(), Held::default());
                let ended = self.transaction(owner, &plan, &pages, &subobjects, &mut rng).await;
                self.release(owner, &pages);
                self.release(owner, &subobjects);
                if ended.is_ok() {
                    break;
                }
                self.restarted.set(self.restarted.get() + 1);
                match self.settings.retry {
                    Retry::Same => {}
                    Retry::Delayed => self.delay(began, &mut rng).await,
                    Retry::New => plan = Plan::choose(&self.settings, &mut rng),
                }
            }
            self.committed.set(self.committed.get() + 1);
        }
    }

    async fn transaction(
        &self,
        owner: u64,
        plan: &Plan,
        pages: &Held,
        subobjects: &Held,
        rng: &mut Rng,
    ) -> Result<(), NotGranted> {
        for visit in &plan.visits {
            let references = &self.references[visit.object as usize];
            let accesses = accesses_of(visit, references);
            loop {
                let began = self.simulation.now();
                match self.operation(owner, visit.object, &accesses, pages, subobjects).await {
                    Ok(()) => break,
                    Err(Failed::Operation) => {
                        self.release(owner, pages);
                        self.delay(began, rng).await;
                    }
                    Err(Failed::Transaction) => return Err(NotGranted),
                }
            }
        }
        // EOT: the logs of both levels, or of the one that there is.
        match self.strategy {
            Strategy::SingleLevel | Strategy::TwoLevel => self.simulation.pass(self.force).await,
            Strategy::TwoLevelDeferred => self.simulation.pass(2 * self.force).await,
        }
        Ok(())
    }

    async fn operation(
        &self,
        owner: u64,
        object: u32,
        accesses: &Accesses,
        pages: &Held,
        subobjects: &Held,
    ) -> Result<(), Failed> {
        let has_levels = self.strategy != Strategy::SingleLevel;
        if has_levels {
            for (at, updates) in locks_of(accesses) {
                let mode = if updates { Mode::Exclusive } else { Mode::Shared };
                let lock = LEVEL_1 | u64::from(at.0) << 32 | u64::from(at.1);
                self.lock(owner, lock, mode, subobjects).await.map_err(|_| Failed::Transaction)?;
            }
        }
        let failed = |_| if has_levels { Failed::Operation } else { Failed::Transaction };
        self.lock(owner, page_of(object, 0), Mode::Shared, pages).await.map_err(failed)?;
        for (at, updates) in accesses {
            // Of another object's subobject too the directory tells the page.
            self.lock(owner, page_of(at.0, 0), Mode::Shared, pages).await.map_err(failed)?;
            let page = page_of(at.0, 1 + at.1 / SUBOBJECTS_A_PAGE);
            self.lock(owner, page, Mode::Shared, pages).await.map_err(failed)?;
            if *updates {
                self.lock(owner, page, Mode::Exclusive, pages).await.map_err(failed)?;
            }
            self.processors.serve(self.service).await;
        }
        // EOS.
        if self.strategy == Strategy::TwoLevel {
            self.simulation.pass(2 * self.force).await;
        }
        if has_levels {
            self.release(owner, pages);
        }
        Ok(())
    }

    /// Waits before what was begun then runs again.
    async fn delay(&self, began: Duration, rng: &mut Rng) {
        let taken = self.simulation.now() - began;
        self.simulation.pass(taken.mul_f64(rng.unit())).await;
    }

    async fn lock(&self, owner: u64, lock: u64, mode: Mode, held: &Held) -> Result<(), NotGranted> {
        self.locks.acquire(owner, lock, mode, Duration::MAX).await?;
        held.0.borrow_mut().push(lock);
        Ok(())
    }

    fn release(&self, owner: u64, held: &Held) {
        held.0.take().into_iter().for_each(|lock| self.locks.release(owner, lock));
    }
}

/// The lock of a page of an object's cluster; the first is its header.
fn page_of(object: u32, page: u32) -> u64 {
    u64::from(object) << 32 | u64::from(page)
}

#[cfg(test)]
mod tests {
    use gnomon_bench::objects::{Order, Skew, Victim};

    use super::*;

    #[test]
    fn processors_bound_what_two_levels_do_and_one_level_waits_for_locks() {
        let settings = Objects {
            objects: 100,
            subobjects: 1000,
            operations: 4,
            own: 5,
            foreign: 0,
            updates: 20,
            references: 20,
            order: Order::Ascending,
            victim: Victim::LeastLost,
            retry: Retry::Delayed,
            skew: Skew::Normal,
            service_ms: 2.0,
            processors: 8,
            pool_kib: 512,
            parallel: 1,
            log_files: 1,
            shared_log: false,
        };
        let seconds = (Duration::from_secs(5), Duration::from_secs(100));
        let [one, two, deferred] = [Strategy::SingleLevel, Strategy::TwoLevel, Strategy::TwoLevelDeferred]
            .map(|strategy| {
                let run = || simulate(strategy, &settings, 8, 0.1, 1, seconds);
                assert_eq!(run(), run());
                run()
            });
        // 20 accesses of 2 ms on 8 processors.
        let most = 8.0 / 0.040;
        assert!(deferred.tps <= most && deferred.tps > 0.8 * most, "{deferred:?}");
        assert!(two.tps < deferred.tps && one.tps < 0.8 * deferred.tps, "{one:?} {two:?} {deferred:?}");
        assert!(one.wait_ms > 5.0 * deferred.wait_ms, "{one:?} {deferred:?}");
        // One client waits for nobody: 80 forces and accesses one after another.
        let alone = simulate(Strategy::TwoLevel, &settings, 1, 0.5, 1, seconds);
        assert!((alone.response_ms - (20.0 * 2.0 + 4.0 * 1.0 + 0.5)).abs() < 0.2, "{alone:?}");
        assert_eq!((alone.wait_ms, alone.restarts), (0.0, 0.0));
    }
}
