//! Joins by cost, where all tables were analyzed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::{
    FromItem, FromKind, JoinTree,
    access::{Rule, choose_access},
    from::{Planned, Planner},
    members::{Member, as_lookup, columns_used, equal_sides, hash_sides, lateral_columns, take},
    order::{Alone, Link, MEMBERS_MAX, Method, Set, Step, order},
};
use crate::{
    Result, SqlError, SqlState,
    executor::{
        Expr,
        estimate::{
            ColumnEstimate, EVALUATE, Estimate, Estimator, HASH_PROBE, Lookup, PAIR, RESCAN, hash_cost,
            lookup, selectivity, table_columns, table_rows,
        },
        expr::ExprKind,
        plan::{Access, JoinKind, KeyAccess, KeyPart, Plan},
    },
};

/// A member with what is known of it alone.
struct Candidate {
    /// Its plan, until it is used.
    planned: Option<Planned>,
    /// The conditions on it alone.
    own: Vec<Expr>,
    /// The stored table that it is, which can be looked up.
    item: Option<FromItem>,
}

/// The estimates of the sides of outer joins, which are computed from those of the joins beneath.
#[derive(Default)]
pub(super) struct Estimates {
    estimator: Estimator,
    /// The plans that were estimated, which live as long as what is known of them.
    plans: Vec<Plan>,
}

impl Estimates {
    fn of(&mut self, plan: &Plan) -> Arc<Estimate> {
        self.plans.push(plan.clone());
        self.estimator.of(plan)
    }
}

/// True if a plan reads only stored tables that were analyzed, or none.
fn is_analyzed(plan: &Plan) -> bool {
    let own = match plan {
        Plan::TableScan(scan) => scan.table.is_analyzed(),
        Plan::VirtualScan(_) | Plan::CteScan(_) => false,
        _ => true,
    };
    own && plan.inputs().into_iter().all(is_analyzed)
}

fn item_is_analyzed(item: &FromItem) -> bool {
    match &item.kind {
        FromKind::Table(table) => table.is_analyzed(),
        FromKind::Plan(plan) => is_analyzed(plan),
        FromKind::Functions { .. } => true,
        FromKind::Current(..) | FromKind::Virtual(_) => false,
    }
}

fn tree_is_analyzed(tree: &JoinTree) -> bool {
    match tree {
        JoinTree::Item(item) => item_is_analyzed(item),
        JoinTree::Join { left, right, .. } => tree_is_analyzed(left) && tree_is_analyzed(right),
    }
}

