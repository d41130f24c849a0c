//! Current activity: settings, sessions, locks; and the time zones.

use std::collections::BTreeMap;

use super::{
    AdvisoryLock, ConnectedBy, DATABASE, OWNER, Object, System,
    builder::{Rows, count, oid, option, string, strings, yes},
    reference,
};
use crate::{
    catalog::model::Column,
    types::{Datum, Interval, Numeric, counted::number_of, datetime::Zone},
};

const MICROS: i64 = 1_000_000;

/// The engine's table of locks that are on relations without a tree, by their identifiers.
const NAMED: &str = "name";

/// PostgreSQL's names of the engine's modes of locks on trees.
const RELATION_MODES: [(&str, &str); 8] = [
    ("A", "AccessShareLock"),
    ("IS", "RowShareLock"),
    ("IX", "RowExclusiveLock"),
    ("M", "ShareUpdateExclusiveLock"),
    ("S", "ShareLock"),
    ("SIX", "ShareRowExclusiveLock"),
    ("E", "ExclusiveLock"),
    ("X", "AccessExclusiveLock"),
];

/// PostgreSQL's names of the engine's modes of locks on keys, as it shows locks on rows.
const ROW_MODES: [(&str, &str); 5] = [
    ("KS", "AccessShareLock"),
    ("S", "RowShareLock"),
    ("NKU", "ExclusiveLock"),
    ("FU", "AccessExclusiveLock"),
    ("X", "AccessExclusiveLock"),
];

