//! `gnomon serve --cluster`: a member of a cluster, from its log to its copy of the data.

use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

use clap::Args;
use gnomon_cluster::{
    node::{self, Common, Node, Options, Stopped},
    order::{EtcdAccess, EtcdLog, EtcdOptions, LogError, MemberInfo, OrderedLog, Refused},
    protocol::{Member, Settings},
};
use gnomon_engine::{
    disk::FileDisk,
    env::{Clock, Rng, SystemClock},
    sync::{Arc, thread},
};
use gnomon_program::{Failure, Progress};
use gnomon_sql::{catalog::system::Cluster, session::SqlDatabase};
use gnomon_tls::{certificate, client::Target, secret};
use view::View;

use super::tell;
use crate::backup;
pub use watch::Watch;

mod view;
mod watch;

/// Maximum time that a member waits for one of its own name that may have died.
const NAME_WAIT: Duration = Duration::from_secs(20);
/// Maximum time that it waits for room in a full log.
const ROOM_WAIT: Duration = Duration::from_secs(120);
/// Time without any bytes of a copy after which that is reported.
const SILENCE: Duration = Duration::from_secs(15);
/// Time from a refused join to the next try.
const PAUSE: Duration = Duration::from_millis(200);

/// Options that make a server a member of a cluster.
#[derive(Args)]
pub struct ClusterArguments {
    /// The etcd that orders the commits of a cluster, which this server joins: a URL, or several of its nodes, with commas.
    ///
    /// The first member gives the cluster its data. Others begin with an empty directory, for a copy of what a member has,
    /// or go on where they were. Commits are told when they came back in order; reads are of what has come so far.
    #[arg(long, value_name = "URL", requires = "node")]
    cluster: Option<String>,
    /// The name of this member.
    ///
    /// No other one has it: letters, digits, - _ and . make it up. A member comes back by it.
    #[arg(long, value_name = "NAME", requires = "cluster", value_parser = parse_name)]
    node: Option<String>,
    /// The prefix of the cluster's keys in etcd.
    ///
    /// One etcd is for one cluster, whose members trim all of it.
    #[arg(long, value_name = "PREFIX", requires = "cluster", default_value = "/gnomon")]
    cluster_prefix: String,
    /// The certificates (PEM) of those that sign etcd's, for URLs https://HOST:2379.
    ///
    /// One that none of them has signed, or that has not the URL's host, is not talked to.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    etcd_ca: Option<PathBuf>,
    /// This member's certificate (PEM) for etcd, if that asks for one.
    ///
    /// The member's own certificate comes first. Its key is given by --etcd-key.
    #[arg(long, value_name = "FILE", requires = "etcd_key", requires = "etcd_ca")]
    etcd_cert: Option<PathBuf>,
    /// The certificate's key (PEM).
    ///
    /// No other user may be able to read it.
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
    /// The user of etcd that this member is, if that asks for one.
    ///
    /// With the password in --etcd-password-file.
    #[arg(long, value_name = "NAME", requires = "etcd_password_file", requires = "cluster")]
    etcd_user: Option<String>,
    /// A file whose first line is the password of etcd's user.
    ///
    /// No other user may be able to read it.
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
    /// Where other members reach this one, for a copy of its data: HOST:PORT.
    ///
    /// Without it, where it listens.
    #[arg(long, value_name = "ADDRESS", requires = "cluster", value_parser = parse_address)]
    advertise: Option<String>,
    /// The member that a new one takes its copy from: postgres://USER@HOST:PORT.
    ///
    /// Without it, one that the log knows of, as the user of --user with its password, or with that in PGPASSWORD.
    #[arg(long, value_name = "URL", requires = "cluster")]
    copy_from: Option<String>,
    /// The certificates (PEM) of those that sign other members', so that a copy is taken by TLS from a member that has its
    /// address in its certificate.
    ///
    /// Without it, a copy is taken by TLS from any member that has it. This member's own certificate, of
    /// --tls-cert, is shown to those that ask for one. In a URL of --copy-from stands what holds for that one.
    #[arg(long, value_name = "FILE", requires = "cluster", conflicts_with = "copy_from")]
    member_ca: Option<PathBuf>,
    /// Take the database out of its cluster for good, and serve it by itself.
    ///
    /// It keeps what it has, and never follows that cluster again.
    #[arg(long, conflicts_with = "cluster")]
    pub leave_cluster: bool,
}

fn parse_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match (1..=63).contains(&text.len()) && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("give up to 63 letters, digits, - _ and .".into()),
    }
}

