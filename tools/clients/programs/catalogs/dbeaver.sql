-- The queries of DBeaver when a user opens a connection and looks at tables.
-- name: session
SET application_name = 'DBeaver 24 - Main'; SHOW search_path; SELECT current_schema(), session_user;
-- name: version
SELECT left(version(), 13);
-- name: session properties
SELECT current_setting('server_version_num')::int >= 150000, pg_catalog.pg_is_in_recovery();
-- name: database
SELECT db.datname, db.datistemplate, db.datallowconn, db.datconnlimit, pg_get_userbyid(db.datdba), db.dattablespace > 0
FROM pg_catalog.pg_database db WHERE db.datname = current_database();
-- name: databases
SELECT count(*) > 0 FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate;
-- name: encodings
SELECT pg_encoding_to_char(encoding), datcollate <> '', datctype <> '' FROM pg_database WHERE datname = current_database();
-- name: roles
SELECT a.rolname, a.rolsuper, a.rolinherit, a.rolcreaterole, a.rolcreatedb, a.rolcanlogin, a.rolreplication,
  a.rolconnlimit, a.rolvaliduntil, a.rolbypassrls FROM pg_catalog.pg_roles a WHERE a.rolname = current_user;
-- name: role members
SELECT r.rolname, m.rolname FROM pg_auth_members am JOIN pg_roles r ON r.oid = am.roleid JOIN pg_roles m ON m.oid = am.member
WHERE r.rolname = current_user;
-- name: tablespaces
SELECT t.spcname, pg_catalog.pg_tablespace_location(t.oid) FROM pg_catalog.pg_tablespace t ORDER BY 1;
-- name: languages
SELECT l.lanname, l.lanpltrusted FROM pg_catalog.pg_language l ORDER BY l.lanname;
-- name: access methods
SELECT am.amname, am.amtype FROM pg_catalog.pg_am am ORDER BY 1;
-- name: extensions
SELECT e.extname, e.extversion, n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace ORDER BY 1;
-- name: available extensions
SELECT count(*) > 0 FROM pg_available_extensions WHERE name = 'plpgsql';
-- name: settings
SELECT name, setting, unit, category, context, vartype, source FROM pg_catalog.pg_settings WHERE name IN ('work_mem', 'TimeZone');
-- name: schemas
SELECT n.nspname, d.description FROM pg_catalog.pg_namespace n
LEFT JOIN pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass
WHERE n.nspname IN ('public', 'shop', 'pg_catalog') ORDER BY nspname;
-- name: data types
SELECT t.typname, t.typlen, t.typtype, t.typcategory, t.typelem::regtype, t.typbasetype, c.relkind,
  format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base, d.description
FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem
LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid
WHERE t.typname IN ('bool', 'int4', '_int4', 'numeric', 'timestamptz') ORDER BY t.typname;
-- name: types of tables
SELECT t.typname, t.typtype, c.relkind FROM pg_catalog.pg_type t JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
WHERE t.typnamespace = 'shop'::regnamespace ORDER BY 1;
-- name: enum values
SELECT e.* FROM pg_catalog.pg_enum e WHERE e.enumtypid = 0 ORDER BY e.enumsortorder;
-- name: tables
SELECT c.relname, c.relkind, c.relhasindex, c.relpersistence, c.relnatts, c.relchecks, c.relispartition, d.description,
  CASE WHEN c.relpartbound IS NOT NULL THEN pg_catalog.pg_get_expr(c.relpartbound, c.oid) END AS partition_expr,
  CASE WHEN c.relkind = 'p' THEN pg_catalog.pg_get_partkeydef(c.oid) END AS partition_key
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE c.relnamespace = 'shop'::regnamespace AND c.relkind NOT IN ('i', 'I', 'c') ORDER BY 1;
-- name: columns
SELECT c.relname, a.attname, a.attnum, a.attnotnull, a.attidentity, a.attgenerated, a.atttypmod, a.attislocal, a.attndims,
  pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description, dep.objid IS NOT NULL AS has_sequence
FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON a.attrelid = c.oid
LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum
LEFT OUTER JOIN pg_catalog.pg_description dsc ON c.oid = dsc.objoid AND a.attnum = dsc.objsubid
LEFT OUTER JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i' AND dep.refobjsubid = a.attnum
  AND dep.classid = dep.refclassid
WHERE NOT a.attisdropped AND c.relnamespace = 'shop'::regnamespace AND c.relkind NOT IN ('i', 'I', 'c') AND a.attnum > 0
ORDER BY c.relname, a.attnum;
-- name: constraints
SELECT c.conname, c.contype, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description, c.conkey, c.condeferrable,
  CASE WHEN c.contype = 'c' THEN '(' || substring(pg_get_constraintdef(c.oid) FROM 7) || ')' END AS consrc_copy
