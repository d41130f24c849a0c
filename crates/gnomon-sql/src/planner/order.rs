//! The order of inner joins by cost: which sets of members are joined with which, and how.
//!
//! Up to ten members are ordered by dynamic programming over the sets that conditions connect, in trees of any shape.
//! Of more, the two sets whose join has the fewest rows are joined until one is left. Sets that no condition connects
//! are joined only when each is connected with nothing else.

use std::collections::HashMap;

use crate::executor::estimate::{self, EVALUATE, HASH_PROBE, PAIR, RESCAN, hash_cost};

/// The most members that all orders are compared of.
const EXHAUSTIVE_MAX: usize = 10;
/// The most members that are ordered by cost.
pub const MEMBERS_MAX: usize = 32;

/// A set of members, a bit for each.
pub type Set = u64;

/// A member alone.
#[derive(Clone, Copy, Debug)]
pub struct Alone {
    /// Number of rows.
    pub rows: f64,
    /// The cost of all.
    pub cost: f64,
    /// The width of a row in bytes.
    pub width: f64,
}

/// A condition on several members.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The members that it is on.
    pub members: Set,
    /// The fraction of pairs of rows that it leaves.
    pub selectivity: f64,
    /// Of an equality that a hash can decide: the members of its sides.
    pub sides: Option<(Set, Set)>,
}

/// A way to join two sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A hash table of the right side.
    Hash,
    /// All pairs.
    Pairs,
    /// The right side, which is one member, is looked up for each row of the left one.
    Lookup,
}

/// The best way found to a set.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    cost: f64,
    rows: f64,
    /// The sides and the way of their join; none of a single member.
    pub join: Option<(Set, Set, Method)>,
}

/// Tells the cost and rows of a lookup of a member for one row of others; none if no key serves.
pub type Lookups<'l> = dyn FnMut(usize, Set) -> Option<estimate::Lookup> + 'l;

/// The search for an order.
pub struct Order<'o> {
    alone: &'o [Alone],
    links: &'o [Link],
    lookups: &'o mut Lookups<'o>,
    /// Sets of members that are connected with nothing else.
    parts: Vec<Set>,
    best: HashMap<Set, Step>,
}

/// Returns the best steps found, by set, up to the set of all members.
pub fn order<'o>(alone: &'o [Alone], links: &'o [Link], lookups: &'o mut Lookups<'o>) -> HashMap<Set, Step> {
    let single = |at: usize| (1 << at, Step { cost: alone[at].cost, rows: alone[at].rows, join: None });
    let best = (0..alone.len()).map(single).collect();
    let mut search = Order { alone, links, lookups, parts: parts(alone.len(), links), best };
    match alone.len() {
        count if count > EXHAUSTIVE_MAX => search.greedily(),
        _ => search.exhaustively(),
    }
    let all = (1 << alone.len()) - 1;
    if !search.best.contains_key(&all) {
        // Conditions on three members or more connect what no two of them do: now any two sets may be joined.
        search.parts = (0..alone.len()).map(|at| 1 << at).collect();
        search.greedily();
    }
    search.best
}

/// Returns the sets of members that links connect, directly or not.
fn parts(count: usize, links: &[Link]) -> Vec<Set> {
    let mut parts: Vec<Set> = (0..count).map(|at| 1 << at).collect();
    for link in links {
        let (met, mut others): (Vec<Set>, Vec<Set>) =
            parts.iter().partition(|part| **part & link.members != 0);
        others.push(met.iter().fold(0, |sum, part| sum | part));
        parts = others;
    }
    parts
}