fn parse_address(text: &str) -> Result<String, String> {
    let fits = |host: &str| !host.is_empty() && !host.contains(['/', '@', '?', ' ']);
    match text.rsplit_once(':') {
        Some((host, port)) if fits(host) && port.parse::<u16>().is_ok_and(|port| port > 0) => {
            Ok(text.to_owned())
        }
        _ => Err("give a host and a port, as in db1.example.org:5432".into()),
    }
}

/// The credentials with which a copy is taken.
pub struct Credentials {
    pub user: String,
    pub password: Option<String>,
    /// Files of a certificate and its key, for those that ask for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// A server that is about to join a cluster.
pub struct Joining<'a> {
    arguments: &'a ClusterArguments,
    /// The member that --copy-from names.
    source: Option<Target>,
    name: String,
    log: Arc<EtcdLog>,
    /// The number of the data that the cluster has.
    data: Option<u64>,
    /// True if the directory had no database before this start.
    is_new: bool,
    /// The member as which it has joined for its copy, if it takes one.
    copied_as: OnceCell<Member>,
    /// The number of the data that this one gives the cluster, if it is the first member.
    made: OnceCell<u64>,
}

fn of_log(error: impl std::fmt::Display) -> Failure {
    Failure(error.to_string())
}

impl ClusterArguments {
    /// The credentials for etcd.
    fn access(&self) -> Result<EtcdAccess, Failure> {
        let certificates = |path: &PathBuf| {
            // They are read by what connects; that they are some is said here.
            certificate::read_chain(path).map_err(Failure)?;
            std::fs::read(path).map_err(|error| Failure::new(path.display(), error))
        };
        let identity = match (&self.etcd_cert, &self.etcd_key) {
            (Some(certificate), Some(key)) => {
                let key = secret::read("private key file of etcd", key).map_err(Failure)?;
                Some((certificates(certificate)?, key))
            }
            _ => None,
        };
        let user = match (&self.etcd_user, &self.etcd_password_file) {
            (Some(user), Some(path)) => {
                let password = secret::read_line("password file of etcd", path).map_err(Failure)?;
                Some((user.clone(), password))
            }
            _ => None,
        };
        Ok(EtcdAccess { authorities: self.etcd_ca.as_ref().map(certificates).transpose()?, identity, user })
    }

    /// The end of a member's URL, for a copy of its data.
    fn settings_of_copies(&self, who: &Credentials) -> Result<String, Failure> {
        let mut settings = Vec::new();
        let mut add = |name: &str, path: &Path| {
            let path = path.to_str().ok_or_else(|| Failure(format!("{} is not UTF-8", path.display())))?;
            settings.push(format!("{name}={}", escaped(path)));
            Ok::<_, Failure>(())
        };
        if let Some(authorities) = &self.member_ca {
            add("sslrootcert", authorities)?;
        }
        if let Some((certificate, key)) = &who.certificate {
            add("sslcert", certificate)?;
            add("sslkey", key)?;
        }
        if self.member_ca.is_some() {
            settings.push("sslmode=verify-full".into());
        }
        Ok(if settings.is_empty() { String::new() } else { format!("?{}", settings.join("&")) })
    }

    /// Reaches the log of the cluster, if there is to be one.
    pub fn reach(&self, is_new: bool) -> Result<Option<Joining<'_>>, Failure> {
        let (Some(endpoints), Some(name)) = (&self.cluster, &self.node) else { return Ok(None) };
        // A member that has its data copies nothing, and needs no file that the URL names.
        let source = self.copy_from.as_deref().filter(|_| is_new).map(backup::target).transpose()?;
        let access = self.access()?;
        let options =
            EtcdOptions { prefix: self.cluster_prefix.clone(), access, ..EtcdOptions::new(endpoints) };
        // They are not shown if there may be a password in them, which is refused below.
        if !endpoints.contains('@') {
            tell(&mut std::io::stderr(), &format!("reaching the log of the cluster at {endpoints}"));
        }
        let log = Arc::new(EtcdLog::open(&options).map_err(of_log)?);
        let data = log.data(None).map_err(of_log)?;
        Ok(Some(Joining {
            arguments: self,
            source,
            name: name.clone(),
            log,
            data,
            is_new,
            copied_as: OnceCell::new(),
            made: OnceCell::new(),
        }))
    }
}

