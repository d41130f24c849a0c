//! The rows that UPDATE and DELETE change.
//!
//! Rows are found on the statement's snapshot, all of them before the first is returned: a statement does not see
//! what it changes itself. Each row's key is then locked in the table's tree, which yields the newest committed row;
//! the conditions are tested again on that (READ COMMITTED as PostgreSQL has it): a row that was deleted or no longer
//! qualifies is left out, and its lock is given back. A row whose primary key was changed meanwhile counts as deleted.
//! One that another transaction has changed has another `ctid` then. With the whole primary key given there is
//! nothing to find: the key is locked at once.

use std::{collections::HashSet, sync::Arc, time::Duration};

use gnomon_engine::RowLock;

use super::{
    ExecContext, Expr, Measures,
    context::row_bytes,
    expr::ExprKind,
    lock::{Locked, give_back, is_changed, lock_row},
    open,
    plan::{self, Child, Cte, KeyAccess, LockWait, Parts, Plan},
    scan::{Ranges, RowReader, key_ranges},
    spool::{Spool, SpoolReader},
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::Table,
    functions::Comparison,
    types::{ColumnType, Datum, Row, compare},
};

/// How the rows of an UPDATE or DELETE are found. Immutable, as a plan is.
#[derive(Debug)]
pub struct TargetScan {
    table: Arc<Table>,
    types: Vec<ColumnType>,
    lock: RowLock,
    find: Find,
    /// The condition that a row is tested for once it is locked.
    condition: Option<Expr>,
    /// True if the condition may give another result on the same row, so that it is tested once.
    once: bool,
}

/// The way to the candidates, before they are locked.
#[derive(Debug)]
pub enum Find {
    /// By the whole primary key: the access, and the scan that has it.
    Key(KeyAccess, Plan),
    /// By a scan whose rows are the columns that the condition needs, and the row key.
    Scan(Plan),
    /// By a join whose rows are those of [`Target::row`].
    Join(Plan),
}

/// A row to be changed, locked.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its key in the table's tree.
    pub key: Vec<u8>,
    /// Its values as they are now, column `i` of the table at `i`, then its key, then the columns of other tables in
    /// UPDATE ... FROM or DELETE ... USING.
    pub row: Row,
}

impl TargetScan {
    /// A scan of the rows for which `condition` holds; with `once`, it is not tested again on a row that is as it was
    /// found.
    pub fn new(
        table: Arc<Table>,
        lock: RowLock,
        find: Find,
        condition: Option<Expr>,
        once: bool,
    ) -> TargetScan {
        let types = table.columns.iter().map(|column| column.ty).collect();
        TargetScan { table, types, lock, find, condition, once }
    }

