//! Escrow: several transactions change a bounded quantity at the same time, before they commit (O'Neil 1986: The
//! Escrow Transactional Method).
//!
//! Plain data without synchronisation, time or queues; a lock head has one for each quantity under its name. An account
//! knows the committed value and, of each owner, a hold: the net of its changes so far, the lowest and the highest net
//! that may come of them (an owner may go back to any of its savepoints, or abort), and what it was promised of the
//! others.
//!
//! Promises:
//!
//! 1. A claim is granted only if its condition holds whatever others that hold something do, and goes on to hold
//!    until its owner ends: later claims of others are granted only if they leave every promise true.
//! 2. It is refused only if its condition cannot hold whatever they do.
//! 3. Otherwise it waits, and is decided again whenever another owner ends or goes back.
//!
//! An owner that did less than it claimed may settle for that before it ends.
//!
//! So at each owner's commit, in whatever order they commit, its conditions hold at the value that it commits on.

use smallvec::SmallVec;

use crate::TxnId;

/// A list of accounts with room for more quantities than this is freed with the lock; a smaller one is reused.
const SPARE_MAX: usize = 4;

/// A request for one quantity: to change it by `delta`, if it is within `min..=max` afterwards. With a delta of zero it
/// is a condition. Values include the owner's own changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Number of the quantity under the lock's name.
    pub quantity: u32,
    /// The committed value, as it is known once the lock is held. It is used at the first claim of the quantity since
    /// the lock was free.
    pub value: i128,
    /// The change.
    pub delta: i128,
    /// The least value afterwards; `i128::MIN` is no bound.
    pub min: i128,
    /// The greatest value afterwards; `i128::MAX` is no bound.
    pub max: i128,
}

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    /// The place of the claim that cannot be met, whatever others do; none if all are granted.
    pub(super) refused: Option<usize>,
    /// The holds from before, to go back to.
    pub(super) replaced: Replaced,
}

/// The holds that a request has replaced, by quantity.
pub(in crate::lock) type Replaced = Box<[(u32, Option<Hold>)]>;

/// An owner's part of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub txn: TxnId,
    /// The sum of its changes.
    pub net: i128,
    /// The least and the greatest net that may be left of them.
    pub low: i128,
    pub high: i128,
    /// It was promised that the value without its own changes stays within these.
    pub floor: i128,
    pub ceiling: i128,
}

impl Hold {
    fn new(txn: TxnId) -> Hold {
        Hold { txn, net: 0, low: 0, high: 0, floor: i128::MIN, ceiling: i128::MAX }
    }

    /// As it was `before`, but for promises that were kept since and are to be kept on.
    fn back_to(self, before: Option<Hold>) -> Hold {
        let before = before.unwrap_or(Hold::new(self.txn));
        Hold { floor: before.floor.max(self.floor), ceiling: before.ceiling.min(self.ceiling), ..before }
    }
}

/// A hold as views of locks show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Number of the quantity under the lock's name.
    pub quantity: u32,
    /// The committed value.
    pub value: i128,
    /// The least that may come of the owner's changes.
    pub low: i128,
    /// The greatest.
    pub high: i128,
}

#[derive(Debug)]
struct Account {
    quantity: u32,
    value: i128,
    /// Most names that are locked have one owner.
    holds: SmallVec<[Hold; 1]>,
}

impl Account {
    fn hold(&self, txn: TxnId) -> Option<Hold> {
        self.holds.iter().find(|hold| hold.txn == txn).copied()
    }

    fn set(&mut self, txn: TxnId, hold: Option<Hold>) {
        match (self.holds.iter().position(|hold| hold.txn == txn), hold) {
            (Some(at), Some(hold)) => self.holds[at] = hold,
            (Some(at), None) => drop(self.holds.swap_remove(at)),
            (None, Some(hold)) => self.holds.push(hold),
            (None, None) => {}
        }
    }

