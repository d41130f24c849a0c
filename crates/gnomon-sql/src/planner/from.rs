//! FROM and WHERE: which order tables are joined in, and how.
//!
//! Inner joins are flattened. Where all tables were analyzed, they are joined in the cheapest order
//! (`costed`). Otherwise the next table is the one that is reached best with what is known so far: by a key
//! from constants and from the tables before it, else by hash, else a LATERAL item of the rows that are joined, else in
//! the order written. Outer joins stay where
//! they are, as one member of the list around them; conditions move to the lowest place where they can be tested
//! without changing what the outer joins return.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    FromItem, FromKind, JoinTree, Numbers,
    access::{Choice, Rank, Rule, choose_access},
    conditions::factored,
    costed::Estimates,
    members::{
        Member, as_lookup, columns_of, columns_used, equal_sides, flatten, lateral_columns, restrictions,
        take,
    },
    prune,
    reduce::reduced,
};
use crate::{
    Result,
    executor::{
        Expr,
        expr::ExprKind,
        plan::{
            Access, Filter, FunctionScan, HashJoin, JoinKind, KeyPart, NestedLoop, Plan, Project, SortKey,
            TableScan, VirtualScan,
        },
    },
    functions::Comparison,
    types::{Environment, Type},
};

/// A plan, and the numbers of its columns in order.
pub struct Planned {
    pub plan: Plan,
    pub layout: Vec<usize>,
    /// Slots that it needs from columns of other members (LATERAL).
    pub params: Vec<(usize, Expr)>,
    /// True if it returns its rows in the order that was asked for.
    pub ordered: bool,
    /// How few rows are certain.
    pub rank: Rank,
}

/// Requests to FROM beside its conditions.
pub struct Wishes<'w> {
    /// The numbers of columns that are used above.
    pub needed: BTreeSet<usize>,
    /// The order wanted.
    pub order: &'w [SortKey],
    /// True if only a few rows are wanted.
    pub limited: bool,
    /// The numbers of first columns of tables whose row keys are needed.
    pub keys: Vec<usize>,
}

/// Gives an expression over column numbers the positions of a layout.
pub fn place(mut expr: Expr, layout: &[usize]) -> Expr {
    place_in(&mut expr, layout);
    expr
}

/// As [`place`], in the expression itself.
pub fn place_in(expr: &mut Expr, layout: &[usize]) {
    expr.map_columns(&|number| layout.iter().position(|other| *other == number).unwrap_or(usize::MAX));
}

/// Plans FROM with the conditions of WHERE.
pub fn plan_from(
    tree: JoinTree,
    filter: Vec<Expr>,
    wishes: &Wishes<'_>,
    numbers: &mut Numbers,
    environment: &dyn Environment,
) -> Result<Planned> {
    let mut planner = Planner { wishes, numbers, environment, estimates: Estimates::default() };
    let single = matches!(tree, JoinTree::Item(_));
    planner.tree(reduced(tree, &filter), filter, &wishes.needed, single)
}

/// The planner of one FROM.
pub(super) struct Planner<'w> {
    pub(super) wishes: &'w Wishes<'w>,
    numbers: &'w mut Numbers,
    /// Where the interrupt is looked at: ordering hundreds of joins takes its time.
    pub(super) environment: &'w dyn Environment,
    pub(super) estimates: Estimates,
}

