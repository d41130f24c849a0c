//! Single rules, each by a small example.

use std::time::Duration;

use super::*;
use crate::{
    env::{Clock, ManualClock, SystemClock},
    lock::shard::OVERTAKEN_MAX,
    sync::thread,
};

#[test]
fn a_mode_set_that_does_not_fit_is_refused() {
    let good = ModesSpec {
        names: ["S", "X"],
        admits: [[true, false], [false, false]],
        supremum: [[0, 1], [1, 1]],
        one_sided: &[],
        instant: &[],
        weak: &[0],
    };
    assert!(Modes::new(good).is_ok());
    let bad = [
        ModesSpec { admits: [[true, true], [false, false]], ..good },
        ModesSpec { one_sided: &[(0, 1)], ..good },
        ModesSpec { supremum: [[0, 0], [0, 1]], ..good },
        ModesSpec { supremum: [[0, 1], [0, 1]], ..good },
        ModesSpec { supremum: [[1, 1], [1, 1]], ..good },
        ModesSpec { supremum: [[0, 2], [2, 1]], ..good },
        ModesSpec { instant: &[2], ..good },
        ModesSpec { weak: &[2], ..good },
        ModesSpec { weak: &[1], ..good },
        ModesSpec { weak: &[0, 1], ..good },
    ];
    for spec in bad {
        assert!(Modes::new(spec).is_err(), "{spec:?}");
    }
    let none = ModesSpec { names: [], admits: [], supremum: [], one_sided: &[], instant: &[], weak: &[] };
    assert!(Modes::new(none).is_err());
    let held_only_together = ModesSpec {
        names: ["A", "B", "AB"],
        admits: [[true, false, false], [false, true, false], [false; 3]],
        supremum: [[0, 2, 2], [2, 1, 2], [2, 2, 2]],
        one_sided: &[],
        instant: &[2],
        weak: &[],
    };
    assert!(Modes::new(held_only_together).is_err());
    assert!(Modes::new(ModesSpec { instant: &[], ..held_only_together }).is_ok());
    assert_eq!(KEY_MODES.by_name("U"), Some(key_mode::U));
    assert_eq!(KEY_MODES.by_name("IX"), None);
    assert!(KEY_MODES.admits(key_mode::S, key_mode::U) && !KEY_MODES.admits(key_mode::U, key_mode::S));
    assert_eq!(TREE_MODES.supremum(tree_mode::S, tree_mode::IX), tree_mode::SIX);
}

#[test]
fn locks_are_held_in_the_supremum_and_released() {
    let manager = manager();
    let mut t1 = manager.owner(TxnId(1));
    let wait = WaitOptions::default();
    let tree = LockName::whole(TREES, 7);
    t1.lock(tree, tree_mode::S, &wait).unwrap();
    t1.lock(tree, tree_mode::IX, &wait).unwrap();
    t1.lock(tree, tree_mode::IS, &wait).unwrap();
    assert_eq!(t1.held_mode(tree), Some(tree_mode::SIX));
    assert_eq!(t1.held_count(), 1);
    let mut t2 = manager.owner(TxnId(2));
    assert!(t2.try_lock(tree, tree_mode::IS));
    assert!(!t2.try_lock(tree, tree_mode::IX));
    let nowait = WaitOptions { nowait: true, ..wait };
    assert!(matches!(t2.lock(tree, tree_mode::S, &nowait), Err(Error::LockTimeout)));
    assert_eq!(t2.held_mode(tree), Some(tree_mode::IS));
    assert!(t1.release(tree) && !t1.release(tree));
    assert!(t2.try_lock(tree, tree_mode::X));
    drop(t2);
    assert!(manager.snapshot().is_empty());
}

