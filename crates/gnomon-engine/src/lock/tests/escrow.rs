//! Escrow against a reference that tries every outcome: of each owner any number of its first changes may be left.

use super::*;
use crate::{env::Rng, lock::escrow::*};

const OWNERS: usize = 4;
const QUANTITY: u32 = 7;

/// The actions of an owner so far: its changes, each with its bounds, the net after it, and whether it was refused.
#[derive(Clone, Debug, Default)]
struct Deeds(Vec<(Claim, i128, bool)>);

impl Deeds {
    fn net(&self) -> i128 {
        self.0.iter().filter(|(.., refused)| !refused).map(|(claim, ..)| claim.delta).sum()
    }

    /// The nets that may be left.
    fn outcomes(&self) -> Vec<i128> {
        let granted = self.0.iter().filter(|(.., refused)| !refused);
        std::iter::once(0).chain(granted.map(|(_, net, _)| *net)).collect()
    }

    /// True if its answers hold at the value that others have made.
    fn holds_at(&self, others: i128) -> bool {
        self.0
            .iter()
            .all(|(claim, net, refused)| (claim.min..=claim.max).contains(&(others + net)) != *refused)
    }
}

/// The values that others may have made.
fn values_without(value: i128, deeds: &[Deeds], without: usize) -> Vec<i128> {
    let others = deeds.iter().enumerate().filter(|(owner, _)| *owner != without);
    others.fold(vec![value], |values, (_, deeds)| {
        values.iter().flat_map(|value| deeds.outcomes().into_iter().map(move |net| value + net)).collect()
    })
}

fn all_true(value: i128, deeds: &[Deeds]) -> bool {
    (0..deeds.len()).all(|owner| {
        values_without(value, deeds, owner).into_iter().all(|others| deeds[owner].holds_at(others))
    })
}

#[test]
fn what_was_told_stays_true_whatever_others_do() {
    let mut seen = [0; 3];
    for seed in 0..3000 {
        let mut rng = Rng::from_seed(seed);
        let mut escrow = Escrow::default();
        let mut value = i128::from(rng.below(12) as u32);
        let mut deeds: Vec<Deeds> = vec![Deeds::default(); OWNERS];
        let mut undo: Vec<Vec<Replaced>> = vec![Vec::new(); OWNERS];
        for _ in 0..30 {
            let owner = rng.below(OWNERS as u64) as usize;
            let txn = TxnId(owner as u64);
            match rng.below(8) {
                0 => {
                    let committed = rng.chance(2, 3);
                    if committed {
                        assert!(deeds[owner].holds_at(value), "seed {seed}: {:?} at {value}", deeds[owner]);
                        value += deeds[owner].net();
                    }
                    escrow.end(txn, committed);
                    deeds[owner] = Deeds::default();
                    undo[owner].clear();
                }
                1 => {
                    if let Some(replaced) = undo[owner].pop() {
                        escrow.restore(txn, &replaced, false);
                        deeds[owner].0.pop();
                    }
                }
                _ => {
                    let delta = i128::from(rng.below(9) as u32) - 4;
                    let (min, max) = match rng.below(3) {
                        0 => (i128::from(rng.below(8) as u32), i128::MAX),
                        1 => (i128::MIN, i128::from(rng.below(12) as u32)),
                        _ => (i128::from(rng.below(4) as u32), 4 + i128::from(rng.below(9) as u32)),
                    };
                    let claim = Claim { quantity: QUANTITY, value, delta, min, max };
                    let net = deeds[owner].net() + delta;
                    let values = values_without(value, &deeds, owner);
                    let mut granted = deeds.clone();
                    granted[owner].0.push((claim, net, false));
                    // Of a range, others could leap from one side to the other, which is not looked for.
                    let keeps_refusal = min == i128::MIN || max == i128::MAX;
                    match escrow.request(txn, &[claim], keeps_refusal) {
                        Some(Claimed { refused: None, replaced }) => {
                            seen[0] += 1;
                            undo[owner].push(replaced);
                            deeds = granted;
                            assert!(all_true(value, &deeds), "seed {seed}: {deeds:?} of {value}");
                        }
                        Some(Claimed { refused: Some(place), replaced }) => {
                            seen[1] += 1;
                            assert_eq!(place, 0);
                            let can_be = |others: &i128| (min..=max).contains(&(others + net));
                            assert!(!values.iter().any(can_be), "seed {seed}: {claim:?} of {values:?}");
                            if keeps_refusal {
                                undo[owner].push(replaced);
                                deeds[owner].0.push((claim, net, true));
                                assert!(all_true(value, &deeds), "seed {seed}: {deeds:?} of {value}");
                            }
                        }
                        None => {
                            seen[2] += 1;
                            assert!(!all_true(value, &granted), "seed {seed}: it could have been granted");
                            let sure = values.iter().all(|others| others + net < min)
                                || values.iter().all(|others| others + net > max);
                            assert!(!sure, "seed {seed}: it could have been refused");
                        }
                    }
                }
            }
        }
    }
    assert!(seen.into_iter().all(|count| count > 1000), "{seen:?}");
}

