//! Lock modes as data: which modes a table has, which of them admit each other, and what two of them make
//! together.
//!
//! A table's modes are given by two matrices. *Admission* says whether a mode that one owner holds admits a
//! request of another; it may be one-sided (a held share admits a requested update, a held update admits no
//! share), and then says so. The *supremum* is the mode that an owner holds after it asked for both (a conversion, or
//! upgrade). [`Modes::new`] refuses matrices that do not fit each other, in a `const` at compile time.

/// Greatest number of modes of a table.
pub const MODES_MAX: usize = 32;

/// A mode of some [`Modes`], by its place there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mode(u8);

impl Mode {
    /// The mode at a place in its set.
    ///
    /// # Panics
    /// If `index` is not less than [`MODES_MAX`].
    pub const fn new(index: usize) -> Mode {
        assert!(index < MODES_MAX, "a set has at most 32 modes");
        Mode(index as u8)
    }

    /// The mode's place in its set.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of modes, one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct ModeSet(u32);

impl ModeSet {
    pub(super) const EMPTY: ModeSet = ModeSet(0);

    pub(super) const fn with(self, mode: Mode) -> ModeSet {
        ModeSet(self.0 | 1 << mode.0)
    }

    pub(super) const fn contains(self, mode: Mode) -> bool {
        self.0 & 1 << mode.0 != 0
    }

    pub(super) const fn intersection(self, other: ModeSet) -> ModeSet {
        ModeSet(self.0 & other.0)
    }

    pub(super) const fn is_subset(self, of: ModeSet) -> bool {
        self.0 & !of.0 == 0
    }
}

/// The specification of a set of modes, for [`Modes::new`]. Rows and columns are in the order of `names`.
#[derive(Clone, Copy, Debug)]
pub struct ModesSpec<const N: usize> {
    /// The names of the modes, for display and for [`Modes::by_name`].
    pub names: [&'static str; N],
    /// `admits[held][requested]`: true if a mode that is held admits a request by another owner.
    pub admits: [[bool; N]; N],
    /// `supremum[a][b]`: the place of the weakest mode that is as strong as both.
    pub supremum: [[usize; N]; N],
    /// The pairs (held, requested) where the first admits the second and not the other way round.
    pub one_sided: &'static [(usize, usize)],
    /// Modes that cannot be held: a request waits until it could be granted, and then leaves nothing behind.
    pub instant: &'static [usize],
    /// Modes that all admit each other and make none but each other: of a table [by
    /// thread](super::LockTable::by_thread), those that most owners ask for and no more.
    pub weak: &'static [usize],
}

/// The modes of a lock table.
#[derive(Clone, Copy, Debug)]
pub struct Modes {
    names: [&'static str; MODES_MAX],
    count: usize,
    /// By requested mode: the held modes that admit it.
    admitted_by: [ModeSet; MODES_MAX],
    /// By mode: those that admit it and that it admits.
    friends: [ModeSet; MODES_MAX],
    supremum: [[Mode; MODES_MAX]; MODES_MAX],
    instant: ModeSet,
    weak: ModeSet,
}

impl Modes {
    /// Checks a specification and makes it ready for use. The error says what does not fit.
    pub const fn new<const N: usize>(spec: ModesSpec<N>) -> Result<Modes, &'static str> {
        if N == 0 || N > MODES_MAX {
            return Err("a set has between 1 and 32 modes");
        }
        let mut modes = Modes {
            names: [""; MODES_MAX],
            count: N,
            admitted_by: [ModeSet::EMPTY; MODES_MAX],
            friends: [ModeSet::EMPTY; MODES_MAX],
            supremum: [[Mode(0); MODES_MAX]; MODES_MAX],
            instant: ModeSet::EMPTY,
            weak: ModeSet::EMPTY,
        };
        let mut admits = [ModeSet::EMPTY; MODES_MAX];
        let mut at = 0;
        while at < spec.instant.len() {
            if spec.instant[at] >= N {
                return Err("an instant mode is not of the set");
            }
            modes.instant = modes.instant.with(Mode::new(spec.instant[at]));
            at += 1;
        }
        let mut a = 0;
        while a < N {
            modes.names[a] = spec.names[a];
            let mut b = 0;
            while b < N {
                if spec.supremum[a][b] >= N {
                    return Err("a supremum is not of the set");
                }
                modes.supremum[a][b] = Mode::new(spec.supremum[a][b]);
                if spec.admits[a][b] {
                    admits[a] = admits[a].with(Mode::new(b));
                    modes.admitted_by[b] = modes.admitted_by[b].with(Mode::new(a));
                }
                if spec.admits[a][b] && spec.admits[b][a] {
                    modes.friends[a] = modes.friends[a].with(Mode::new(b));
                }
                if (spec.admits[a][b] && !spec.admits[b][a]) != declared(spec.one_sided, a, b) {
                    return Err("admission is one-sided where it was not declared so, or the reverse");
                }
                b += 1;
            }
            a += 1;
        }
        at = 0;
        while at < spec.weak.len() {
            if spec.weak[at] >= N {
                return Err("a weak mode is not of the set");
            }
            modes.weak = modes.weak.with(Mode::new(spec.weak[at]));
            at += 1;
        }
        match (modes.check_supremum(&admits), modes.check_weak()) {
            (Ok(()), Ok(())) => Ok(modes),
            (Err(why), _) | (_, Err(why)) => Err(why),
        }
    }