#[test]
fn readers_at_a_snapshot_mind_nobody_but_the_end_of_a_tree() {
    let manager = manager();
    let tree = LockName::whole(TREES, 7);
    let (mut reader, mut other) = (manager.owner(TxnId(1)), manager.owner(TxnId(2)));
    assert!(reader.try_lock(tree, tree_mode::A));
    for mode in [tree_mode::IS, tree_mode::IX, tree_mode::S, tree_mode::U, tree_mode::SIX, tree_mode::E] {
        assert!(other.try_lock(tree, mode), "{}", TREE_MODES.name(mode));
        other.release_all();
        assert_eq!(TREE_MODES.supremum(tree_mode::A, mode), mode);
    }
    assert!(!other.try_lock(tree, tree_mode::X));
    assert!(other.try_lock(tree, tree_mode::E));
    let mut third = manager.owner(TxnId(3));
    for mode in [tree_mode::IS, tree_mode::IX, tree_mode::S, tree_mode::E, tree_mode::X] {
        assert!(!third.try_lock(tree, mode), "{}", TREE_MODES.name(mode));
    }
    assert!(third.try_lock(tree, tree_mode::A));
}

#[test]
fn weak_locks_leave_their_lists_for_who_wants_more_and_are_in_lists_again_when_it_is_gone() {
    let manager = manager();
    let (tree, other) = (LockName::whole(TREES, 7), LockName::whole(TREES, 8));
    let in_lists = || {
        let mut all = Vec::new();
        manager.weak.visit(|listed| all.push((listed.txn.0, listed.space.name(), listed.mode)));
        all
    };
    let mut owners = [1, 2, 3].map(|txn| manager.owner(TxnId(txn)));
    let [first, second, third] = &mut owners;
    assert!(first.try_lock(tree, tree_mode::IS));
    let mark = first.mark();
    assert!(first.try_lock(tree, tree_mode::IX) && first.try_lock(other, tree_mode::IX));
    assert!(second.try_lock(tree, tree_mode::IX));
    let listed = [(1, tree, tree_mode::IX), (1, other, tree_mode::IX), (2, tree, tree_mode::IX)];
    assert_eq!(in_lists(), listed);
    assert_eq!(
        (first.held_mode(tree), manager.held_mode(TxnId(2), tree)),
        (Some(tree_mode::IX), Some(tree_mode::IX))
    );
    assert_eq!(manager.snapshot().len(), 3);

    assert!(!third.try_lock(tree, tree_mode::S));
    assert_eq!(in_lists(), [(1, other, tree_mode::IX)], "the other tree is nobody's concern");
    assert_eq!(first.held_mode(tree), Some(tree_mode::IX));
    first.release_since(mark);
    assert_eq!((first.held_mode(tree), first.held_mode(other)), (Some(tree_mode::IS), None));
    assert!(!third.try_lock(tree, tree_mode::S));
    second.release_all();
    assert!(third.try_lock(tree, tree_mode::S), "what is shared admits the intention to share");
    assert!(!first.try_lock(tree, tree_mode::IX) && first.try_lock(other, tree_mode::IX));
    assert_eq!(in_lists(), [], "who has met somebody uses shards from then on");
    assert_eq!(first.held_count(), 2);

    third.release_all();
    assert!(second.try_lock(tree, tree_mode::IX));
    assert_eq!(in_lists(), [(2, tree, tree_mode::IX)]);
    first.release_all();
    assert!(first.try_lock(tree, tree_mode::IX) && !first.try_lock(tree, tree_mode::X));
    assert_eq!((first.held_mode(tree), in_lists()), (Some(tree_mode::IX), vec![]));
    second.release_all();
    assert!(first.try_lock(tree, tree_mode::X));
    owners.iter_mut().for_each(LockOwner::release_all);
    assert_eq!(manager.snapshot(), []);
}