#[test]
fn claims_of_one_request_are_granted_together_or_not_at_all() {
    let mut escrow = Escrow::default();
    let claim = |quantity, delta, min| Claim { quantity, value: 5, delta, min, max: i128::MAX };
    let ask = |escrow: &mut Escrow, txn, claims: &[Claim]| {
        escrow.request(TxnId(txn), claims, false).map(|claimed| claimed.refused)
    };
    assert_eq!(ask(&mut escrow, 1, &[claim(1, 0, 3), claim(1, -3, 0), claim(2, -6, 0)]), Some(Some(2)));
    assert!(!escrow.holds(TxnId(1)));
    assert_eq!(ask(&mut escrow, 1, &[claim(1, 0, 3), claim(1, -3, 0), claim(2, -5, 0)]), Some(None));
    assert_eq!(ask(&mut escrow, 2, &[claim(1, -3, 0)]), None);
    assert_eq!(ask(&mut escrow, 2, &[claim(1, -6, 0)]), Some(Some(0)));
    // The condition of the first one was at least 3, without what it takes itself.
    assert_eq!(ask(&mut escrow, 2, &[claim(1, -2, 0)]), Some(None));
    escrow.end(TxnId(1), true);
    assert_eq!(ask(&mut escrow, 2, &[claim(1, -1, 0)]), Some(Some(0)));
    assert_eq!(ask(&mut escrow, 3, &[claim(1, 0, 1)]), None);
    escrow.end(TxnId(2), false);
    assert_eq!(ask(&mut escrow, 3, &[claim(1, 0, 1)]), Some(None));
}

#[test]
fn claims_wait_are_decided_when_others_end_and_take_their_turn() {
    let manager = manager();
    let mut t: Vec<Actor> = (0..4).map(|txn| Actor::new(&manager, txn)).collect();
    let row = key(b"row");
    let take = |delta: i128| [Claim { quantity: 1, value: 10, delta: -delta, min: 0, max: i128::MAX }];
    for actor in &mut t {
        assert!(actor.ask(row, ADD).unwrap());
    }
    assert!(t[0].claim(row, &take(8), false).unwrap());
    assert!(!t[1].claim(row, &take(6), false).unwrap());
    // It could have it, but not before the one that waits for more.
    assert!(!t[2].claim(row, &take(1), false).unwrap());
    let shown = manager.snapshot();
    assert_eq!(shown.iter().filter(|lock| lock.waiting_since.is_some()).count(), 2);
    assert_eq!(shown.iter().find(|lock| !lock.pending.is_empty()).unwrap().pending[0].low, -8);
    // An owner that holds something already does not wait behind others: they may be waiting for it.
    assert!(t[0].claim(row, &take(1), false).unwrap());
    t[0].owner.release_committed();
    assert!(matches!(t[1].poll(), Some(Ok(()))) && t[1].refused == Some(0));
    assert!(matches!(t[2].poll(), Some(Ok(()))) && t[2].refused.is_none());
    assert!(t[3].claim(row, &take(2), false).unwrap() && t[3].refused == Some(0));
    assert!(!t[3].claim(row, &take(1), false).unwrap());
    t[2].owner.release_all();
    assert!(matches!(t[3].poll(), Some(Ok(()))) && t[3].refused.is_none());
}

