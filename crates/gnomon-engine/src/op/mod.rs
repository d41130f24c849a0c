//! Operations: changes of one key's value that say what they mean, so that those that commute need not wait for each
//! other.
//!
//! An [`Operation`] states what it demands of quantities within the value ([`Operation::claims`]), how it changes it
//! ([`Operation::apply`]), and what takes that back ([`Operation::inverse`]). Operations on values of one kind make up
//! a [`Family`], with a table that tells which of them commute. From that follow the locks: operations that commute
//! with the same others share a mode of the key's lock, and two such modes can be held together if their operations
//! commute. The registry of a database has the families that are built in ([`number`], [`set`], [`bytes`], [`record`])
//! and those that it was opened with ([`Options::operations`](crate::Options::operations)). A [`Call`] is an operation
//! with its arguments; it is what is kept in a write set, and stored with a prepared transaction: by names and
//! arguments, never as the value that came of it.
//!
//! # What may commute
//!
//! Updates are deferred: an operation sees nothing, and is applied when its transaction has its place in the order of
//! commits. So operations whose order matters can share a lock, too ([`Commutes::InCommitOrder`]): what they make of a
//! value is what they make of it in the order of their CSNs, and no transaction has seen anything else.
//! [`Commutes::Always`] says more: either order makes the same value, and each can be undone beside the other. That
//! is what a store needs that applies operations at once. [`check_family`] looks for values and arguments for which
//! it is not so.
//!
//! What a transaction does observe of a value are the conditions of its claims. They hold until it ends, whatever
//! others do (`lock/escrow.rs`), so they hold where it commits.
//!
//! # Not here
//!
//! Reading a value (that needs a lock that excludes all operations), and operations on more than one key.

mod builtin;
mod calls;
mod check;
pub mod record;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::fmt;

pub use builtin::{bytes, number, set};
pub(crate) use calls::{BoundCall, Calls, LENGTH, absent};
pub use check::{Counterexample, Trial, check_family};

use crate::{
    Error, Result,
    lock::{Claim, KEY_MODES, Mode, Modes, key_mode},
    sync::Arc,
};

/// A kind of change of one key's value. It must be deterministic: what comes of it follows from its arguments and the
/// value alone.
pub trait Operation: Send + Sync + 'static {
    /// Its name in its family: stored with calls that wait to be applied, so it must never change its meaning.
    fn name(&self) -> &'static str;

    /// Returns its claims of quantities within `value`, the newest that is known: the changes that it makes of them,
    /// and the conditions under which it may. [`Claim::value`] is what `value` says of the quantity. Each change of a
    /// quantity of which any operation of the family has a condition must be claimed.
    ///
    /// # Errors
    /// [`Error::Operation`] if the arguments or the value do not suit it.
    fn claims(&self, args: &[u8], value: &[u8]) -> Result<Vec<Claim>>;

    /// Returns the value that it makes of `value`. If its `claims` were granted for some value, it must succeed for
    /// every other one that operations of its family which commute with it, and were granted, can make of that: an
    /// error here stops the database, since the transaction has committed.
    ///
    /// # Errors
    /// [`Error::Operation`] if the arguments or the value do not suit it.
    fn apply(&self, args: &[u8], value: &[u8]) -> Result<Vec<u8>>;

    /// The operation of the same family, by its name and arguments, that takes back what this one makes of `value`,
    /// whatever others that [always](Commutes::Always) commute have made of it since. None if there is none.
    ///
    /// # Errors
    /// [`Error::Operation`] if the arguments or the value do not suit it.
    fn inverse(&self, args: &[u8], value: &[u8]) -> Result<Option<(&'static str, Vec<u8>)>> {
        let _ = (args, value);
        Ok(None)
    }

    /// The arguments of the one call that is the same as two, one after the other; none if there is none.
    fn merge(&self, first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
        let _ = (first, second);
        None
    }

    /// As [`Operation::merge`], of two whose claims are not granted yet: those of the one call hold where those of both
    /// do, one after the other, and it is refused where the limits of either are not kept.
    fn merge_claims(&self, first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
        let _ = (first, second);
        None
    }

    /// Returns its effect on the length of a value.
    fn length(&self, args: &[u8]) -> Length;
}