    /// The least and the greatest value that may come of what the others do.
    fn without(&self, txn: TxnId) -> (i128, i128) {
        let others = self.holds.iter().filter(|hold| hold.txn != txn);
        others.fold((self.value, self.value), |(low, high), hold| {
            (low.saturating_add(hold.low), high.saturating_add(hold.high))
        })
    }

    /// [`Escrow::leaves_room`], of one claim: `delta` is the change of it and of the claims before it, `total` that
    /// of all.
    fn leaves_room(&self, txn: TxnId, claim: &Claim, delta: i128, total: i128) -> bool {
        let (low, high) = self.without(txn);
        if self.holds.iter().all(|hold| hold.txn == txn)
            || high.saturating_add(delta) < claim.min
            || low.saturating_add(delta) > claim.max
        {
            return true;
        }
        let again =
            |value: i128| value.saturating_add(value.saturating_sub(self.value)).saturating_add(delta);
        again(low).saturating_add(total.min(0)) >= claim.min
            && again(high).saturating_add(total.max(0)) <= claim.max
    }

    /// Decides a claim of an owner that has `own`. Returns its new hold if the claim is granted.
    fn decide(&self, own: Hold, claim: &Claim) -> Result<Hold, Decided> {
        let (low, high) = self.without(own.txn);
        // A net that overflows can be no owner's.
        let Some(net) = own.net.checked_add(claim.delta) else { return Err(Decided::Refused) };
        if high.saturating_add(net) < claim.min || low.saturating_add(net) > claim.max {
            return Err(Decided::Refused);
        }
        if low.saturating_add(net) < claim.min || high.saturating_add(net) > claim.max {
            return Err(Decided::Depends);
        }
        let hold = Hold {
            txn: own.txn,
            net,
            low: own.low.min(net),
            high: own.high.max(net),
            floor: own.floor.max(claim.min.saturating_sub(net)),
            ceiling: own.ceiling.min(claim.max.saturating_sub(net)),
        };
        // What others were promised must stay true with the wider range.
        let (low, high) = (low.saturating_add(hold.low), high.saturating_add(hold.high));
        let keeps = |other: &Hold| {
            low.saturating_sub(other.low) >= other.floor && high.saturating_sub(other.high) <= other.ceiling
        };
        let is_wider = hold.low < own.low || hold.high > own.high;
        if is_wider && !self.holds.iter().filter(|other| other.txn != own.txn).all(keeps) {
            return Err(Decided::Depends);
        }
        Ok(hold)
    }

    /// Checks, in debug builds, that each promise is true whatever others do.
    fn check(&self) {
        if cfg!(debug_assertions) {
            for hold in &self.holds {
                let (low, high) = self.without(hold.txn);
                assert!(hold.low <= hold.net && hold.net <= hold.high, "{hold:?}");
                assert!(hold.floor <= low && high <= hold.ceiling, "{hold:?} of {self:?}");
            }
        }
    }
}

enum Decided {
    Refused,
    Depends,
}

/// The accounts under one name.
#[derive(Debug, Default)]
pub(super) struct Escrow {
    accounts: Vec<Account>,
}

impl Escrow {
    /// True if claims would leave enough for all owners that hold something, and for their own, to claim once more
    /// what they have. Otherwise owners that each have something could come to wait for what is left, which is the
    /// others'. Claims that are refused leave what there is.
    pub(super) fn leaves_room(&self, txn: TxnId, claims: &[Claim]) -> bool {
        let sum = |of: &[Claim], quantity: u32| {
            let deltas = of.iter().filter(|claim| claim.quantity == quantity).map(|claim| claim.delta);
            deltas.fold(0_i128, i128::saturating_add)
        };
        claims.iter().enumerate().all(|(place, claim)| {
            let account = self.accounts.iter().find(|account| account.quantity == claim.quantity);
            let (delta, total) = (sum(&claims[..=place], claim.quantity), sum(claims, claim.quantity));
            account.is_none_or(|account| account.leaves_room(txn, claim, delta, total))
        })
    }