FROM pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid
LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass
WHERE t.relnamespace = 'shop'::regnamespace ORDER BY t.relname, c.conname;
-- name: foreign keys
SELECT c.conname, c.confupdtype, c.confdeltype, c.confmatchtype, c.confkey FROM pg_catalog.pg_constraint c WHERE c.contype = 'f';
-- name: indexes
SELECT c.relname, tc.relname AS tabrelname, i.indisunique, i.indisprimary, i.indnatts, i.indkey, i.indoption, i.indcollation,
  pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr, pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) AS expr,
  am.amname, dsc.description
FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid LEFT OUTER JOIN pg_am am ON am.oid = c.relam
LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid = dsc.objoid
WHERE tc.relnamespace = 'shop'::regnamespace ORDER BY tc.relname, c.relname;
-- name: definition of an index
SELECT pg_catalog.pg_get_indexdef('shop.items_by_price'::regclass);
-- name: triggers
SELECT x.tgname, p.proname, pg_catalog.pg_get_triggerdef(x.oid, true) FROM pg_catalog.pg_trigger x
LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid = x.tgfoid WHERE x.tgrelid = 'shop.items'::regclass AND NOT x.tgisinternal;
-- name: rules
SELECT r.rulename, r.ev_type, r.is_instead, pg_get_ruledef(r.oid) FROM pg_rewrite r WHERE r.ev_class = 'shop.items'::regclass;
-- name: policies
SELECT * FROM pg_catalog.pg_policies WHERE schemaname = 'shop';
-- name: view
SELECT pg_catalog.pg_get_viewdef('shop.cheap'::regclass, true);
-- name: procedures
SELECT p.proname, p.prokind, p.proretset, p.provolatile, p.pronargs, p.proargtypes, p.proargnames, p.proargmodes, l.lanname,
  pg_catalog.pg_get_expr(p.proargdefaults, 0) AS arg_defaults, d.description
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = p.oid AND d.objsubid = 0
WHERE p.pronamespace = 'shop'::regnamespace ORDER BY p.proname;
-- name: definition of a procedure
SELECT pg_catalog.pg_get_functiondef('shop.add_one'::regproc);
-- name: sequences
SELECT sequencename, start_value, min_value, max_value, increment_by, cycle, cache_size, last_value, data_type
FROM pg_catalog.pg_sequences WHERE schemaname = 'shop' ORDER BY 1;
-- name: inheritance
SELECT i.*, c.relnamespace FROM pg_catalog.pg_inherits i, pg_catalog.pg_class c WHERE i.inhparent = 'shop.items'::regclass AND c.oid = i.inhrelid;
-- name: dependencies
SELECT DISTINCT dep.deptype, dep.classid::regclass, cl.relkind, coalesce(cl.relname, ad.attname) AS name
FROM pg_depend dep LEFT JOIN pg_class cl ON dep.objid = cl.oid
LEFT JOIN pg_attribute ad ON ad.attrelid = dep.objid AND ad.attnum = dep.objsubid
WHERE dep.refobjid = 'shop.items'::regclass ORDER BY 1, 2, 3, 4;
-- name: sizes
SELECT c.relname, pg_catalog.pg_total_relation_size(c.oid) > 0, pg_catalog.pg_relation_size(c.oid) > 0
FROM pg_class c WHERE c.relnamespace = 'shop'::regnamespace AND c.relkind = 'r' AND c.relname = 'items';
-- name: statistics
SELECT relname, seq_scan >= 0, n_live_tup >= 0, last_vacuum FROM pg_catalog.pg_stat_all_tables WHERE schemaname = 'shop' ORDER BY 1;
-- name: privileges
SELECT grantee, table_name, privilege_type, is_grantable FROM information_schema.table_privileges
WHERE table_schema = 'shop' AND table_name = 'items' ORDER BY privilege_type;
-- name: column privileges
SELECT count(*) > 0 FROM information_schema.column_privileges WHERE table_schema = 'shop';
-- name: access control lists
SELECT c.relname, c.relacl, pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.relnamespace = 'shop'::regnamespace AND c.relkind = 'r' ORDER BY 1;
-- name: sessions
SELECT sa.state, sa.application_name, sa.usename, sa.backend_type FROM pg_catalog.pg_stat_activity sa WHERE sa.pid = pg_backend_pid();
-- name: locks
SELECT blocked.pid FROM pg_catalog.pg_locks blocked JOIN pg_catalog.pg_locks blocking ON blocking.locktype = blocked.locktype
  AND blocking.database IS NOT DISTINCT FROM blocked.database AND blocking.relation IS NOT DISTINCT FROM blocked.relation
  AND blocking.pid <> blocked.pid WHERE NOT blocked.granted;
-- name: foreign servers and wrappers
SELECT s.srvname, w.fdwname FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw;
-- name: event triggers
SELECT * FROM pg_catalog.pg_event_trigger;
-- name: collations
SELECT c.collname, c.collprovider, c.collencoding FROM pg_collation c WHERE c.collname IN ('C', 'POSIX') ORDER BY 1;
-- name: rows of a table
SELECT x.*, x.ctid IS NOT NULL FROM (SELECT id, name, ctid FROM shop.items) x ORDER BY 1;
-- name: key words
SELECT word, catcode FROM pg_get_keywords() WHERE word IN ('select', 'between', 'abort') ORDER BY 1;
