//! Calls of a procedure within the workload, where a log of commits may keep them as such, or they run in partitions. What the procedure does
//! follows from a seed, its parameter, and from what it reads; a model does the same to the expected state.

use super::*;
use crate::{Call, Procedure};

/// What a procedure reads and writes: the database, or the model of it.
trait Store {
    fn get(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn get_for_update(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()>;
    fn insert(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()>;
    fn delete(&mut self, tree: TreeId, key: &[u8]) -> Result<bool>;
    fn append(&mut self, tree: TreeId, key: &[u8], bytes: &[u8]) -> Result<bool>;
    /// The last key below one, and how many there are.
    fn below(&mut self, tree: TreeId, key: &[u8]) -> Result<(Option<Vec<u8>>, usize)>;
    /// Does something and takes it back.
    fn in_vain(&mut self, what: &mut dyn FnMut(&mut dyn Store) -> Result<()>) -> Result<()>;
}

impl Store for Call<'_> {
    fn get(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Call::get(self, tree, key)
    }

    fn get_for_update(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Call::get_for_update(self, tree, key)
    }

    fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        Call::put(self, tree, key, value)
    }

    fn insert(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        Call::insert(self, tree, key, value)
    }

    fn delete(&mut self, tree: TreeId, key: &[u8]) -> Result<bool> {
        Call::delete(self, tree, key)
    }

    fn append(&mut self, tree: TreeId, key: &[u8], bytes: &[u8]) -> Result<bool> {
        Ok(self.apply(tree, key, &bytes::append(bytes))? == Applied::Done)
    }

    fn below(&mut self, tree: TreeId, key: &[u8]) -> Result<(Option<Vec<u8>>, usize)> {
        let range = KeyRange { start: Bound::Unbounded, end: Bound::Excluded(key.to_vec()) };
        let mut cursor = self.scan(tree, range, Direction::Backward)?;
        let mut found = (None, 0);
        while let Some((key, _)) = self.next(&mut cursor)? {
            found.0.get_or_insert(key);
            found.1 += 1;
        }
        Ok(found)
    }

    fn in_vain(&mut self, what: &mut dyn FnMut(&mut dyn Store) -> Result<()>) -> Result<()> {
        let savepoint = self.savepoint();
        what(self)?;
        self.rollback_to(savepoint)
    }
}

fn entries(contents: &mut Contents, tree: TreeId) -> Result<&mut BTreeMap<Vec<u8>, Vec<u8>>> {
    contents.get_mut(&tree).ok_or(Error::NoSuchTree(tree))
}

impl Store for Contents {
    fn get(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(entries(self, tree)?.get(key).cloned())
    }

    fn get_for_update(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Store::get(self, tree, key)
    }

    fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        entries(self, tree)?.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn insert(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        match Store::get(self, tree, key)? {
            Some(_) => Err(Error::KeyExists),
            None => Store::put(self, tree, key, value),
        }
    }

    fn delete(&mut self, tree: TreeId, key: &[u8]) -> Result<bool> {
        Ok(entries(self, tree)?.remove(key).is_some())
    }

    fn append(&mut self, tree: TreeId, key: &[u8], bytes: &[u8]) -> Result<bool> {
        let value = entries(self, tree)?.get_mut(key);
        Ok(value.map(|value| value.extend_from_slice(bytes)).is_some())
    }

    fn below(&mut self, tree: TreeId, key: &[u8]) -> Result<(Option<Vec<u8>>, usize)> {
        let below = entries(self, tree)?.range(..key.to_vec());
        Ok((below.clone().next_back().map(|(key, _)| key.clone()), below.count()))
    }

