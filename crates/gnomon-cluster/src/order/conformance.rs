//! The duties of every [`OrderedLog`], as tests that each of them runs; a [`Ledger`] says what is right.

use std::time::Duration;

use gnomon_engine::{
    env::{Clock, Rng, SystemClock},
    sync::{Arc, thread},
};

use super::{Appended, BTreeMap, Batch, Ledger, LogError, Member, MemberInfo, OrderedLog, Refused};
use crate::protocol::{Entry, TxnName};

/// How long what takes place at some time may take.
const LONG: Duration = Duration::from_secs(10);

pub(super) fn entry(member: u64, number: u64) -> Entry {
    Entry::Begin(TxnName { member: Member(member), number })
}

pub(super) fn batch(sequence: u64, entries: &[Entry]) -> Batch {
    Batch { sequence, entries: entries.to_vec() }
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    let begun = clock.now();
    while !is_so() {
        assert!(clock.now() - begun < LONG, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// All batches that were appended after a revision.
pub(super) fn all_after(log: &dyn OrderedLog, mut revision: u64) -> Vec<Appended> {
    let (newest, mut all) = (log.newest().unwrap(), Vec::new());
    while revision < newest {
        all.extend(log.after(revision, LONG).unwrap());
        revision = all.last().map_or(revision, |last: &Appended| last.revision);
    }
    all.retain(|appended| !appended.entries.is_empty());
    all
}

/// Runs all of them, with new handles of a new log.
pub(super) fn conforms<L: OrderedLog + 'static>(handle: impl Fn() -> L) {
    does_what_a_ledger_does(&handle);
    wakes_who_waits(&handle);
    says_who_is_gone(&handle);
    trims(&handle);
    knows_its_data_and_what_is_needed(&handle);
}

/// A member here and in the ledger.
struct Twin<L> {
    log: L,
    name: String,
    here: Member,
    there: Member,
    appended: u64,
}

fn does_what_a_ledger_does<L: OrderedLog>(handle: &impl Fn() -> L) {
    let (mut ledger, mut rng) = (Ledger::default(), Rng::from_seed(7));
    let reader = handle();
    assert_eq!(reader.newest(), Ok(0));
    let mut twins: Vec<Twin<L>> = Vec::new();
    let mut names = BTreeMap::new();
    for number in 0..3 {
        let (log, name) = (handle(), format!("twin {number}"));
        let (here, there) = (log.join(&name, "here").unwrap(), ledger.join(&name, "here").unwrap());
        names.insert(there, here);
        twins.push(Twin { log, name, here, there, appended: 0 });
    }
    for number in 0..120 {
        let twin = &mut twins[rng.below(3) as usize];
        match rng.below(20) {
            0 => {
                assert_eq!(
                    reader.join(&twin.name, "here"),
                    Err(Refused::NameInUse(twin.name.clone()).into())
                );
            }
            1 => {
                // Of a member that is there, another one says nothing; itself, it leaves and comes back.
                reader.gone(twin.here).unwrap();
                (0..2).for_each(|_| twin.log.gone(twin.here).unwrap());
                ledger.gone(twin.there);
                let late = batch(twin.appended + 1, &[entry(9, 9)]);
                assert_eq!(twin.log.append(twin.here, &late), Err(Refused::Fenced.into()));
                twin.here = twin.log.join(&twin.name, "here").unwrap();
                twin.there = ledger.join(&twin.name, "here").unwrap();
                assert!(!names.values().any(|known| *known == twin.here));
                names.insert(twin.there, twin.here);
                twin.appended = 0;
            }
            _ => {
                // Mostly the next one, and also the last one again, one before, and one that is too early.
                let next = twin.appended + 1;
                let sequence = [next, next, next, next, next - 1, next.saturating_sub(2), next + 1]
                    [rng.below(7) as usize];
                let entries: Vec<Entry> = (0..=rng.below(3)).map(|index| entry(number, index)).collect();
                let here = twin.log.append(twin.here, &batch(sequence, &entries));
                let there = ledger.append(twin.there, sequence, entries).map_err(LogError::from);
                twin.appended = twin.appended.max(if there.is_ok() { sequence } else { 0 });
                assert_eq!(here.is_ok(), there.is_ok(), "{here:?} {there:?}");
                if here.is_err() {
                    assert_eq!(here, there);
                }
            }
        }
    }
    let here = all_after(&reader, 0);
    let there: Vec<Vec<Entry>> =
        ledger.after(0, usize::MAX).unwrap().into_iter().map(|all| all.entries).collect();
    let named = |entry: &Entry| match entry {
        Entry::Gone(member) => Entry::Gone(names[member]),
        entry => entry.clone(),
    };
    let there: Vec<Vec<Entry>> = there.iter().map(|batch| batch.iter().map(named).collect()).collect();
    assert_eq!(here.iter().map(|all| all.entries.clone()).collect::<Vec<_>>(), there);
    assert!(here.is_sorted_by(|one, next| one.revision < next.revision));
    assert_eq!(here.last().unwrap().revision, reader.newest().unwrap());
    let middle = here.len() / 2;
    assert_eq!(all_after(&reader, here[middle].revision), here[middle + 1..]);
    assert_eq!(reader.after(here.last().unwrap().revision, Duration::from_millis(1)), Ok(Vec::new()));
    let mut members: Vec<Member> = reader.members().unwrap().iter().map(|info| info.member).collect();
    members.sort_unstable();
    let mut expected: Vec<Member> = twins.iter().map(|twin| twin.here).collect();
    expected.sort_unstable();
    assert_eq!(members, expected);
    twins.iter().for_each(|twin| twin.log.gone(twin.here).unwrap());
    assert_eq!(reader.members(), Ok(Vec::new()));
}

fn wakes_who_waits<L: OrderedLog + 'static>(handle: &impl Fn() -> L) {
    let (log, reader) = (handle(), Arc::new(handle()));
    let member = log.join("waker", "here").unwrap();
    let newest = log.newest().unwrap();
    let waiting = {
        let reader = reader.clone();
        thread::spawn(move || reader.after(newest, LONG).unwrap())
    };
    thread::sleep(Duration::from_millis(100));
    let revision = log.append(member, &batch(1, &[entry(1, 1)])).unwrap();
    let expected = [Appended::new(revision, vec![entry(1, 1)])];
    assert_eq!(waiting.join().unwrap(), expected);
    assert_eq!(reader.after(newest, LONG).unwrap(), expected, "asked for again");
    log.gone(member).unwrap();
}

fn says_who_is_gone<L: OrderedLog>(handle: &impl Fn() -> L) {
    let (one, two, other) = (handle(), handle(), handle());
    let members = [one.join("one", "here").unwrap(), two.join("two", "here").unwrap()];
    let before = other.newest().unwrap();
    other.gone(members[0]).unwrap();
    assert_eq!(other.members().unwrap().iter().filter(|info| info.is_alive).count(), 2);
    drop((one, two));
    eventually("they are not heard of", || other.members().unwrap().iter().all(|info| !info.is_alive));
    assert_eq!(other.members().unwrap().len(), 2);
    (0..2).for_each(|_| other.gone(members[0]).unwrap());
    let two_again = other.join("two", "here").unwrap();
    assert_eq!(other.members().unwrap().iter().map(|info| info.member).collect::<Vec<_>>(), [two_again]);
    let said: Vec<Entry> = all_after(&other, before).into_iter().flat_map(|all| all.entries).collect();
    assert_eq!(said, members.map(Entry::Gone));
    // Where it is reached does not make it another one.
    other.reached_at(two_again, "there").unwrap();
    assert_eq!(
        other.members().unwrap(),
        [MemberInfo { member: two_again, name: "two".into(), address: "there".into(), is_alive: true }]
    );
    other.gone(two_again).unwrap();
    assert_eq!(other.reached_at(two_again, "here"), Err(Refused::Fenced.into()));
}

fn trims<L: OrderedLog>(handle: &impl Fn() -> L) {
    let (log, reader) = (handle(), handle());
    let member = log.join("trimmer", "here").unwrap();
    let revisions: Vec<u64> =
        (1..=5).map(|number| log.append(member, &batch(number, &[entry(1, number)])).unwrap()).collect();
    log.trim(0).unwrap();
    log.trim(revisions[2]).unwrap();
    assert_eq!(all_after(&reader, revisions[2]).len(), 2);
    let Err(LogError::Refused(Refused::Trimmed { from })) = handle().after(0, LONG) else {
        panic!("what is not kept was followed");
    };
    assert_eq!(from, revisions[2]);
    log.trim(revisions[0]).unwrap();
    assert_eq!(all_after(&reader, revisions[2]).len(), 2);
    log.trim(u64::MAX).unwrap();
    assert_eq!(log.newest(), Ok(revisions[4]));
    assert_eq!(handle().after(revisions[4], Duration::from_millis(1)), Ok(Vec::new()));
    let next = log.append(member, &batch(6, &[entry(1, 6)])).unwrap();
    assert_eq!(handle().after(revisions[4], LONG).unwrap()[0].revision, next);
    log.gone(member).unwrap();
}

fn knows_its_data_and_what_is_needed<L: OrderedLog>(handle: &impl Fn() -> L) {
    let (log, other) = (handle(), handle());
    assert_eq!(log.data(None), Ok(None));
    assert_eq!(log.data(Some(7)), Ok(Some(7)));
    assert_eq!(other.data(Some(8)), Ok(Some(7)));
    assert_eq!(other.data(None), Ok(Some(7)));
    let member = log.join("keeper", "there:1").unwrap();
    let found = other.members().unwrap().into_iter().find(|info| info.member == member).unwrap();
    assert_eq!((&*found.name, &*found.address, found.is_alive), ("keeper", "there:1", true));
    log.keep_after(member, 5).unwrap();
    log.keep_after(member, 6).unwrap();
    assert_eq!(other.keep_nothing("keeper"), Ok(false), "he is there");
    assert_eq!(other.kept_after(), Ok(BTreeMap::from([("keeper".to_owned(), 6)])));
    assert_eq!(other.keep_after(member, 9), Err(Refused::Fenced.into()));
    log.gone(member).unwrap();
    assert_eq!(log.keep_after(member, 9), Err(Refused::Fenced.into()));
    assert_eq!(other.kept_after(), Ok(BTreeMap::from([("keeper".to_owned(), 6)])), "he may come back");
    assert_eq!(other.keep_nothing("keeper"), Ok(true));
    assert_eq!(other.kept_after(), Ok(BTreeMap::new()));
}