/// Returns the limits that a value has to keep so that it keeps these when `delta` is added; none if there are no
/// such numbers.
fn limits_before((min, max): (i128, i128), delta: i128) -> Option<(i128, i128)> {
    let before = |limit: i128, none| if limit == none { Some(none) } else { limit.checked_sub(delta) };
    Some((before(min, i128::MIN)?, before(max, i128::MAX)?))
}

/// Returns the limits that keep both of two.
fn both_limits((min, max): (i128, i128), (other_min, other_max): (i128, i128)) -> (i128, i128) {
    (min.max(other_min), max.min(other_max))
}

/// The effect of an operation on the length of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// It stays as it is; and what others of the family that commute with it make of the length does not depend on
    /// whether it was applied before.
    Same,
    /// It grows by so many bytes at most, or shrinks.
    Grows(usize),
}

impl Length {
    /// Returns the greatest number of bytes that it grows by.
    pub fn growth_bytes(self) -> usize {
        match self {
            Length::Same => 0,
            Length::Grows(bytes) => bytes,
        }
    }
}

/// The way in which two operations on the same value commute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commutes {
    /// One waits for the transaction of the other.
    Never,
    /// Neither sees anything of the other, and they are applied in the order of commits.
    InCommitOrder,
    /// The same comes of them in either order, and each can be undone beside the other.
    Always,
}

/// Operations on values of one kind, and how they get on with each other. Those of different families never commute.
#[derive(Clone)]
pub struct Family {
    name: &'static str,
    operations: Vec<Arc<dyn Operation>>,
    /// By the places of two operations; symmetric.
    table: Vec<Vec<Commutes>>,
}

impl Family {
    /// A family of operations; `table[a][b]` tells how the operations at these places of the list get on.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the table is not square and symmetric, or two operations have one name.
    pub fn new(
        name: &'static str,
        operations: Vec<Arc<dyn Operation>>,
        table: &[&[Commutes]],
    ) -> Result<Family> {
        let bad = |what: &str| Err(Error::BadOption(format!("operations of family '{name}': {what}")));
        let count = operations.len();
        if table.len() != count || table.iter().any(|row| row.len() != count) {
            return bad("the table has not one row and one column for each");
        }
        for (a, row) in table.iter().enumerate() {
            for (b, commutes) in row.iter().enumerate() {
                if *commutes != table[b][a] {
                    return bad(
                        "the table says one thing of two operations, and another the other way round",
                    );
                }
                if a != b && operations[a].name() == operations[b].name() {
                    return bad("two have the same name");
                }
            }
        }
        let too_long = |name: &str| name.is_empty() || name.len() > NAME_BYTES_MAX;
        if too_long(name) || operations.iter().any(|operation| too_long(operation.name())) {
            return bad("a name has from 1 to 63 bytes");
        }
        Ok(Family { name, operations, table: table.iter().map(|row| row.to_vec()).collect() })
    }

    /// Its name: stored with calls that wait to be applied.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its operations.
    pub fn operations(&self) -> &[Arc<dyn Operation>] {
        &self.operations
    }

    /// Returns how the operations at two places of the list commute.
    pub fn commutes(&self, a: usize, b: usize) -> Commutes {
        self.table[a][b]
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.operations.iter().map(|operation| operation.name()).collect();
        f.debug_struct("Family").field("name", &self.name).field("operations", &names).finish_non_exhaustive()
    }
}

/// The longest name of a family or an operation, in bytes.
const NAME_BYTES_MAX: usize = 63;

fn unsuited(what: &str) -> Error {
    Error::Operation(what.into())
}

/// An operation with its arguments, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The operation's family.
    pub family: &'static str,
    /// The operation's name.
    pub operation: &'static str,
    /// Its arguments, as it reads them.
    pub args: Vec<u8>,
}

/// Operations that logs know by a number: family and name. It is part of a format: more can follow.
pub(crate) const NUMBERED: [(&str, &str); 7] = [
    ("record", "update"),
    ("number", "add"),
    ("number", "minimum"),
    ("number", "maximum"),
    ("bytes", "append"),
    ("set", "insert"),
    ("set", "remove"),
];

/// An operation of a registry.
#[derive(Clone)]
pub(crate) struct Registered {
    /// Its place in [`NUMBERED`], from 1 on; 0 if it has none.
    pub number: u8,
    pub family: &'static str,
    pub operation: Arc<dyn Operation>,
    /// The mode in which it locks its key.
    pub mode: Mode,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.family, self.operation.name())
    }
}

