//! Voter: votes for contestants by telephone (after the example of that name of VoltDB), as registered procedures.
//!
//! A call votes for a contestant. It is accepted if the contestant exists and the phone has not voted too often; then
//! the vote is stored with the state of the phone's area code, and counted by phone and by contestant and state. All
//! of that is one short transaction. A second procedure tells the winner so far.
//!
//! Contestants and area codes are a tree each, which are never written. All else is partitioned by phone number: a
//! partition has a tree of votes, one of votes by phone, and one of votes by contestant and state. Trees are made in a
//! fixed order on a new database, so that their numbers are known.
//!
//! Votes of different phones run beside each other: the counts of contestants are added to without being seen, and are
//! there for every contestant and state from the beginning. Votes of a phone take turns.
//!
//! The invariant: there are as many votes as the phones have and as the contestants have, for each of them, as many as
//! were accepted, and no phone has more than it may.
//!
//! Transactions get the time as a parameter, in microseconds since 1970-01-01 00:00 UTC.

mod area_codes;

use std::{collections::BTreeMap, time::Duration};

use clap::{Args, value_parser};
use gnomon_engine::{
    Applied, Call, Database, Direction, Error, Isolation, KeyRange, Partitions, Placement, Procedure, TreeId,
    TxnOptions, env::Rng, op::number, sync::atomic::AtomicBool,
};
use gnomon_program::Progress;
use serde::{Deserialize, Serialize};

use crate::{
    procedure::{
        CallSource, Calls, compute,
        fields::{At, Reader, Writer},
        make_trees,
    },
    report::Invariant,
    store::Result,
};

pub use area_codes::AREA_CODES;

/// The procedure that votes.
pub const VOTE: &str = "voter.vote";
/// The procedure that tells the winner; it has no parameters.
pub const WINNER: &str = "voter.winner";

/// The state of phones whose area code is in none.
const NO_STATE: [u8; 2] = *b"XX";
/// Numbers behind an area code.
const NUMBERS_PER_AREA: u64 = 10_000_000;
/// Phone numbers have ten digits.
const PHONE_MAX: u64 = 9_999_999_999;

/// The tree of contestants: their names by number.
const CONTESTANTS: TreeId = TreeId(1);
/// The tree of area codes: their states.
const STATES: TreeId = TreeId(2);

/// A tree of each partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    /// The votes, by phone and the number of the phone's vote.
    Votes,
    /// How many votes a phone has.
    ByPhone,
    /// How many votes a contestant has from a state.
    ByContestant,
}

impl Table {
    /// In the order in which they are made.
    const ALL: [Table; 3] = [Table::Votes, Table::ByPhone, Table::ByContestant];
}

/// The tree of a table in a partition. The first tree of a database is number 1.
fn tree(table: Table, partition: u16) -> TreeId {
    TreeId(STATES.0 + 1 + u64::from(partition) * Table::ALL.len() as u64 + table as u64)
}

fn partition(phone: u64, partitions: u16) -> u16 {
    (phone % u64::from(partitions)) as u16
}

/// A phone as a key: big-endian.
fn phone_key(phone: u64) -> [u8; 5] {
    let [_, _, _, key @ ..] = phone.to_be_bytes();
    key
}

/// A vote of a phone, which counts from 1.
fn vote_key(phone: u64, number: u8) -> [u8; 6] {
    let [a, b, c, d, e] = phone_key(phone);
    [a, b, c, d, e, number]
}

fn count_key(contestant: u8, state: [u8; 2]) -> [u8; 3] {
    [contestant, state[0], state[1]]
}

/// The fields of a vote.
const VOTE_CONTESTANT: At<u8> = At::first();
const VOTE_STATE: At<[u8; 2]> = VOTE_CONTESTANT.then();
const VOTE_TIME: At<i64> = VOTE_STATE.then();
const VOTE_BYTES: usize = VOTE_TIME.end();

/// The votes of a phone.
const PHONE_VOTES: At<u8> = At::first();
/// The votes of a contestant in a state.
const COUNT: At<i64> = At::first();

/// The workload, with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct Voter {
    /// Contestants.
    ///
    /// All are equally popular.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = value_parser!(u8).range(1..))]
    pub contestants: u8,
    /// How often a phone may vote.
    ///
    /// Further votes of it are refused, and count as done.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = value_parser!(u8).range(1..))]
    pub votes_per_phone: u8,
    /// Partitions.
    ///
    /// Phone P is in partition P modulo N. Each has trees of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=64))]
    pub partitions: u16,
    /// Computation added to each vote, in microseconds.
    ///
    /// It takes a processor's time, and does nothing.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = value_parser!(u32).range(..=1_000_000))]
    pub compute_us: u32,
}