    /// Decides the claims of a request together: the first that is not granted decides. None if that depends on what
    /// others do. With `keeps_refusal`, a claim that is refused stays impossible until the owner ends, since the owner
    /// reports the refusal.
    pub(super) fn request(&mut self, txn: TxnId, claims: &[Claim], keeps_refusal: bool) -> Option<Claimed> {
        // What the owner has after the claims before, of each quantity, and what it had at first.
        let mut holds: SmallVec<[(usize, Option<Hold>, Hold); 2]> = SmallVec::new();
        for (place, claim) in claims.iter().enumerate() {
            let at = self.account(claim.quantity, claim.value);
            let account = &self.accounts[at];
            let known = holds.iter().position(|(of, ..)| *of == at);
            let known = known.unwrap_or_else(|| {
                let before = account.hold(txn);
                holds.push((at, before, before.unwrap_or(Hold::new(txn))));
                holds.len() - 1
            });
            match account.decide(holds[known].2, claim) {
                Ok(hold) => holds[known].2 = hold,
                Err(Decided::Depends) => return None,
                Err(Decided::Refused) => {
                    let replaced = match keeps_refusal {
                        true => self.promise_refusal(txn, claims, place),
                        false => Replaced::default(),
                    };
                    return Some(Claimed { refused: Some(place), replaced });
                }
            }
        }
        let mut replaced = Vec::with_capacity(holds.len());
        for (at, before, hold) in holds {
            let account = &mut self.accounts[at];
            account.set(txn, Some(hold));
            account.check();
            replaced.push((account.quantity, before));
        }
        Some(Claimed { refused: None, replaced: replaced.into() })
    }

    /// Keeps a refused claim impossible until the owner ends. Returns the hold to restore when it goes back.
    fn promise_refusal(&mut self, txn: TxnId, claims: &[Claim], refused: usize) -> Replaced {
        let claim = &claims[refused];
        // The claims before it were met and are undone: their changes do not count, and the refused one's condition is
        // told in terms of the value without them.
        let earlier = claims[..refused].iter().filter(|earlier| earlier.quantity == claim.quantity);
        let delta = earlier.fold(claim.delta, |sum, earlier| sum.saturating_add(earlier.delta));
        let at = self.account(claim.quantity, claim.value);
        let account = &mut self.accounts[at];
        let (before, own) = (account.hold(txn), account.hold(txn).unwrap_or(Hold::new(txn)));
        let (low, high) = account.without(txn);
        let net = own.net.saturating_add(delta);
        let mut hold = own;
        if high.saturating_add(net) < claim.min {
            hold.ceiling = hold.ceiling.min(claim.min.saturating_sub(1).saturating_sub(net));
        } else if low.saturating_add(net) > claim.max {
            hold.floor = hold.floor.max(claim.max.saturating_add(1).saturating_sub(net));
        }
        account.set(txn, Some(hold));
        account.check();
        Box::new([(claim.quantity, before)])
    }

    /// Puts holds back. With `promises`, promises made since stay.
    pub(super) fn restore(&mut self, txn: TxnId, replaced: &[(u32, Option<Hold>)], promises: bool) {
        for (quantity, before) in replaced {
            let Some(account) = self.accounts.iter_mut().find(|account| account.quantity == *quantity) else {
                continue;
            };
            let hold = match account.hold(txn) {
                Some(hold) if promises => Some(hold.back_to(*before)),
                _ => *before,
            };
            account.set(txn, hold);
            account.check();
        }
    }

    /// Forgets everything: the lock has no holder any more.
    pub(super) fn clear(&mut self) {
        if self.accounts.capacity() > SPARE_MAX {
            self.accounts = Vec::new();
        } else {
            self.accounts.clear();
        }
    }

    /// Ends an owner: what it changed is committed, or was never there.
    pub(super) fn end(&mut self, txn: TxnId, committed: bool) {
        for account in &mut self.accounts {
            if let Some(at) = account.holds.iter().position(|hold| hold.txn == txn) {
                let hold = account.holds.swap_remove(at);
                if committed {
                    account.value = account.value.saturating_add(hold.net);
                }
                account.check();
            }
        }
    }