/// PostgreSQL's name of a mode, or the engine's if it has none.
fn mode_name(modes: &[(&str, &'static str)], mode: &'static str) -> &'static str {
    modes.iter().find(|(own, _)| *own == mode).map_or(mode, |(_, name)| name)
}

pub(super) fn setting_list(system: System<'_>, rows: &mut Rows) {
    for setting in system.state.settings() {
        let [category, context, kind] = reference::setting(setting.name);
        // A setting of the whole server in PostgreSQL can be one of sessions here.
        let context = match (setting.fixed, context) {
            (true, "internal" | "postmaster") | (false, "user" | "superuser") => context,
            (true, _) => "internal",
            (false, _) => "user",
        };
        rows.add([
            ("name", string(setting.name)),
            ("setting", string(setting.value)),
            ("unit", option(setting.unit.map(string))),
            ("category", string(category)),
            ("short_desc", string(setting.description)),
            ("context", string(context)),
            ("vartype", string(if setting.fixed { kind } else { setting.kind })),
            ("source", string(setting.source)),
            ("min_val", option(setting.min.map(string))),
            ("max_val", option(setting.max.map(string))),
            ("enumvals", option(setting.words.map(strings))),
            ("boot_val", string(setting.default)),
            ("reset_val", string(setting.reset)),
            ("pending_restart", yes(false)),
        ]);
    }
}

/// Of all roles and of the session's, which has the only one's number.
pub(super) fn setting_defaults(system: System<'_>, rows: &mut Rows) {
    for (role, number) in [("", 0), (system.state.user(), OWNER)] {
        let all: Vec<String> =
            system.catalog().settings_of(role).map(|(name, value)| format!("{name}={value}")).collect();
        if !all.is_empty() {
            rows.add([("setdatabase", oid(0)), ("setrole", oid(number)), ("setconfig", strings(all))]);
        }
    }
}

pub(super) fn activity_list(system: System<'_>, rows: &mut Rows) {
    for activity in system.state.activities() {
        let time = |micros: Option<i64>| option(micros.map(Datum::Timestamptz));
        // The type inet does not exist: the text of the address stands for it.
        let address = activity.connection.and_then(ConnectedBy::addresses);
        let port = match (activity.connection, address) {
            (_, Some((client, _))) => Some(client.port().into()),
            (Some(_), None) => Some(-1),
            (None, None) => None,
        };
        let number = activity.transaction.and_then(|number| u32::try_from(number).ok());
        rows.add([
            ("datid", oid(DATABASE)),
            ("datname", string(system.state.database())),
            ("pid", Datum::Int4(activity.process_id)),
            ("usesysid", oid(OWNER)),
            ("usename", string(activity.user)),
            ("application_name", string(activity.application_name)),
            ("client_addr", option(address.map(|(client, _)| string(client.ip().to_string())))),
            ("client_port", option(port.map(Datum::Int4))),
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

/// `pg_stat_ssl`.
pub(super) fn encryption(system: System<'_>, rows: &mut Rows) {
    // A session in the process itself has no connection.
    let connected = |session: &super::Activity| session.connection.is_some();
    for session in system.state.activities().into_iter().filter(connected) {
        let mut row =
            vec![("pid", Datum::Int4(session.process_id)), ("ssl", yes(session.encryption.is_some()))];
        if let Some(encryption) = &session.encryption {
            row.extend([
                ("version", string(encryption.version)),
                ("cipher", string(encryption.cipher)),
                ("bits", Datum::Int4(encryption.bits)),
            ]);
        }
        if let Some(client) = session.encryption.as_ref().and_then(|encryption| encryption.client.as_ref()) {
            row.extend([
                ("client_dn", string(client.subject.as_str())),
                ("client_serial", option(Numeric::parse(&client.serial).ok().map(Datum::Numeric))),
                ("issuer_dn", string(client.issuer.as_str())),
            ]);
        }
        rows.add(row);
    }
}

pub(super) fn progress_list(system: System<'_>, rows: &mut Rows) {
    for progress in system.state.progress() {
        rows.add([
            ("pid", Datum::Int4(progress.process_id)),
            ("datname", string(system.state.database())),
            ("relid", oid(progress.table)),
            ("relname", string(progress.table_name)),
            ("command", string(progress.command)),
            ("rows_done", count(progress.rows)),
            ("started", Datum::Timestamptz(progress.started)),
        ]);
    }
}

pub(super) fn cluster_list(system: System<'_>, rows: &mut Rows) {
    let number = |number: Option<u64>| option(number.map(count));
    for member in system.state.cluster().map_or_else(Vec::new, |cluster| cluster.members()) {
        rows.add([
            ("name", string(member.name)),
            ("member", number(member.member)),
            ("address", string(member.address)),
            ("state", string(member.state)),
            ("is_self", yes(member.is_self)),
            ("applied", number(member.applied)),
            ("received", number(member.received)),
            ("durable", number(member.durable)),
            ("lag", number(member.lag)),
        ]);
    }
}

pub(super) fn cluster_transactions(system: System<'_>, rows: &mut Rows) {
    for ended in system.state.cluster().map_or_else(Vec::new, |cluster| cluster.transactions()) {
        rows.add([
            ("level", string(ended.level)),
            ("outcome", string(ended.outcome)),
            ("transactions", count(ended.count)),
        ]);
    }
}

/// Returns the relation of each tree.
fn trees(system: System<'_>) -> BTreeMap<u64, Object<'_>> {
    let own = system.objects().filter_map(|object| match &object {
        Object::Table(table) => Some((table.tree.0, object)),
        Object::Index(table, index) if index.tree != table.tree => Some((index.tree.0, object)),
        _ => None,
    });
    let entries = system.catalog().tables().flat_map(|table| {
        table.indexes.iter().flat_map(move |index| {
            index.partition_trees.values().map(move |tree| (tree.0, Object::Index(table, index)))
        })
    });
    own.chain(entries).collect()
}

/// The engine's locks as PostgreSQL shows its own: a tree as a whole is `relation`, a key in it `tuple`.
pub(super) fn lock_list(system: System<'_>, rows: &mut Rows) {
    let (trees, processes) = (trees(system), processes(system));
    for lock in system.state.locks() {
        let relation = match lock.table {
            NAMED => u32::try_from(lock.space).ok(),
            _ => trees.get(&lock.space).map(Object::oid),
        };
        let (kind, modes) = match lock.part.is_empty() {
            true => ("relation", &RELATION_MODES[..]),
            false => ("tuple", &ROW_MODES[..]),
        };
        let mode = if lock.table == "gap" { lock.mode } else { mode_name(modes, lock.mode) };
        rows.add([
            ("locktype", string(kind)),
            ("database", oid(DATABASE)),
            ("relation", option(relation.map(Datum::Oid))),
            ("virtualtransaction", string(lock.txn.to_string())),
            ("pid", option(processes.get(&lock.txn.0).copied().map(Datum::Int4))),
            ("mode", string(mode)),
            ("granted", yes(lock.waiting_since.is_none())),
            ("fastpath", yes(false)),
        ]);
    }
    system.state.advisory_locks().iter().for_each(|lock| list_advisory(lock, rows));
}

/// Adds an advisory lock. Its numbers stand as PostgreSQL spreads them over the columns of an object's identity.
fn list_advisory(lock: &AdvisoryLock, rows: &mut Rows) {
    let (first, second, parts) = lock.key;
    rows.add([
        ("locktype", string("advisory")),
        ("database", oid(DATABASE)),
        ("classid", oid(first)),
        ("objid", oid(second)),
        ("objsubid", Datum::Int2(parts)),
        ("virtualtransaction", string(format!("{}/0", lock.session))),
        ("pid", Datum::Int4(lock.process_id)),
        ("mode", string(lock.mode)),
        ("granted", yes(lock.is_granted)),
        ("fastpath", yes(false)),
    ]);
}

/// The engine's locks with their keys; and a row for each number of which the owner holds something or, waiting,
/// wants something.
pub(super) fn claim_list(system: System<'_>, rows: &mut Rows) {
    let (trees, processes) = (trees(system), processes(system));
    for lock in system.state.locks() {
        // All partitions of an executor are one lock, and what is in all partitions is another.
        let partitions = (lock.table == "partition").then_some(match lock.space {
            u64::MAX => "replicated".to_owned(),
            executor => format!("executor {executor}"),
        });
        let relation = match lock.table {
            NAMED => u32::try_from(lock.space).ok().and_then(|oid| system.object(oid)),
            _ => trees.get(&lock.space).copied().filter(|_| partitions.is_none()),
        };
        let key = partitions.as_deref().unwrap_or(&lock.part);
        let column = |quantity: u32| match relation {
            Some(Object::Table(table)) => table.columns.get(quantity as usize),
            _ => None,
        };
        let mut add =
            |column: Option<&Column>, numbers: &[(&'static str, i128)]| {
                let number = column.and_then(|column| number_of(column.ty));
                let scale = number.map_or(0, |(number, _)| number.scale());
                let mut row = vec![
                    ("pid", option(processes.get(&lock.txn.0).copied().map(Datum::Int4))),
                    ("xid", Datum::Int8(lock.txn.0 as i64)),
                    ("relid", option(relation.map(|object| Datum::Oid(object.oid())))),
                    ("relname", option(relation.map(|object| string(object.name())))),
                    ("key", option((!key.is_empty()).then(|| string(key)))),
                    ("mode", string(lock.mode)),
                    ("granted", yes(lock.waiting_since.is_none())),
                    ("attname", option(column.map(|column| string(&*column.name)))),
                ];
                // The outermost two are no bounds.
                let bounded = numbers.iter().filter(|(_, units)| ![i128::MIN, i128::MAX].contains(units));
                row.extend(bounded.map(|(name, units)| {
                    (*name, Datum::Numeric(Numeric::new((*units).into(), scale.into())))
                }));
                rows.add(row);
            };
        // The engine also counts the bytes of rows. They are of no column and are left out.
        let pending = lock.pending.iter().filter_map(|held| Some((column(held.quantity)?, held)));
        let wanted = lock.claims.iter().filter_map(|claim| Some((column(claim.quantity)?, claim)));
        let (pending, wanted): (Vec<_>, Vec<_>) = (pending.collect(), wanted.collect());
        for (column, held) in &pending {
            add(Some(column), &[("value", held.value), ("low", held.low), ("high", held.high)]);
        }
        for (column, claim) in &wanted {
            add(Some(column), &[("wanted", claim.delta), ("least", claim.min), ("greatest", claim.max)]);
        }
        if pending.is_empty() && wanted.is_empty() {
            add(None, &[]);
        }
    }
}

/// Returns the session of each transaction of the engine's.
fn processes(system: System<'_>) -> BTreeMap<u64, i32> {
    let of = |activity: super::Activity| Some((activity.transaction?, activity.process_id));
    system.state.activities().into_iter().filter_map(of).collect()
}

/// `pg_timezone_abbrevs`.
pub(super) fn zone_abbreviations(system: System<'_>, rows: &mut Rows) {
    let now = system.state.now();
    for zone in Zone::of_all_abbreviations() {
        let micros = i64::from(zone.offset_at(now)) * MICROS;
        rows.add([
            ("abbrev", string(zone.name())),
            ("utc_offset", Datum::Interval(Interval { months: 0, days: 0, micros })),
            ("is_dst", yes(zone.is_summer_at(now))),
        ]);
    }
}

pub(super) fn time_zones(system: System<'_>, rows: &mut Rows) {
    let now = system.state.now();
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