impl Voter {
    /// Six contestants, two votes a phone.
    pub fn new(partitions: u16) -> Voter {
        Voter { contestants: 6, votes_per_phone: 2, partitions, compute_us: 0 }
    }
}

/// The partition that a call of [`VOTE`] touches, by its parameters.
fn touched(params: &[u8], partitions: u16) -> gnomon_engine::Result<Partitions> {
    Ok(Partitions::One(partition(Vote::decode(params)?.phone, partitions).into()))
}

/// The parameters of [`VOTE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The phone: ten digits.
    pub phone: u64,
    /// The contestant that it is for.
    pub contestant: u8,
    /// How often the phone may vote.
    pub max: u8,
    /// When.
    pub time: i64,
}

impl Vote {
    /// Encodes them, in 18 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::with_capacity(18);
        to.fixed(self.phone).fixed(self.contestant).fixed(self.max).fixed(self.time);
        to.finish()
    }

    /// Decodes them.
    ///
    /// # Errors
    /// They are cut short or too long, or the phone has more than ten digits.
    pub fn decode(params: &[u8]) -> gnomon_engine::Result<Vote> {
        let mut from = Reader::new(params);
        let vote =
            Vote { phone: from.fixed()?, contestant: from.fixed()?, max: from.fixed()?, time: from.fixed()? };
        match vote.phone {
            0..=PHONE_MAX => from.end().map(|()| vote),
            _ => Err(Error::procedure("a phone has ten digits")),
        }
    }
}

/// The answer of [`VOTE`], in a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The vote counts.
    Accepted,
    /// There is no such contestant.
    UnknownContestant,
    /// The phone has voted as often as it may.
    TooManyVotes,
}

/// The procedures that a database of the workload is to be opened with.
pub fn procedures(voter: &Voter) -> Vec<Procedure> {
    let (partitions, added) = (voter.partitions, Duration::from_micros(voter.compute_us.into()));
    // They write to other trees where there are other partitions, and other bytes where fields are encoded otherwise.
    let code = format!("{partitions} {} {}", include_str!("mod.rs"), include_str!("../fields.rs"));
    vec![
        Procedure::new(VOTE, &code, move |call, params| {
            compute(added);
            vote(call, partitions, params).map(|answer| vec![answer as u8])
        })
        // Of parameters that are cut short the procedure tells.
        .with_partitions(move |params| touched(params, partitions).unwrap_or(Partitions::All)),
        Procedure::new(WINNER, &code, move |call, _| winner(call, partitions)),
    ]
}

fn vote(call: &mut Call<'_>, partitions: u16, params: &[u8]) -> gnomon_engine::Result<Answer> {
    let Vote { phone, contestant, max, time } = Vote::decode(params)?;
    if call.get(CONTESTANTS, &[contestant])?.is_none() {
        return Ok(Answer::UnknownContestant);
    }
    let partition = partition(phone, partitions);
    let phone_key = phone_key(phone);
    let votes = call.get_for_update(tree(Table::ByPhone, partition), &phone_key)?;
    let votes = votes.map_or(Ok(0), |votes| PHONE_VOTES.get(&votes))?;
    if votes >= max {
        return Ok(Answer::TooManyVotes);
    }
    let area = ((phone / NUMBERS_PER_AREA) as u16).to_be_bytes();
    let state = call.get(STATES, &area)?;
    let state = state.map_or(Ok(NO_STATE), |state| At::first().get(&state))?;
    let mut row = [0; VOTE_BYTES];
    VOTE_CONTESTANT.set(&mut row, contestant)?;
    VOTE_STATE.set(&mut row, state)?;
    VOTE_TIME.set(&mut row, time)?;
    call.insert(tree(Table::Votes, partition), &vote_key(phone, votes + 1), &row)?;
    call.put(tree(Table::ByPhone, partition), &phone_key, &[votes + 1])?;
    // Last, since this is what votes of different phones have in common.
    let count_key = count_key(contestant, state);
    match call.apply(tree(Table::ByContestant, partition), &count_key, &number::add(1))? {
        Applied::Done => Ok(Answer::Accepted),
        Applied::Absent | Applied::Refused(_) => Err(Error::procedure("a count of votes cannot be added to")),
    }
}

