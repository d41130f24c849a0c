//! A property test for families of operations: it checks what they declare.

use super::{Commutes, Family, Length, Operation};
use crate::{
    Error, Result, TxnId,
    env::Rng,
    lock::{Claim, claims_of_two, first_refused},
    sync::Arc,
};

/// A value and two calls on it: the places of two operations in the family's list, each with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The value.
    pub value: Vec<u8>,
    /// The calls.
    pub calls: [(usize, Vec<u8>); 2],
}

/// A trial in which operations do something else than their family declares.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} (seed {seed}): {trial:?}")]
pub struct Counterexample {
    /// The trial.
    pub trial: Trial,
    /// The failure, as a text.
    pub what: String,
    /// The seed of random numbers.
    pub seed: u64,
}

/// Tries a family's operations on `rounds` values that `trial` makes, with random numbers from `seed` on. Give it
/// values and arguments near the bounds, and often enough the same ones for both calls.
///
/// Of two operations whose claims two transactions are granted at the same time it tries that
/// - both succeed in either order, if they commute at all;
/// - the same comes of them in either order, and each is undone by its inverse beside the other, if they always
///   commute.
///
/// And of each one that it makes no more of the length of a value than it says, and that two calls are the same as what
/// they are merged to.
///
/// # Errors
/// The first trial in which that is not so.
pub fn check_family(
    family: &Family,
    rounds: u32,
    seed: u64,
    mut trial: impl FnMut(&mut Rng) -> Trial,
) -> Result<(), Box<Counterexample>> {
    let mut rng = Rng::from_seed(seed);
    for _ in 0..rounds {
        let trial = trial(&mut rng);
        if let Err(what) = check_trial(family, &trial) {
            return Err(Box::new(Counterexample { trial, what, seed }));
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Called<'a> {
    operation: &'a Arc<dyn Operation>,
    args: &'a [u8],
}

impl Called<'_> {
    fn name(&self) -> &'static str {
        self.operation.name()
    }

    fn apply(&self, value: &[u8]) -> Result<Vec<u8>, String> {
        let result = self.operation.apply(self.args, value).map_err(|error| self.failed(&error))?;
        let length = self.operation.length(self.args);
        let grown = result.len().saturating_sub(value.len());
        if grown > length.growth_bytes() || length == Length::Same && result.len() != value.len() {
            let (before, after) = (value.len(), result.len());
            return Err(format!("'{}' makes {after} bytes of {before}, and says {length:?}", self.name()));
        }
        Ok(result)
    }

    fn failed(&self, error: &Error) -> String {
        format!("'{}' was granted and fails: {error}", self.name())
    }
}

fn check_trial(family: &Family, trial: &Trial) -> Result<(), String> {
    let called = |place: usize| {
        let (operation, args) = &trial.calls[place];
        let operation =
            family.operations().get(*operation).ok_or("a call is of no operation of the family")?;
        Ok::<_, String>(Called { operation, args })
    };
    let (a, b, value) = (called(0)?, called(1)?, &trial.value);
    // Arguments that do not suit an operation are refused before anything is changed.
    let claims = |called: &Called<'_>| called.operation.claims(called.args, value);
    let (Ok(claims_a), Ok(claims_b)) = (claims(&a), claims(&b)) else { return Ok(()) };
    if a.name() == b.name()
        && let Some(merged) = a.operation.merge(a.args, b.args)
        && both_granted(&claims_a, &claims_b)
    {
        let merged = Called { args: &merged, operation: a.operation };
        if merged.apply(value)? != b.apply(&a.apply(value)?)? {
            return Err(format!("two calls of '{}' are not what they are merged to", a.name()));
        }
    }
    if a.name() == b.name()
        && let Some(merged) = a.operation.merge_claims(a.args, b.args)
        && first_refused(&claims_a).is_none()
    {
        let after = a.apply(value)?;
        let merged = Called { args: &merged, operation: a.operation };
        let is_granted = |called: &Called<'_>, value: &[u8]| {
            called.operation.claims(called.args, value).is_ok_and(|claims| first_refused(&claims).is_none())
        };
        let (of_both, of_one) = (is_granted(&b, &after), is_granted(&merged, value));
        if of_both != of_one {
            return Err(format!(
                "one after the other, two calls of '{}' are {}, and what they are merged to is {}",
                a.name(),
                if of_both { "granted" } else { "refused" },
                if of_one { "granted" } else { "refused" }
            ));
        }
        if of_both && merged.apply(value)? != b.apply(&after)? {
            return Err(format!(
                "two calls of '{}' are not what they are merged to with their claims",
                a.name()
            ));
        }
    }
    let commutes = family.commutes(trial.calls[0].0, trial.calls[1].0);
    if commutes == Commutes::Never || !both_granted(&claims_a, &claims_b) {
        return Ok(());
    }
    let (after_a, after_b) = (a.apply(value)?, b.apply(value)?);
    let (ab, ba) = (b.apply(&after_a)?, a.apply(&after_b)?);
    if commutes == Commutes::InCommitOrder {
        return Ok(());
    }
    if ab != ba {
        let (a, b) = (a.name(), b.name());
        return Err(format!(
            "'{a}' and '{b}' do not commute: {ab:?} if '{a}' is first, {ba:?} if it is second"
        ));
    }
    for (one, other) in [(&a, &after_b), (&b, &after_a)] {
        let inverse = one.operation.inverse(one.args, value).map_err(|error| one.failed(&error))?;
        let Some((name, args)) = inverse else { continue };
        let operation = family.operations().iter().find(|operation| operation.name() == name);
        let Some(operation) = operation else {
            return Err(format!("the inverse of '{}', '{name}', is no operation of the family", one.name()));
        };
        let undone = operation.apply(&args, &ab);
        if !undone.as_ref().is_ok_and(|undone| undone == other) {
            return Err(format!(
                "the inverse of '{}' makes {undone:?} beside the other, which alone makes {other:?}",
                one.name()
            ));
        }
    }
    Ok(())
}

/// True if two transactions have their claims granted at the same time, in both orders.
fn both_granted(a: &[Claim], b: &[Claim]) -> bool {
    let (first, second) = (TxnId(1), TxnId(2));
    claims_of_two((first, a), (second, b)) && claims_of_two((second, b), (first, a))
}
