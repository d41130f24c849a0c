//! Reports on a cluster: its members, and how transactions have ended.

use gnomon_cluster::{
    node::{BOUND_MAX, Node, Overview},
    order::MemberInfo,
    protocol::{Level, Reason},
};
use gnomon_engine::sync::{Arc, Weak};
use gnomon_sql::{
    catalog::system::{Cluster, ClusterMember, ClusterTransactions},
    session::RetryCounts,
};

/// The source of what SQL and metrics show of the cluster.
pub struct View {
    pub node: Weak<Node>,
    pub retries: Arc<RetryCounts>,
}

impl Cluster for View {
    fn members(&self) -> Vec<ClusterMember> {
        let Some(node) = self.node.upgrade() else { return Vec::new() };
        let (name, status) = (node.name().to_owned(), node.status());
        drop(node);
        let own = ClusterMember {
            name,
            member: Some(status.member.0),
            address: String::new(),
            state: "apart",
            is_self: true,
            applied: Some(status.version.0),
            received: Some(status.received),
            durable: None,
            lag: None,
        };
        if status.away.is_some() {
            return vec![own];
        }
        let Overview { members: present, kept_after: kept, newest } = status.overview;
        let member = |info: &MemberInfo| {
            let durable = kept.get(&info.name).copied();
            let state = if info.is_alive { "present" } else { "silent" };
            let shown = ClusterMember { address: info.address.clone(), state, durable, ..own.clone() };
            match info.member == status.member {
                true => ClusterMember { lag: Some(newest.saturating_sub(status.received)), ..shown },
                false => ClusterMember {
                    name: info.name.clone(),
                    member: Some(info.member.0),
                    is_self: false,
                    applied: None,
                    received: None,
                    // It may come back to what it has said, and no later.
                    lag: durable.map(|durable| newest.saturating_sub(durable.saturating_add(1))),
                    ..shown
                },
            }
        };
        let mut all: Vec<ClusterMember> = present.iter().map(member).collect();
        let absent = kept.iter().filter(|(name, _)| present.iter().all(|info| info.name != **name));
        all.extend(absent.map(|(name, durable)| ClusterMember {
            name: name.clone(),
            member: None,
            state: "gone",
            is_self: false,
            applied: None,
            received: None,
            durable: Some(*durable),
            lag: Some(newest.saturating_sub(*durable)),
            ..own.clone()
        }));
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    fn transactions(&self) -> Vec<ClusterTransactions> {
        let Some(node) = self.node.upgrade() else { return Vec::new() };
        let shown = |((level, reason), count): ((Level, Option<Reason>), u64)| {
            let outcome = reason.map_or("committed", Reason::name);
            // What the field calls SSI is not what users of PostgreSQL know by that name.
            let level = match level {
                Level::KBound(BOUND_MAX) => "k-bound".into(),
                Level::KBound(k) => format!("{k}-bound"),
                level => level.to_string(),
            };
            ClusterTransactions { level, outcome, count }
        };
        node.status().ended.into_iter().map(shown).collect()
    }

    fn skipped(&self) -> u64 {
        self.node.upgrade().map_or(0, |node| node.status().skipped.count)
    }

    fn retries(&self) -> (u64, u64) {
        (self.retries.run_again(), self.retries.given_up())
    }
}
