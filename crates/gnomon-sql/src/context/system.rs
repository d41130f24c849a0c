//! The state of a session that the system catalog shows: see [`SystemState`].

use gnomon_engine::{Csn, Error, Extent, TreeId, TxnId, lock::LockInfo};

use super::{surroundings::Surroundings, two_phase, view::query_of};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        Catalog,
        model::{Oid, Sequence, View},
        system::{
            Activity, AdvisoryLock, Analyzed, Cluster, ConnectedBy, Cursor, Kept, PreparedStatement,
            PreparedTransaction, Setting, StatementProgress, StatementStatistics, Style, SystemState, Usage,
        },
    },
    database::{advisory::Key, progress::Progress},
    deparse,
    query::{Binder, ByRelation},
    syntax::parse_expression,
    types::{Context, Datum, Type, text},
};

impl Surroundings {
    /// The context in which texts of the catalog are bound again.
    fn reading_context(&self) -> Context<'_> {
        let settings = self.settings.borrow();
        Context {
            zone: settings.zone().clone(),
            date_style: settings.date_style(),
            interval_style: settings.interval_style(),
            extra_float_digits: settings.extra_float_digits(),
            bytea_escape: settings.bytea_escape(),
            ..Context::new(self)
        }
    }
}

impl SystemState for Surroundings {
    fn catalog(&self) -> &Catalog {
        &self.view.catalog
    }
    fn warn(&self, message: String) {
        self.warn(message);
    }
    fn search_path(&self) -> &[String] {
        &self.view.search_path
    }
    fn shown(&self, kept: Kept<'_>, style: Style) -> Result<String> {
        let context = self.reading_context();
        match kept {
            Kept::View(view) => deparse::view(&self.view, &context, view, style),
            Kept::Expression { table, text, target } => {
                let found = self.view.catalog.table_by_oid(table);
                if found.is_none() && table != 0 {
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, "no such table"));
                }
                let expr = parse_expression(text)?;
                deparse::expression(&self.view, &context, (found, &expr), target, style)
            }
        }
    }
    fn uses(&self, view: &View) -> Result<Vec<(Oid, i16)>> {
        let context = self.reading_context();
        let analysis = Binder::new(&self.view, &context, &[]).analyse_query(&query_of(view)?)?;
        Ok(analysis.uses().iter().copied().collect())
    }
    fn updatable_columns(&self, view: &View) -> Option<Vec<bool>> {
        Binder::new(&self.view, &self.reading_context(), &[]).updatable_columns(view)
    }
    fn database(&self) -> &str {
        &self.view.database
    }
    fn user(&self) -> &str {
        &self.user
    }
    fn process_id(&self) -> i32 {
        self.process_id
    }
    fn connection(&self) -> Option<ConnectedBy> {
        self.connection
    }
    fn settings(&self) -> Vec<Setting> {
        self.settings.borrow().describe().collect()
    }
    fn activities(&self) -> Vec<Activity> {
        self.shared.registry.activities()
    }
    fn progress(&self) -> Vec<StatementProgress> {
        let all = self.shared.registry.progress().into_iter();
        all.map(|(process_id, Progress { command, table, table_name, rows, started })| StatementProgress {
            process_id,
            command,
            table,
            table_name,
            rows,
            started,
        })
        .collect()
    }
    fn cluster(&self) -> Option<&dyn Cluster> {
        self.shared.cluster.get().map(|cluster| &**cluster)
    }
    fn prepared_statements(&self) -> Vec<PreparedStatement> {
        let mut all = self.client.prepared_statements();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
    fn cursors(&self) -> Vec<Cursor> {
        let mut all = self.client.cursors();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
    fn prepared_transactions(&self) -> Result<Vec<PreparedTransaction>> {
        two_phase::prepared_transactions(&self.shared.engine)
    }
    fn locks(&self) -> Vec<LockInfo> {
        self.shared.engine.locks()
    }
    fn lock_blockers(&self, transaction: u64) -> Vec<u64> {
        let blockers = self.shared.engine.lock_blockers(TxnId(transaction));
        blockers.into_iter().map(|blocker| blocker.0).collect()
    }
    fn advisory_locks(&self) -> Vec<AdvisoryLock> {
        let locks = self.shared.advisory.list().into_iter();
        locks
            .map(|lock| AdvisoryLock {
                key: match lock.key {
                    Key::One(key) => ((key >> 32) as u32, key as u32, 1),
                    Key::Two(first, second) => (first as u32, second as u32, 2),
                },
                mode: lock.mode.name(),
                session: lock.owner.session,
                process_id: lock.owner.process_id,
                is_granted: lock.granted,
            })
            .collect()
    }
    fn position(&self, sequence: &Sequence) -> Result<(i64, bool)> {
        self.shared.sequences.last(&self.shared.engine, sequence)
    }
    fn reserved(&self, sequence: &Sequence) -> i64 {
        self.shared.sequences.reserved(sequence)
    }
    fn database_bytes(&self) -> u64 {
        let stats = self.shared.engine.stats();
        stats.file_pages.saturating_mul(stats.page_size_min.bytes() as u64)
    }
    fn extent(&self, tree: TreeId) -> Result<Option<Extent>> {
        match self.shared.engine.snapshot(Csn(0))?.extent(tree) {
            // The session's own transaction is about to make it.
            Err(Error::NoSuchTree(_)) => Ok(Some(Extent::default())),
            extent => Ok(extent?),
        }
    }
    fn start_time(&self) -> i64 {
        self.shared.started
    }
    fn now(&self) -> i64 {
        self.shared.now()
    }
    fn analyzed(&self, table: Oid) -> Option<Analyzed> {
        self.shared.statistics.analyzed(table)
    }
    fn text(&self, value: &Datum, ty: Type) -> Result<String> {
        text::output(&self.reading_context(), value, ty)
    }
    fn accesses(&self) -> ByRelation {
        self.shared.statistics.accesses()
    }
    fn own_accesses(&self) -> ByRelation {
        self.accesses.in_transaction()
    }
    fn usage(&self) -> Usage {
        let (statistics, activity) = (&self.shared.statistics, self.shared.engine.stats().activity);
        let transactions = statistics.transactions();
        Usage {
            sessions: transactions.sessions,
            committed: transactions.committed,
            rolled_back: transactions.rolled_back,
            log_forces: activity.log_forces,
            log_bytes: activity.log_bytes_written,
            reset: statistics.reset_time(),
        }
    }
    fn reset_statistics(&self) {
        self.shared.statistics.reset(self.shared.now());
    }
    fn statements(&self) -> Vec<StatementStatistics> {
        self.shared.statements.list()
    }
    fn statements_info(&self) -> (u64, Option<i64>) {
        self.shared.statements.info()
    }
    fn reset_statements(&self, id: Option<i64>) {
        self.shared.statements.reset(id, self.shared.now());
    }
    fn transaction_id(&self) -> u64 {
        self.transaction_id
    }
}