/// Answers with the number and the name of the contestant with most votes, of several the one with the smallest number;
/// then the votes of all.
fn winner(call: &mut Call<'_>, partitions: u16) -> gnomon_engine::Result<Vec<u8>> {
    let mut votes = BTreeMap::new();
    let mut contestants = call.scan(CONTESTANTS, KeyRange::all(), Direction::Forward)?;
    while let Some((key, name)) = call.next(&mut contestants)? {
        votes.insert(At::<u8>::first().get(&key)?, (0_i64, name));
    }
    for partition in 0..partitions {
        let mut counts =
            call.scan(tree(Table::ByContestant, partition), KeyRange::all(), Direction::Forward)?;
        while let Some((key, count)) = call.next(&mut counts)? {
            if let Some((sum, _)) = votes.get_mut(&At::<u8>::first().get(&key)?) {
                *sum += COUNT.get(&count)?;
            }
        }
    }
    let best = votes.iter().rev().max_by_key(|(_, (sum, _))| *sum);
    let (number, (_, name)) = best.ok_or_else(|| Error::procedure("there are no contestants"))?;
    let mut answer = Writer::with_capacity(32 + votes.len() * 9);
    answer.fixed(*number).text(name);
    for (number, (sum, _)) in &votes {
        answer.fixed(*number).fixed(*sum);
    }
    Ok(answer.finish())
}

/// Makes the trees of a new database and fills them: contestants, area codes, and counts of zero.
///
/// # Errors
/// Those of the database, and that it is not new.
pub fn load(db: &Database, voter: &Voter) -> Result<()> {
    let of_partitions = (0..voter.partitions).flat_map(|partition| {
        Table::ALL.map(|table| (tree(table, partition), Placement::Partition(partition.into())))
    });
    let for_all = [CONTESTANTS, STATES].map(|tree| (tree, Placement::Replicated));
    make_trees(db, for_all.into_iter().chain(of_partitions))?;
    let mut txn = db.begin(TxnOptions::default())?;
    for contestant in 1..=voter.contestants {
        let name = format!("Contestant {contestant}");
        txn.put(CONTESTANTS, &[contestant], name.as_bytes())?;
    }
    for (state, codes) in AREA_CODES {
        for code in codes {
            txn.put(STATES, &code.to_be_bytes(), &state)?;
        }
    }
    for partition in 0..voter.partitions {
        for contestant in 1..=voter.contestants {
            for state in AREA_CODES.into_iter().map(|(state, _)| state).chain([NO_STATE]) {
                let key = count_key(contestant, state);
                txn.put(tree(Table::ByContestant, partition), &key, &0_i64.to_le_bytes())?;
            }
        }
    }
    txn.commit()?;
    Ok(())
}

/// Checks that the votes, those of phones and those of contestants are the same, and are `accepted` if that is given.
/// Reads durable data only.
///
/// # Errors
/// Those of the database, and rows that are cut short.
pub fn check(db: &Database, voter: &Voter, accepted: Option<u64>) -> Result<Invariant> {
    let options = TxnOptions { isolation: Isolation::Snapshot, read_only: true, ..TxnOptions::default() };
    let mut txn = db.begin(options)?;
    let (mut votes, mut of_phones, mut of_contestants, mut above, mut differ) = (0_u64, 0_u64, 0_i64, 0, 0);
    for partition in 0..voter.partitions {
        // What the votes say of contestants and states, less what was counted.
        let mut counts: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        // Both are in the order of phones.
        let mut rows = txn.scan(tree(Table::Votes, partition), KeyRange::all(), Direction::Forward)?;
        let mut phones = txn.scan(tree(Table::ByPhone, partition), KeyRange::all(), Direction::Forward)?;
        let (mut row, mut phone) = (rows.next(&mut txn)?, phones.next(&mut txn)?);
        loop {
            let of_row = row.as_ref().map(|(key, _)| At::first().get(key)).transpose()?;
            let of_phone = phone.as_ref().map(|(key, _)| At::first().get(key)).transpose()?;
            let Some(next) = of_row.into_iter().chain(of_phone).min() else { break };
            let next: [u8; 5] = next;
            let mut cast = 0;
            while let Some((_, vote)) = row.take_if(|(key, _)| key.starts_with(&next)) {
                cast += 1;
                let count = count_key(VOTE_CONTESTANT.get(&vote)?, VOTE_STATE.get(&vote)?);
                *counts.entry(count.into()).or_default() += 1;
                row = rows.next(&mut txn)?;
            }
            let counted = match phone.take_if(|(key, _)| key.starts_with(&next)) {
                Some((_, counted)) => {
                    phone = phones.next(&mut txn)?;
                    PHONE_VOTES.get(&counted)?.into()
                }
                None => 0,
            };
            (votes, of_phones) = (votes + cast, of_phones + counted);
            above += u64::from(counted > voter.votes_per_phone.into());
            differ += u64::from(counted != cast);
        }
        let mut cursor =
            txn.scan(tree(Table::ByContestant, partition), KeyRange::all(), Direction::Forward)?;
        while let Some((key, row)) = cursor.next(&mut txn)? {
            let count = COUNT.get(&row)?;
            of_contestants += count;
            differ += u64::from(counts.remove(&key).unwrap_or(0) != count);
        }
        differ += counts.len() as u64;
    }
    let same = votes == of_phones && i64::try_from(votes) == Ok(of_contestants) && differ == 0;
    let holds = same && above == 0 && accepted.is_none_or(|accepted| accepted == votes);
    let detail = if holds {
        format!(
            "phones and contestants have the {votes} votes that there are, no phone has more than {}",
            voter.votes_per_phone
        )
    } else {
        let expected = accepted.map_or_else(String::new, |accepted| format!(" instead of {accepted}"));
        format!(
            "there are {votes} votes{expected}, phones have {of_phones}, contestants {of_contestants}; of {differ} \
             phones or counts it is not what the votes say, {above} phones have more than {}",
            voter.votes_per_phone
        )
    };
    Ok(Invariant { holds, detail })
}

