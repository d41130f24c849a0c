//! Periodic work of a member: it says what it needs of the log, says of others that they are gone, and one of them
//! trims the log and gives it room.

use std::{collections::BTreeMap, time::Duration};

use gnomon_engine::env::Clock;

use super::{Life, Overview, Shared, State, Stopped};
use crate::{
    order::{Foreign, LogError, MemberInfo, OrderedLog},
    protocol::{Entry, Member},
};

/// Bytes of changes after which it is said how far the data are durable: a full log does not take that any more.
const UNSAID_BYTES_MAX: usize = 4 << 20;
/// Bytes of entries without a commit after which one is appended that changes nothing: only commits tell how far data
/// are.
const IDLE_BYTES_MAX: usize = 256 << 10;
/// Bytes that an entry takes in the log beside its changes, about.
const ENTRY_BYTES: usize = 64;
/// Interval at which a member looks; and while the log is full, after which it fills again.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_FULL: Duration = Duration::from_millis(200);
/// Interval at which a member asks whether the log is full, also if it appends nothing.
const FULL_INTERVAL: Duration = Duration::from_secs(10);
/// Interval at which a member checks whether the log says whose data it is for.
const CLAIM_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which a full log is given room, since it does not answer meanwhile: if more was trimmed, and
/// otherwise.
const ROOM_INTERVAL: Duration = Duration::from_secs(5);
const ROOM_INTERVAL_IN_VAIN: Duration = Duration::from_secs(30);

/// The state that a member keeps from one look to the next.
#[derive(Default)]
struct Known {
    /// The revision up to which it has said last that it needs nothing, with its number then.
    said: Option<(Member, u64)>,
    /// True if it has said where it is reached.
    has_said_address: bool,
    /// The members that are not heard of, each with the time when that was first seen.
    silent: BTreeMap<Member, Duration>,
    /// The absent members for which the log is kept, each with the time since when; only while this member trims.
    absent: BTreeMap<String, Duration>,
    /// The revision up to which the log was trimmed.
    trimmed: u64,
    /// When it last asked whether the log is full.
    asked_full_at: Option<Duration>,
    /// When it last checked that the log says whose data it is for.
    claimed_at: Option<Duration>,
    /// When room was made last, and the revision up to which the log was trimmed then.
    made_room: Option<(Duration, u64)>,
}

/// Gives a full log room if no member is there to do it: for a member that cannot join ([`LogError::Full`]).
///
/// # Errors
/// What keeps it from reaching the log.
pub fn make_room_if_alone(log: &dyn OrderedLog) -> Result<(), LogError> {
    let members = log.members()?;
    if members.iter().any(|info| info.is_alive) {
        return Ok(());
    }
    let kept = log.kept_after()?;
    let all_said = members.iter().all(|info| kept.contains_key(&info.name));
    if let Some(upto) = kept.values().min().filter(|_| all_said) {
        log.trim(*upto)?;
    }
    log.make_room()
}

impl Shared {
    /// Looks after all that, until the member has stopped, and has then left if it can.
    pub(super) fn look_after(&self) {
        let mut known = Known::default();
        while self.wait_to_look() {
            match self.look(&mut known) {
                Ok(()) => {}
                Err(error @ (LogError::Unreachable(_) | LogError::Full(_) | LogError::Refused(_))) => {
                    if let LogError::Full(_) = error {
                        self.state.lock().note_full(true);
                    }
                }
                Err(error) => self.stop(Stopped::Log(error)),
            }
        }
        let (why, member) = {
            let state = self.state.lock();
            (state.stopped.clone(), state.machine.member())
        };
        // One that is dropped says so then; another one may never be, and the others are not to wait for that.
        if !matches!(why, Some(Stopped::Left)) {
            let _ = self.log.gone(member);
        }
    }

    /// Waits until it is time to look. False if the member has stopped.
    fn wait_to_look(&self) -> bool {
        let mut state = self.state.lock();
        let pause = if state.is_full { LOOK_FULL } else { LOOK };
        let end = self.clock.now() + pause;
        while state.stopped.is_none() && state.unsaid_bytes < UNSAID_BYTES_MAX && self.clock.now() < end {
            self.to_look.wait_for(&mut state, pause);
        }
        state.unsaid_bytes = 0;
        state.stopped.is_none()
    }