impl Planner<'_> {
    /// True if a list of inner joins can be ordered by cost. Rows that are to be locked are found by the rules: a scan
    /// that is cheap passes rows that others have locked.
    pub(super) fn goes_by_cost(&self, members: &[Member]) -> bool {
        let is_analyzed = |member: &Member| match member {
            Member::Item(item) => item_is_analyzed(item),
            Member::Tree { tree, .. } => tree_is_analyzed(tree),
        };
        (2..=MEMBERS_MAX).contains(&members.len())
            && self.wishes.keys.is_empty()
            && members.iter().all(|member| member.takes().is_empty() && is_analyzed(member))
    }

    /// Plans a list of inner joins in the cheapest order. Conditions on columns that no member has stay in `filter`.
    pub(super) fn by_cost(
        &mut self,
        members: Vec<Member>,
        filter: &mut Vec<Expr>,
        needed: &BTreeSet<usize>,
        outside: &mut Vec<(usize, Expr)>,
    ) -> Result<Planned> {
        let place_of: BTreeMap<usize, usize> = members
            .iter()
            .enumerate()
            .flat_map(|(at, member)| member.columns().into_iter().map(move |column| (column, at)))
            .collect();
        let set_of = |condition: &Expr| -> Option<Set> {
            let mut places = condition.columns().into_iter().map(|column| place_of.get(&column).copied());
            places.try_fold(0, |set, place| place.map(|place| set | 1 << place))
        };
        let here = take(filter, |condition| set_of(condition).is_some());
        let mut conditions: Vec<(Set, Expr)> =
            here.into_iter().filter_map(|condition| Some((set_of(&condition)?, condition))).collect();
        let mut candidates = Vec::with_capacity(members.len());
        let mut columns: BTreeMap<usize, ColumnEstimate> = BTreeMap::new();
        let mut alone = Vec::with_capacity(members.len());
        for (at, member) in members.into_iter().enumerate() {
            self.environment.check_interrupt()?;
            let (own, rest): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|(set, _)| *set == 1 << at);
            conditions = rest;
            let own: Vec<Expr> = own.into_iter().map(|(_, condition)| condition).collect();
            let item = match &member {
                Member::Item(item) if matches!(item.kind, FromKind::Table(_)) => Some((**item).clone()),
                _ => None,
            };
            let mut planned = self.member(member, own.clone(), needed)?;
            outside.append(&mut planned.params);
            let estimate = Estimator::default().of(&planned.plan);
            columns.extend(planned.layout.iter().copied().zip(estimate.columns.iter().cloned()));
            alone.push(Alone { rows: estimate.rows.max(1.0), cost: estimate.total, width: estimate.width() });
            candidates.push(Candidate { planned: Some(planned), own, item });
        }
        // A condition that sees no column is tested with the first rows.
        let (constant, conditions): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|(set, _)| *set == 0);
        let links: Vec<Link> =
            conditions.iter().map(|(set, condition)| link(*set, condition, &set_of, &columns)).collect();
        let mut known: HashMap<(usize, Vec<usize>), Option<Lookup>> = HashMap::new();
        let mut lookups = |at: usize, left: Set| {
            let item = candidates[at].item.as_ref()?;
            let visible = |(_, (set, _)): &(usize, &(Set, Expr))| {
                set & (1 << at) != 0 && set & (left | 1 << at) == *set
            };
            let used: Vec<usize> =
                conditions.iter().enumerate().filter(visible).map(|(position, _)| position).collect();
            *known.entry((at, used.clone())).or_insert_with(|| {
                let on = used.iter().map(|position| &conditions[*position].1);
                lookup_of(item, candidates[at].own.iter(), on)
            })
        };
        let steps = order(&alone, &links, &mut lookups);
        let all = (1 << candidates.len()) - 1;
        let constant = constant.into_iter().map(|(_, condition)| condition).collect();
        let mut build = Build { steps, candidates, constant, conditions };
        self.build(&mut build, all, needed, outside)
    }

    /// True if the way of an outer join can be chosen by cost.
    pub(super) fn outer_goes_by_cost(&self, left: &JoinTree, right: &JoinTree) -> bool {
        let mut lateral = BTreeSet::new();
        lateral_columns(left, &mut lateral);
        lateral_columns(right, &mut lateral);
        lateral.is_empty() && self.wishes.keys.is_empty() && tree_is_analyzed(left) && tree_is_analyzed(right)
    }

    /// Joins the right side of an outer join in the cheapest way: by lookups for each row of the left side, or by a
    /// hash table of either side. `conditions` are those of the join, and those that rows of the right side are tested
    /// for first.
    pub(super) fn outer_by_cost(
        &mut self,
        kind: JoinKind,
        left: Planned,
        right: Member,
        (on, right_filter): (Vec<Expr>, Vec<Expr>),
        needed: &BTreeSet<usize>,
        outside: &mut Vec<(usize, Expr)>,
    ) -> Result<Planned> {
        let item = match &right {
            Member::Item(item) if kind == JoinKind::Left => Some((**item).clone()),
            _ => None,
        };
        let looked_up = item.and_then(|item| {
            let found = lookup_of(&item, right_filter.iter(), on.iter())?;
            Some((item, found))
        });
        let mut needed = needed.clone();
        columns_used(&right_filter, &mut needed);
        let planned = self.member(right, right_filter.clone(), &needed)?;
        let (l, r) = (self.estimates.of(&left.plan), self.estimates.of(&planned.plan));
        let is_right = |column: usize| planned.layout.contains(&column);
        let hashed = on.iter().any(|condition| equal_sides(condition, &left.layout, &is_right).is_some());
        let by_hash = |build: &Estimate, probe: &Estimate| {
            r.total + hash_cost(build.rows, build.width()) + probe.rows * HASH_PROBE
        };
        let (forward, exchanged) = (by_hash(&r, &l), by_hash(&l, &r));
        let otherwise = match hashed {
            true if left.ordered => forward,
            true => forward.min(exchanged),
            false => r.total + l.rows * r.rows * (PAIR + EVALUATE),
        };
        if let Some((item, found)) = looked_up
            && l.rows * (found.cost + RESCAN) < otherwise
        {
            let member = Member::Item(Box::new(item));
            return Ok(self.lookup_join(kind, left, member, on, right_filter, &needed));
        }
        let (hashable, on) = on.into_iter().partition(|condition| !condition.is_volatile());
        if hashed && !left.ordered && exchanged < forward {
            let kind = match kind {
                JoinKind::Left => JoinKind::Right,
                JoinKind::Right => JoinKind::Left,
                same => same,
            };
            return Ok(Planner::pair(kind, planned, left, hashable, on, outside));
        }
        Ok(Planner::pair(kind, left, planned, hashable, on, outside))
    }

    /// Builds the plan of a set of members.
    fn build(
        &mut self,
        build: &mut Build,
        set: Set,
        needed: &BTreeSet<usize>,
        outside: &mut Vec<(usize, Expr)>,
    ) -> Result<Planned> {
        let Some(Step { join, .. }) = build.steps.get(&set).copied() else { return Err(missing()) };
        let Some((left_set, right_set, method)) = join else { return build.leaf(set) };
        let left = self.build(build, left_set, needed, outside)?;
        let on = build.conditions_of(left_set, right_set);
        if method == Method::Lookup {
            let candidate = &mut build.candidates[right_set.trailing_zeros() as usize];
            let Some(item) = candidate.item.take() else { return Err(missing()) };
            let (member, own) = (Member::Item(Box::new(item)), std::mem::take(&mut candidate.own));
            return Ok(self.lookup_join(JoinKind::Inner, left, member, on, own, needed));
        }
        let right = self.build(build, right_set, needed, outside)?;
        let (hashable, on) = on.into_iter().partition(|condition| !condition.is_volatile());
        Ok(Planner::pair(JoinKind::Inner, left, right, hashable, on, outside))
    }
}