    /// Checks the weak modes, which are granted without a look at the holders of other weak modes.
    const fn check_weak(&self) -> Result<(), &'static str> {
        let mut a = 0;
        while a < self.count {
            let mut b = 0;
            while b < self.count {
                let (one, other) = (Mode::new(a), Mode::new(b));
                if self.is_weak(one) && self.is_weak(other) {
                    if self.is_instant(one) {
                        return Err("a weak mode may not be held");
                    }
                    if !self.friends(one).contains(other) {
                        return Err("a weak mode does not admit another one");
                    }
                    if !self.is_weak(self.supremum(one, other)) {
                        return Err("two weak modes have a supremum that is not weak");
                    }
                }
                b += 1;
            }
            a += 1;
        }
        Ok(())
    }

    /// The supremum must be a join (idempotent, commutative, associative) that is as strong as its parts, so that
    /// the order of conversions does not matter and a conversion back never refuses what stood before.
    const fn check_supremum(&self, admits: &[ModeSet; MODES_MAX]) -> Result<(), &'static str> {
        let mut a = 0;
        while a < self.count {
            if self.supremum[a][a].index() != a {
                return Err("a mode's supremum with itself is another mode");
            }
            let mut b = 0;
            while b < self.count {
                let both = self.supremum[a][b].index();
                if self.supremum[b][a].index() != both {
                    return Err("the supremum depends on the order of its parts");
                }
                if !admits[both].is_subset(admits[a].intersection(admits[b])) {
                    return Err("a supremum, held, admits what a part of it does not");
                }
                if !self.admitted_by[both].is_subset(self.admitted_by[a].intersection(self.admitted_by[b])) {
                    return Err("a supremum is admitted where a part of it is not");
                }
                let parts_held = !self.instant.contains(Mode::new(a)) && !self.instant.contains(Mode::new(b));
                if parts_held && self.instant.contains(self.supremum[a][b]) {
                    return Err("two modes that may be held have a supremum that may not");
                }
                let mut c = 0;
                while c < self.count {
                    let left = self.supremum[both][c].index();
                    let right = self.supremum[a][self.supremum[b][c].index()].index();
                    if left != right {
                        return Err("the supremum of three modes depends on their grouping");
                    }
                    c += 1;
                }
                b += 1;
            }
            a += 1;
        }
        Ok(())
    }