impl Planner<'_> {
    fn tree(
        &mut self,
        tree: JoinTree,
        filter: Vec<Expr>,
        needed: &BTreeSet<usize>,
        single: bool,
    ) -> Result<Planned> {
        self.environment.check_interrupt()?;
        match tree {
            JoinTree::Item(item) => Ok(self.item(*item, factored(filter), needed, single)),
            JoinTree::Join { kind: JoinKind::Inner, .. } => self.inner(tree, filter, needed),
            JoinTree::Join { kind, left, right, condition } => {
                self.outer(kind, *left, *right, factored(condition), factored(filter), needed)
            }
        }
    }

    /// A list of inner joins.
    fn inner(&mut self, tree: JoinTree, mut filter: Vec<Expr>, needed: &BTreeSet<usize>) -> Result<Planned> {
        let mut members = Vec::new();
        flatten(tree, &mut members, &mut filter);
        let mut filter = factored(filter);
        filter.extend(restrictions(&members, &filter));
        let mut needed = needed.clone();
        columns_used(&filter, &mut needed);
        for member in &members {
            needed.extend(member.takes());
        }
        let mut outside = Vec::new();
        let mut joined: Option<Planned> = match self.goes_by_cost(&members) {
            true => {
                let members = std::mem::take(&mut members);
                Some(self.by_cost(members, &mut filter, &needed, &mut outside)?)
            }
            false => None,
        };
        while !members.is_empty() {
            let next = self.choose(&members, &filter, joined.as_ref())?;
            let member = members.remove(next);
            joined = Some(match joined {
                None => {
                    let here = take(&mut filter, |condition| {
                        condition.columns().iter().all(|column| member.has(*column))
                    });
                    let mut planned = self.member(member, here, &needed)?;
                    outside.append(&mut planned.params);
                    planned
                }
                Some(left) => {
                    let here = take(&mut filter, |condition| {
                        let columns = condition.columns();
                        columns.iter().all(|column| member.has(*column) || left.layout.contains(column))
                    });
                    self.join(JoinKind::Inner, left, member, here, Vec::new(), &needed, &mut outside)?
                }
            });
        }
        let mut joined = joined.unwrap_or_else(|| Planned {
            plan: Plan::one_row(),
            layout: Vec::new(),
            params: Vec::new(),
            ordered: false,
            rank: Rank::Point,
        });
        // The conditions left refer to columns that no member has: those of LATERAL's surroundings.
        joined.params = outside;
        if !filter.is_empty() {
            let condition = place(Expr::and(filter), &joined.layout);
            joined.plan = joined.plan.filtered(condition);
        }
        Ok(joined)
    }

    /// The member to join next.
    fn choose(&self, members: &[Member], filter: &[Expr], joined: Option<&Planned>) -> Result<usize> {
        let known: BTreeSet<usize> = joined.iter().flat_map(|joined| joined.layout.iter().copied()).collect();
        let conditions: Vec<(&Expr, BTreeSet<usize>)> =
            filter.iter().map(|condition| (condition, condition.columns())).collect();
        let mut best: Option<(usize, (bool, bool, bool, Rank))> = None;
        for (position, member) in members.iter().enumerate() {
            self.environment.check_interrupt()?;
            let takes = member.takes();
            // A member that needs values of another one still to come waits for it.
            let waits = takes.iter().any(|&column| {
                members.iter().enumerate().any(|(other, m)| other != position && m.has(column))
            });
            if waits {
                continue;
            }
            let (rank, equal) = reach(member, &conditions, &known);
            // Each row has few of its own, and others may be joined to these by equality.
            let follows = takes.iter().any(|column| known.contains(column));
            let score = (rank >= Rank::Equal(1, false), equal, follows, rank);
            let better = match (&best, joined) {
                (None, _) => true,
                // The first member may be any; later ones go by key, by equality, by LATERAL, then as written.
                (Some((_, old)), None) => (score.0, score.3) > (old.0, old.3),
                (Some((_, old)), Some(_)) => score > *old,
            };
            if better {
                best = Some((position, score));
            }
        }
        Ok(best.map_or(0, |(position, _)| position))
    }

    pub(super) fn member(
        &mut self,
        member: Member,
        filter: Vec<Expr>,
        needed: &BTreeSet<usize>,
    ) -> Result<Planned> {
        match member {
            Member::Item(item) => Ok(self.item(*item, filter, needed, false)),
            Member::Tree { tree, .. } => self.tree(tree, filter, needed, false),
        }
    }

    /// An outer join.
    fn outer(
        &mut self,
        kind: JoinKind,
        left: JoinTree,
        right: JoinTree,
        mut on: Vec<Expr>,
        mut filter: Vec<Expr>,
        needed: &BTreeSet<usize>,
    ) -> Result<Planned> {
        let (mut left_columns, mut right_columns) = (BTreeSet::new(), BTreeSet::new());
        columns_of(&left, &mut left_columns);
        columns_of(&right, &mut right_columns);
        let within = |condition: &Expr, columns: &BTreeSet<usize>| {
            let used = condition.columns();
            !condition.is_volatile() && used.is_subset(columns) && !used.is_empty()
        };
        // A condition on the side that keeps all its rows can be tested before the join; one of ON, on the other.
        let left_filter = match kind {
            JoinKind::Left => take(&mut filter, |condition| within(condition, &left_columns)),
            JoinKind::Right => take(&mut on, |condition| within(condition, &left_columns)),
            JoinKind::Inner | JoinKind::Full => Vec::new(),
        };
        let right_filter = match kind {
            JoinKind::Right => take(&mut filter, |condition| within(condition, &right_columns)),
            JoinKind::Left => take(&mut on, |condition| within(condition, &right_columns)),
            JoinKind::Inner | JoinKind::Full => Vec::new(),
        };
        let mut needed = needed.clone();
        columns_used(&on, &mut needed);
        columns_used(&filter, &mut needed);
        lateral_columns(&right, &mut needed);
        let costs = self.outer_goes_by_cost(&left, &right);
        let mut planned_left = self.tree(left, left_filter, &needed, false)?;
        let mut outside = std::mem::take(&mut planned_left.params);
        let right = match right {
            JoinTree::Item(item) => Member::Item(item),
            tree => Member::Tree { tree, columns: right_columns },
        };
        let mut joined = match costs {
            true => {
                self.outer_by_cost(kind, planned_left, right, (on, right_filter), &needed, &mut outside)?
            }
            false => self.join(kind, planned_left, right, on, right_filter, &needed, &mut outside)?,
        };
        joined.params = outside;
        if !filter.is_empty() {
            let condition = place(Expr::and(filter), &joined.layout);
            joined.plan = Plan::Filter(Arc::new(Filter { input: joined.plan, condition }));
        }
        Ok(joined)
    }

    /// Joins a member to what is joined. `on` are the conditions of the join, `right_filter` those that the member's
    /// rows are tested for first.
    #[allow(clippy::too_many_arguments, reason = "both sides of a join and what is known of each")]
    fn join(
        &mut self,
        kind: JoinKind,
        left: Planned,
        right: Member,
        on: Vec<Expr>,
        right_filter: Vec<Expr>,
        needed: &BTreeSet<usize>,
        outside: &mut Vec<(usize, Expr)>,
    ) -> Result<Planned> {
        if matches!(kind, JoinKind::Inner | JoinKind::Left)
            && let Member::Item(item) = &right
            && let FromKind::Table(table) = &item.kind
        {
            let columns: Vec<usize> = (0..table.columns.len()).collect();
            let conditions: Vec<Expr> =
                right_filter.iter().chain(&on).map(|condition| as_lookup(condition, item)).collect();
            let choice = choose_access(table, &columns, &conditions, &[], Rule::CERTAIN);
            let own: Vec<Expr> = right_filter.iter().map(|condition| as_lookup(condition, item)).collect();
            let alone = choose_access(table, &columns, &own, &[], Rule::CERTAIN).rank;
            let few = left.rank > Rank::Range;
            let hashable = on
                .iter()
                .any(|condition| equal_sides(condition, &left.layout, &|column| right.has(column)).is_some());
            let worth = choice.rank > alone
                && (choice.rank == Rank::Point || few || !hashable)
                && choice.rank >= Rank::Range;
            if worth {
                return Ok(self.lookup_join(kind, left, right, on, right_filter, needed));
            }
        }
        let mut on = on;
        let mut right_filter = right_filter;
        if kind == JoinKind::Inner {
            right_filter.extend(take(&mut on, |condition| {
                condition.columns().iter().all(|column| right.has(*column))
            }));
        }
        let is_alone = right.takes().iter().all(|column| !left.layout.contains(column));
        let mut needed = needed.clone();
        columns_used(&right_filter, &mut needed);
        let right = self.member(right, right_filter, &needed)?;
        let hashable =
            if is_alone { take(&mut on, |condition| !condition.is_volatile()) } else { Vec::new() };
        Ok(Planner::pair(kind, left, right, hashable, on, outside))
    }

    /// Joins two plans: by hash, if one of the conditions in `hashable` is an equality of the sides that it can decide.
    pub(super) fn pair(
        kind: JoinKind,
        left: Planned,
        right: Planned,
        hashable: Vec<Expr>,
        mut on: Vec<Expr>,
        outside: &mut Vec<(usize, Expr)>,
    ) -> Planned {
        let (rank, ordered) = (left.rank.min(Rank::Range), left.ordered);
        let mut keys = Vec::new();
        for condition in hashable {
            match equal_sides(&condition, &left.layout, &|column| right.layout.contains(&column)) {
                Some(sides) => keys.push(sides),
                None => on.push(condition),
            }
        }
        let (params, rest): (Vec<_>, Vec<_>) = right
            .params
            .into_iter()
            .partition(|(_, value)| value.columns().iter().any(|column| left.layout.contains(column)));
        outside.extend(rest);
        let params = params.into_iter().map(|(slot, value)| (slot, place(value, &left.layout))).collect();
        let (left_width, right_width) = (left.layout.len(), right.layout.len());
        let keys: Vec<(Expr, Expr)> =
            keys.into_iter().map(|(a, b)| (place(a, &left.layout), place(b, &right.layout))).collect();
        let layout = [left.layout, right.layout].concat();
        let condition = (!on.is_empty()).then(|| place(Expr::and(on), &layout));
        let (left, right) = (left.plan, right.plan);
        let plan = match keys.is_empty() {
            false => Plan::HashJoin(Arc::new(HashJoin {
                kind,
                left,
                right,
                left_width,
                right_width,
                keys,
                condition,
            })),
            true => Plan::NestedLoop(Arc::new(NestedLoop {
                kind,
                left,
                right,
                left_width,
                right_width,
                params,
                condition,
            })),
        };
        let ordered = ordered && matches!(kind, JoinKind::Inner | JoinKind::Left);
        Planned { plan, layout, params: Vec::new(), ordered, rank }
    }

    /// A join that looks the right side up by a key, for each left row.
    pub(super) fn lookup_join(
        &mut self,
        kind: JoinKind,
        left: Planned,
        right: Member,
        on: Vec<Expr>,
        right_filter: Vec<Expr>,
        needed: &BTreeSet<usize>,
    ) -> Planned {
        let Member::Item(item) = right else { return left };
        // Within the scan, the left row's columns are slots.
        let mut params: Vec<(usize, Expr)> = Vec::new();
        let range = item.base..item.base + item.width;
        let mut filter = right_filter;
        for mut condition in on {
            let numbers = &mut *self.numbers;
            condition.replace(&mut |expr| match &expr.kind {
                ExprKind::Column { index, .. } if !range.contains(index) => {
                    let slot = match params.iter().find(|(_, value)| value.as_column() == Some(*index)) {
                        Some((slot, _)) => *slot,
                        None => {
                            let slot = numbers.next_slot();
                            params.push((slot, expr.clone()));
                            slot
                        }
                    };
                    Some(Expr { kind: ExprKind::Slot(slot), ty: expr.ty })
                }
                _ => None,
            });
            filter.push(condition);
        }
        let scan = self.item(*item, filter, needed, false);
        let (left_width, right_width) = (left.layout.len(), scan.layout.len());
        let params = params.into_iter().map(|(slot, value)| (slot, place(value, &left.layout))).collect();
        let rank = left.rank.min(scan.rank);
        let ordered = left.ordered;
        let layout = [left.layout, scan.layout].concat();
        let node = NestedLoop {
            kind,
            left: left.plan,
            right: scan.plan,
            left_width,
            right_width,
            params,
            condition: None,
        };
        Planned { plan: Plan::NestedLoop(Arc::new(node)), layout, params: Vec::new(), ordered, rank }
    }

    /// A single item.
    fn item(&mut self, item: FromItem, filter: Vec<Expr>, needed: &BTreeSet<usize>, alone: bool) -> Planned {
        let FromItem { kind, alias, base, width, params } = item;
        let mut used = needed.clone();
        columns_used(&filter, &mut used);
        // Behind its own columns, the item has one that is never NULL. It is made if it is used.
        let witness = base + width - 1;
        let has_witness = used.contains(&witness);
        let plain = |plan: Plan| Planned {
            plan: if has_witness { with_witness(plan, width - 1) } else { plan },
            layout: (base..base + width - usize::from(!has_witness)).collect(),
            params: Vec::new(),
            ordered: false,
            rank: Rank::Full,
        };
        let mut planned = match kind {
            FromKind::Table(table) => {
                let with_key = has_witness || self.wishes.keys.contains(&base);
                let order = if alone { self.wishes.order } else { &[] };
                order.iter().for_each(|key| key.expr.collect_columns(&mut used));
                let columns: Vec<usize> =
                    (0..table.columns.len()).filter(|column| used.contains(&(base + column))).collect();
                let key = with_key.then_some(witness);
                let layout: Vec<usize> = columns.iter().map(|column| base + column).chain(key).collect();
                let filter: Vec<Expr> = filter.into_iter().map(|e| place(e, &layout)).collect();
                let order: Vec<SortKey> = order
                    .iter()
                    .map(|key| SortKey { expr: place(key.expr.clone(), &layout), ..key.clone() })
                    .collect();
                let rule = Rule { limited: alone && self.wishes.limited, costs: self.wishes.keys.is_empty() };
                let Choice { access, covered, ordered, rank, pruning } =
                    choose_access(&table, &columns, &filter, &order, rule);
                let mut rest: Vec<Expr> = filter
                    .into_iter()
                    .enumerate()
                    .filter(|(position, _)| !covered.contains(position))
                    .map(|(_, condition)| condition)
                    .collect();
                // Columns that only the access was chosen by need not be read.
                let mut read = BTreeSet::new();
                columns_used(&rest, &mut read);
                let kept: Vec<usize> = (0..columns.len())
                    .filter(|position| read.contains(position) || needed.contains(&layout[*position]))
                    .collect();
                let keeps_key = needed.contains(&witness)
                    || self.wishes.keys.contains(&base)
                    || read.contains(&columns.len());
                let key = key.filter(|_| keeps_key);
                let all: Vec<usize> = kept.iter().copied().chain(key.map(|_| columns.len())).collect();
                rest.iter_mut().for_each(|condition| place_in(condition, &all));
                let columns: Vec<usize> = kept.iter().map(|position| columns[*position]).collect();
                let layout: Vec<usize> = all.iter().map(|position| layout[*position]).collect();
                let scan = TableScan::new(table, alias, columns, keeps_key, access, pruning, rest);
                let plan = Plan::TableScan(Arc::new(scan));
                return Planned { plan, layout, params, ordered: alone && ordered, rank };
            }
            FromKind::Current(table, cursor) => {
                let columns: Vec<usize> =
                    (0..table.columns.len()).filter(|column| used.contains(&(base + column))).collect();
                let layout: Vec<usize> =
                    columns.iter().map(|column| base + column).chain([witness]).collect();
                let filter = filter.into_iter().map(|e| place(e, &layout)).collect();
                let scan = TableScan::new(table, alias, columns, true, Access::Current(cursor), None, filter);
                let plan = Plan::TableScan(Arc::new(scan));
                return Planned { plan, layout, params, ordered: false, rank: Rank::Point };
            }
            FromKind::Virtual(table) => {
                let columns: Vec<usize> =
                    (0..width).filter(|column| used.contains(&(base + column))).collect();
                let layout: Vec<usize> = columns.iter().map(|column| base + column).collect();
                let filter: Vec<Expr> = filter.into_iter().map(|e| place(e, &layout)).collect();
                let filter = (!filter.is_empty()).then(|| Expr::and(filter));
                let plan = Plan::VirtualScan(Arc::new(VirtualScan { table, alias, columns, filter }));
                return Planned { plan, layout, params, ordered: false, rank: Rank::Full };
            }
            FromKind::Plan(plan) => {
                let here = used.range(base..witness).map(|column| column - base).collect();
                plain(prune(plan, &here, &mut self.numbers.cte_columns))
            }
            FromKind::Functions { functions, ordinality } => {
                plain(Plan::FunctionScan(Arc::new(FunctionScan { functions, ordinality, alias })))
            }
        };
        planned.params = params;
        if !filter.is_empty() {
            let condition = place(Expr::and(filter), &planned.layout);
            planned.plan = planned.plan.filtered(condition);
        }
        planned
    }
}