impl Joining<'_> {
    /// Copies what the cluster has into a directory without a database.
    pub fn copy_if_new(&self, directory: &Path, who: &Credentials) -> Result<(), Failure> {
        if !self.is_new || self.data.is_none() {
            return Ok(());
        }
        let member = self.wait_to_join(|| self.join_for_copy())?;
        match self.copy(directory, who) {
            // It stays: the log, which may be full by now, is kept for it.
            Ok(()) => self.copied_as.set(member).map_err(|_| unreachable!("it copies once")),
            Err(failure) => {
                // Otherwise it is gone when it was not heard of for a while.
                let _ = self.log.gone(member);
                Err(failure)
            }
        }
    }

    /// Copies what a member has, whichever can give it.
    fn copy(&self, directory: &Path, who: &Credentials) -> Result<(), Failure> {
        let sources = match &self.source {
            Some(source) => vec![Ok(source.clone())],
            None => {
                let members = self.log.members().map_err(of_log)?;
                let present = |info: &MemberInfo| info.is_alive && !info.address.is_empty();
                let settings = self.arguments.settings_of_copies(who)?;
                let target = |info: MemberInfo| {
                    backup::target(&format!("postgres://{}@{}{settings}", escaped(&who.user), info.address))
                };
                members.into_iter().filter(present).map(target).collect()
            }
        };
        let mut failed = Vec::new();
        for source in sources {
            let source = match source {
                Ok(source) => source,
                Err(Failure(why)) => {
                    failed.push(why);
                    continue;
                }
            };
            let shown = source.to_string();
            tell(&mut std::io::stderr(), &format!("copying the data of the cluster from {shown}"));
            match copy(source, who, directory) {
                Ok(()) => return Ok(()),
                Err(Failure(why)) => failed.push(format!("from {shown}: {why}")),
            }
        }
        Err(Failure(match failed.is_empty() {
            true => "the cluster has data, and no member is there to copy them from: start one that has them, or name \
                     one by --copy-from"
                .into(),
            false => format!("the data of the cluster cannot be copied: {}", failed.join("; ")),
        }))
    }

    /// Joins for as long as a copy takes, and has the log kept from where all members are durable: the copy begins there or
    /// later, and members go on to trim what they do not need.
    fn join_for_copy(&self) -> Result<Member, Stopped> {
        let join = || {
            let least = self.log.kept_after()?.into_values().min().unwrap_or(0);
            let member = self.log.join(&self.name, "")?;
            match self.log.keep_after(member, least) {
                Ok(()) => Ok(member),
                Err(error) => {
                    let _ = self.log.gone(member);
                    Err(error)
                }
            }
        };
        join().map_err(Stopped::Log)
    }

    /// Joins; waits until a member of the same name that may have died is gone, and until the log has room.
    fn wait_to_join<T>(&self, mut join: impl FnMut() -> Result<T, Stopped>) -> Result<T, Failure> {
        let (clock, mut told) = (SystemClock::new(), String::new());
        loop {
            let stopped = match join() {
                Ok(joined) => return Ok(joined),
                Err(stopped) => stopped,
            };
            let (what, wait) = match &stopped {
                Stopped::Log(LogError::Refused(Refused::NameInUse(name))) => {
                    (format!("a member '{name}' was there until now: waiting whether it is gone"), NAME_WAIT)
                }
                Stopped::Log(LogError::Full(_)) => (format!("waiting for room: {stopped}"), ROOM_WAIT),
                _ => return Err(of_log(stopped)),
            };
            if clock.now() >= wait {
                return Err(of_log(stopped));
            }
            if let Stopped::Log(LogError::Full(_)) = &stopped {
                // If it is not reached, the next try says so.
                let _ = node::make_room_if_alone(&*self.log);
            }
            if what != told {
                tell(&mut std::io::stderr(), &what);
                told = what;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Opens a database as a member: of the cluster that it is of, or the first one of a new cluster.
    pub fn open(&self, engine: gnomon_engine::Database, directory: &Path) -> Result<SqlDatabase, Failure> {
        let of_database = |error| Failure::new(directory.display(), error);
        let database = SqlDatabase::open_member(engine).map_err(of_database)?;
        if database.marks().map_err(of_database)?.is_some() {
            return Ok(database);
        }
        if self.data.is_some() {
            return Err(Failure(format!(
                "{} is a database of its own, and the cluster has data already: start with an empty directory, for a \
                 copy of those",
                directory.display()
            )));
        }
        let data = *self.made.get_or_init(|| Rng::from_entropy().next_u64());
        let common = Common { data, settings: Settings::default() };
        let marks = node::create(database.engine(), &common)
            .map_err(|error| Failure::of_engine(directory, &error))?;
        database.set_marks(Some(marks)).map_err(of_database)?;
        tell(&mut std::io::stderr(), "this is the first member of a new cluster, which has its data");
        Ok(database)
    }

    /// True if another member has given the cluster its data while this one has made some in a new directory.
    fn is_outrun(&self) -> bool {
        let is_other =
            |made: &u64| self.log.data(None).is_ok_and(|known| known.is_some_and(|data| data != *made));
        self.is_new && self.made.get().is_some_and(is_other)
    }

    /// Joins, and comes up to where the others are.
    pub fn join(
        self,
        database: &SqlDatabase,
        directory: &Path,
        address: String,
    ) -> Result<(Arc<Node>, Arc<dyn Cluster>), Failure> {
        let marks = database.marks().map_err(of_log)?;
        let marks = marks.ok_or_else(|| Failure("the database has no marks of a cluster".into()))?;
        let mut options = Options::new(&*self.name, marks);
        options.address = self.arguments.advertise.clone().unwrap_or(address);
        options.joined = self.copied_as.get().copied();
        let start = || Node::start(Arc::new(database.clone()), self.log.clone(), options.clone());
        let node = self.wait_to_join(start).map_err(|failure| match self.is_outrun() {
            true => Failure(format!(
                "another member was the first one at the same time: remove {}, which this start has made and which has \
                 nothing, and start again for a copy of what the cluster has",
                directory.display()
            )),
            false => failure,
        })?;
        node.catch_up().map_err(of_log)?;
        let node = Arc::new(node);
        let view = Arc::new(View { node: Arc::downgrade(&node), retries: database.retries() });
        database.show_cluster(view.clone());
        Ok((node, view))
    }
}

/// Takes a database out of its cluster.
pub fn leave(engine: &gnomon_engine::Database, directory: &Path) -> Result<(), Failure> {
    let database =
        SqlDatabase::open_member(engine.clone()).map_err(|error| Failure::new(directory.display(), error))?;
    let marks = database.marks().map_err(|error| Failure::new(directory.display(), error))?;
    let Some(marks) = marks else {
        return Err(Failure(format!("{} is in no cluster: leave --leave-cluster out", directory.display())));
    };
    database.set_marks(None).map_err(|error| Failure::new(directory.display(), error))?;
    node::remove(engine, marks).map_err(|error| Failure::of_engine(directory, &error))?;
    tell(&mut std::io::stderr(), "this database has left its cluster, and follows it no more");
    Ok(())
}

/// A part of a URL.
fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Restores a backup while a member writes it.
fn copy(source: Target, who: &Credentials, directory: &Path) -> Result<(), Failure> {
    // Only the last time that something has come counts.
    let (heard, hears) = mpsc::sync_channel(1);
    let name = source.to_string();
    thread::spawn(move || tell_of_silence(&hears, &name));
    let mut client = backup::connect(source, who.password.as_deref())?;
    let input = backup::stream(&mut client)?;
    let existed = directory.exists();
    let disk = FileDisk::open(directory, true).map_err(|error| Failure::of_engine(directory, &error))?;
    let mut progress = Progress::on_stderr("copying pages");
    let restored = gnomon_engine::restore(vec![input], &disk, None, &mut |_, done, total| {
        let _ = heard.try_send(());
        progress.set(done, total);
    });
    drop((progress, heard));
    match restored {
        Ok(_) => Ok(()),
        Err(error) => {
            if !existed {
                // An empty one that stays does no harm.
                let _ = std::fs::remove_dir(directory);
            }
            Err(Failure(match &error {
                gnomon_engine::Error::DiskFull => backup::no_room_message(directory),
                error => backup::explain(error, |_| "what it sends".into()),
            }))
        }
    }
}

/// Reports each time that nothing has come from a source for a while, until the sender of `heard` is dropped. The
/// source may be slow or hang, which only an operator can tell apart.
fn tell_of_silence(heard: &mpsc::Receiver<()>, source: &str) {
    let mut silent = Duration::ZERO;
    loop {
        match heard.recv_timeout(SILENCE) {
            Ok(()) => silent = Duration::ZERO,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                silent += SILENCE;
                let what = format!(
                    "nothing has come from {source} for {} s: if it hangs, stop this, and name another member by \
                     --copy-from",
                    silent.as_secs()
                );
                tell(&mut std::io::stderr(), &what);
            }
        }
    }
}
