//! The names of the crate, each used once: what an embedder writes compiles as long as they keep their shape.

use std::{io::Read, path::Path, time::Duration};

use gnomon::{
    Applied, Backup, Builder, Call, Commits, Csn, Database, Error, Isolation, PreparedTransaction, Procedure,
    Range, Reaction, ReadTransaction, Recovery, Result, Savepoint, Ticket, Transaction, Tree, VerifyReport,
    op::{
        self, Claim, Commutes, Counterexample, Family, Length, Operation, Trial, bytes, check_family, number,
        set,
    },
    options::{
        AccessSet, Execution, Log, Memory, PageSize, Partitions, Placement, Records, Storage, Strategy,
        TransactionOptions, TreeOptions,
    },
    report::{BackupHeader, BackupId, Conflict, Finding, InterruptReason, PreparedInfo, Severity},
    restore, verify,
};

fn is_shared<T: Send + Sync>() {}
fn is_sent<T: Send>() {}
fn is_range<T: DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>)>> + std::iter::FusedIterator>() {}

#[test]
fn handles_go_where_an_embedder_takes_them() {
    is_shared::<Database>();
    is_shared::<ReadTransaction>();
    is_sent::<Transaction>();
    is_sent::<Ticket>();
    is_sent::<PreparedTransaction>();
    is_sent::<Range<'static>>();
    is_range::<Range<'_>>();
    is_shared::<Error>();
    is_shared::<(Tree, Csn, Savepoint, Procedure, Family)>();
}

/// Compiled, and not run.
#[expect(dead_code)]
fn opening(path: &Path) -> Result<Database> {
    Database::open(path)?.close()?;
    Database::in_memory()?;
    let commit: [Commits; 3] = [Commits::Synchronous, Commits::Asynchronous, Commits::Unforced];
    let recovery = [
        Recovery::Shadow,
        Recovery::CommitLog(Records::Values),
        Recovery::CommitLog(Records::Calls),
        Recovery::CommitLog(Records::Cheaper),
        Recovery::PageLog(Strategy::TwoLevel),
    ];
    let family = Family::new("own", Vec::<std::sync::Arc<dyn Operation>>::new(), &[])?;
    let builder: Builder = Database::builder(path)
        .storage(|storage: &mut Storage| {
            storage.create = false;
            storage.disks.push("other".into());
            storage.mirrored = true;
            storage.spares.clear();
            storage.degraded = false;
            storage.page_bytes_min = Some(512);
            storage.fill_max = 0.5;
            storage.cleaner = true;
        })
        .memory(|memory: &mut Memory| {
            memory.pool_bytes = 1 << 20;
            memory.escalate_bytes = 1 << 20;
            memory.write_bytes_max = 1 << 20;
            memory.version_bytes_max = 1 << 20;
        })
        .log(|log: &mut Log| {
            log.bytes_max = Some(1 << 20);
            log.replay_threads = Some(1);
            log.replay_bytes_max = Some(1 << 20);
            log.replay_weight = Some(0.1);
            log.sphere_pages_max = Some(100);
        })
        .recovery(recovery[0])
        .commits(commit[0])
        .group_commit_interval(Duration::from_millis(1))
        .lock_timeout(Duration::from_secs(1))
        .prepared_max(10)
        .operations(family)
        .procedure(Procedure::new("p", "1", |_: &mut Call<'_, '_>, params| Ok(params.to_vec())))
        .execution(Execution::serial(2));
    builder.clone().open_read_only()?;
    let report: VerifyReport = builder.clone().verify()?;
    assert!(report.is_sound && report.trees as u64 <= report.entries && report.pages_read > 0);
    let _: Option<(&Finding, Severity, Csn)> =
        report.findings.first().map(|finding| (finding, finding.severity, report.csn));
    Builder::in_memory().open()?;
    builder.open()
}