/// A plan that is built by the steps found.
struct Build {
    steps: HashMap<Set, Step>,
    candidates: Vec<Candidate>,
    /// The conditions that see no column, until they are tested.
    constant: Vec<Expr>,
    /// The conditions on several members, until they are tested.
    conditions: Vec<(Set, Expr)>,
}

impl Build {
    /// The plan of one member.
    fn leaf(&mut self, set: Set) -> Result<Planned> {
        let candidate = self.candidates.get_mut(set.trailing_zeros() as usize);
        let planned = candidate.and_then(|candidate| candidate.planned.take());
        let Some(mut planned) = planned else { return Err(missing()) };
        let constant = std::mem::take(&mut self.constant);
        if !constant.is_empty() {
            planned.plan = planned.plan.filtered(Expr::and(constant));
        }
        Ok(planned)
    }

    /// Takes the conditions that a join of two sets decides.
    fn conditions_of(&mut self, left: Set, right: Set) -> Vec<Expr> {
        let is_here = |set: Set| set & left != 0 && set & right != 0 && set & (left | right) == set;
        let (here, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.conditions).into_iter().partition(|(set, _)| is_here(*set));
        self.conditions = rest;
        here.into_iter().map(|(_, condition)| condition).collect()
    }
}

fn missing() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a step of an order of joins is missing")
}

/// Returns what the search is to know of a condition on several members.
fn link(
    members: Set,
    condition: &Expr,
    set_of: &dyn Fn(&Expr) -> Option<Set>,
    columns: &BTreeMap<usize, ColumnEstimate>,
) -> Link {
    let sides = hash_sides(condition).filter(|_| !condition.is_volatile());
    let sides = sides.and_then(|(a, b)| Some((set_of(&a)?, set_of(&b)?)));
    let sides = sides.filter(|(a, b)| *a != 0 && *b != 0 && a & b == 0);
    Link { members, selectivity: selectivity(condition, &|number| columns.get(&number)), sides }
}

/// Returns the cost of looking a table up by conditions that see others; none if no key serves.
fn lookup_of<'e>(
    item: &FromItem,
    own: impl Iterator<Item = &'e Expr>,
    on: impl Iterator<Item = &'e Expr>,
) -> Option<Lookup> {
    let FromKind::Table(table) = &item.kind else { return None };
    let positions: Vec<usize> = (0..table.columns.len()).collect();
    let conditions: Vec<Expr> = own.chain(on).map(|condition| as_lookup(condition, item)).collect();
    let choice = choose_access(table, &positions, &conditions, &[], Rule { limited: false, costs: true });
    let Access::Key(key) = &choice.access else { return None };
    if !sees_others(key) {
        return None;
    }
    let rest = conditions.iter().enumerate().filter(|(at, _)| !choice.covered.contains(at));
    let rest: Vec<Expr> = rest.map(|(_, condition)| condition.clone()).collect();
    let rows = table_rows(table);
    let columns = table_columns(table, rows);
    Some(lookup(table, rows, &choice.access, &rest, &|number| columns.get(number)))
}

/// True if a key is looked up by values of other rows.
fn sees_others(key: &KeyAccess) -> bool {
    let is_outer = |expr: &Expr| expr.any(&|part| matches!(part.kind, ExprKind::Slot(_)));
    let part_is = |part: &KeyPart| match part {
        KeyPart::Equal(of) | KeyPart::Any(of) => is_outer(of),
        KeyPart::Rows(_, rows) => rows.iter().flatten().any(is_outer),
    };
    let bounds = key.range.iter().flat_map(|range| [&range.low, &range.high]).flatten();
    key.equal.iter().any(part_is) || bounds.map(|(bound, _)| bound).any(is_outer)
}
