//! Roles and privileges as PostgreSQL has them in a new database. The user of the session is the owner of everything and
//! may do everything; nothing can be granted.

use super::{
    INFORMATION_SCHEMA_OID, OWNER, SYSTEM_SCHEMA_OID, System,
    builder::{Rows, acl, letter, oid, oids, string, yes},
    reference::PG_NAMESPACE,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::{PUBLIC_SCHEMA_OID, model::Oid},
    types::Datum,
};

/// The role that stands for the owner of the database.
const DATABASE_OWNER: Oid = 6171;
const MONITOR: Oid = 3373;
const READ_ALL_SETTINGS: Oid = 3374;
const READ_ALL_STATS: Oid = 3375;
const STAT_SCAN_TABLES: Oid = 3377;

/// The roles that the role of monitors is a member of.
const OF_MONITOR: [Oid; 3] = [READ_ALL_SETTINGS, READ_ALL_STATS, STAT_SCAN_TABLES];

/// The roles that PostgreSQL defines itself. None of them may log in.
pub(super) const PREDEFINED_ROLES: [(Oid, &str); 12] = [
    (DATABASE_OWNER, "pg_database_owner"),
    (6181, "pg_read_all_data"),
    (6182, "pg_write_all_data"),
    (MONITOR, "pg_monitor"),
    (READ_ALL_SETTINGS, "pg_read_all_settings"),
    (READ_ALL_STATS, "pg_read_all_stats"),
    (STAT_SCAN_TABLES, "pg_stat_scan_tables"),
    (4569, "pg_read_server_files"),
    (4570, "pg_write_server_files"),
    (4571, "pg_execute_server_program"),
    (4200, "pg_signal_backend"),
    (4544, "pg_checkpoint"),
];

/// True if PostgreSQL defines a role of this name.
pub fn is_predefined_role(name: &str) -> bool {
    PREDEFINED_ROLES.iter().any(|(_, known)| *known == name)
}

/// True if a role has another one's privileges: its own, or those of one that it is a member of.
pub(super) fn is_member(member: Oid, role: Oid) -> bool {
    member == role || (member == MONITOR && OF_MONITOR.contains(&role))
}

/// `pg_namespace.nspowner`.
pub(super) fn schema_owner(schema: Oid) -> Oid {
    if schema == PUBLIC_SCHEMA_OID { DATABASE_OWNER } else { OWNER }
}

/// `pg_auth_members`.
pub(super) fn memberships(rows: &mut Rows) {
    for role in OF_MONITOR {
        rows.add([
            ("roleid", oid(role)),
            ("member", oid(MONITOR)),
            ("grantor", oid(OWNER)),
            ("admin_option", yes(false)),
        ]);
    }
}

/// `pg_init_privs`.
pub(super) fn initial(system: System<'_>, rows: &mut Rows) {
    for schema in [SYSTEM_SCHEMA_OID, INFORMATION_SCHEMA_OID, PUBLIC_SCHEMA_OID] {
        let Some(privileges) = system.initial_privileges(schema) else { continue };
        rows.add([
            ("objoid", oid(schema)),
            ("classoid", oid(PG_NAMESPACE)),
            ("objsubid", Datum::Int4(0)),
            ("privtype", letter(b'i')),
            ("initprivs", privileges),
        ]);
    }
}

impl System<'_> {
    /// The name of a role, if there is one.
    pub(super) fn role_name(&self, role: Oid) -> Option<&str> {
        if role == OWNER {
            return Some(self.state.user());
        }
        PREDEFINED_ROLES.iter().find(|(known, _)| *known == role).map(|(_, name)| *name)
    }

    /// The privileges that a new database has on a schema; none if they are the owner's alone.
    pub(super) fn initial_privileges(&self, schema: Oid) -> Option<Datum> {
        let is_shared = [SYSTEM_SCHEMA_OID, INFORMATION_SCHEMA_OID, PUBLIC_SCHEMA_OID].contains(&schema);
        let owner = self.role_in_acl(schema_owner(schema));
        is_shared.then(|| acl([format!("{owner}=UC/{owner}"), format!("=U/{owner}")]))
    }

    /// The name of a role as an access control list has it.
    fn role_in_acl(&self, role: Oid) -> String {
        let Some(name) = self.role_name(role) else { return role.to_string() };
        match name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            true => name.to_owned(),
            false => format!("\"{}\"", name.replace('"', "\"\"")),
        }
    }

    /// `acldefault`: the privileges on an object for which none were granted.
    pub(super) fn default_privileges(&self, kind: u8, owner: Oid) -> Result<Datum> {
        let (public, own) = match kind {
            b'c' => ("", ""),
            b'r' => ("", "arwdDxt"),
            b's' => ("", "rwU"),
            b'd' => ("Tc", "CTc"),
            b'f' => ("X", "X"),
            b'l' | b'T' => ("U", "U"),
            b'L' => ("", "rw"),
            b'n' => ("", "UC"),
            b't' => ("", "C"),
            b'F' | b'S' => ("", "U"),
            b'p' => ("", "sA"),
            other => {
                return Err(SqlError::new(
                    SqlState::INTERNAL_ERROR,
                    format!("unrecognized objtype abbreviation: {}", char::from(other)),
                ));
            }
        };
        let grantor = self.role_in_acl(owner);
        let grantee = if owner == 0 { "" } else { &grantor };
        let items = [("", public), (grantee, own)];
        let granted = items.into_iter().filter(|(_, privileges)| !privileges.is_empty());
        Ok(acl(granted.map(|(role, privileges)| format!("{role}={privileges}/{grantor}"))))
    }
}

/// The roles, in the form of the table that is asked for. No table has a password.
pub(super) fn roles(system: System<'_>, table: &str, rows: &mut Rows) {
    match table {
        "pg_group" => {
            for (role, name) in PREDEFINED_ROLES {
                let members = OF_MONITOR.contains(&role).then_some(MONITOR);
                rows.add([("groname", string(name)), ("grosysid", oid(role)), ("grolist", oids(members))]);
            }
        }
        "pg_user" | "pg_shadow" => rows.add([
            ("usename", string(system.state.user())),
            ("usesysid", oid(OWNER)),
            ("usecreatedb", yes(true)),
            ("usesuper", yes(true)),
            ("userepl", yes(true)),
            ("usebypassrls", yes(true)),
            ("passwd", if table == "pg_user" { string("********") } else { Datum::Null }),
        ]),
        table => {
            let user = (OWNER, system.state.user());
            for (role, name) in [user].into_iter().chain(PREDEFINED_ROLES) {
                let hidden = if table == "pg_roles" { string("********") } else { Datum::Null };
                let is_user = role == OWNER;
                rows.add([
                    ("oid", oid(role)),
                    ("rolname", string(name)),
                    ("rolsuper", yes(is_user)),
                    ("rolinherit", yes(true)),
                    ("rolcreaterole", yes(is_user)),
                    ("rolcreatedb", yes(is_user)),
                    ("rolcanlogin", yes(is_user)),
                    ("rolreplication", yes(is_user)),
                    ("rolbypassrls", yes(is_user)),
                    ("rolconnlimit", Datum::Int4(-1)),
                    ("rolpassword", hidden),
                ]);
            }
        }
    }
}