    fn look(&self, known: &mut Known) -> Result<(), LogError> {
        self.append_digests();
        let is_full = self.ask_full(known)?;
        let member = self.say_kept(known, is_full)?;
        self.say_address(known, member)?;
        self.claim_data(known)?;
        let Overview { members, kept_after, newest } = Overview::ask(&*self.log)?;
        {
            let mut state = self.state.lock();
            state.overview = Overview { members: members.clone(), kept_after: kept_after.clone(), newest };
            state.dropped.retain(|name| members.iter().all(|info| info.name != *name));
        }
        if members.iter().all(|info| info.member != member || !info.is_alive) {
            self.state.lock().end_life(member);
            self.to_append.notify_all();
        }
        self.say_gone(known, &members, is_full)?;
        // One of them trims.
        let is_alive = |info: &&MemberInfo| info.is_alive;
        let all = || members.iter();
        let trims =
            all().filter(is_alive).min_by_key(|info| info.member).or(all().min_by_key(|info| info.member));
        if trims.is_none_or(|info| info.member != member) {
            known.absent.clear();
            return Ok(());
        }
        self.append_if_idle();
        self.trim(known, &members, kept_after, is_full)
    }

    /// Makes the log say again whose data it is for, if something else has deleted that: a new member would bring its own.
    fn claim_data(&self, known: &mut Known) -> Result<(), LogError> {
        let now = self.clock.now();
        if known.claimed_at.is_some_and(|at| now.saturating_sub(at) < CLAIM_INTERVAL) {
            return Ok(());
        }
        known.claimed_at = Some(now);
        match self.log.data(Some(self.data)) {
            // What else stands there is told to those that start; a full log takes it later.
            Ok(_) | Err(LogError::Foreign(_) | LogError::Full(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Tells the others what calls have done that nothing was appended behind.
    fn append_digests(&self) {
        let mut state = self.state.lock();
        if state.life == Life::Present && !state.digests.is_empty() {
            state.append_digests();
            self.to_append.notify_one();
        }
    }

    /// Returns true if the log is full. While it is not, it is asked only now and then.
    fn ask_full(&self, known: &mut Known) -> Result<bool, LogError> {
        let (is_full, now) = (self.state.lock().is_full, self.clock.now());
        if !is_full && known.asked_full_at.is_some_and(|at| now.saturating_sub(at) < FULL_INTERVAL) {
            return Ok(false);
        }
        let is_full = self.log.is_full()?;
        known.asked_full_at = Some(now);
        self.state.lock().note_full(is_full);
        Ok(is_full)
    }

    /// Says up to where this member has what was appended, and returns its present number.
    fn say_kept(&self, known: &mut Known, is_full: bool) -> Result<Member, LogError> {
        let newest = if is_full { Some(self.log.newest()?) } else { None };
        let (last, member, has_all) = {
            let state = self.state.lock();
            let last = state.versions.back().map(|(csn, _, position)| (*csn, *position));
            (last, state.machine.member(), newest.is_some_and(|newest| state.has_applied(newest)))
        };
        let Some((csn, position)) = last else { return Ok(member) };
        // Only a durable commit is said, and no other thread may have waited for it.
        if self.applier.database().wait_durable(csn).is_err() {
            return Ok(member);
        }
        // Of its own revision, later entries may be missing.
        let kept_after = position.revision.saturating_sub(1);
        if known.said == Some((member, kept_after)) {
            return Ok(member);
        }
        let mut answer = self.log.keep_after(member, kept_after);
        if let Err(LogError::Full(_)) = answer {
            self.state.lock().note_full(true);
            if has_all {
                answer = self.log.keep_after_when_full(member, kept_after);
            }
        } else if answer.is_ok() {
            known.said = Some((member, kept_after));
        }
        match answer {
            // What was said before can be trimmed; or it must come back as another one.
            Ok(()) | Err(LogError::Full(_) | LogError::Refused(_)) => Ok(member),
            Err(error) => Err(error),
        }
    }

    /// Says where this member is reached, if it has joined before that was known.
    fn say_address(&self, known: &mut Known, member: Member) -> Result<(), LogError> {
        if self.options.joined == Some(member) && !known.has_said_address {
            known.has_said_address = match self.log.reached_at(member, &self.options.address) {
                Ok(()) => true,
                Err(LogError::Full(_) | LogError::Refused(_)) => false,
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    /// Says that members are gone that were not heard of for long.
    fn say_gone(&self, known: &mut Known, members: &[MemberInfo], is_full: bool) -> Result<(), LogError> {
        let now = self.clock.now();
        let silent = members.iter().filter(|info| !info.is_alive);
        let since = |info: &MemberInfo| known.silent.get(&info.member).copied().unwrap_or(now);
        known.silent = silent.map(|info| (info.member, since(info))).collect();
        for (member, since) in &known.silent {
            // Which a full log does not take.
            if now.saturating_sub(*since) >= self.options.silent_max && !is_full {
                self.log.gone(*member)?;
            }
        }
        Ok(())
    }

    /// Appends a commit that changes nothing, if there was none for long.
    fn append_if_idle(&self) {
        let mut state = self.state.lock();
        // What is being applied may be one.
        if state.idle_bytes < IDLE_BYTES_MAX || state.machine.waiting() > 0 || state.life != Life::Present {
            return;
        }
        state.idle_bytes = 0;
        let (number, mut out) = (state.next_number, Vec::new());
        state.next_number += 1;
        state.machine.commit_nothing(number, &mut out);
        state.perform(out);
        self.to_append.notify_one();
    }

    /// Trims the log to what members need, and gives it room if it is full.
    fn trim(
        &self,
        known: &mut Known,
        members: &[MemberInfo],
        mut kept: BTreeMap<String, u64>,
        is_full: bool,
    ) -> Result<(), LogError> {
        let now = self.clock.now();
        // Members that may come back; in a full log, an absent one is waited for only as long as a silent one.
        let absent_max = if is_full { self.options.silent_max } else { self.options.absent_max };
        let is_long = |since: &Duration| now.saturating_sub(*since) >= absent_max;
        let is_absent =
            |name: &String| members.iter().all(|info| info.name != *name || (is_full && !info.is_alive));
        // This one is there, whatever the log says.
        let absent = kept.keys().filter(|name| **name != self.options.name && is_absent(name));
        let silent = |name: &String| {
            let info = members.iter().find(|info| info.name == *name)?;
            known.silent.get(&info.member).copied()
        };
        let since = |name: &String| silent(name).or_else(|| known.absent.get(name).copied()).unwrap_or(now);
        known.absent = absent.map(|name| (name.clone(), since(name))).collect();
        let is_over = |name: &String| known.absent.get(name).is_some_and(is_long);
        // For a member that may not come back, the log is kept only if it needs no more of it than others.
        let needed = kept.iter().filter(|(name, _)| !is_over(name)).map(|(_, upto)| *upto).min();
        let holds_back = |(name, upto): &(&String, &u64)| is_over(name) && needed > Some(**upto);
        let hold_back: Vec<String> = kept.iter().filter(holds_back).map(|(name, _)| name.clone()).collect();
        for name in hold_back {
            // It may be back by now.
            if self.log.keep_nothing(&name)? {
                kept.remove(&name);
                if members.iter().all(|info| info.name != name) {
                    self.state.lock().dropped.insert(name);
                }
            }
        }
        // A member that has not said yet what it needs may need all.
        let needs = |info: &&MemberInfo| !is_full || !known.silent.get(&info.member).is_some_and(is_long);
        let all_said = members.iter().filter(needs).all(|info| kept.contains_key(&info.name));
        let upto = kept.values().min().copied().filter(|_| all_said).unwrap_or(0);
        if upto > known.trimmed {
            self.log.trim(upto)?;
            known.trimmed = upto;
        }
        let is_room_due = known.made_room.is_none_or(|(at, trimmed)| {
            let interval = if known.trimmed > trimmed { ROOM_INTERVAL } else { ROOM_INTERVAL_IN_VAIN };
            now.saturating_sub(at) >= interval
        });
        if is_full && is_room_due {
            known.made_room = Some((now, known.trimmed));
            self.log.make_room()?;
        }
        Ok(())
    }
}

impl State {
    /// Notes that an entry has come; whether something is to be looked after at once.
    pub(super) fn note_entry(&mut self, entry: &Entry) -> bool {
        self.unsaid_bytes += entry.bytes();
        self.idle_bytes += entry.bytes() + ENTRY_BYTES;
        self.unsaid_bytes >= UNSAID_BYTES_MAX
    }

    /// Skips what no member has written: it takes space as entries do.
    pub(super) fn skip(&mut self, foreign: Foreign) {
        self.idle_bytes += foreign.bytes + ENTRY_BYTES;
        self.skipped.add(foreign);
    }

    /// Notes whether the log says that it is full.
    fn note_full(&mut self, is_full: bool) {
        if std::mem::replace(&mut self.is_full, is_full) && !is_full {
            self.away = None;
        }
    }

    /// The log has not heard of this member for too long: it has to come back as another one.
    fn end_life(&mut self, member: Member) {
        if self.life == Life::Present && self.machine.member() == member {
            self.life = Life::Over;
        }
    }
}
