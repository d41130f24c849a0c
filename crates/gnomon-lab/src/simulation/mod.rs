//! Simulation of discrete events in virtual time, whose processes read like prose.
//!
//! A process is an asynchronous function: it waits for a [`Station`] to serve it, for a lock ([`locks`]), or for time to
//! pass, and goes on where it waited. Nothing else happens meanwhile, so processes share what they like in cells.
//!
//! ```ignore
//! use crate::simulation::{Simulation, Station};
//! use std::{rc::Rc, time::Duration};
//!
//! let simulation = Simulation::default();
//! let disk = Rc::new(Station::new(&simulation, 1));
//! for _ in 0..2 {
//!     let disk = disk.clone();
//!     simulation.start(async move {
//!         loop {
//!             disk.serve(Duration::from_millis(30)).await;
//!         }
//!     });
//! }
//! simulation.run_until(Duration::from_secs(3));
//! assert_eq!(disk.served(), 100);
//! ```
//!
//! Promises: the same processes do the same things in the same order, whatever the machine: time is a whole number of
//! nanoseconds, and what happens at one moment happens in the order in which it was called for.
//!
//! How: events are a heap of moments with the process that each wakes. [`Simulation::run_until`] takes the first, sets
//! the clock to it, and polls the process; a process that is woken for no reason waits on.
//!
//! - [`estimate`]: from the figures of independent replications to a mean with its confidence interval; [`replicate`]
//!   runs them until that is narrow;
//! - `analytic`: what queueing theory says of networks that it can solve, to check simulations by.
//!
//! Not here: processes that end others, priorities, stations that share their service out. One simulation runs on one
//! thread; replications run beside each other.

#[cfg(test)]
mod analytic;
pub mod estimate;
pub mod locks;
pub mod replicate;

use std::{
    cell::{Cell, RefCell},
    cmp::Reverse,
    collections::BinaryHeap,
    future::{Future, poll_fn},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

type Process = Pin<Box<dyn Future<Output = ()>>>;

/// A number of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ProcessId(usize);

/// A world of processes, with a clock. Clones are the same world.
#[derive(Clone, Default)]
pub struct Simulation(Rc<World>);

#[derive(Default)]
struct World {
    /// In nanoseconds since the beginning.
    now: Cell<u64>,
    /// When whom to wake. Those of one moment are numbered.
    events: RefCell<BinaryHeap<Reverse<(u64, u64, ProcessId)>>>,
    events_called_for: Cell<u64>,
    /// Those that have not ended, at their numbers; none of the one that runs.
    processes: RefCell<Vec<Option<Process>>>,
    running: Cell<Option<ProcessId>>,
}

impl Simulation {
    /// The time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.0.now.get())
    }

    /// Starts a process, now.
    pub fn start(&self, process: impl Future<Output = ()> + 'static) {
        let mut processes = self.0.processes.borrow_mut();
        let id = ProcessId(processes.len());
        processes.push(Some(Box::pin(process)));
        self.wake_at(self.0.now.get(), id);
    }

    /// Lets everything happen up to a moment; the clock is there then.
    pub fn run_until(&self, end: Duration) {
        self.run_while(end, || true);
    }

    /// The same, as long as `goes_on` says so, which is asked now and then. If it does not, the clock stays where it is,
    /// and all can go on later.
    pub fn run_while(&self, end: Duration, goes_on: impl Fn() -> bool) {
        /// After so many events: it may read a clock or what others write.
        const ASKED_EVERY: u64 = 1 << 12;
        let world = &*self.0;
        let mut events_count = 0;
        let end = nanos(end);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if events_count == ASKED_EVERY {
                events_count = 0;
                if !goes_on() {
                    return;
                }
            }
            let next = {
                let mut events = world.events.borrow_mut();
                match events.peek() {
                    Some(Reverse((at, ..))) if *at <= end => events.pop(),
                    _ => None,
                }
            };
            let Some(Reverse((at, _, id))) = next else { break };
            events_count += 1;
            debug_assert!(at >= world.now.get(), "time does not go back");
            world.now.set(at);
            let Some(mut process) = world.processes.borrow_mut()[id.0].take() else { continue };
            world.running.set(Some(id));
            if process.as_mut().poll(&mut context).is_pending() {
                world.processes.borrow_mut()[id.0] = Some(process);
            }
            world.running.set(None);
        }
        world.now.set(end.max(world.now.get()));
    }

    /// Waits for so long.
    pub async fn pass(&self, time: Duration) {
        self.pass_to(self.0.now.get().saturating_add(nanos(time))).await;
    }

    /// Waits until a moment.
    async fn pass_to(&self, at: u64) {
        let world = &*self.0;
        if at <= world.now.get() {
            return;
        }
        self.wake_at(at, self.running());
        poll_fn(|_| if world.now.get() < at { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// The process that runs: the caller's.
    fn running(&self) -> ProcessId {
        self.0.running.get().expect("only processes wait")
    }

    fn wake_at(&self, at: u64, process: ProcessId) {
        let number = self.0.events_called_for.get();
        self.0.events_called_for.set(number + 1);
        self.0.events.borrow_mut().push(Reverse((at, number, process)));
    }

    /// Ends all processes: they may hold what holds the simulation.
    pub fn end(&self) {
        let processes = std::mem::take(&mut *self.0.processes.borrow_mut());
        drop(processes);
        self.0.events.borrow_mut().clear();
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Servers that serve one process each, first come, first served.
pub struct Station {
    simulation: Simulation,
    /// When each server has served all that have come to it.
    free_at: RefCell<Vec<u64>>,
    served: Cell<u64>,
    /// Of all that have come.
    service: Cell<u64>,
}

impl Station {
    /// With so many servers, at least one.
    pub fn new(simulation: &Simulation, servers: usize) -> Station {
        Station {
            simulation: simulation.clone(),
            free_at: RefCell::new(vec![0; servers.max(1)]),
            served: Cell::new(0),
            service: Cell::new(0),
        }
    }

    /// Waits for a server, and for the service.
    pub async fn serve(&self, time: Duration) {
        let end = {
            let mut free_at = self.free_at.borrow_mut();
            // Who comes first has the server that is free first: all is settled when he comes.
            let server = free_at.iter_mut().min().expect("there is one at least");
            *server = self.simulation.0.now.get().max(*server).saturating_add(nanos(time));
            *server
        };
        self.service.set(self.service.get() + nanos(time));
        self.simulation.pass_to(end).await;
        self.served.set(self.served.get() + 1);
    }

    /// How many processes it has served.
    #[cfg(test)]
    pub fn served(&self) -> u64 {
        self.served.get()
    }

    /// The service that all have had so far.
    pub fn service(&self) -> Duration {
        let now = self.simulation.0.now.get();
        // Whoever has come is served without a pause, until his server is free.
        let to_come: u64 = self.free_at.borrow().iter().map(|free_at| free_at.saturating_sub(now)).sum();
        Duration::from_nanos(self.service.get() - to_come)
    }
}

#[cfg(test)]
mod tests;
