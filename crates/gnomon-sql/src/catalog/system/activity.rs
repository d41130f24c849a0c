//! What goes on: settings, sessions, locks; and the time zones.

use super::{
    OWNER, System,
    builder::{Rows, oid, option, string, strings, yes},
};
use crate::types::{Datum, Interval, datetime::Zone};

const MICROS: i64 = 1_000_000;

impl System<'_> {
    pub(super) fn setting_list(&self, rows: &mut Rows) {
        for setting in self.state.settings() {
            let source = if setting.value == setting.default { "default" } else { "session" };
            rows.add([
                ("name", string(setting.name)),
                ("setting", string(setting.value)),
                ("unit", option(setting.unit.map(string))),
                ("category", string("Customized Options")),
                ("short_desc", string(setting.description)),
                ("context", string(if setting.fixed { "internal" } else { "user" })),
                ("vartype", string(setting.kind)),
                ("source", string(source)),
                ("min_val", option(setting.min.map(string))),
                ("max_val", option(setting.max.map(string))),
                ("enumvals", option(setting.words.map(strings))),
                ("boot_val", string(setting.default)),
                ("reset_val", string(setting.reset)),
                ("pending_restart", yes(false)),
            ]);
        }
    }

    pub(super) fn activity_list(&self, rows: &mut Rows) {
        for activity in self.state.activities() {
            let time = |micros: Option<i64>| option(micros.map(Datum::Timestamptz));
            let number = activity.transaction.and_then(|number| u32::try_from(number).ok());
            rows.add([
                ("datid", self.database_oid()),
                ("datname", string(self.state.database())),
                ("pid", Datum::Int4(activity.process_id)),
                ("usesysid", oid(OWNER)),
                ("usename", string(activity.user)),
                ("application_name", string(activity.application_name)),
                ("backend_start", Datum::Timestamptz(activity.started)),
                ("xact_start", time(activity.transaction_started)),
                ("query_start", time(activity.statement_started)),
                ("state_change", Datum::Timestamptz(activity.state_changed)),
                ("state", string(activity.state)),
                ("backend_xid", option(number.map(Datum::Oid))),
                ("query", string(activity.query)),
                ("backend_type", string("client backend")),
            ]);
        }
    }

    pub(super) fn progress_list(&self, rows: &mut Rows) {
        for progress in self.state.progress() {
            rows.add([
                ("pid", Datum::Int4(progress.process_id)),
                ("datname", string(self.state.database())),
                ("relid", oid(progress.table)),
                ("relname", string(progress.table_name)),
                ("command", string(progress.command)),
                ("rows_done", Datum::Int8(i64::try_from(progress.rows).unwrap_or(i64::MAX))),
                ("started", Datum::Timestamptz(progress.started)),
            ]);
        }
    }

    /// The engine's locks: a tree as a whole is `relation`, a key in it `tuple` with the key in `virtualxid`'s place
    /// left out, since PostgreSQL has no column for one.
    pub(super) fn lock_list(&self, rows: &mut Rows) {
        let activities = self.state.activities();
        let relations: Vec<(u64, u32)> = self
            .objects()
            .filter_map(|object| match object {
                super::Object::Table(table) => Some((table.tree.0, table.oid)),
                super::Object::Index(table, index) if index.tree != table.tree => {
                    Some((index.tree.0, index.oid))
                }
                _ => None,
            })
            .collect();
        for lock in self.state.locks() {
            let relation = relations.iter().find(|(tree, _)| *tree == lock.space).map(|(_, oid)| *oid);
            let process = activities.iter().find(|activity| activity.transaction == Some(lock.txn.0));
            rows.add([
                ("locktype", string(if lock.part.is_empty() { "relation" } else { "tuple" })),
                ("database", self.database_oid()),
                ("relation", option(relation.map(Datum::Oid))),
                ("virtualtransaction", string(lock.txn.to_string())),
                ("pid", option(process.map(|activity| Datum::Int4(activity.process_id)))),
                ("mode", string(lock.mode)),
                ("granted", yes(lock.waiting_since.is_none())),
                ("fastpath", yes(false)),
            ]);
        }
    }

    pub(super) fn time_zones(&self, rows: &mut Rows) {
        let now = self.state.now();
        for name in Zone::names() {
            let Some(zone) = Zone::parse(name) else { continue };
            let micros = i64::from(zone.offset_at(now)) * MICROS;
            rows.add([
                ("name", string(name)),
                ("abbrev", string(zone.abbreviation_at(now))),
                ("utc_offset", Datum::Interval(Interval { months: 0, days: 0, micros })),
                ("is_dst", yes(zone.is_summer_at(now))),
            ]);
        }
    }
}