#[test]
fn going_back_gives_back_what_was_claimed_and_keeps_what_was_told() {
    let manager = manager();
    let mut t: Vec<Actor> = (0..2).map(|txn| Actor::new(&manager, txn)).collect();
    let row = key(b"row");
    let add = |delta: i128, min: i128| [Claim { quantity: 1, value: 10, delta, min, max: i128::MAX }];
    t.iter_mut().for_each(|actor| assert!(actor.ask(row, ADD).unwrap()));
    let mark = t[0].owner.mark();
    assert!(t[0].claim(row, &add(-10, 0), false).unwrap());
    assert!(!t[1].claim(row, &add(-1, 0), false).unwrap());
    t[0].owner.release_since(mark);
    assert!(matches!(t[1].poll(), Some(Ok(()))) && t[1].refused.is_none());
    let mark = t[0].owner.mark();
    assert!(t[0].claim(row, &add(0, 20), true).unwrap() && t[0].refused == Some(0));
    t[0].owner.weaken_since(mark, |_, mode| mode);
    // That there are less than 20 was told, and stays so.
    assert!(!t[1].claim(row, &add(30, 0), false).unwrap());
    t[0].owner.release_all();
    assert!(matches!(t[1].poll(), Some(Ok(()))) && t[1].refused.is_none());
}

#[test]
fn claims_that_wait_for_each_other_are_a_deadlock() {
    let manager = manager();
    let mut t: Vec<Actor> = (0..2).map(|txn| Actor::new(&manager, txn)).collect();
    let take = |delta: i128| [Claim { quantity: 1, value: 10, delta: -delta, min: 0, max: i128::MAX }];
    for (actor, row) in [(0, key(b"a")), (0, key(b"b")), (1, key(b"a")), (1, key(b"b"))] {
        assert!(t[actor].ask(row, ADD).unwrap());
    }
    assert!(t[0].claim(key(b"a"), &take(6), false).unwrap());
    assert!(t[1].claim(key(b"b"), &take(6), false).unwrap());
    assert!(!t[0].claim(key(b"b"), &take(6), false).unwrap());
    assert!(matches!(t[1].claim(key(b"a"), &take(6), false), Err(Error::Deadlock)));
    assert!(t[0].poll().is_none());
    t[1].owner.release_all();
    assert!(matches!(t[0].poll(), Some(Ok(()))) && t[0].refused.is_none());
}

#[test]
fn a_class_of_operations_admits_those_it_commutes_with_and_nothing_else() {
    let manager = manager();
    let mut t: Vec<_> = (0..3).map(|txn| manager.owner(TxnId(txn))).collect();
    assert!(t[0].try_lock(key(b"a"), ADD) && t[1].try_lock(key(b"a"), Mode::new(8)));
    for (mode, both) in [
        (key_mode::S, key_mode::NKU),
        (key_mode::U, key_mode::NKU),
        (key_mode::X, key_mode::X),
        (key_mode::NKU, key_mode::NKU),
        (APPEND, key_mode::NKU),
    ] {
        assert!(!t[2].try_lock(key(b"a"), mode), "{}", key_modes().name(mode));
        assert_eq!(key_modes().supremum(ADD, mode), both);
    }
    assert!(
        t[2].try_lock(key(b"a"), key_mode::KS) && t[2].try_lock(key(b"a"), key_mode::P),
        "the key stays there"
    );
    assert_eq!(key_modes().supremum(ADD, key_mode::KS), ADD);
    t[1].release_all();
    assert!(t[0].try_lock(key(b"a"), key_mode::S));
    assert_eq!(t[0].held_mode(key(b"a")), Some(key_mode::NKU));
    let uneven = [vec![true, false], vec![true, true]];
    assert!(KEY_MODES.with_classes(&["A", "B"], &uneven, &[], key_mode::X).is_err());
}