impl Order<'_> {
    fn exhaustively(&mut self) {
        let all: Set = (1 << self.alone.len()) - 1;
        for set in 1..=all {
            // Each division of the set, and the same with the sides exchanged.
            let mut left = (set - 1) & set;
            while left > 0 {
                self.consider(left, set ^ left);
                left = (left - 1) & set;
            }
        }
    }

    fn greedily(&mut self) {
        let mut sets: Vec<Set> = (0..self.alone.len()).map(|at| 1 << at).collect();
        while sets.len() > 1 {
            let mut fewest: Option<(f64, Set, Set)> = None;
            for (at, &left) in sets.iter().enumerate() {
                for &right in &sets[at + 1..] {
                    let rows = self.rows_of(left, right);
                    if self.may_join(left, right) && fewest.is_none_or(|(known, ..)| rows < known) {
                        fewest = Some((rows, left, right));
                    }
                }
            }
            let Some((_, left, right)) = fewest else { return };
            self.consider(left, right);
            self.consider(right, left);
            sets.retain(|set| *set != left && *set != right);
            sets.push(left | right);
        }
    }

    /// The links that a join of two sets decides.
    fn links_between(&self, left: Set, right: Set) -> impl Iterator<Item = &Link> {
        let both = left | right;
        self.links.iter().filter(move |link| {
            link.members & left != 0 && link.members & right != 0 && link.members & both == link.members
        })
    }

    fn may_join(&self, left: Set, right: Set) -> bool {
        let is_whole = |set: Set| self.parts.iter().all(|part| part & set == 0 || part & set == *part);
        self.links_between(left, right).next().is_some() || is_whole(left) && is_whole(right)
    }

    /// The rows of the join of two sets.
    fn rows_of(&self, left: Set, right: Set) -> f64 {
        let of = |set: &Set| self.best.get(set).map_or(1.0, |step| step.rows);
        let selectivity: f64 = self.links_between(left, right).map(|link| link.selectivity).product();
        (of(&left) * of(&right) * selectivity).max(1.0)
    }

    /// Compares the ways to join two sets with the best one known to their union.
    fn consider(&mut self, left: Set, right: Set) {
        let (Some(l), Some(r)) = (self.best.get(&left).copied(), self.best.get(&right).copied()) else {
            return;
        };
        if !self.may_join(left, right) {
            return;
        }
        let rows = self.best.get(&(left | right)).map_or_else(|| self.rows_of(left, right), |step| step.rows);
        let is_side = |link: &Link| {
            link.sides
                .is_some_and(|(a, b)| a & left == a && b & right == b || a & right == a && b & left == b)
        };
        let (hashed, others): (Vec<&Link>, Vec<&Link>) =
            self.links_between(left, right).partition(|link| is_side(link));
        let (own, method) = match hashed.is_empty() {
            false => {
                let pairs: f64 = hashed.iter().map(|link| link.selectivity).product();
                let pairs = l.rows * r.rows * pairs;
                let build = hash_cost(r.rows, self.width(right));
                let tests = others.len() as f64 * EVALUATE;
                (build + l.rows * HASH_PROBE + pairs * (PAIR + tests), Method::Hash)
            }
            true => {
                let tests = 1.0 + others.len() as f64;
                (l.rows * r.rows * (PAIR + tests * EVALUATE), Method::Pairs)
            }
        };
        self.keep(left, right, Step { cost: l.cost + r.cost + own, rows, join: Some((left, right, method)) });
        if right.count_ones() == 1
            && let Some(lookup) = (self.lookups)(right.trailing_zeros() as usize, left)
        {
            let cost = l.cost + l.rows * (lookup.cost + RESCAN) + l.rows * lookup.rows * PAIR;
            self.keep(left, right, Step { cost, rows, join: Some((left, right, Method::Lookup)) });
        }
    }

    fn width(&self, set: Set) -> f64 {
        let of = |(at, alone): (usize, &Alone)| if set & (1 << at) != 0 { alone.width } else { 0.0 };
        self.alone.iter().enumerate().map(of).sum()
    }

    fn keep(&mut self, left: Set, right: Set, step: Step) {
        let known = self.best.get(&(left | right));
        if known.is_none_or(|known| step.cost < known.cost) {
            self.best.insert(left | right, step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(rows: &[f64], links: &[(usize, usize, f64)]) -> HashMap<Set, Step> {
        let alone: Vec<Alone> =
            rows.iter().map(|rows| Alone { rows: *rows, cost: rows * 0.01, width: 8.0 }).collect();
        let link = |(a, b, selectivity): &(usize, usize, f64)| Link {
            members: 1 << a | 1 << b,
            selectivity: *selectivity,
            sides: Some((1 << a, 1 << b)),
        };
        let links: Vec<Link> = links.iter().map(link).collect();
        order(&alone, &links, &mut |_, _| None)
    }

    fn join_of(steps: &HashMap<Set, Step>, set: Set) -> (Set, Set, Method) {
        steps[&set].join.expect("a join")
    }

    #[test]
    fn the_table_is_made_of_the_smaller_side() {
        assert_eq!(join_of(&ordered(&[1e3, 1e5], &[(0, 1, 1e-3)]), 0b11), (0b10, 0b01, Method::Hash));
        assert_eq!(join_of(&ordered(&[1e5, 1e3], &[(0, 1, 1e-3)]), 0b11), (0b01, 0b10, Method::Hash));
    }

    #[test]
    fn selective_joins_come_first() {
        // The second and third leave one row of each thousand; joined with the first before, they would be a million.
        let steps = ordered(&[1e3, 1e5, 10.0], &[(0, 1, 1e-2), (1, 2, 1e-6)]);
        let (left, right, _) = join_of(&steps, 0b111);
        assert!([left, right].contains(&0b110), "{left:b} {right:b}");
    }

    #[test]
    fn what_nothing_connects_is_joined_last() {
        let steps = ordered(&[10.0, 1e4, 1e4], &[(1, 2, 1e-4)]);
        let (left, right, method) = join_of(&steps, 0b111);
        assert_eq!((left.min(right), left.max(right), method), (0b001, 0b110, Method::Pairs));
    }

    #[test]
    fn a_condition_on_three_members_does_not_prevent_an_order() {
        let alone = [Alone { rows: 10.0, cost: 0.1, width: 8.0 }; 3];
        let links = [Link { members: 0b111, selectivity: 0.1, sides: None }];
        assert!(order(&alone, &links, &mut |_, _| None).contains_key(&0b111));
    }

    #[test]
    fn many_members_are_ordered_greedily() {
        let rows = vec![100.0; 20];
        let links: Vec<_> = (1..20).map(|at| (at - 1, at, 0.01)).collect();
        assert!(ordered(&rows, &links).contains_key(&((1 << 20) - 1)));
    }
}