#[test]
fn a_weak_lock_that_was_moved_is_weakened_kept_released_and_visited_as_any_other() {
    let manager = manager();
    let trees = [1, 2, 3].map(|space| LockName::whole(TREES, space));
    let begin = |contends: bool| {
        let (mut owner, mut contender) = (manager.owner(TxnId(1)), manager.owner(TxnId(2)));
        assert!(owner.try_lock(trees[0], tree_mode::IS));
        let mark = owner.mark();
        assert!(owner.try_lock(trees[0], tree_mode::IX) && owner.try_lock(trees[1], tree_mode::IX));
        if contends {
            assert!(trees[..2].iter().all(|tree| !contender.try_lock(*tree, tree_mode::X)));
        }
        assert!(owner.try_lock(trees[2], tree_mode::IS));
        (owner, contender, mark)
    };
    let held = |owner: &LockOwner| {
        let mut held = Vec::new();
        owner.visit_held(|name, mode| held.push((name.space, TREE_MODES.name(mode))));
        held.sort_unstable();
        held
    };
    for contends in [false, true] {
        let (mut owner, _contender, mark) = begin(contends);
        assert_eq!(held(&owner), [(1, "IX"), (2, "IX"), (3, "IS")]);
        owner.weaken_since(mark, |_, _| tree_mode::IS);
        assert_eq!(held(&owner), [(1, "IS"), (2, "IS"), (3, "IS")]);
        owner.release_since(mark);
        assert_eq!(held(&owner), [(1, "IS")]);
        drop(owner);

        let (mut owner, _contender, mark) = begin(contends);
        owner.keep(trees[1]);
        owner.release_since(mark);
        assert_eq!(held(&owner), [(1, "IS"), (2, "IX")]);
        assert!(owner.release(trees[0]) && !owner.release(trees[0]));
        assert_eq!((held(&owner), owner.held_count()), (vec![(2, "IX")], 1));
        drop(owner);

        let (mut owner, mut contender, _) = begin(contends);
        owner.release_where(|name| name.space < 3);
        assert_eq!(held(&owner), [(3, "IS")]);
        assert!(contender.try_lock(trees[0], tree_mode::X) && !contender.try_lock(trees[2], tree_mode::X));
        drop(owner);
        assert!(contender.try_lock(trees[2], tree_mode::X));
    }
    assert_eq!(manager.snapshot(), []);
}

#[test]
fn an_owner_locks_more_spaces_than_a_list_takes() {
    let manager = manager();
    let mut owner = manager.owner(TxnId(1));
    let trees = || (0..200).map(|space| LockName::whole(TREES, space));
    for tree in trees() {
        owner.lock(tree, tree_mode::IX, &WaitOptions::default()).unwrap();
    }
    assert_eq!((owner.held_count(), manager.snapshot().len()), (200, 200));
    assert!(trees().all(|tree| owner.held_mode(tree) == Some(tree_mode::IX)));
    let mut stranger = manager.owner(TxnId(2));
    assert!(trees().all(|tree| !stranger.try_lock(tree, tree_mode::X)));
    owner.release_all();
    assert!(trees().all(|tree| stranger.try_lock(tree, tree_mode::X)));
}

#[test]
fn a_lock_that_is_kept_outlives_what_is_gone_back_to() {
    let manager = manager();
    let tree = LockName::whole(TREES, 7);
    let mut owner = manager.owner(TxnId(1));
    assert!(owner.try_lock(tree, tree_mode::IX) && owner.try_lock(key(b"a"), key_mode::X));
    let mark = owner.mark();
    assert!(owner.try_lock(key(b"b"), key_mode::S) && owner.try_lock(key(b"b"), key_mode::X));
    assert!(owner.try_lock(LockName::key(KEYS, 2, b"c"), key_mode::X));
    assert!(owner.try_lock(tree, tree_mode::E));
    owner.keep(tree);
    owner.release_where(|name| name.table == KEYS && name.space == 1);
    assert_eq!(owner.held_count(), 2);
    let mut held = Vec::new();
    owner.visit_held(|name, mode| held.push((name.table, name.space, mode)));
    assert_eq!(held, [(TREES, 7, tree_mode::E), (KEYS, 2, key_mode::X)]);
    owner.release_since(mark);
    assert_eq!((owner.held_count(), owner.held_mode(tree)), (1, Some(tree_mode::E)));
    let mark = owner.mark();
    assert!(owner.try_lock(tree, tree_mode::X));
    owner.release_since(mark);
    assert_eq!(owner.held_mode(tree), Some(tree_mode::E));
    owner.release_all();
    assert!(manager.snapshot().is_empty());
}