    fn in_vain(&mut self, what: &mut dyn FnMut(&mut dyn Store) -> Result<()>) -> Result<()> {
        what(&mut self.clone())
    }
}

/// What the procedure does: writes that depend on what it reads, and now and then an error.
fn act(store: &mut dyn Store, seed: u64, trees: &[TreeId]) -> Result<()> {
    let mut rng = Rng::from_seed(seed);
    for _ in 0..1 + rng.below(6) {
        let tree = trees[rng.below(trees.len() as u64) as usize];
        let key = some_key(&mut rng);
        match rng.below(8) {
            0 => {
                let copied = store.get(tree, &key)?.unwrap_or_default();
                store.put(tree, &some_key(&mut rng), &copied)?;
            }
            1 => {
                let mut value = store.get_for_update(tree, &key)?.unwrap_or_default();
                value.truncate(500);
                value.push(rng.below(256) as u8);
                store.put(tree, &key, &value)?;
            }
            2 if store.insert(tree, &key, b"inserted").is_err() => {
                store.delete(tree, &key)?;
            }
            3 if !store.delete(tree, &key)? => {
                store.put(tree, &key, &vec![1; rng.below(2000) as usize])?;
            }
            4 if !store.append(tree, &key, b"appended")? => store.put(tree, &key, b"nothing to append to")?,
            5 => {
                let (last, count) = store.below(tree, &key)?;
                store.put(tree, &last.unwrap_or(key), &count.to_le_bytes())?;
            }
            6 => store.in_vain(&mut |store| {
                let there = store.get(tree, &key)?;
                store.put(tree, &key, &there.unwrap_or_default())?;
                store.append(tree, &key, b"never").map(drop)
            })?,
            7 if rng.chance(1, 4) => return Err(Error::procedure("the seed says no")),
            _ => {}
        }
    }
    Ok(())
}

/// Its parameters: the seed, the trees.
pub(super) fn procedure() -> Procedure {
    Procedure::new("act", "1", |call, params| {
        let mut numbers =
            params.chunks_exact(8).map(|number| u64::from_le_bytes(number.try_into().expect("eight bytes")));
        let seed = numbers.next().expect("a seed");
        act(call, seed, &numbers.map(TreeId).collect::<Vec<_>>())?;
        Ok(params.to_vec())
    })
}

/// Calls the procedure. What it has done is in `current` then, with its commit in `history` and `last`.
pub(super) fn call(
    db: &Database,
    rng: &mut Rng,
    current: &mut State,
    last: &mut Csn,
    history: &mut History,
) -> Result<()> {
    let seed = rng.next_u64();
    let trees: Vec<TreeId> = current.contents.keys().copied().collect();
    if trees.is_empty() {
        return Ok(());
    }
    let params: Vec<u8> =
        [seed].into_iter().chain(trees.iter().map(|tree| tree.0)).flat_map(u64::to_le_bytes).collect();
    let mut next = current.clone();
    let expected = Csn(db.0.inner.store.last_csn().0 + 1);
    let acted = act(&mut next.contents, seed, &trees);
    history.states.insert(expected, next.clone());
    let waits = rng.chance(2, 3) || db.parts().executors.is_some();
    let called = match waits {
        true => db.call("act", &params).map(|_| true),
        false => {
            let parts = db.parts();
            let act = parts.procedures.get("act", &params)?;
            let called = crate::procedure::start_call(&db.0, act, &*parts.clock, &params);
            called.and_then(|(answer, _)| answer).map(|_| false)
        }
    };
    // It may have written nothing.
    let (is_same, is_done) = (next == *current, db.0.inner.store.last_csn() == expected);
    match called {
        Ok(is_durable) => {
            assert!(acted.is_ok() && (is_done || is_same), "{acted:?}");
            if is_done {
                (*current, *last) = (next, expected);
                history.acknowledged = if is_durable { expected } else { history.acknowledged };
            }
        }
        Err(Error::LockTimeout) => assert!(!current.prepared.is_empty(), "nobody holds a lock"),
        Err(Error::Procedure(_)) => assert!(acted.is_err() && !is_done),
        Err(error) => return Err(error),
    }
    if !is_done {
        history.states.remove(&expected);
    }
    Ok(())
}