/// Callers: choose votes, one after another. All area codes are equally likely, and so are all numbers behind them.
#[derive(Clone, Debug)]
pub struct Callers {
    voter: Voter,
    areas: Vec<u16>,
    rng: Rng,
}

impl Callers {
    /// Those of a seed.
    pub fn new(voter: &Voter, seed: u64) -> Callers {
        let areas = AREA_CODES.iter().flat_map(|(_, codes)| codes.iter().copied()).collect();
        Callers { voter: *voter, areas, rng: Rng::from_seed(seed) }
    }

    /// The next phone.
    pub fn phone(&mut self) -> u64 {
        let area = self.areas[self.rng.below(self.areas.len() as u64) as usize];
        u64::from(area) * NUMBERS_PER_AREA + self.rng.below(NUMBERS_PER_AREA)
    }

    /// The next call: the name of the procedure, and its parameters. `now` is the time that it has.
    pub fn next(&mut self, now: i64) -> (&'static str, Vec<u8>) {
        let phone = self.phone();
        let contestant = self.rng.below(self.voter.contestants.into()) as u8 + 1;
        let vote = Vote { phone, contestant, max: self.voter.votes_per_phone, time: now };
        (VOTE, vote.encode())
    }
}

impl CallSource for Callers {
    fn next(&mut self, now: i64) -> (usize, Vec<u8>) {
        (0, Callers::next(self, now).1)
    }
}

impl Calls for Voter {
    const NAME: &'static str = "voter";
    const KINDS: &'static [(&'static str, &'static str)] = &[("vote", VOTE)];

    fn partitions(&self) -> u32 {
        self.partitions.into()
    }

    fn procedures(&self) -> Vec<Procedure> {
        procedures(self)
    }

    fn load(&self, db: &Database, _: u64, _: &mut Progress, _: &AtomicBool) -> Result<()> {
        load(db, self)
    }

    fn clients(&self, count: usize, seed: u64) -> Vec<Box<dyn CallSource>> {
        let mut seeds = Rng::from_seed(seed);
        (0..count).map(|_| Box::new(Callers::new(self, seeds.next_u64())) as Box<dyn CallSource>).collect()
    }

    fn is_refusal(_: &Error) -> bool {
        false
    }

    fn is_stored(answer: &[u8]) -> bool {
        answer == [Answer::Accepted as u8]
    }

    fn check(&self, db: &Database, committed: Option<&[u64]>) -> Result<Invariant> {
        check(db, self, committed.and_then(|committed| committed.first().copied()))
    }
}

#[cfg(test)]
mod tests {
    use gnomon_engine::{
        Options, Records, Recovery,
        disk::SimDisk,
        sync::{Arc, thread},
    };

    use super::*;

    fn options(voter: &Voter) -> Options {
        Options { procedures: procedures(voter), seed: Some(1), ..Options::default() }
    }