    /// Starts looking. Nothing is read before [`Targets::next`].
    pub fn open(self: &Arc<Self>) -> Targets {
        Targets { reader: RowReader::new(&self.types), scan: self.clone(), found: None }
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Returns the conditions on a row beside those on its key, if the key is all that is needed to find it.
    pub fn beside_key(&self) -> Option<Vec<Expr>> {
        let Find::Key(access, _) = &self.find else { return None };
        let key = &access.index_of(&self.table).columns;
        let mut conditions = Vec::new();
        self.condition.clone().into_iter().for_each(|condition| condition.split_and(&mut conditions));
        let (of_key, beside): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(|condition| {
            let columns = condition.columns();
            !columns.is_empty() && columns.iter().all(|column| key.contains(column))
        });
        let is_equality = |condition: &Expr| {
            matches!(&condition.kind, ExprKind::Call { function, .. }
                if function.comparison() == Some(Comparison::Equal))
        };
        // One each, which the key stands for.
        (of_key.len() == key.len() && of_key.iter().all(is_equality)).then_some(beside)
    }

    /// The key of the only row that there may be, where [`TargetScan::beside_key`] is some; none if there is none.
    pub fn key(&self, ctx: &mut ExecContext<'_>) -> Result<Option<Vec<u8>>> {
        let Find::Key(access, _) = &self.find else { return Err(misplanned()) };
        match key_ranges(&self.table, access, ctx)? {
            Ranges::Points(keys) => Ok(keys.into_iter().next()),
            Ranges::Ranges(_) => Err(misplanned()),
        }
    }

    /// Notes a run of the scan by key in which no [`Targets`] have looked for the row, since `began`.
    pub fn note_run(&self, is_found: bool, began: Duration, ctx: &ExecContext<'_>) {
        if let Find::Key(_, plan) = &self.find {
            ctx.measures.note(plan, 1, u64::from(is_found), began);
        }
    }

    /// The parts of a statement that changes these rows, with its tables of WITH and the expressions that it computes.
    pub fn parts<'a>(&'a self, tables: &'a [Cte], mut exprs: Vec<&'a Expr>) -> Parts<'a> {
        exprs.extend(&self.condition);
        Parts { tables, exprs, plans: self.plans() }
    }

    fn plans(&self) -> Vec<&Plan> {
        match &self.find {
            Find::Key(_, plan) | Find::Scan(plan) => vec![plan],
            Find::Join(plan) => plan.inputs(),
        }
    }

    /// Returns how the rows are found, as EXPLAIN shows it.
    pub fn explain(&self, measures: &Measures) -> Vec<Child> {
        self.plans().into_iter().map(|plan| Child::input("Outer", plan::explain(plan, measures))).collect()
    }
}

/// The rows of an UPDATE or DELETE under way.
pub struct Targets {
    scan: Arc<TargetScan>,
    reader: RowReader,
    found: Option<Found>,
}

/// The rows that were found.
enum Found {
    Candidates(std::vec::IntoIter<Candidate>),
    /// Keys only, however many.
    Keys(Box<SpoolReader>),
}

/// A row that was found.
struct Candidate {
    key: Vec<u8>,
    /// Of a join: the whole row. Of a scan whose condition is tested once: the columns that were seen.
    row: Row,
}

impl Targets {
    /// The next row, locked, or none at the end.
    pub fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Target>> {
        if self.found.is_none() {
            self.found = Some(self.find(ctx)?);
        }
        loop {
            let candidate = match &mut self.found {
                Some(Found::Candidates(candidates)) => candidates.next(),
                Some(Found::Keys(keys)) => keys.next(ctx.txn)?.map(|key| Candidate { key, row: Row::new() }),
                None => None,
            };
            let Some(candidate) = candidate else { return Ok(None) };
            ctx.tick()?;
            if let Some(target) = self.lock(candidate, ctx)? {
                return Ok(Some(target));
            }
        }
    }

    fn find(&self, ctx: &mut ExecContext<'_>) -> Result<Found> {
        let plan = match &self.scan.find {
            Find::Key(access, plan) => {
                ctx.measures.note(plan, 1, 0, ctx.measures.now());
                return match key_ranges(&self.scan.table, access, ctx)? {
                    Ranges::Points(keys) => {
                        let candidates = keys.into_iter().map(|key| Candidate { key, row: Row::new() });
                        Ok(Found::Candidates(candidates.collect::<Vec<_>>().into_iter()))
                    }
                    Ranges::Ranges(_) => Err(misplanned()),
                };
            }
            Find::Scan(plan) | Find::Join(plan) => plan,
        };
        let joined = matches!(self.scan.find, Find::Join(_));
        let mut seen = HashSet::new();
        let (mut found, mut keys) = (Vec::new(), Spool::default());
        let mut source = open(plan, &ctx.measures);
        while let Some(mut row) = source.next(ctx)? {
            let key = match joined {
                false => row.pop(),
                true => row.get(self.scan.table.columns.len()).cloned(),
            };
            let Some(Datum::Bytea(key)) = key else { return Err(misplanned()) };
            let key = key.into_vec();
            // Of several partners of a row in a join the first counts.
            if joined && !seen.insert(key.clone()) {
                continue;
            }
            if !joined && !self.scan.once {
                keys.push(ctx.txn, key)?;
                continue;
            }
            ctx.reserve(key.len() + 48 + row_bytes(&row))?;
            found.push(Candidate { key, row });
        }
        Ok(match found.is_empty() {
            true => Found::Keys(Box::new(keys.read(ctx.txn)?)),
            false => Found::Candidates(found.into_iter()),
        })
    }

