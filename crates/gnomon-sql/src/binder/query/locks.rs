//! FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE and FOR KEY SHARE: which tables of FROM they lock, and where they may not
//! stand.

use gnomon_engine::RowLock;
use gnomon_parser::ast::{self, LockStrength, RelationName};

use crate::{
    Result, SqlError, SqlState,
    executor::plan::{JoinKind, LockWait, Plan},
    planner::{FromItem, FromKind, JoinTree},
};

/// The tables that locking clauses name: the number of the first column, lock, patience. `joins` are the names of joins
/// in FROM. `refused` names a clause of the SELECT by which its rows are none of a table's.
pub fn bind_locks(
    clauses: &[ast::LockingClause],
    (from, joins): (Option<&JoinTree>, &[&str]),
    refused: Option<&str>,
) -> Result<Vec<(usize, RowLock, LockWait)>> {
    let mut items = Vec::new();
    if let Some(from) = from {
        collect_items(from, false, &mut items);
    }
    let mut locks = Locks::default();
    for clause in clauses {
        if let Some(what) = refused {
            return Err(not_allowed(clause, what));
        }
        for table in &clause.tables {
            if table.schema.is_some() {
                let message = format!("{} must specify unqualified relation names", clause.strength.words());
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(table.position()));
            }
        }
        if clause.tables.is_empty() {
            items.iter().try_for_each(|(item, nullable)| locks.add(clause, item, *nullable, None))?;
        }
        for table in &clause.tables {
            let mut named = items.iter().filter(|(item, _)| *item.alias == *table.name.name).peekable();
            if joins.contains(&&*table.name.name) {
                return Err(not_allowed_words(clause, "cannot be applied to a join").at(table.position()));
            }
            if named.peek().is_none() {
                let message = format!(
                    "relation \"{}\" in {} clause not found in FROM clause",
                    table.name.name,
                    clause.strength.words()
                );
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).at(table.position()));
            }
            named.try_for_each(|(item, nullable)| locks.add(clause, item, *nullable, Some(table)))?;
        }
    }
    Ok(locks.0)
}

/// The tables that are locked: the number of the first column, lock, patience.
#[derive(Default)]
struct Locks(Vec<(usize, RowLock, LockWait)>);

impl Locks {
    /// Adds the lock of an item of FROM, which `named` is in the clause if it stands there.
    fn add(
        &mut self,
        clause: &ast::LockingClause,
        item: &FromItem,
        nullable: bool,
        named: Option<&RelationName>,
    ) -> Result<()> {
        let refused = |what: &str| match named {
            Some(table) => Err(not_allowed_words(clause, what).at(table.position())),
            None => Ok(()),
        };
        match &item.kind {
            FromKind::Table(_) | FromKind::Current(..) if nullable => {
                Err(not_allowed_words(clause, "cannot be applied to the nullable side of an outer join"))
            }
            FromKind::Table(_) | FromKind::Current(..) => {
                self.add_table(item.base, lock_of(clause), wait_of(clause));
                Ok(())
            }
            FromKind::Plan(Plan::CteScan(_)) => refused("cannot be applied to a WITH query"),
            FromKind::Plan(_) => {
                let error = SqlError::unsupported("locking the rows of a view or of a subquery in FROM");
                Err(error.at(named.map_or(clause.position, RelationName::position)))
            }
            FromKind::Functions { .. } => refused("cannot be applied to a function"),
            FromKind::Virtual(_) => Ok(()),
        }
    }

    fn add_table(&mut self, base: usize, lock: RowLock, wait: LockWait) {
        match self.0.iter_mut().find(|(known, ..)| *known == base) {
            // Of several clauses for a table the strongest lock and the least patience count.
            Some((_, strongest, patience)) => {
                *strongest = lock.max(*strongest);
                if wait != LockWait::Block && *patience != LockWait::Error {
                    *patience = wait;
                }
            }
            None => self.0.push((base, lock, wait)),
        }
    }
}

fn collect_items<'t>(tree: &'t JoinTree, nullable: bool, out: &mut Vec<(&'t FromItem, bool)>) {
    match tree {
        JoinTree::Item(item) => out.push((item, nullable)),
        JoinTree::Join { kind, left, right, .. } => {
            collect_items(left, nullable || matches!(kind, JoinKind::Right | JoinKind::Full), out);
            collect_items(right, nullable || matches!(kind, JoinKind::Left | JoinKind::Full), out);
        }
    }
}

fn lock_of(clause: &ast::LockingClause) -> RowLock {
    match clause.strength {
        LockStrength::KeyShare => RowLock::KeyShare,
        LockStrength::Share => RowLock::Share,
        LockStrength::NoKeyUpdate => RowLock::NoKeyUpdate,
        LockStrength::Update => RowLock::Exclusive,
    }
}

fn wait_of(clause: &ast::LockingClause) -> LockWait {
    match clause.wait {
        ast::LockWait::Wait => LockWait::Block,
        ast::LockWait::Nowait => LockWait::Error,
        ast::LockWait::SkipLocked => LockWait::Skip,
    }
}

/// The error of a locking clause, in its own words.
pub fn not_allowed_words(clause: &ast::LockingClause, what: &str) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{} {what}", clause.strength.words()))
}

/// The error of a locking clause in a place where rows are none of a table's.
pub fn not_allowed(clause: &ast::LockingClause, what: &str) -> SqlError {
    not_allowed_words(clause, &format!("is not allowed {what}"))
}