    /// Sets the final net of an owner's changes to `net`, within the range that it claimed: promises to others count on
    /// it. The net may be below that range if no other owner was promised a least value.
    pub(super) fn settle(&mut self, txn: TxnId, quantity: u32, net: i128) {
        let account = self.accounts.iter_mut().find(|account| account.quantity == quantity);
        let Some(account) = account else { return };
        let is_promised = account.holds.iter().any(|other| other.txn != txn && other.floor != i128::MIN);
        if let Some(hold) = account.holds.iter_mut().find(|hold| hold.txn == txn) {
            hold.net = if is_promised { net.clamp(hold.low, hold.high) } else { net.min(hold.high) };
            hold.low = hold.low.min(hold.net);
        }
        account.check();
    }

    /// True if an owner holds something of any quantity.
    pub(super) fn holds(&self, txn: TxnId) -> bool {
        self.accounts.iter().any(|account| account.hold(txn).is_some())
    }

    /// Returns the holds of an owner, by quantity.
    pub(super) fn held(&self, txn: TxnId) -> Vec<(u32, Hold)> {
        let of = |account: &Account| Some((account.quantity, account.hold(txn)?));
        self.accounts.iter().filter_map(of).collect()
    }

    /// Takes up an owner's hold from an earlier run. `value` is the committed value now.
    pub(super) fn take_up(&mut self, quantity: u32, value: i128, hold: Hold) {
        let at = self.account(quantity, value);
        self.accounts[at].set(hold.txn, Some(hold));
        self.accounts[at].check();
    }

    /// Returns the owners whose end may decide claims: all others that hold something of their quantities.
    pub(super) fn blockers<'a>(
        &'a self,
        txn: TxnId,
        claims: &'a [Claim],
    ) -> impl Iterator<Item = TxnId> + 'a {
        let claimed = |account: &&Account| claims.iter().any(|claim| claim.quantity == account.quantity);
        let holds = self.accounts.iter().filter(claimed).flat_map(|account| &account.holds);
        holds.map(|hold| hold.txn).filter(move |other| *other != txn)
    }

    /// Returns the holds of an owner as views of locks show them.
    pub(super) fn pending(&self, txn: TxnId) -> Vec<Pending> {
        let of = |account: &Account| {
            let Hold { low, high, .. } = account.hold(txn)?;
            Some(Pending { quantity: account.quantity, value: account.value, low, high })
        };
        self.accounts.iter().filter_map(of).collect()
    }

    fn account(&mut self, quantity: u32, value: i128) -> usize {
        let known = self.accounts.iter().position(|account| account.quantity == quantity);
        known.unwrap_or_else(|| {
            self.accounts.push(Account { quantity, value, holds: SmallVec::new() });
            self.accounts.len() - 1
        })
    }
}

/// Returns the first claim that its own value, with the changes of the claims before it, does not meet.
pub(crate) fn first_refused(claims: &[Claim]) -> Option<usize> {
    let mut deltas: Vec<(u32, i128)> = Vec::new();
    claims.iter().position(|claim| {
        let at = deltas.iter().position(|(quantity, _)| *quantity == claim.quantity).unwrap_or_else(|| {
            deltas.push((claim.quantity, 0));
            deltas.len() - 1
        });
        let sum = deltas[at].1.saturating_add(claim.delta);
        let after = claim.value.saturating_add(sum);
        deltas[at].1 = sum;
        !(claim.min..=claim.max).contains(&after)
    })
}

/// True if two transactions are both granted their claims, one after the other, with no claims of others.
pub(crate) fn claims_of_two(first: (TxnId, &[Claim]), second: (TxnId, &[Claim])) -> bool {
    let mut escrow = Escrow::default();
    [first, second].into_iter().all(|(txn, claims)| {
        escrow.request(txn, claims, false).is_some_and(|claimed| claimed.refused.is_none())
    })
}
