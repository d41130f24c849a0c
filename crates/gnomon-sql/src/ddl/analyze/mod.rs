//! ANALYZE: statistics of tables from a sample of their rows.
//!
//! The sample is that of PostgreSQL: 300 rows for each unit of `default_statistics_target`, evenly from the whole
//! table, which is read once; only the rows of the sample are decoded. What is known is then written like DDL, so that it is
//! there after a restart and on every member of a cluster. The catalog is locked for the writing alone.

mod column;
mod width;

use std::{collections::BTreeMap, sync::Arc};

use gnomon_engine::{TreeId, env::Rng};

use super::Ddl;
use crate::{
    Notice, Result,
    catalog::{
        model::{Oid, Table},
        statistics::TableStatistics,
    },
    context::SessionContext,
    dml::TableReader,
    types::Row,
};

/// Number of rows of a sample for each unit of the target.
const ROWS_PER_TARGET: usize = 300;
/// The size of a page, as `pg_class.relpages` counts them.
const PAGE_BYTES: u64 = 8192;

/// Analyzes columns of tables; of a table without any, all columns.
pub(crate) fn analyze(
    session: &mut SessionContext,
    tables: Vec<(Arc<Table>, Vec<usize>)>,
    notices: &mut Vec<Notice>,
) -> Result<()> {
    session.ensure_transaction();
    session.refuse_read_only("ANALYZE")?;
    let mut found: BTreeMap<Oid, TableStatistics> = BTreeMap::new();
    for (table, columns) in tables {
        // A partition's rows are described with those of its table.
        let table = table.partition_of.as_ref().map_or(table.clone(), |of| of.table.clone());
        let former = found.remove(&table.oid).or_else(|| table.statistics.as_deref().cloned());
        let mut analyzed = of_table(session, &table, &columns)?;
        // Of a table without rows there is nothing new to tell.
        let keeps = !columns.is_empty() || analyzed.rows == 0.0;
        for (position, column) in former.into_iter().flat_map(|former| former.columns).filter(|_| keeps) {
            analyzed.columns.entry(position).or_insert(column);
        }
        found.insert(table.oid, analyzed);
    }
    if found.is_empty() {
        return Ok(());
    }
    let analyzed: Vec<Oid> = found.keys().copied().collect();
    let mut ddl = Ddl::new(session, notices);
    ddl.begin("ANALYZE")?;
    ddl.change(|catalog| found.into_iter().for_each(|(oid, found)| catalog.put_statistics(oid, found)))?;
    session.shared.statistics.note_analyzed(analyzed, session.shared.now());
    Ok(())
}

/// Returns the statistics of a table's columns, or of some of them.
fn of_table(session: &mut SessionContext, table: &Arc<Table>, columns: &[usize]) -> Result<TableStatistics> {
    session.engine_transaction(false, session.catalog().csn)?;
    session.engine()?.start_statement()?;
    let target = session.settings.statistics_target();
    let (rows, sample) = sample(session, table, target * ROWS_PER_TARGET)?;
    let is_wanted = |at: &usize| rows > 0.0 && (columns.is_empty() || columns.contains(at));
    let wanted = table.live_columns().filter(|(at, _)| is_wanted(at));
    let columns = wanted.map(|(at, column)| {
        let values = sample.iter().filter_map(|row| row.get(at)).cloned().collect();
        (at, column::statistics(values, column.ty, rows, target))
    });
    let columns = columns.collect();
    let pages = bytes_of(session, table)?.div_ceil(PAGE_BYTES);
    Ok(TableStatistics { rows, pages: u32::try_from(pages).unwrap_or(u32::MAX), columns })
}

/// Returns the number of rows of a table, and at most `size` of them, in their order.
fn sample(session: &mut SessionContext, table: &Arc<Table>, size: usize) -> Result<(f64, Vec<Row>)> {
    // A sample need not be another one each time.
    let mut random = Rng::from_seed(u64::from(table.oid));
    let source = table.clone();
    session.with_context(&[], move |_, ctx| {
        let mut rows = TableReader::new(source);
        let mut kept: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut seen = 0_u64;
        while let Some(bytes) = rows.next_stored(ctx.txn)? {
            ctx.types.environment.check_interrupt()?;
            // The row takes the place of any of those before it, as likely as these have theirs.
            if kept.len() < size {
                kept.push((seen, bytes));
            } else {
                let place = random.below(seen + 1);
                if let Some(kept) = usize::try_from(place).ok().and_then(|place| kept.get_mut(place)) {
                    *kept = (seen, bytes);
                }
            }
            seen += 1;
        }
        kept.sort_unstable_by_key(|(position, _)| *position);
        let decoded = kept.iter().map(|(_, bytes)| rows.decode(bytes)).collect::<Result<_>>()?;
        Ok((seen as f64, decoded))
    })
}

/// Returns how many bytes the pages of a table's rows take, about.
fn bytes_of(session: &SessionContext, table: &Table) -> Result<u64> {
    let snapshot = session.shared.engine.snapshot(gnomon_engine::Csn(0))?;
    let mut bytes = 0_u64;
    for tree in table.trees().collect::<Vec<TreeId>>() {
        match snapshot.extent(tree) {
            Ok(extent) => bytes = bytes.saturating_add(extent.map_or(0, |extent| extent.bytes)),
            // The transaction is about to make it.
            Err(gnomon_engine::Error::NoSuchTree(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}
