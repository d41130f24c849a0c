//! Chooses what a transaction accesses, and where references lead to.

use gnomon_engine::env::Rng;

use super::{Objects, Order, Skew};

/// Such a part of a range gets such a share of the choices.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rule {
    part: f64,
    share: f64,
    /// The middle of the standard normal distribution that has this share reaches so far to both sides.
    deviations: f64,
}

const RULE_80_20: Rule = Rule { part: 0.2, share: 0.8, deviations: 1.281_551_6 };
const RULE_50_50: Rule = Rule { part: 0.5, share: 0.5, deviations: 0.674_489_8 };

/// Chooses a number below `count`. With [`Skew::Normal`] the part is in the middle, and what lies outside the range is
/// chosen again; with [`Skew::TwoPart`] it is at the beginning.
fn choose(rule: Rule, skew: Skew, count: u32, rng: &mut Rng) -> u32 {
    let range = f64::from(count);
    let at = match skew {
        Skew::Normal => {
            let deviation = rule.part * range / (2.0 * rule.deviations);
            loop {
                let at = range / 2.0 + deviation * normal(rng);
                if (0.0..range).contains(&at) {
                    break at;
                }
            }
        }
        Skew::TwoPart => {
            let border = rule.part * range;
            match rng.unit() < rule.share {
                true => border * rng.unit(),
                false => border + (range - border) * rng.unit(),
            }
        }
    };
    (at as u32).min(count - 1)
}

/// A number of the standard normal distribution (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    // Not zero, which has no logarithm.
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit()).cos()
}

/// Chooses different numbers, by choosing again what was chosen before.
fn choose_different(count: u32, mut choose: impl FnMut() -> u32) -> Vec<u32> {
    let mut chosen = Vec::with_capacity(count as usize);
    while chosen.len() < count as usize {
        let number = choose();
        if !chosen.contains(&number) {
            chosen.push(number);
        }
    }
    chosen
}

/// The operations of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The operations, in their order.
    pub visits: Vec<Visit>,
}

/// An operation on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The object.
    pub object: u32,
    /// Subobjects, and whether they are changed.
    pub own: Vec<(u32, bool)>,
    /// The same by the number of a reference.
    pub foreign: Vec<(u32, bool)>,
}

impl Plan {
    /// Chooses a transaction. The settings go together.
    pub fn choose(settings: &Objects, rng: &mut Rng) -> Plan {
        let Objects { objects, subobjects, references, skew, .. } = *settings;
        let mut visited = choose_different(settings.operations, || choose(RULE_80_20, skew, objects, rng));
        if settings.order == Order::Ascending {
            visited.sort_unstable();
        }
        let mut visit = |object| {
            let own = choose_different(settings.own, || choose(RULE_50_50, skew, subobjects, rng));
            let foreign = choose_different(settings.foreign, || rng.below(references.into()) as u32);
            let mut accesses = |chosen: Vec<u32>| {
                chosen.into_iter().map(|at| (at, rng.chance(settings.updates.into(), 100))).collect()
            };
            Visit { object, own: accesses(own), foreign: accesses(foreign) }
        };
        Plan { visits: visited.into_iter().map(&mut visit).collect() }
    }
}

/// Where the references of an object lead to: to subobjects of other objects, if there are others.
pub fn choose_references(settings: &Objects, object: u32, rng: &mut Rng) -> Vec<(u32, u32)> {
    let mut one = || loop {
        let other = choose(RULE_80_20, settings.skew, settings.objects, rng);
        if other != object || settings.objects == 1 {
            break (other, choose(RULE_50_50, settings.skew, settings.subobjects, rng));
        }
    };
    (0..settings.references).map(|_| one()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of choices that fall into a part of the range.
    fn share_of(part: std::ops::Range<u32>, rule: Rule, skew: Skew) -> f64 {
        let mut rng = Rng::from_seed(3);
        let within = (0..50_000).filter(|_| part.contains(&choose(rule, skew, 1000, &mut rng))).count();
        within as f64 / 50_000.0
    }

    #[test]
    fn the_rules_give_the_parts_their_shares() {
        for (rule, skew, part, share) in [
            (RULE_80_20, Skew::Normal, 400..600, 0.8),
            // What is chosen again because it lies outside belongs to both: 0.5 / 0.8226.
            (RULE_50_50, Skew::Normal, 250..750, 0.6078),
            (RULE_80_20, Skew::TwoPart, 0..200, 0.8),
            (RULE_50_50, Skew::TwoPart, 0..500, 0.5),
        ] {
            let measured = share_of(part, rule, skew);
            assert!((measured - share).abs() < 0.01, "{rule:?} {skew:?}: {measured} instead of {share}");
        }
    }

    #[test]
    fn a_transaction_is_as_it_was_set() {
        let settings = Objects { own: 10, foreign: 7, updates: 20, ..Objects::small() };
        let mut rng = Rng::from_seed(1);
        let (mut accesses, mut updates, mut sorted) = (0, 0, 0);
        for _ in 0..1000 {
            let plan = Plan::choose(&settings, &mut rng);
            let objects: Vec<u32> = plan.visits.iter().map(|visit| visit.object).collect();
            sorted += u32::from(objects.is_sorted());
            assert!(objects.len() == 3 && objects.iter().all(|object| *object < 30));
            let different = |mut numbers: Vec<u32>| {
                let count = numbers.len();
                numbers.sort_unstable();
                numbers.dedup();
                assert_eq!(numbers.len(), count, "{plan:?}");
            };
            different(objects);
            for Visit { own, foreign, .. } in &plan.visits {
                assert!(own.len() == 10 && own.iter().all(|(slot, _)| *slot < 150));
                assert!(foreign.len() == 7 && foreign.iter().all(|(reference, _)| *reference < 20));
                different(own.iter().map(|(slot, _)| *slot).collect());
                different(foreign.iter().map(|(reference, _)| *reference).collect());
                accesses += own.len() + foreign.len();
                updates += own.iter().chain(foreign).filter(|(_, updates)| *updates).count();
            }
        }
        assert_eq!(accesses as u32, 1000 * settings.accesses());
        let share = updates as f64 / accesses as f64;
        assert!((share - 0.2).abs() < 0.01, "{share}");
        // One of six orders of three objects.
        assert!((100..240).contains(&sorted), "{sorted}");
        let settings = Objects { order: Order::Ascending, ..settings };
        for _ in 0..100 {
            assert!(Plan::choose(&settings, &mut rng).visits.is_sorted_by_key(|visit| visit.object));
        }
    }

    #[test]
    fn references_lead_to_others() {
        let mut rng = Rng::from_seed(1);
        let references = choose_references(&Objects::small(), 15, &mut rng);
        assert_eq!(references.len(), 20);
        assert!(references.iter().all(|(object, slot)| *object != 15 && *object < 30 && *slot < 150));
    }
}
