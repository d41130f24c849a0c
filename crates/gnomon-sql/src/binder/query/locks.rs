//! FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE and FOR KEY SHARE: which tables of FROM they lock, and where they may not
//! stand.

use gnomon_engine::RowLock;
use sqlparser::ast::{self, LockType, NonBlock};

use crate::{
    Result, SqlError, SqlState,
    binder::syntax::name_parts,
    executor::plan::{JoinKind, LockWait, Plan},
    planner::{FromItem, FromKind, JoinTree},
};

/// The first part of the name behind OF in a locking clause that the parser crate does not know: `FOR NO KEY UPDATE`,
/// which is handed on as `FOR UPDATE`, or `FOR KEY SHARE`, as `FOR SHARE`. No identifier that is typed begins so.
pub const WEAKER_ROW_LOCK: &str = "\u{1}key";

/// The tables that locking clauses name: the number of the first column, lock, patience. `refused` is what else the
/// SELECT has with which its rows are none of a table's.
pub fn bind_locks(
    locks: &[ast::LockClause],
    from: Option<&JoinTree>,
    refused: Option<&str>,
) -> Result<Vec<(usize, RowLock, LockWait)>> {
    let mut out: Vec<(usize, RowLock, LockWait)> = Vec::new();
    for clause in locks {
        if let Some(what) = refused {
            return Err(not_allowed(clause, what));
        }
        let lock = lock_of(clause);
        let wait = match clause.nonblock {
            None => LockWait::Block,
            Some(NonBlock::Nowait) => LockWait::Error,
            Some(NonBlock::SkipLocked) => LockWait::Skip,
        };
        let of = match &clause.of {
            Some(name) => name_parts(name)?.pop().filter(|name| name != WEAKER_ROW_LOCK),
            None => None,
        };
        let mut items = Vec::new();
        if let Some(from) = from {
            collect_items(from, false, &mut items);
        }
        let mut found = of.is_none();
        for (item, nullable) in items {
            if of.as_ref().is_some_and(|of| *of != item.alias) {
                continue;
            }
            found = true;
            match &item.kind {
                FromKind::Table(_) if nullable => {
                    return Err(not_allowed_words(
                        clause,
                        "cannot be applied to the nullable side of an outer join",
                    ));
                }
                FromKind::Table(_) => match out.iter_mut().find(|(base, ..)| *base == item.base) {
                    // Of several clauses for a table the strongest lock and the least patience count.
                    Some((_, strongest, patience)) => {
                        *strongest = lock.max(*strongest);
                        if wait != LockWait::Block && *patience != LockWait::Error {
                            *patience = wait;
                        }
                    }
                    None => out.push((item.base, lock, wait)),
                },
                FromKind::Plan(plan) if !matches!(plan, Plan::CteScan(_)) => {
                    return Err(SqlError::unsupported("locking the rows of a view or of a subquery in FROM"));
                }
                FromKind::Plan(_) | FromKind::Virtual(_) | FromKind::Functions { .. } => {}
            }
        }
        if let (false, Some(of)) = (found, of) {
            return Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{of}\" in {} clause not found in FROM clause", lock_words(clause)),
            ));
        }
    }
    Ok(out)
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

fn lock_of(clause: &ast::LockClause) -> RowLock {
    let first = clause.of.as_ref().and_then(|name| name.0.first()).and_then(|part| part.as_ident());
    let is_weaker = first.is_some_and(|first| first.value == WEAKER_ROW_LOCK);
    match (clause.lock_type, is_weaker) {
        (LockType::Share, true) => RowLock::KeyShare,
        (LockType::Share, false) => RowLock::Share,
        (LockType::Update, true) => RowLock::NoKeyUpdate,
        (LockType::Update, false) => RowLock::Exclusive,
    }
}

fn lock_words(clause: &ast::LockClause) -> &'static str {
    match lock_of(clause) {
        RowLock::KeyShare => "FOR KEY SHARE",
        RowLock::Share => "FOR SHARE",
        RowLock::NoKeyUpdate => "FOR NO KEY UPDATE",
        RowLock::Update | RowLock::Exclusive => "FOR UPDATE",
    }
}

fn not_allowed_words(clause: &ast::LockClause, what: &str) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{} {what}", lock_words(clause)))
}

/// The error of a locking clause in a place where rows are none of a table's.
pub fn not_allowed(clause: &ast::LockClause, what: &str) -> SqlError {
    not_allowed_words(clause, &format!("is not allowed {what}"))
}
