//! The options of the commands that open a database to work on it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use gnomon_engine::{Commits, Database, Execution, Options, Recovery};
use gnomon_program::{Failure, Progress, argument::parse_interval, tell};

/// Where a database is kept.
#[derive(Args)]
pub struct Storage {
    /// A directory on another disk, for a database that is made; may be given several times.
    ///
    /// The database is spread over all its disks. One that is there knows its own; `gnomon disk add` adds more.
    #[arg(long = "disk", value_name = "DIR")]
    disks: Vec<PathBuf>,
    /// Have two copies of everything, on different disks, in a database that is made.
    ///
    /// A damaged page is repaired from its copy, and a disk may be lost without a stop.
    #[arg(long, requires = "disks")]
    mirrored: bool,
    /// A directory on a fresh disk, which a mirrored database takes when it loses one; may be given several times.
    ///
    /// It is left alone until then. It must be empty, or is made.
    #[arg(long = "spare", value_name = "DIR")]
    spares: Vec<PathBuf>,
    /// Open a mirrored database although a disk is missing, which is then not used again.
    ///
    /// What was committed while the missing disk alone was in use is not on the others.
    #[arg(long)]
    degraded: bool,
    /// Bytes of the smallest pages that tables can have in a database that is made: 512, 1024, 2048 or 4096.
    ///
    /// CREATE TABLE ... WITH (page_size = 512) needs it. Without it 4096. A database that exists keeps its own.
    #[arg(long, value_name = "N", value_parser = parse_page_bytes_min)]
    page_bytes_min: Option<usize>,
    /// How a new database recovers: shadow, value-log, command-log, adaptive, single-level, two-level,
    /// two-level-deferred or page-log.
    ///
    /// A database that exists keeps its method, and another one is refused. Without it, shadow with --disk or --spare,
    /// and value-log on one disk. With shadow there is no log. The others have one disk. value-log logs what each commit
    /// writes; command-log, of a CALL that is a serializable transaction by itself, the call; adaptive whichever is
    /// cheaper. The rest have a log of pages; they differ in how long pages are locked and when they are logged. page-log
    /// is another name of two-level-deferred.
    #[arg(long, value_name = "NAME", value_parser = Recovery::from_name)]
    recovery: Option<Recovery>,
    /// Acknowledge commits before they are durable, which they are a moment later.
    ///
    /// A crash may lose the last ones, and never a part of one. `SET synchronous_commit = on` asks for the usual.
    #[arg(long)]
    asynchronous: bool,
    /// How long commits wait for others before they are made durable together, in milliseconds.
    ///
    /// With 0 they do not wait: those that come while others are made durable are together all the same.
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = parse_interval)]
    group_commit_ms: f64,
    /// How long the log may get, in MiB, before a checkpoint gives its beginning up.
    ///
    /// That is about what opening reads after a crash, at most. Without a log it makes no difference.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    log_mib: u32,
    /// How transactions run on tables in partitions: locked or serial.
    ///
    /// Locked, beside each other, with locks on rows. Serial, one after another, without: a transaction has the
    /// partitions that it has used, and all others of their executors, to itself until it ends. Tables in no partition
    /// are locked either way.
    #[arg(long, value_name = "KIND", default_value = "locked", value_parser = Execution::from_name)]
    execution: Execution,
    /// How many executors share the partitions, with serial execution; partition n is of executor n modulo N.
    ///
    /// Without it, as many as there are processors. They share out the partitions, and run nothing themselves:
    /// statements and CALL run in their sessions.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    executors: Option<u32>,
}

fn parse_page_bytes_min(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes @ (512 | 1024 | 2048 | 4096)) => Ok(bytes),
        _ => Err("give 512, 1024, 2048 or 4096".into()),
    }
}

/// How every command opens a database: with what its log may have calls of.
pub fn options() -> Options {
    Options { procedures: gnomon_sql::session::procedures(), ..Options::default() }
}

impl Storage {
    /// Opens the database in a directory, or makes one there, and tells of disks that are lost.
    pub fn open(&self, directory: &Path, pool_mib: u32) -> Result<Database, Failure> {
        let pool_bytes = (pool_mib as usize).checked_mul(1 << 20).ok_or_else(|| {
            Failure(format!("a buffer pool of {pool_mib} MiB is more than this machine can address"))
        })?;
        let execution = match self.executors {
            Some(count) => {
                self.execution.with_executors(count).map_err(|error| Failure(error.to_string()))?
            }
            None => self.execution,
        };
        let options = Options {
            pool_bytes,
            disks: self.disks.clone(),
            mirrored: self.mirrored,
            spares: self.spares.clone(),
            degraded: self.degraded,
            page_bytes_min: self.page_bytes_min,
            recovery: self.recovery,
            commits: if self.asynchronous { Commits::Asynchronous } else { Commits::Synchronous },
            group_commit_interval: Duration::from_secs_f64(self.group_commit_ms / 1000.0),
            log_bytes_max: u64::from(self.log_mib) << 20,
            execution,
            ..options()
        };
        let mut progress = None;
        let opened = Database::open_with(directory, options, &mut |done, total| {
            progress.get_or_insert_with(|| Progress::on_stderr("replaying the log")).set(done, total);
        });
        drop(progress);
        let database = opened.map_err(|error| Failure::of_engine(directory, &error))?;
        let lost = database.disks().iter().filter(|(info, _)| info.given.is_none()).count();
        if lost > 0 {
            tell!(
                "warning: {lost} of its disks {} lost: give it a fresh one by `gnomon disk add {} DIR`",
                if lost == 1 { "is" } else { "are" },
                directory.display()
            );
        }
        Ok(database)
    }
}
