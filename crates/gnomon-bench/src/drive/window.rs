//! How many transactions a client has under way that does not wait for each.
//!
//! Promises: there are never more than the window has places for. A client that has waited for one goes on when an
//! eighth of them is free: to be woken for each costs more than short transactions do.

use gnomon_engine::sync::{
    Condvar, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// No thread waits.
const NOBODY: usize = usize::MAX;

/// The places of one client.
pub(crate) struct Window {
    size: usize,
    taken: AtomicUsize,
    /// The client waits until so many are taken.
    awaited: AtomicUsize,
    waits: Mutex<()>,
    reached: Condvar,
}

impl Window {
    /// With so many places.
    pub fn new(size: usize) -> Window {
        Window {
            size,
            taken: AtomicUsize::new(0),
            awaited: AtomicUsize::new(NOBODY),
            waits: Mutex::new(()),
            reached: Condvar::new(),
        }
    }

    /// Waits until there is a place. Called by the client, which alone takes some.
    pub fn wait_for_place(&self) {
        if self.taken.load(Ordering::Acquire) >= self.size {
            self.wait_until(self.size - self.size / 8 - 1);
        }
    }

    /// Waits until nothing is under way. Called by the client.
    pub fn wait_until_empty(&self) {
        self.wait_until(0);
    }

    /// Takes a place.
    pub fn take(&self) {
        self.taken.fetch_add(1, Ordering::AcqRel);
    }

    /// Gives a place back, on whatever thread.
    pub fn give_back(&self) {
        // Sequentially consistent, as what the client does: one of both sees what the other has done.
        let taken = self.taken.fetch_sub(1, Ordering::SeqCst) - 1;
        if taken == self.awaited.load(Ordering::SeqCst) {
            let _waits = self.waits.lock();
            self.reached.notify_one();
        }
    }

    fn wait_until(&self, taken: usize) {
        self.awaited.store(taken, Ordering::SeqCst);
        let mut waits = self.waits.lock();
        while self.taken.load(Ordering::SeqCst) > taken {
            self.reached.wait(&mut waits);
        }
        self.awaited.store(NOBODY, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use gnomon_engine::sync::{Arc, thread};

    use super::*;

    #[test]
    fn there_are_never_more_than_places() {
        for size in [1, 2, 9, 100] {
            let window = Arc::new(Window::new(size));
            let under_way = Arc::new(AtomicUsize::new(0));
            let (send, receive) = std::sync::mpsc::channel::<()>();
            let other = {
                let (window, under_way) = (window.clone(), under_way.clone());
                thread::spawn(move || {
                    for () in receive {
                        under_way.fetch_sub(1, Ordering::SeqCst);
                        window.give_back();
                    }
                })
            };
            for _ in 0..3000 {
                window.wait_for_place();
                window.take();
                assert!(under_way.fetch_add(1, Ordering::SeqCst) < size);
                send.send(()).unwrap();
            }
            window.wait_until_empty();
            assert_eq!(under_way.load(Ordering::SeqCst), 0);
            drop(send);
            other.join().unwrap();
        }
    }
}