/// Compiled, and not run.
#[expect(dead_code)]
fn writing(db: &Database) -> Result<()> {
    let tree: Tree = db.tree("tree")?;
    let _: (Option<Tree>, Vec<(String, Tree)>) = (db.find_tree("tree")?, db.trees()?);
    let mut txn: Transaction = db.begin_with(|options: &mut TransactionOptions| {
        options.isolation = Isolation::Snapshot;
        options.lock_timeout = Some(Duration::ZERO);
    })?;
    let savepoint: Savepoint = txn.savepoint();
    let _: (Option<Vec<u8>>, Option<Vec<u8>>) = (txn.get(tree, "key")?, txn.get_for_update(tree, b"key")?);
    txn.put(tree, "key", "value")?;
    txn.insert(tree, vec![1], String::new())?;
    let _: bool = txn.delete(tree, [1])?;
    let call: op::Call = number::add(1);
    let _: Applied = txn.apply(tree, "key", &call)?;
    let _ = (set::insert(b"element"), bytes::append(b"more"));
    txn.rollback_to(savepoint)?;
    let _: usize =
        txn.iter(tree)?.count() + txn.prefix(tree, "k")?.count() + txn.range(tree, "a".."b")?.count();
    let other = txn.create_tree("other", |options: &mut TreeOptions| {
        options.page_size = PageSize::default();
        options.placement = Placement::Partition(1);
    })?;
    let _: (Tree, Option<Tree>) =
        (txn.tree("third")?, txn.find_tree("other")?.filter(|found| *found == other));
    let _: bool = txn.drop_tree("other")?;
    let numbered = txn.create_numbered_tree(|_| ())?;
    txn.drop_numbered_tree(numbered)?;
    let ticket: Ticket = txn.commit_ticket()?;
    let (csn, _): (Csn, bool) = (ticket.csn(), ticket.is_durable()?);
    ticket.wait()?;
    db.begin()?.commit_ticket()?.on_durable(|durable: Result<Csn>| drop(durable));
    db.begin()?.rollback();
    let _: Csn = db.begin()?.commit()?;
    db.transact(|txn| txn.put(tree, "key", "value"))?;
    db.wait_durable(csn)?;
    let _: Csn = db.begin()?.prepare("name")?;
    let names: Vec<String> = db.prepared()?;
    let prepared: PreparedTransaction = db.claim_prepared(&names[0])?;
    let _: &PreparedInfo = prepared.info();
    prepared.commit()?;
    db.claim_prepared("name")?.rollback()?;
    let _: Vec<u8> = db.call("p", b"params")?;
    db.call_then("p", b"params", |answer: Result<Vec<u8>>| drop(answer))?;
    db.checkpoint()?;
    let _: &gnomon_engine::Database = db.engine();
    Ok(())
}

/// Compiled, and not run.
#[expect(dead_code)]
fn reading(db: &Database, tree: Tree, csn: Csn) -> Result<usize> {
    let read: ReadTransaction = db.read_after(csn)?.clone();
    let _: (Csn, Option<Vec<u8>>) = (db.read()?.csn(), read.get(tree, "key")?);
    let range: Range<'static> = read.range(tree, "a".to_string()..="b".to_string())?;
    Ok(range.rev().count() + read.iter(tree)?.count() + read.prefix(tree, "k")?.count())
}

/// Compiled, and not run.
#[expect(dead_code)]
fn procedures() -> Procedure {
    let run = |call: &mut Call<'_, '_>, _: &[u8]| -> Result<Vec<u8>> {
        let tree = call.tree("tree")?;
        let savepoint = call.savepoint();
        call.put(tree, "key", "value")?;
        call.insert(tree, "other", "value")?;
        let _: (bool, Applied) = (call.delete(tree, "key")?, call.apply(tree, "key", &number::add(1))?);
        let entries: Vec<(Vec<u8>, Vec<u8>)> = call.range(tree, "a"..)?;
        call.rollback_to(savepoint)?;
        let count = entries.len() + call.prefix(tree, "a")?.len();
        Ok(call.get(tree, "key")?.or(call.get_for_update(tree, "key")?).unwrap_or(vec![count as u8]))
    };
    Procedure::new("p", "1", run)
        .with_partitions(|_| Partitions::of([1]))
        .with_accesses(|params| AccessSet::default().read(gnomon::Tree(1), params))
}

/// Compiled, and not run.
#[expect(dead_code)]
fn backups(db: &Database, path: &Path, chain: [&mut dyn Read; 2]) -> Result<BackupId> {
    let full: Backup = db.backup(&mut Vec::new())?;
    let header: BackupHeader = db.backup_since(full.header.id, &mut Vec::new())?.header;
    restore(chain, path)?;
    assert!(verify(path)?.is_sound);
    Ok(header.id)
}

/// Compiled, and not run.
#[expect(dead_code)]
fn own_operations(family: &Family) -> Result<(), Box<Counterexample>> {
    let _ = (Commutes::Always, Length::Same, Claim { quantity: 0, value: 0, delta: 1, min: 0, max: 1 });
    check_family(family, 10, 1, |_| Trial { value: Vec::new(), calls: [(0, Vec::new()), (0, Vec::new())] })
}

#[test]
fn errors_say_what_to_do() {
    for (error, reaction) in [
        (Error::Serialization(Conflict::Write), Reaction::Retry),
        (Error::Interrupted(InterruptReason::Cancel), Reaction::Retry),
        (Error::KeyExists, Reaction::FixInput),
        (Error::DiskFull, Reaction::FreeSpace),
        (Error::Closed, Reaction::Reopen),
        (Error::BackupDamaged { backup: 0, offset: 0, detail: String::new() }, Reaction::Restore),
    ] {
        assert_eq!(error.reaction(), reaction);
    }
}