#[test]
fn names_that_look_alike_are_different_locks() {
    let manager = manager();
    let mut owners: Vec<_> = (0..9).map(|txn| manager.owner(TxnId(txn))).collect();
    let names = [
        LockName::whole(KEYS, 1),
        LockName::end(KEYS, 1),
        LockName::key(KEYS, 1, b""),
        LockName::key(KEYS, 1, b"\0"),
        LockName::key(KEYS, 1, b"\0\0\0\0\0\0\0\0"),
        LockName::key(KEYS, 1, b"\0\0\0\0\0\0\0\0\0"),
        LockName::key(KEYS, 2, b""),
        LockName::whole(KEYS, 2),
        LockName::whole(GAPS, 1),
    ];
    for (owner, name) in owners.iter_mut().zip(names) {
        assert!(owner.try_lock(name, Mode::new(2)), "{name:?}");
    }
    assert_eq!(manager.snapshot().len(), names.len());
}

#[test]
fn a_savepoint_takes_conversions_back() {
    let manager = manager();
    let (mut t1, mut t2) = (Actor::new(&manager, 1), Actor::new(&manager, 2));
    assert!(t1.ask(key(b"a"), key_mode::S).unwrap());
    let outer = t1.owner.mark();
    assert!(t1.ask(key(b"b"), key_mode::X).unwrap());
    let inner = t1.owner.mark();
    assert!(t1.ask(key(b"a"), key_mode::X).unwrap());
    assert!(t1.ask(key(b"c"), key_mode::X).unwrap());
    assert!(t1.owner.release(key(b"c")));
    assert!(t1.ask(key(b"d"), key_mode::U).unwrap());
    assert!(!t2.ask(key(b"a"), key_mode::S).unwrap());
    t1.owner.release_since(inner);
    assert!(matches!(t2.poll(), Some(Ok(()))), "the share fits the share of before");
    assert_eq!(t1.owner.held_mode(key(b"a")), Some(key_mode::S));
    assert_eq!(t1.owner.held_mode(key(b"b")), Some(key_mode::X));
    assert_eq!(t1.owner.held_mode(key(b"d")), None);
    assert_eq!(t1.owner.held_count(), 2);
    t1.owner.release_since(outer);
    assert_eq!(t1.owner.held_count(), 1);
    t1.owner.release_all();
    drop(t2);
    assert!(manager.snapshot().is_empty());
}

#[test]
fn a_savepoint_can_leave_weaker_locks() {
    let manager = manager();
    let (mut t1, mut t2) = (Actor::new(&manager, 1), Actor::new(&manager, 2));
    assert!(t1.ask(key(b"a"), key_mode::S).unwrap());
    assert!(t1.ask(key(b"b"), key_mode::U).unwrap());
    let mark = t1.owner.mark();
    for name in [b"a", b"b", b"c"] {
        assert!(t1.ask(key(name), key_mode::X).unwrap());
    }
    assert!(!t2.ask(key(b"c"), key_mode::S).unwrap());
    for _ in 0..2 {
        t1.owner.weaken_since(mark, |_, _| key_mode::S);
        assert_eq!(t1.owner.held_mode(key(b"a")), Some(key_mode::S));
        assert_eq!(t1.owner.held_mode(key(b"b")), Some(key_mode::U), "as strong as it was");
        assert_eq!(t1.owner.held_mode(key(b"c")), Some(key_mode::S));
        assert_eq!(t1.owner.held_count(), 3);
    }
    assert!(matches!(t2.poll(), Some(Ok(()))));
    t1.owner.release_since(mark);
    assert_eq!((t1.owner.held_count(), t1.owner.held_mode(key(b"c"))), (2, None));
    t1.owner.release_all();
    drop(t2);
    assert!(manager.snapshot().is_empty());
}