    /// These modes, and behind them one for each class of operations: two classes admit each other as `commute` says,
    /// and a class and a mode of `beneath` admit each other and are the class together. No other mode admits a class or
    /// is admitted by one; a class together with one of these, or with another class, is as strong as both that one and
    /// `top`.
    ///
    /// # Errors
    /// A text that says what does not fit: too many modes, a matrix that is not square or not symmetric.
    pub fn with_classes(
        mut self,
        names: &[&'static str],
        commute: &[Vec<bool>],
        beneath: &[Mode],
        top: Mode,
    ) -> Result<Modes, &'static str> {
        let (first, count) = (self.count, self.count + names.len());
        if count > MODES_MAX {
            return Err("there are more classes of operations than modes for them");
        }
        if commute.len() != names.len() || commute.iter().any(|row| row.len() != names.len()) {
            return Err("the matrix of classes is not square");
        }
        for (at, row) in commute.iter().enumerate() {
            let mode = Mode::new(first + at);
            self.names[mode.index()] = names[at];
            for (other, commutes) in row.iter().enumerate() {
                if *commutes != commute[other][at] {
                    return Err("one class commutes with another, and not the other way round");
                }
                if *commutes {
                    self.befriend(mode, Mode::new(first + other));
                }
            }
            beneath.iter().for_each(|weaker| self.befriend(mode, *weaker));
            for other in 0..count {
                let both = match Mode::new(other) {
                    other if other == mode || beneath.contains(&other) => mode,
                    other if other.index() < first => self.supremum[top.index()][other.index()],
                    _ => top,
                };
                self.supremum[mode.index()][other] = both;
                self.supremum[other][mode.index()] = both;
            }
        }
        self.count = count;
        let mut admits = [ModeSet::EMPTY; MODES_MAX];
        for (held, admits) in admits.iter_mut().enumerate().take(count) {
            let held = Mode::new(held);
            let admitted = (0..count).filter(|requested| self.admitted_by[*requested].contains(held));
            *admits = admitted.fold(ModeSet::EMPTY, |set, requested| set.with(Mode::new(requested)));
        }
        self.check_supremum(&admits).map(|()| self)
    }

    /// Makes two modes admit each other.
    fn befriend(&mut self, one: Mode, other: Mode) {
        for (mode, admitted) in [(one, other), (other, one)] {
            let at = mode.index();
            self.admitted_by[at] = self.admitted_by[at].with(admitted);
            self.friends[at] = self.friends[at].with(admitted);
        }
    }

    /// Returns the number of modes.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The name of a mode.
    pub const fn name(&self, mode: Mode) -> &'static str {
        self.names[mode.index()]
    }

    /// The mode of a name.
    pub fn by_name(&self, name: &str) -> Option<Mode> {
        self.names[..self.count].iter().position(|&n| n == name).map(Mode::new)
    }

    /// True if a mode that one owner holds admits another owner's request.
    pub const fn admits(&self, held: Mode, requested: Mode) -> bool {
        self.admitted_by[requested.index()].contains(held)
    }

    /// Returns the mode that an owner holds after it asked for both.
    pub const fn supremum(&self, a: Mode, b: Mode) -> Mode {
        self.supremum[a.index()][b.index()]
    }

    /// True if the mode cannot be held: requests for it have instant duration.
    pub const fn is_instant(&self, mode: Mode) -> bool {
        self.instant.contains(mode)
    }

    /// True if the mode is weak: it admits, and is admitted by, the modes that most owners ask for.
    pub const fn is_weak(&self, mode: Mode) -> bool {
        self.weak.contains(mode)
    }

    /// The held modes that admit a request.
    pub(super) const fn admitted_by(&self, requested: Mode) -> ModeSet {
        self.admitted_by[requested.index()]
    }

    /// The modes that admit this one and are admitted by it.
    pub(super) const fn friends(&self, mode: Mode) -> ModeSet {
        self.friends[mode.index()]
    }
}

const fn declared(pairs: &[(usize, usize)], held: usize, requested: usize) -> bool {
    let mut at = 0;
    while at < pairs.len() {
        if pairs[at].0 == held && pairs[at].1 == requested {
            return true;
        }
        at += 1;
    }
    false
}

const fn checked(modes: Result<Modes, &'static str>) -> Modes {
    match modes {
        Ok(modes) => modes,
        Err(why) => panic!("{}", why),
    }
}

