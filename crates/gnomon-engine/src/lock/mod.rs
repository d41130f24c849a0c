//! Locks: they keep other transactions from conflicting work until their owner ends.
//!
//! A [`LockManager`] owns several lock tables, each with modes of its own ([`Modes`], given as data), and finds
//! deadlocks over all of them. It knows nothing of trees, pages or transactions; it is used by both levels.
//!
//! # Promises
//!
//! - Two owners hold a lock together only in modes of which one admits the other.
//! - Queues are fair. A new request waits for holders that do not admit it and for earlier waiters that it does
//!   not get on with (in both directions: it may pass an earlier waiter only if that is delayed by nothing).
//!   Conversions stand before new requests and wait for holders only: a conversion that waited for a request that
//!   waits for it would always be a deadlock. So no request waits for ever behind later ones.
//! - A release hands the lock over and wakes exactly the waiters that got it. Until such a waiter has woken up, a new
//!   request of a running thread may take the lock before it. The waiter is then at the head of the queue again; after
//!   64 times it cannot be overtaken any more. A hot lock that went from sleeper to sleeper would be held by sleepers
//!   most of the time (Blasgen, Gray, Mitoma and Price: The Convoy Phenomenon, 1979). In a table of locks that are held
//!   for long ([`LockTable::in_order`]) no request overtakes.
//! - A deadlock is broken as soon as it is complete, in the thread of the request that completes it. The victim
//!   is the owner of the cycle that holds the fewest locks (plus [`LockOwner::set_weight`]), the youngest among
//!   equals, whether it is the one that asks or one that sleeps: a cycle of given owners always ends the same way.
//!   A cycle in which each owner holds a lock that the one before it requests is preferred: an owner that only waits
//!   ahead of another one in a queue, and holds nothing, is then no victim.
//!   The owner that asks may have another rule ([`Victim`]).
//! - A wait ends at once when its [`Interrupt`] is raised. A request that failed, for whatever reason, has left its
//!   queue, and those behind it were granted if they can be.
//!
//! - An owner that holds a lock in a mode that others hold beside it may claim of the quantities under its name
//!   (`escrow.rs`). A claim that depends on others waits in the lock's queue, behind claims of the same quantities,
//!   unless its owner has claimed under that name before: then one of those ahead may be waiting for this owner.
//!
//! Not here: lock escalation, locks that survive a crash, and which names contain which others.
//!
//! # How it works
//!
//! Names are spread over shards by hash. A shard (`shard.rs`) is plain data under one mutex: lock heads in slots, each
//! with its holders and its queue. A request that is not blocked takes that mutex once and allocates nothing
//! in the steady state; the owner's log remembers shard and slot, so that a release does not look the name up. A log
//! entry holds the mode from before, or what was held of quantities, which is all that savepoints need.
//!
//! Weak modes of a table [by thread](LockTable::by_thread) do without the shard while no owner asks for a stronger one
//! (`weak.rs`): every transaction takes them, on the same few trees.
//!
//! A request that is blocked enters the queue under the same hold of the shard's mutex that found it blocked,
//! registers with the detector, looks for a deadlock, then sleeps (`park.rs`). The thread that takes it out of the
//! queue owes it an outcome. Only the owner itself (timeout, interrupt), a releaser or a detector does; the mutex of
//! the shard decides which is first. A request that was granted stands in the head's list of those asleep until its
//! owner, awake, asks under that mutex what has become of it: only then the owner holds the lock for certain.
//!
//! # Why detection misses nothing
//!
//! The waits-for graph is not stored: queues are the graph, read shard by shard. The detector adds only where an
//! owner waits. Its mutex is taken to register and held during the search that follows.
//!
//! 1. An owner waits for at most one request. In a cycle all owners wait.
//! 2. An edge A → B (A waits, B is in its way) arises when A enters the queue, when B enters it ahead of A (a
//!    conversion), or when B is granted a conversion while A waits. It does not arise when B is granted a new request,
//!    from the queue or at once: either A was behind B in the queue, and the edge is old, or B passed A, which happens
//!    only between modes that admit each other. It arises, too, when B takes the lock before A has woken up, and when a
//!    claim of B's is granted, or its refusal kept, while A waits with a claim. In each case A or B was running then,
//!    and if it was B, it has yet to register for the wait that makes it part of a cycle. So every edge of a cycle is
//!    there before the later of its two owners registers.
//! 3. Therefore the owner of the cycle that registers last finds all edges and all other owners registered.
//!
//! An owner may look for a deadlock some time after it has registered ([`WaitOptions::deadlock_after`]). Then one that
//! registered before the last of the cycle may be the first to look and find it; if none is, the last does.
//!
//! And why it finds no deadlock where there is none: a registration counts only if the same wait, by its number, is
//! still in the queue. Registered waits began before the detector's mutex was taken, so all edges of a cycle that was
//! read at different moments held together: an owner that waits does not release, and does not leave a queue but by an
//! outcome, a timeout or an interrupt; one that is overtaken did not wait, and was in no cycle. If one of the
//! latter two comes during the search, a victim may fall that the timeout would have saved; and so may one that waits
//! with a claim, which counts as waiting for all owners that hold something of its quantities, although the end of one
//! of them might do.
//!
//! Weak locks in lists block no request: one that waits for more has emptied the lists before, and none is added while
//! it counts. So moving one to its shard makes no edge either.
//!
//! # Order of mutexes
//!
//! detector, then list of weak locks, then shard (one at a time of each); parking and interrupt are leaves (interrupt,
//! then parking). No latch is held by a caller that may wait.

mod counter;
mod deadlock;
mod escrow;
mod interrupt;
mod manager;
mod modes;
mod name;
mod park;
mod shard;
#[cfg(test)]
mod tests;
mod weak;

pub use counter::{LevelWaits, WaitCounter};
pub use deadlock::Victim;
pub use escrow::{Claim, Pending};
pub(crate) use escrow::{Hold, claims_of_two, first_refused};
pub use interrupt::{Interrupt, InterruptReason};
pub use manager::{LockInfo, LockManager, LockOwner, LockTable, LockWaits, Mark, WaitOptions};
pub use modes::{
    GAP_MODES, KEY_MODES, MODES_MAX, Mode, Modes, ModesSpec, TREE_MODES, gap_mode, key_mode, tree_mode,
};
pub use name::{LockName, Part, TableId};