/// A plan of `width` columns, and one behind them that is not NULL.
fn with_witness(input: Plan, width: usize) -> Plan {
    let columns = (0..width).map(|number| Expr::column(number, "?column?", Type::Bool.into()));
    let columns = columns.chain([Expr::bool(true)]).collect();
    Plan::Project(Arc::new(Project { input, columns }))
}

/// Returns how a member is reached from what is known: by which rank of key, and whether by equality at all. Each
/// condition comes with its columns.
fn reach(member: &Member, conditions: &[(&Expr, BTreeSet<usize>)], known: &BTreeSet<usize>) -> (Rank, bool) {
    let usable: Vec<&(&Expr, BTreeSet<usize>)> = conditions
        .iter()
        .filter(|(_, columns)| {
            columns.iter().any(|column| member.has(*column))
                && columns.iter().all(|column| member.has(*column) || known.contains(column))
        })
        .collect();
    let equal = usable.iter().any(|(condition, columns)| {
        matches!(&condition.kind, ExprKind::Call { function, .. }
            if function.comparison() == Some(Comparison::Equal))
            && columns.iter().any(|column| !member.has(*column))
    });
    let Member::Item(item) = member else { return (Rank::Full, equal) };
    let table = match &item.kind {
        FromKind::Table(table) => table,
        FromKind::Current(..) => return (Rank::Point, equal),
        _ => return (Rank::Full, equal),
    };
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    let conditions: Vec<Expr> = usable.iter().map(|(condition, _)| as_lookup(condition, item)).collect();
    (choose_access(table, &columns, &conditions, &[], Rule::CERTAIN).rank, equal)
}

impl TableScan {
    /// A scan with conditions that its access does not cover.
    pub fn new(
        table: Arc<crate::catalog::model::Table>,
        alias: String,
        columns: Vec<usize>,
        with_key: bool,
        access: Access,
        pruning: Option<Vec<KeyPart>>,
        filter: Vec<Expr>,
    ) -> TableScan {
        let types = table.columns.iter().map(|column| column.ty).collect();
        let filter = (!filter.is_empty()).then(|| Expr::and(filter));
        TableScan { table, types, alias, columns, with_key, access, pruning, filter }
    }
}