/// Reads a matrix as it is drawn: 1 is yes.
const fn drawn<const N: usize>(matrix: [[u8; N]; N]) -> [[bool; N]; N] {
    let mut out = [[false; N]; N];
    let mut a = 0;
    while a < N {
        let mut b = 0;
        while b < N {
            out[a][b] = matrix[a][b] == 1;
            b += 1;
        }
        a += 1;
    }
    out
}

/// The places of [`TREE_MODES`].
pub mod tree_mode {
    use super::Mode;
    /// Intention shared: single keys will be locked shared.
    pub const IS: Mode = Mode::new(0);
    /// Intention exclusive: single keys will be locked in any mode.
    pub const IX: Mode = Mode::new(1);
    /// Shared: all keys are read.
    pub const S: Mode = Mode::new(2);
    /// Update: as shared, and may be converted to exclusive without a deadlock among its kind.
    pub const U: Mode = Mode::new(3);
    /// Shared, and intention exclusive.
    pub const SIX: Mode = Mode::new(4);
    /// Exclusive.
    pub const X: Mode = Mode::new(5);
    /// Access: keys will be read at a snapshot, without locks.
    pub const A: Mode = Mode::new(6);
    /// Escalated: exclusive to all but readers at a snapshot.
    pub const E: Mode = Mode::new(7);
    /// Maintenance: admits intentions, and neither its like nor a lock that keeps writers away (SHARE UPDATE EXCLUSIVE).
    pub const M: Mode = Mode::new(8);

    /// True if a holder of the mode does not write.
    pub fn only_reads(mode: Mode) -> bool {
        matches!(mode, A | IS | S)
    }
}

/// Multiple-granularity modes for whole trees (Gray et al. 1976), with update mode, which toward intentions is a shared
/// lock, and of which with the shared mode only the held share admits the request; and two for readers at snapshots,
/// which only a tree's end concerns. All but update mode conflict as PostgreSQL's eight modes of LOCK TABLE do: A, IS,
/// IX, M, S, SIX, E and X in its order. The places are stored with prepared transactions, so new modes come last.
pub const TREE_MODES: Modes = {
    const IS: usize = 0;
    const IX: usize = 1;
    const S: usize = 2;
    const U: usize = 3;
    const SIX: usize = 4;
    const X: usize = 5;
    const A: usize = 6;
    const E: usize = 7;
    const M: usize = 8;
    checked(Modes::new(ModesSpec {
        names: ["IS", "IX", "S", "U", "SIX", "X", "A", "E", "M"],
        admits: drawn([
            // IS IX S  U SIX X  A  E  M  requested; held:
            [1, 1, 1, 1, 1, 0, 1, 0, 1], // IS
            [1, 1, 0, 0, 0, 0, 1, 0, 1], // IX
            [1, 0, 1, 1, 0, 0, 1, 0, 0], // S
            [1, 0, 0, 0, 0, 0, 1, 0, 0], // U
            [1, 0, 0, 0, 0, 0, 1, 0, 0], // SIX
            [0, 0, 0, 0, 0, 0, 0, 0, 0], // X
            [1, 1, 1, 1, 1, 0, 1, 1, 1], // A
            [0, 0, 0, 0, 0, 0, 1, 0, 0], // E
            [1, 1, 0, 0, 0, 0, 1, 0, 0], // M
        ]),
        supremum: [
            [IS, IX, S, U, SIX, X, IS, E, M],
            [IX, IX, SIX, SIX, SIX, X, IX, E, M],
            [S, SIX, S, U, SIX, X, S, E, SIX],
            [U, SIX, U, U, SIX, X, U, E, SIX],
            [SIX, SIX, SIX, SIX, SIX, X, SIX, E, SIX],
            [X, X, X, X, X, X, X, X, X],
            [IS, IX, S, U, SIX, X, A, E, M],
            [E, E, E, E, E, X, E, E, E],
            [M, M, SIX, SIX, SIX, X, M, E, M],
        ],
        one_sided: &[(S, U)],
        instant: &[],
        weak: &[IS, IX, A],
    }))
};