/// The operations of a database.
pub(crate) struct Registry {
    operations: Vec<Arc<Registered>>,
    modes: Modes,
}

impl Registry {
    /// The families that are built in, and others.
    ///
    /// # Errors
    /// [`Error::BadOption`] if two families have one name, or there are more classes of operations that commute with
    /// the same others than modes for them.
    pub fn new(families: &[Family]) -> Result<Registry> {
        let built_in = [number::family(), set::family(), bytes::family(), record::family()];
        // For each class of operations, its name and family, and with which of that its operations share a lock.
        let mut classes: Vec<(&'static str, &'static str, Vec<bool>)> = Vec::new();
        // For each operation its place in its family, and its class if it shares a lock with its like.
        let mut places: Vec<(&Family, usize, Option<usize>)> = Vec::new();
        for family in built_in.iter().chain(families) {
            if places.iter().any(|(known, ..)| known.name == family.name) {
                return Err(Error::BadOption(format!(
                    "two families of operations are named '{}'",
                    family.name
                )));
            }
            for (place, operation) in family.operations.iter().enumerate() {
                let row: Vec<bool> = family.table[place].iter().map(|c| *c != Commutes::Never).collect();
                let class = row[place].then(|| {
                    let known =
                        classes.iter().position(|(_, of, others)| (*of, others) == (family.name, &row));
                    known.unwrap_or_else(|| {
                        classes.push((operation.name(), family.name, row));
                        classes.len() - 1
                    })
                });
                places.push((family, place, class));
            }
        }
        let place_of =
            |class: usize| places.iter().find(|(.., of)| *of == Some(class)).map(|(_, place, _)| *place);
        let commutes = |(_, family, row): &(_, &str, Vec<bool>), other: usize| {
            classes[other].1 == *family && place_of(other).is_some_and(|place| row[place])
        };
        let commute: Vec<Vec<bool>> = classes
            .iter()
            .map(|class| (0..classes.len()).map(|other| commutes(class, other)).collect())
            .collect();
        let names: Vec<&'static str> = classes.iter().map(|(name, ..)| *name).collect();
        let modes = KEY_MODES
            .with_classes(&names, &commute, &[key_mode::KS, key_mode::P], key_mode::NKU)
            .map_err(|why| Error::BadOption(format!("the operations cannot be registered: {why}")))?;
        let registered = |(family, place, class): &(&Family, usize, Option<usize>)| {
            let mode = class.map_or(key_mode::NKU, |class| Mode::new(KEY_MODES.count() + class));
            let operation = family.operations[*place].clone();
            let names = (family.name, operation.name());
            let number = NUMBERED.iter().position(|numbered| *numbered == names).map_or(0, |at| 1 + at as u8);
            Arc::new(Registered { number, family: family.name, operation, mode })
        };
        let operations = places.iter().map(registered).collect();
        Ok(Registry { operations, modes })
    }

    /// The modes of locks on keys.
    pub fn key_modes(&self) -> Modes {
        self.modes
    }

    /// Some operation.
    pub fn any(&self) -> &Arc<Registered> {
        &self.operations[0]
    }

    /// An operation by its names.
    ///
    /// # Errors
    /// [`Error::NoSuchOperation`].
    pub fn get(&self, family: &str, operation: &str) -> Result<&Arc<Registered>> {
        let is_it = |known: &&Arc<Registered>| known.family == family && known.operation.name() == operation;
        self.operations
            .iter()
            .find(is_it)
            .ok_or_else(|| Error::NoSuchOperation { family: family.into(), operation: operation.into() })
    }
}

/// True if a mode of a key's lock is one that operations share.
pub(crate) fn is_shared(mode: Mode) -> bool {
    mode.index() >= KEY_MODES.count()
}

/// The number of a mode that operations share, as members of a cluster tell it each other: it does not change when
/// keys are given another mode.
pub(crate) fn class_number(mode: Mode) -> Option<u32> {
    mode.index().checked_sub(KEY_MODES.count()).map(|class| (class + CLASS_FIRST) as u32)
}

/// The number of the first class.
const CLASS_FIRST: usize = 3;