#[test]
fn early_releases_leave_marks_and_logs_in_order() {
    let manager = manager();
    let mut t1 = manager.owner(TxnId(1));
    assert!(t1.try_lock(key(b"a"), key_mode::S));
    let mark = t1.mark();
    assert!(t1.release(key(b"a")));
    assert!(t1.try_lock(key(b"b"), key_mode::S));
    t1.release_since(mark);
    assert_eq!(t1.held_mode(key(b"b")), None, "it was taken after the mark");
    assert_eq!(t1.held_count(), 0);
}

#[test]
fn many_locks_of_one_owner_are_given_back_with_their_memory() {
    let manager = manager();
    let mut t1 = manager.owner(TxnId(1));
    for round in 0..3_u32 {
        for number in 0..50_000_u32 {
            assert!(t1.try_lock(key(&number.to_be_bytes()), key_mode::X), "round {round}");
        }
        assert_eq!(t1.held_count(), 50_000);
        assert_eq!(t1.held_mode(key(&4711_u32.to_be_bytes())), Some(key_mode::X));
        t1.release_all();
    }
    assert!(manager.snapshot().is_empty());
}

#[test]
fn an_instant_mode_waits_and_leaves_nothing() {
    let manager = manager();
    let name = LockName::whole(PASSES, 1);
    let (shared, pass) = (Mode::new(0), Mode::new(2));
    let (mut t1, mut t2, mut t3) =
        (Actor::new(&manager, 1), Actor::new(&manager, 2), Actor::new(&manager, 3));
    assert!(t2.ask(name, pass).unwrap());
    assert!(manager.snapshot().is_empty());
    assert!(t1.ask(name, shared).unwrap());
    assert!(!t2.ask(name, pass).unwrap());
    assert!(!t3.ask(name, pass).unwrap());
    t1.owner.release_all();
    assert!(matches!(t2.poll(), Some(Ok(()))) && matches!(t3.poll(), Some(Ok(()))));
    assert_eq!(t2.owner.held_count(), 0);
    assert!(manager.snapshot().is_empty());
}

#[test]
fn the_dearest_owner_is_spared() {
    let manager = manager();
    let (mut t1, mut t2) = (Actor::new(&manager, 1), Actor::new(&manager, 2));
    t2.owner.set_weight(10);
    assert!(t1.ask(key(b"a"), key_mode::X).unwrap());
    assert!(t2.ask(key(b"b"), key_mode::X).unwrap());
    assert!(!t1.ask(key(b"b"), key_mode::X).unwrap());
    assert!(!t2.ask(key(b"a"), key_mode::X).unwrap());
    assert!(matches!(t1.poll(), Some(Err(Error::Deadlock))));
    t1.owner.release_all();
    assert!(matches!(t2.poll(), Some(Ok(()))));
}

#[test]
fn the_rule_of_the_one_that_asks_names_the_victim() {
    for (rule, older_is_victim) in
        [(Victim::LeastLost, false), (Victim::Youngest, false), (Victim::Requester, true)]
    {
        let manager = manager();
        let (mut older, mut younger) = (Actor::new(&manager, 1), Actor::new(&manager, 2));
        older.owner.set_victim(rule);
        assert!(older.ask(key(b"a"), key_mode::X).unwrap());
        assert!(younger.ask(key(b"b"), key_mode::X).unwrap());
        assert!(!younger.ask(key(b"a"), key_mode::X).unwrap());
        let asked = older.ask(key(b"b"), key_mode::X);
        assert_eq!(matches!(asked, Err(Error::Deadlock)), older_is_victim, "{rule:?}");
        let (victim, other) =
            if older_is_victim { (&mut older, &mut younger) } else { (&mut younger, &mut older) };
        assert!(older_is_victim || matches!(victim.poll(), Some(Err(Error::Deadlock))), "{rule:?}");
        victim.owner.release_all();
        assert!(matches!(other.poll(), Some(Ok(()))), "{rule:?}");
    }
}