/// The places of [`KEY_MODES`].
pub mod key_mode {
    use super::Mode;
    /// Shared.
    pub const S: Mode = Mode::new(0);
    /// Update: reads now and may write later; one holder at a time, beside earlier shared holders.
    pub const U: Mode = Mode::new(1);
    /// Exclusive.
    pub const X: Mode = Mode::new(2);
    /// Key share: the key stays there, whatever its value becomes.
    pub const KS: Mode = Mode::new(3);
    /// No key update: exclusive to all but requests that want the key to stay.
    pub const NKU: Mode = Mode::new(4);
    /// For update: exclusive to all but looks for the key.
    pub const FU: Mode = Mode::new(5);
    /// Presence: waits until no other owner is about to insert or delete the key, and holds nothing.
    pub const P: Mode = Mode::new(6);

    /// True if a mode keeps all others from changing the value and from reading it under a lock.
    pub fn is_alone(mode: Mode) -> bool {
        matches!(mode, X | NKU | FU)
    }
}

/// Shared, update and exclusive, for single keys (Gray and Reuter 1993, chapter 7), and PostgreSQL's: KS, S, NKU and FU
/// conflict as its FOR KEY SHARE, FOR SHARE, FOR NO KEY UPDATE and FOR UPDATE, and X is FU of a key that comes or goes,
/// which keeps looks for the key waiting, too. The places are stored with prepared transactions, so
/// new modes come last.
pub const KEY_MODES: Modes = {
    const S: usize = 0;
    const U: usize = 1;
    const X: usize = 2;
    const KS: usize = 3;
    const NKU: usize = 4;
    const FU: usize = 5;
    const P: usize = 6;
    checked(Modes::new(ModesSpec {
        names: ["S", "U", "X", "KS", "NKU", "FU", "P"],
        admits: drawn([
            // S U  X  KS NKU FU P requested; held:
            [1, 1, 0, 1, 0, 0, 1], // S
            [0, 0, 0, 1, 0, 0, 1], // U
            [0, 0, 0, 0, 0, 0, 0], // X
            [1, 1, 0, 1, 1, 0, 1], // KS
            [0, 0, 0, 1, 0, 0, 1], // NKU
            [0, 0, 0, 0, 0, 0, 1], // FU
            [1, 1, 1, 1, 1, 1, 1], // P
        ]),
        supremum: [
            [S, U, X, S, NKU, FU, S],
            [U, U, X, U, NKU, FU, U],
            [X, X, X, X, X, X, X],
            [S, U, X, KS, NKU, FU, KS],
            [NKU, NKU, X, NKU, NKU, FU, NKU],
            [FU, FU, X, FU, FU, FU, FU],
            [S, U, X, KS, NKU, FU, P],
        ],
        one_sided: &[(S, U), (P, X)],
        instant: &[P],
        weak: &[],
    }))
};

/// The places of [`GAP_MODES`].
pub mod gap_mode {
    use super::Mode;
    /// No other owner inserts into the gap.
    pub const SCAN: Mode = Mode::new(0);
    /// The intention to insert a key into the gap; inserters do not mind each other.
    pub const INSERT: Mode = Mode::new(1);
    /// Both: held by an owner that scanned a gap and inserts into it.
    pub const SCAN_INSERT: Mode = Mode::new(2);
}

/// Modes for the gap before a key (next-key locking, Mohan 1990, with the gap apart from its key).
pub const GAP_MODES: Modes = {
    const SCAN: usize = 0;
    const INSERT: usize = 1;
    const BOTH: usize = 2;
    checked(Modes::new(ModesSpec {
        names: ["Scan", "Insert", "ScanInsert"],
        admits: drawn([[1, 0, 0], [0, 1, 0], [0, 0, 0]]),
        supremum: [[SCAN, BOTH, BOTH], [BOTH, INSERT, BOTH], [BOTH, BOTH, BOTH]],
        one_sided: &[],
        instant: &[],
        weak: &[],
    }))
};
