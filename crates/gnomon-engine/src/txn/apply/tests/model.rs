//! Interleaved operations compared with a simple reference.

use super::*;

/// A transaction of the model: its own changes of each key, the least value that it relied on after each, and
/// where its savepoints stand in this.
#[derive(Default)]
struct Running {
    txn: Option<Transaction>,
    isolation: Isolation,
    /// The commits that its snapshot may include: so many, of those that there were when it began or since.
    snapshots: Vec<usize>,
    /// The number of commits when it began, until something of the snapshot is told.
    begun: Option<usize>,
    /// By key: the delta, and the bounds that the value was to be within afterwards.
    deeds: Vec<(usize, i64, i64, i64)>,
    savepoints: Vec<(Savepoint, usize)>,
}

impl Running {
    /// True if a value without its own changes is that of its snapshot, of which something is told now.
    fn sees(&mut self, states: &[Vec<i64>], is_seen: impl Fn(&[i64]) -> bool) -> bool {
        if let Some(begun) = self.begun.take() {
            self.snapshots = (begun..states.len()).collect();
        }
        if self.isolation != Isolation::Snapshot {
            self.snapshots = vec![states.len() - 1];
        }
        self.snapshots.retain(|at| is_seen(&states[*at]));
        !self.snapshots.is_empty()
    }

    fn net(&self, key: usize) -> i64 {
        self.deeds.iter().filter(|(of, ..)| *of == key).map(|(_, delta, ..)| delta).sum()
    }
}

/// Interleaved transactions of all isolation levels against a model: what was granted holds when the transaction
/// commits, snapshots see one prefix of the commits, and nothing is lost or doubled. None waits: it is rolled back
/// instead.
#[test]
fn interleaved_transactions_do_what_they_would_one_after_another() {
    const KEYS: usize = 3;
    let name = |key: usize| ["a", "b", "c"][key];
    let seeds = std::env::var("GNOMON_OPERATIONS").map_or(60, |seeds| seeds.parse().unwrap());
    let mut counts = BTreeMap::<&str, u64>::new();
    for seed in 0..seeds {
        let mut rng = Rng::from_seed(seed);
        let db = database();
        let tree = tree_with(&db, &[("a", 10), ("b", 20), ("c", 30)]);
        let mut committed = vec![10, 20, 30];
        let mut states = vec![committed.clone()];
        let mut running: Vec<Running> = (0..5).map(|_| Running::default()).collect();
        for _ in 0..400 {
            let now = &mut running[rng.below(5) as usize];
            let Some(txn) = &mut now.txn else {
                now.isolation = ALL[rng.below(3) as usize];
                let mut txn = begin(&db, now.isolation);
                txn.start_statement().unwrap();
                now.begun = Some(states.len() - 1);
                now.txn = Some(txn);
                continue;
            };
            let key = rng.below(KEYS as u64) as usize;
            let done = match rng.below(12) {
                0 => {
                    let txn = now.txn.take().expect("it runs");
                    if rng.chance(2, 3) {
                        for at in 0..now.deeds.len() {
                            let (key, _, min, max) = now.deeds[at];
                            let before: i64 = now.deeds[..=at]
                                .iter()
                                .filter(|(of, ..)| *of == key)
                                .map(|(_, d, ..)| d)
                                .sum();
                            let value = committed[key] + before;
                            assert!((min..=max).contains(&value), "seed {seed}: {value} in {min}..={max}");
                        }
                        txn.commit().unwrap();
                        *counts.entry("commits").or_default() += 1;
                        (0..KEYS).for_each(|key| committed[key] += now.net(key));
                        states.push(committed.clone());
                    }
                    *now = Running::default();
                    continue;
                }
                1 => {
                    now.savepoints.push((txn.savepoint(), now.deeds.len()));
                    continue;
                }
                2 => {
                    if let Some(&(savepoint, deeds)) = now.savepoints.last() {
                        txn.rollback_to(savepoint).unwrap();
                        now.sees(&states, |_| true);
                        now.deeds.truncate(deeds);
                    }
                    continue;
                }
                3 | 4 => get(txn, tree, name(key)).map(|value| {
                    let base = value - now.net(key);
                    assert!(
                        now.sees(&states, |state| state[key] == base),
                        "seed {seed}: {:?}",
                        now.isolation
                    );
                }),
                _ => {
                    let delta = rng.below(21) as i64 - 10;
                    let (min, max) = (rng.below(4) as i64 * 5, 40 + rng.below(3) as i64 * 10);
                    let call = number::add_within(delta.into(), min.into(), max.into());
                    txn.start_statement().unwrap();
                    txn.apply(tree, name(key).as_bytes(), &call).map(|applied| match applied {
                        Applied::Done => {
                            *counts.entry("granted").or_default() += 1;
                            now.deeds.push((key, delta, min, max));
                        }
                        Applied::Refused(_) => {
                            *counts.entry("refused").or_default() += 1;
                            let net = now.net(key) + delta;
                            let is_refused = |state: &[i64]| !(min..=max).contains(&(state[key] + net));
                            assert!(now.sees(&states, is_refused), "seed {seed}: in {min}..={max}");
                        }
                        Applied::Absent => panic!("seed {seed}: it is there"),
                    })
                }
            };
            match done {
                Ok(()) => {}
                Err(Error::LockTimeout | Error::Serialization(_)) => {
                    *counts.entry("conflicts").or_default() += 1;
                    *now = Running::default();
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        drop(running);
        let values: Vec<i64> = (0..KEYS).map(|key| self::now(&db, tree, name(key))).collect();
        assert_eq!(values, committed, "seed {seed}");
        assert!(db.locks().is_empty());
    }
    assert!(counts.values().all(|count| *count > 100), "{counts:?}");
}