#[test]
fn who_only_waits_between_two_that_deadlock_is_no_victim() {
    let manager = manager();
    let [mut t1, mut t2, mut between] = [1, 2, 3].map(|txn| Actor::new(&manager, txn));
    assert!(t1.ask(key(b"a"), key_mode::X).unwrap());
    assert!(t2.ask(key(b"b"), key_mode::X).unwrap());
    assert!(!between.ask(key(b"a"), key_mode::X).unwrap());
    assert!(!t2.ask(key(b"a"), key_mode::X).unwrap());
    assert!(!t1.ask(key(b"b"), key_mode::X).unwrap());
    assert!(matches!(t2.poll(), Some(Err(Error::Deadlock))));
    t2.owner.release_all();
    assert!(matches!(t1.poll(), Some(Ok(()))) && between.poll().is_none());
    t1.owner.release_all();
    assert!(matches!(between.poll(), Some(Ok(()))));
}

#[test]
fn one_request_may_need_two_victims() {
    let manager = manager();
    let mut t: Vec<_> = (0..4).map(|txn| Actor::new(&manager, txn)).collect();
    t[3].owner.set_weight(10);
    for reader in [1, 2] {
        assert!(t[reader].ask(key(b"a"), key_mode::S).unwrap());
    }
    assert!(t[3].ask(key(b"b"), key_mode::X).unwrap());
    for reader in [1, 2] {
        assert!(!t[reader].ask(key(b"b"), key_mode::S).unwrap());
    }
    assert!(!t[3].ask(key(b"a"), key_mode::X).unwrap());
    for reader in [1, 2] {
        assert!(matches!(t[reader].poll(), Some(Err(Error::Deadlock))));
        t[reader].owner.release_all();
    }
    assert!(matches!(t[3].poll(), Some(Ok(()))));
}

#[test]
fn a_snapshot_shows_holders_then_the_queue_and_since_when() {
    let clock = Arc::new(ManualClock::default());
    let manager = LockManager::new(tables(), clock.clone());
    let mut t: Vec<_> = (0..3).map(|txn| Actor::new(&manager, txn)).collect();
    for actor in t.iter_mut().rev() {
        clock.advance(Duration::from_secs(1));
        actor.ask(LockName::key(GAPS, 9, b"\xffz"), gap_mode::SCAN_INSERT).unwrap();
    }
    let lock = |txn, waiting_since: Option<u64>| LockInfo {
        table: "gap",
        space: 9,
        part: "\\xffz".to_owned(),
        txn: TxnId(txn),
        mode: "ScanInsert",
        waiting_since: waiting_since.map(Duration::from_secs),
        pending: Vec::new(),
        claims: Vec::new(),
    };
    assert_eq!(manager.snapshot(), [lock(2, None), lock(1, Some(2)), lock(0, Some(3))]);
    assert!(t[0].give_up().is_none());
    assert!(t[1].give_up().is_none());
}

#[test]
fn who_is_granted_a_lock_in_its_sleep_can_be_overtaken_so_often_and_no_more() {
    let manager = manager();
    let [mut holder, mut sleeper, mut behind] = [1, 2, 3].map(|txn| Actor::new(&manager, txn));
    assert!(holder.ask(key(b"a"), key_mode::X).unwrap());
    assert!(!sleeper.ask(key(b"a"), key_mode::S).unwrap());
    assert!(!behind.ask(key(b"a"), key_mode::X).unwrap());
    holder.owner.release_all();
    for _ in 0..OVERTAKEN_MAX {
        assert!(holder.ask(key(b"a"), key_mode::X).unwrap());
        // Awake, it finds that it has to wait still.
        assert!(sleeper.poll().is_none());
        holder.owner.release_all();
    }
    assert!(!holder.ask(key(b"a"), key_mode::X).unwrap(), "the lock is the sleeper's now");
    assert!(matches!(sleeper.poll(), Some(Ok(()))));
    assert!(behind.poll().is_none());
    sleeper.owner.release_all();
    assert!(matches!(behind.poll(), Some(Ok(()))) && holder.poll().is_none(), "queues are fair");
}

