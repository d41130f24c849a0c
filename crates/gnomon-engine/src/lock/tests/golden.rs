//! Scripts of transactions and the traces that they leave, in `scripts/`. `UPDATE_GOLDENFILES=1` writes the traces.

use std::{collections::BTreeMap, error::Error as StdError, fmt::Write};

use super::*;

#[derive(goldenscript::Command)]
enum Command {
    /// Asks for a lock and reports whether it was granted: `lock TABLE MODE SPACE [KEY]`, with `_end` for what is
    /// after the last key.
    Lock { table: String, mode: String, space: u64, key: Option<String> },
    /// The same without waiting.
    Try { table: String, mode: String, space: u64, key: Option<String> },
    /// Releases one lock.
    Release { table: String, space: u64, key: Option<String> },
    /// Ends the transaction.
    End,
    /// Gives a waiting request up, as a timeout does.
    Timeout,
    /// Marks a savepoint.
    Savepoint,
    /// Goes back to the last savepoint.
    Back,
    /// Shows all locks.
    Show,
}

struct Script {
    manager: Arc<LockManager>,
    actors: BTreeMap<String, (Actor, String, Vec<Mark>)>,
}

impl Script {
    fn new() -> Script {
        Script { manager: manager(), actors: BTreeMap::new() }
    }

    fn table(name: &str) -> Result<TableId, String> {
        let place = tables().iter().position(|t| t.name == name).ok_or(format!("no table {name}"))?;
        Ok(TableId::new(place as u8))
    }

    fn name<'a>(table: &str, space: u64, key: Option<&'a str>) -> Result<LockName<'a>, String> {
        let table = Script::table(table)?;
        Ok(match key {
            None => LockName::whole(table, space),
            Some("_end") => LockName::end(table, space),
            Some(key) => LockName::key(table, space, key.as_bytes()),
        })
    }

    /// Says whose waits have ended.
    fn report(&mut self, out: &mut String) {
        for (name, (actor, asked, _)) in &mut self.actors {
            match actor.poll() {
                None => {}
                Some(Ok(())) => writeln!(out, "{name} is granted {asked}").unwrap(),
                Some(Err(error)) => writeln!(out, "{name} fails with {asked}: {error}").unwrap(),
            }
        }
    }
}

impl goldenscript::Runner for Script {
    type Command = Command;

    fn run(
        &mut self,
        command: &Command,
        context: &goldenscript::Context,
    ) -> Result<String, Box<dyn StdError>> {
        let mut out = String::new();
        if let Command::Show = command {
            for lock in self.manager.snapshot() {
                let state = if lock.waiting_since.is_some() { "waits for" } else { "holds" };
                let place = [lock.space.to_string(), lock.part].join(" ");
                writeln!(out, "t{} {state} {} {} {}", lock.txn, lock.table, lock.mode, place.trim_end())?;
            }
            return Ok(out);
        }
        let name = context.prefix.clone().ok_or("which transaction?")?;
        let number = name.trim_start_matches('t').parse()?;
        let manager = &self.manager;
        let (actor, asked, marks) = self
            .actors
            .entry(name)
            .or_insert_with(|| (Actor::new(manager, number), String::new(), Vec::new()));
        match command {
            Command::Lock { table, mode, space, key } | Command::Try { table, mode, space, key } => {
                let lock = Script::name(table, *space, key.as_deref())?;
                let asked_mode = manager.modes(lock.table).by_name(mode).ok_or("no such mode")?;
                *asked = format!("{table} {mode} {space} {}", key.as_deref().unwrap_or_default());
                asked.truncate(asked.trim_end().len());
                if let Command::Try { .. } = command {
                    let granted = actor.owner.try_lock(lock, asked_mode);
                    writeln!(out, "{asked} {}", if granted { "granted" } else { "refused" })?;
                } else {
                    match actor.ask(lock, asked_mode) {
                        Ok(true) => writeln!(out, "{asked} granted")?,
                        Ok(false) => writeln!(out, "{asked} waits")?,
                        Err(error) => writeln!(out, "{asked} failed: {error}")?,
                    }
                }
            }
            Command::Release { table, space, key } => {
                let released = actor.owner.release(Script::name(table, *space, key.as_deref())?);
                writeln!(out, "{}", if released { "released" } else { "not held" })?;
            }
            Command::End => {
                writeln!(out, "releases {}", actor.owner.held_count())?;
                actor.owner.release_all();
                marks.clear();
            }
            Command::Timeout => {
                actor.give_up();
                writeln!(out, "gave up")?;
            }
            Command::Savepoint => marks.push(actor.owner.mark()),
            Command::Back => {
                actor.owner.release_since(*marks.last().ok_or("no savepoint")?);
                writeln!(out, "holds {}", actor.owner.held_count())?;
            }
            Command::Show => {}
        }
        self.report(&mut out);
        Ok(out)
    }
}

fn run(script: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lock/tests/scripts/");
    goldenscript::run(&mut Script::new(), format!("{path}{script}")).unwrap();
}

#[test]
fn grants_and_queues() {
    run("queues");
}

#[test]
fn conversions() {
    run("conversions");
}

#[test]
fn deadlocks() {
    run("deadlocks");
}

#[test]
fn gaps_and_savepoints() {
    run("gaps");
}