    /// Locks a row that was found; none if it is none to be changed, and then its lock is given back.
    fn lock(&mut self, candidate: Candidate, ctx: &mut ExecContext<'_>) -> Result<Option<Target>> {
        let scan = self.scan.clone();
        let began = ctx.measures.now();
        let Candidate { key, row } = candidate;
        let counted = match &scan.find {
            Find::Key(access, _) => Some((access.index_of(&scan.table).oid, scan.table.split(&key)?.0)),
            Find::Scan(_) | Find::Join(_) => None,
        };
        if let Some(index) = counted {
            ctx.accesses(index).scans += 1;
        }
        let Locked::Row(stored, lock) = lock_row(&scan.table, &key, scan.lock, LockWait::Block, ctx)? else {
            return Ok(None);
        };
        let is_there = stored.is_some();
        let row = match stored {
            Some(stored) => {
                if let Some(index) = counted {
                    ctx.accesses(index).found();
                }
                self.qualified(row, &key, &stored, is_changed(&lock), ctx)?
            }
            None => None,
        };
        if let Find::Key(_, plan) = &scan.find {
            ctx.measures.note(plan, 0, u64::from(row.is_some()), began);
            if is_there && row.is_none() {
                ctx.measures.note_removed(plan);
            }
        }
        match row {
            Some(row) => Ok(Some(Target { key, row })),
            None => give_back(&scan.table, &key, lock, ctx).map(|()| None),
        }
    }

    /// The row of a target as it is now, if it is one that is to be changed. `found` is how it was found; with
    /// `changed`, another transaction has changed it since.
    fn qualified(
        &mut self,
        mut found: Row,
        key: &[u8],
        stored: &[u8],
        changed: bool,
        ctx: &mut ExecContext<'_>,
    ) -> Result<Option<Row>> {
        let scan = &self.scan;
        let width = scan.types.len();
        let wanted: Vec<usize> = (0..width).collect();
        let mut now = self.reader.read(&scan.types, &wanted, stored)?;
        if !matches!(scan.find, Find::Join(_)) {
            now.push(Datum::Bytea(key.into()));
        }
        let (mut row, differs) = match &scan.find {
            Find::Key(..) => (now, true),
            Find::Scan(plan) => {
                let differs = scan.once && differs(plan, &found, &now);
                (now, differs)
            }
            Find::Join(_) => {
                let differs = found.iter().zip(&now).any(|(old, new)| !compare::same(old, new));
                found.splice(..width.min(found.len()), now);
                (found, differs)
            }
        };
        // A condition that is tested once is not tested again on a row that is as it was seen.
        let condition = scan.condition.as_ref().filter(|_| !scan.once || changed || differs);
        let Some(condition) = condition else { return Ok(Some(row)) };
        let own = match row.get_mut(width).filter(|_| changed) {
            Some(in_row) => Some(std::mem::replace(in_row, scan.table.changed_key(key)?)),
            None => None,
        };
        let is_qualified = condition.is_true(&row, ctx)?;
        if let (Some(own), Some(in_row)) = (own, row.get_mut(width)) {
            *in_row = own;
        }
        Ok(is_qualified.then_some(row))
    }
}

/// True if the columns that a scan saw have other values now.
fn differs(plan: &Plan, seen: &[Datum], now: &[Datum]) -> bool {
    let Plan::TableScan(scan) = plan else { return true };
    scan.columns
        .iter()
        .zip(seen)
        .any(|(column, old)| now.get(*column).is_none_or(|new| !compare::same(old, new)))
}

fn misplanned() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "the rows of a statement were planned without their keys")
}