#[test]
fn in_a_table_of_turns_nobody_is_overtaken() {
    let manager = manager();
    let [mut holder, mut sleeper] = [1, 2].map(|txn| Actor::new(&manager, txn));
    let turn = LockName::whole(TURNS, 1);
    assert!(holder.ask(turn, key_mode::X).unwrap());
    assert!(!sleeper.ask(turn, key_mode::X).unwrap());
    holder.owner.release_all();
    assert!(!holder.ask(turn, key_mode::X).unwrap(), "the lock is the sleeper's");
    assert!(matches!(sleeper.poll(), Some(Ok(()))));
    sleeper.owner.release_all();
    assert!(matches!(holder.poll(), Some(Ok(()))));
}

#[test]
fn who_is_awake_is_not_overtaken() {
    let manager = manager();
    let [mut first, mut second, mut third] = [1, 2, 3].map(|txn| Actor::new(&manager, txn));
    assert!(first.ask(key(b"a"), key_mode::S).unwrap());
    assert!(!second.ask(key(b"a"), key_mode::X).unwrap());
    first.owner.release_all();
    assert!(matches!(second.poll(), Some(Ok(()))));
    assert!(!third.ask(key(b"a"), key_mode::S).unwrap());
    second.owner.release_all();
    assert!(matches!(third.poll(), Some(Ok(()))));
}

/// One lock goes back to what it was at a mark, with others taken before and since; and going back further does not undo it
/// twice.
#[test]
fn one_lock_is_taken_back_to_a_mark() {
    let manager = manager();
    let (mut owner, mut other) = (manager.owner(TxnId(1)), manager.owner(TxnId(2)));
    let savepoint = owner.mark();
    assert!(owner.try_lock(key(b"a"), key_mode::S) && owner.try_lock(key(b"b"), key_mode::X));
    let inner = owner.mark();
    let mark = owner.mark();
    assert!(owner.try_lock(key(b"a"), key_mode::NKU) && owner.try_lock(key(b"a"), key_mode::X));
    assert!(owner.try_lock(key(b"c"), key_mode::X) && owner.try_lock(key(b"b"), key_mode::S));
    assert!(!other.try_lock(key(b"a"), key_mode::S));
    owner.take_back(key(b"a"), mark);
    assert_eq!(owner.held_mode(key(b"a")), Some(key_mode::S));
    owner.take_back(key(b"b"), mark);
    assert_eq!(owner.held_mode(key(b"b")), Some(key_mode::X), "it was held so before");
    assert!(other.try_lock(key(b"a"), key_mode::S));
    owner.take_back(key(b"c"), mark);
    assert_eq!((owner.held_mode(key(b"c")), owner.held_count()), (None, 2));
    assert!(owner.try_lock(key(b"d"), key_mode::X));
    owner.release_since(inner);
    assert_eq!((owner.held_mode(key(b"a")), owner.held_count()), (Some(key_mode::S), 2));
    owner.release_since(savepoint);
    assert_eq!(owner.held_count(), 0);
    assert!(other.try_lock(key(b"b"), key_mode::X) && other.try_lock(key(b"a"), key_mode::X));
}

/// A request that looks for deadlocks later finds one later, and a wait that is over before finds none.
#[test]
fn a_deadlock_is_looked_for_when_the_time_has_come() {
    let manager = manager();
    let after = Duration::from_millis(50);
    let wait = WaitOptions { deadlock_after: after, ..WaitOptions::default() };
    let (mut first, mut second) = (manager.owner(TxnId(1)), manager.owner(TxnId(2)));
    first.lock(key(b"a"), key_mode::X, &wait).unwrap();
    second.lock(key(b"b"), key_mode::X, &wait).unwrap();
    let clock = SystemClock::new();
    let failed = thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let locked = first.lock(key(b"b"), key_mode::X, &wait);
            first.release_all();
            locked.is_err()
        });
        let locked = second.lock(key(b"a"), key_mode::X, &wait);
        second.release_all();
        [locked.is_err(), waits.join().unwrap()]
    });
    assert!(failed[0] != failed[1], "one of them fails");
    assert!(clock.now() >= after);
}