    fn loaded(voter: &Voter) -> Database {
        let db = Database::in_memory(options(voter)).unwrap();
        load(&db, voter).unwrap();
        db
    }

    impl Answer {
        fn decode(answer: &[u8]) -> gnomon_engine::Result<Answer> {
            match answer {
                [0] => Ok(Answer::Accepted),
                [1] => Ok(Answer::UnknownContestant),
                [2] => Ok(Answer::TooManyVotes),
                _ => Err(Error::procedure("that is no answer to a vote")),
            }
        }
    }

    /// What [`WINNER`] answers, decoded.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Winner {
        /// Who has most votes; of several the one with the smallest number.
        contestant: u8,
        /// The winner's name.
        name: String,
        /// The votes of all contestants, with their numbers.
        votes: Vec<(u8, i64)>,
    }

    impl Winner {
        fn decode(answer: &[u8]) -> gnomon_engine::Result<Winner> {
            let mut from = Reader::new(answer);
            let mut winner = Winner { contestant: from.fixed()?, name: from.string()?, votes: Vec::new() };
            while !from.rest().is_empty() {
                winner.votes.push((from.fixed()?, from.fixed()?));
            }
            Ok(winner)
        }
    }

    fn cast(db: &Database, vote: Vote) -> Answer {
        Answer::decode(&db.call(VOTE, &vote.encode()).unwrap()).unwrap()
    }

    fn winner(db: &Database) -> Winner {
        Winner::decode(&db.call(WINNER, &[]).unwrap()).unwrap()
    }

    fn dump(db: &Database, voter: &Voter) -> Vec<(u64, Vec<u8>, Vec<u8>)> {
        let mut txn = db.begin(TxnOptions { read_only: true, ..TxnOptions::default() }).unwrap();
        let mut rows = Vec::new();
        for number in 1..=tree(Table::ByContestant, voter.partitions - 1).0 {
            let mut cursor = txn.scan(TreeId(number), KeyRange::all(), Direction::Forward).unwrap();
            while let Some((key, value)) = cursor.next(&mut txn).unwrap() {
                rows.push((number, key, value));
            }
        }
        rows
    }

    #[test]
    fn votes_are_accepted_or_refused_and_counted() {
        let voter = Voter::new(3);
        let db = loaded(&voter);
        let vote = Vote { phone: 2_125_550_123, contestant: 2, max: 2, time: 7 };
        assert_eq!(cast(&db, Vote { contestant: 7, ..vote }), Answer::UnknownContestant);
        assert_eq!(cast(&db, Vote { contestant: 0, ..vote }), Answer::UnknownContestant);
        assert_eq!((winner(&db).contestant, &winner(&db).name[..]), (1, "Contestant 1"));
        assert_eq!(cast(&db, vote), Answer::Accepted);
        assert_eq!(cast(&db, Vote { contestant: 3, time: 8, ..vote }), Answer::Accepted);
        assert_eq!(cast(&db, vote), Answer::TooManyVotes);
        // An area code of no state.
        assert_eq!(cast(&db, Vote { phone: 5_550_123, contestant: 3, ..vote }), Answer::Accepted);
        let won = winner(&db);
        assert_eq!((won.contestant, &won.name[..]), (3, "Contestant 3"));
        assert_eq!(won.votes, [(1, 0), (2, 1), (3, 2), (4, 0), (5, 0), (6, 0)]);
        assert!(check(&db, &voter, Some(3)).unwrap().holds && !check(&db, &voter, Some(4)).unwrap().holds);
        let mut txn = db.begin(TxnOptions::default()).unwrap();
        let trees = Table::ALL.map(|table| tree(table, partition(vote.phone, 3)));
        let row = txn.get(trees[0], &vote_key(vote.phone, 2)).unwrap().unwrap();
        assert_eq!(row, [&b"\x03NY"[..], &8_i64.to_le_bytes()].concat());
        assert_eq!(txn.get(trees[1], &phone_key(vote.phone)).unwrap().unwrap(), [2]);
        assert_eq!(txn.get(trees[2], &count_key(3, *b"NY")).unwrap().unwrap(), 1_i64.to_le_bytes());
        assert!(load(&db, &voter).unwrap_err().to_string().contains("not new"));
        assert!(db.call(VOTE, &[]).is_err());
    }

    #[test]
    fn parameters_come_back_and_name_their_partition() {
        let voter = Voter::new(5);
        let mut callers = Callers::new(&voter, 1);
        let mut areas = std::collections::BTreeSet::new();
        for now in 0..10_000 {
            let (name, params) = callers.next(now);
            let vote = Vote::decode(&params).unwrap();
            assert!(name == VOTE && params.len() < 20 && vote.encode() == params);
            assert!((1..=6).contains(&vote.contestant) && vote.max == 2 && vote.time == now);
            assert!((2_000_000_000..=PHONE_MAX).contains(&vote.phone));
            assert_eq!(touched(&params, 5).unwrap(), Partitions::One((vote.phone % 5) as u32));
            areas.insert(vote.phone / NUMBERS_PER_AREA);
        }
        assert_eq!(areas.len(), callers.areas.len());
        let params = Vote { phone: PHONE_MAX + 1, contestant: 1, max: 2, time: 0 }.encode();
        assert!(Vote::decode(&params).is_err() && touched(&params[1..], 5).is_err());
        assert!(Answer::decode(&[3]).is_err());
    }

    #[test]
    fn callers_beside_each_other_keep_the_invariant() {
        let voter = Voter { contestants: 14, ..Voter::new(2) };
        let db = loaded(&voter);
        let accepted: u64 = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|seed| {
                    let (db, voter) = (&db, &voter);
                    scope.spawn(move || {
                        let mut callers = Callers::new(voter, seed);
                        let mut accepted = 0;
                        for now in 0..1000 {
                            let mut vote = Vote::decode(&callers.next(now).1).unwrap();
                            // So few that many of them vote too often.
                            vote.phone -= vote.phone % NUMBERS_PER_AREA - vote.phone % 5;
                            accepted += u64::from(cast(db, vote) == Answer::Accepted);
                        }
                        accepted
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!((1000..4000).contains(&accepted), "{accepted}");
        let found = check(&db, &voter, Some(accepted)).unwrap();
        assert!(found.holds, "{found:?}");
        let won = winner(&db);
        assert_eq!(won.votes.iter().map(|(_, votes)| *votes).sum::<i64>(), accepted as i64);
        assert_eq!(won.votes.len(), 14);
    }

    #[test]
    fn a_crash_loses_no_vote_whatever_is_logged() {
        let voter = Voter::new(2);
        for records in [Records::Calls, Records::Values] {
            let disk = SimDisk::new(1);
            let options = || Options { recovery: Some(Recovery::CommitLog(records)), ..options(&voter) };
            let db = Database::open_on(Arc::new(disk.clone()), options()).unwrap();
            load(&db, &voter).unwrap();
            let mut callers = Callers::new(&voter, 2);
            (0..300).for_each(|now| {
                let (name, params) = callers.next(now);
                db.call(name, &params).unwrap();
            });
            let image = disk.crash_image(1);
            let recovered = Database::open_on(Arc::new(image), options()).unwrap();
            assert!(dump(&recovered, &voter) == dump(&db, &voter), "{records:?}");
            assert!(check(&recovered, &voter, Some(300)).unwrap().holds);
        }
    }

    #[test]
    fn a_damage_is_noticed() {
        let voter = Voter::new(1);
        let phone = 9_070_000_001;
        let votes = tree(Table::Votes, 0);
        let damages: [(TreeId, Vec<u8>, Option<Vec<u8>>); 5] = [
            (votes, vote_key(phone, 2).into(), None),
            (tree(Table::ByPhone, 0), phone_key(phone).into(), Some(vec![3])),
            (tree(Table::ByPhone, 0), phone_key(phone).into(), None),
            (tree(Table::ByContestant, 0), count_key(1, *b"AK").into(), Some(3_i64.to_le_bytes().into())),
            (votes, vote_key(phone, 1).into(), Some([&b"\x02AK"[..], &[0; 8]].concat())),
        ];
        for (tree, key, value) in damages {
            let db = loaded(&voter);
            for time in 0..2 {
                assert_eq!(cast(&db, Vote { phone, contestant: 1, max: 2, time }), Answer::Accepted);
            }
            assert!(check(&db, &voter, None).unwrap().holds);
            let mut txn = db.begin(TxnOptions::default()).unwrap();
            match value {
                Some(value) => txn.put(tree, &key, &value).unwrap(),
                None => assert!(txn.delete(tree, &key).unwrap()),
            }
            txn.commit().unwrap();
            let found = check(&db, &voter, None).unwrap();
            assert!(!found.holds && found.detail.contains("phones have"), "{found:?}");
        }
    }
}
