//! A member of a cluster at work: what people are told of it, and that the server stops with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use gnomon_cluster::{
    node::{Node, Skipped, Status, Stopped},
    protocol::Member,
};
use gnomon_engine::{
    Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        thread,
    },
};
use gnomon_server::ServerHandle;

use super::tell;

/// Interval at which it looks.
const LOOK: Duration = Duration::from_millis(200);

/// Watches a member: tells how the cluster changes, and stops the server when the member has stopped.
pub struct Watch {
    node: Arc<Node>,
    ended: Arc<AtomicBool>,
    thread: thread::JoinHandle<Option<Stopped>>,
}

impl Watch {
    pub fn begin(node: Arc<Node>, server: ServerHandle) -> Watch {
        let ended = Arc::new(AtomicBool::new(false));
        let (watched, flag) = (node.clone(), ended.clone());
        let thread = thread::spawn(move || {
            let mut known = Known::default();
            while !flag.load(Ordering::Acquire) {
                match watched.stopped() {
                    // The server has.
                    Some(Stopped::Database(Error::Closed)) => return None,
                    Some(stopped) => {
                        server.shut_down();
                        return Some(stopped);
                    }
                    None => {
                        let news = known.update(&watched.status(), watched.name());
                        news.iter().for_each(|line| tell(&mut std::io::stderr(), line));
                    }
                }
                thread::park_timeout(LOOK);
            }
            None
        });
        Watch { node, ended, thread }
    }

    /// The server has ended: the member leaves. Returns why it had stopped before.
    pub fn end(self) -> Option<Stopped> {
        self.ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let stopped = self.thread.join().expect("watching does not panic");
        drop(self.node);
        stopped
    }
}

/// The state of the cluster as it was reported last.
#[derive(Default)]
struct Known {
    is_apart: bool,
    is_full: bool,
    /// The other members by name: the number of each in this life, and true if it is heard of.
    others: BTreeMap<String, (Member, bool)>,
    dropped: BTreeSet<String>,
    skipped: u64,
}

impl Known {
    /// Returns the changes since the last report, as lines, for the member with this name.
    fn update(&mut self, status: &Status, name: &str) -> Vec<String> {
        let mut news = Vec::new();
        match &status.away {
            Some(why) if !self.is_apart => news.push(format!("apart from the cluster: {why}")),
            None if self.is_apart => news.push("with the cluster again".into()),
            _ => {}
        }
        self.is_apart = status.away.is_some();
        match status.is_full {
            true if !self.is_full => news.push("the log of the cluster is full: nothing can commit".into()),
            false if self.is_full => news.push("the log of the cluster has room again".into()),
            _ => {}
        }
        self.is_full = status.is_full;
        let others = status.overview.members.iter().filter(|info| info.name != name);
        let others: BTreeMap<String, (Member, bool)> =
            others.map(|info| (info.name.clone(), (info.member, info.is_alive))).collect();
        for (name, known) in &others {
            if self.others.get(name) != Some(known) {
                let state = if known.1 { "present" } else { "silent" };
                news.push(format!("member {name} is {state}"));
            }
        }
        let gone = self.others.keys().filter(|name| !others.contains_key(*name));
        news.extend(gone.map(|name| format!("member {name} is gone")));
        self.others = others;
        let dropped = status.dropped.difference(&self.dropped);
        let needs_copy =
            "is gone, and the log is kept for it no more: it needs a new copy when it comes back";
        news.extend(dropped.map(|name| format!("member {name} {needs_copy}")));
        self.dropped.clone_from(&status.dropped);
        news.extend(self.update_skipped(&status.skipped));
        news
    }

    /// The entries of the log that were skipped since the last report.
    fn update_skipped(&mut self, skipped: &Skipped) -> Option<String> {
        let count = skipped.count - std::mem::replace(&mut self.skipped, skipped.count);
        let last = skipped.last.as_ref().filter(|_| count > 0)?;
        let more = if count > 1 { format!(" (the last of {count} such changes)") } else { String::new() };
        Some(format!(
            "skipped in the log of the cluster, as all members do, since none has written it: {last}{more}; see what \
             else writes to this etcd"
        ))
    }
}

#[cfg(test)]
mod tests {
    use gnomon_cluster::{node::Overview, order::MemberInfo, protocol::Version};

    use super::*;

    fn status(away: Option<&str>, members: &[(&str, bool)]) -> Status {
        let info = |(name, is_alive): &(&str, bool)| MemberInfo {
            name: (*name).into(),
            member: Member(1),
            address: String::new(),
            is_alive: *is_alive,
        };
        Status {
            member: Member(1),
            version: Version(0),
            received: 0,
            waiting: 0,
            away: away.map(str::to_owned),
            is_full: false,
            overview: Overview { members: members.iter().map(info).collect(), ..Overview::default() },
            dropped: BTreeSet::new(),
            ended: BTreeMap::new(),
            skipped: Skipped::default(),
        }
    }

    #[test]
    fn each_change_is_told_once() {
        let mut known = Known::default();
        let mut told = |away, members: &[_]| known.update(&status(away, members), "one");
        assert_eq!(told(None, &[("one", true)]), [""; 0]);
        assert_eq!(told(None, &[("one", true), ("two", true)]), ["member two is present"]);
        assert_eq!(
            told(Some("no answer for 2 s"), &[("two", true)]),
            ["apart from the cluster: no answer for 2 s"]
        );
        assert_eq!(told(Some("no answer for 3 s"), &[("two", true)]), [""; 0]);
        assert_eq!(
            told(None, &[("two", false), ("three", true)]),
            ["with the cluster again", "member three is present", "member two is silent"]
        );
        assert_eq!(told(None, &[("three", true)]), ["member two is gone"]);
        let mut full = Status { is_full: true, ..status(None, &[]) };
        assert_eq!(
            known.update(&full, "one"),
            ["the log of the cluster is full: nothing can commit", "member three is gone"]
        );
        full.is_full = false;
        assert_eq!(known.update(&full, "one"), ["the log of the cluster has room again"]);
        full.skipped = Skipped { count: 1, last: Some("the key was deleted".into()) };
        let told = known.update(&full, "one");
        assert!(told.len() == 1 && told[0].contains("the key was deleted; see"), "{told:?}");
        assert_eq!(known.update(&full, "one"), [""; 0]);
        full.skipped.count = 3;
        let told = known.update(&full, "one");
        assert!(told.len() == 1 && told[0].contains("the last of 2 such changes"), "{told:?}");
    }
}
