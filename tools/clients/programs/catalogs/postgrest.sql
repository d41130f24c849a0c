-- The queries of PostgREST: its cache of the schema, its roles and its requests.
-- name: version
SELECT current_setting('server_version_num')::integer / 10000, current_setting('server_version') <> '', version() <> '';
-- name: settings of a role
WITH role_setting AS (
  SELECT setdatabase, unnest(setconfig) AS setting FROM pg_catalog.pg_db_role_setting
  WHERE setrole = quote_ident(current_user)::regrole::oid AND setdatabase IN (0, (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_catalog))),
kv_settings AS (SELECT setdatabase, split_part(setting, '=', 1) AS k, replace(setting, split_part(setting, '=', 1) || '=', '') AS value FROM role_setting)
SELECT DISTINCT ON (key) replace(k, 'pgrst.', '') AS key, value FROM kv_settings WHERE k LIKE 'pgrst.%' ORDER BY key, setdatabase DESC NULLS LAST;
-- name: settings of all roles
WITH role_setting AS (SELECT r.rolname, unnest(r.rolconfig) AS setting FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid
  WHERE member = quote_ident(current_user)::regrole::oid)
SELECT rolname, split_part(setting, '=', 1) FROM role_setting;
-- name: time zones
SELECT count(*) > 100 FROM pg_timezone_names;
-- name: tables
WITH columns AS (
  SELECT c.oid AS relid, a.attname::name AS column_name, d.description,
    CASE WHEN a.attidentity <> '' OR a.attgenerated <> '' THEN NULL ELSE pg_get_expr(ad.adbin, ad.adrelid)::text END AS column_default,
    NOT (a.attnotnull OR t.typtype = 'd' AND t.typnotnull) AS is_nullable,
    CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, NULL) ELSE format_type(a.atttypid, NULL) END AS data_type,
    information_schema._pg_char_max_length(information_schema._pg_truetypid(a.*, t.*), information_schema._pg_truetypmod(a.*, t.*))::integer AS character_maximum_length,
    bt.oid AS base_type, a.attnum::integer AS position
  FROM pg_attribute a LEFT JOIN pg_description d ON d.objoid = a.attrelid AND d.objsubid = a.attnum AND d.classoid = 'pg_class'::regclass
  LEFT JOIN pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = ad.adnum
  JOIN (pg_class c JOIN pg_namespace nc ON c.relnamespace = nc.oid) ON a.attrelid = c.oid
  JOIN pg_type t ON a.atttypid = t.oid LEFT JOIN pg_type bt ON t.typtype = 'd' AND t.typbasetype = bt.oid
  WHERE NOT pg_is_other_temp_schema(nc.oid) AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'f', 'm', 'p')
    AND nc.nspname = ANY ('{shop}')),
columns_agg AS (
  SELECT relid, array_agg(row(column_name, description, is_nullable::boolean, data_type, character_maximum_length, column_default) ORDER BY position) AS columns
  FROM columns GROUP BY relid),
tbl_pk_cols AS (
  SELECT r.oid AS relid, array_agg(a.attname ORDER BY a.attname) AS pk_cols
  FROM pg_class r JOIN pg_constraint c ON r.oid = c.conrelid JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum = ANY (c.conkey)
  WHERE c.contype IN ('p') AND r.relkind IN ('r', 'p') AND r.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
    AND NOT pg_is_other_temp_schema(r.relnamespace) AND NOT a.attisdropped GROUP BY r.oid)
SELECT n.nspname AS table_schema, c.relname AS table_name, d.description AS table_description, c.relkind IN ('v', 'm') AS is_view,
  (c.relkind IN ('r', 'p') OR (c.relkind IN ('v', 'f') AND (pg_relation_is_updatable(c.oid::regclass, true) & 8) = 8)) AS insertable,
  (c.relkind IN ('r', 'p') OR (c.relkind IN ('v', 'f') AND (pg_relation_is_updatable(c.oid::regclass, true) & 4) = 4)) AS updatable,
  coalesce(tpks.pk_cols, '{}') AS pk_cols, coalesce(cols_agg.columns, '{}') AS columns
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
LEFT JOIN tbl_pk_cols tpks ON c.oid = tpks.relid LEFT JOIN columns_agg cols_agg ON c.oid = cols_agg.relid
WHERE c.relkind IN ('v', 'r', 'm', 'f', 'p') AND n.nspname = ANY ('{shop}') AND NOT c.relispartition
ORDER BY table_schema, table_name;
-- name: relationships
WITH pks_uniques_cols AS (
  SELECT conrelid, array_agg(key ORDER BY key) AS cols FROM pg_constraint, LATERAL unnest(conkey) AS _(key)
  WHERE contype IN ('p', 'u') AND connamespace::regnamespace::text <> 'pg_catalog' GROUP BY oid, conrelid)
SELECT ns1.nspname AS table_schema, tab.relname AS table_name, ns2.nspname AS foreign_table_schema, other.relname AS foreign_table_name,
  (ns1.nspname, tab.relname) = (ns2.nspname, other.relname) AS is_self, traint.conname AS constraint_name, column_info.cols_and_fcols,
  (column_info.cols IN (SELECT cols FROM pks_uniques_cols WHERE conrelid = traint.conrelid)) AS one_to_one
FROM pg_constraint traint JOIN LATERAL (
  SELECT array_agg(row(cols.attname, refs.attname) ORDER BY ord) AS cols_and_fcols, array_agg(cols.attnum ORDER BY cols.attnum) AS cols
  FROM unnest(traint.conkey, traint.confkey) WITH ORDINALITY AS _(col, ref, ord)
  JOIN pg_attribute cols ON cols.attrelid = traint.conrelid AND cols.attnum = col
  JOIN pg_attribute refs ON refs.attrelid = traint.confrelid AND refs.attnum = ref) AS column_info ON true
JOIN pg_namespace ns1 ON ns1.oid = traint.connamespace JOIN pg_class tab ON tab.oid = traint.conrelid
JOIN pg_class other ON other.oid = traint.confrelid JOIN pg_namespace ns2 ON ns2.oid = other.relnamespace
WHERE traint.contype = 'f' AND traint.conparentid = 0 ORDER BY traint.conrelid, traint.conname;
-- name: key dependencies of views
WITH RECURSIVE pks_fks AS (
  SELECT contype::text AS contype, conname, array_length(conkey, 1) AS ncol, conrelid AS resorigtbl, col AS resorigcol, ord
  FROM pg_constraint LEFT JOIN LATERAL unnest(conkey) WITH ORDINALITY AS _(col, ord) ON true WHERE contype IN ('p', 'f')),
views AS (
  SELECT c.oid AS view_id, n.nspname AS view_schema, c.relname AS view_name, r.ev_action AS view_definition
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_rewrite r ON r.ev_class = c.oid
  WHERE c.relkind IN ('v', 'm') AND n.nspname = ANY ('{shop}'))
SELECT view_schema, view_name, view_definition IS NOT NULL FROM views;
-- name: functions
WITH base_types AS (
  WITH RECURSIVE recurse AS (
    SELECT oid, typbasetype, coalesce(nullif(typbasetype, 0), oid) AS base FROM pg_type
    UNION SELECT t.oid, b.typbasetype, coalesce(nullif(b.typbasetype, 0), b.oid) AS base FROM recurse t JOIN pg_type b ON t.typbasetype = b.oid)
  SELECT oid, base FROM recurse WHERE typbasetype = 0),
arguments AS (
  SELECT oid, array_agg((coalesce(name, ''), type::regtype::text, idx <= (pronargs - pronargdefaults), coalesce(mode = 'v', false)) ORDER BY idx) AS args
  FROM pg_proc, unnest(proargnames, proargtypes, proargmodes) WITH ORDINALITY AS _ (name, type, mode, idx)
  WHERE type IS NOT NULL GROUP BY oid)
SELECT pn.nspname AS proc_schema, p.proname AS proc_name, d.description AS proc_description, coalesce(a.args, '{}') AS args,
  tn.nspname AS schema, coalesce(comp.relname, t.typname) AS name, p.proretset AS rettype_is_setof, (t.typtype = 'c') AS rettype_is_composite,
  p.provolatile, p.provariadic > 0 AS hasvariadic
FROM pg_proc p LEFT JOIN arguments a ON a.oid = p.oid JOIN pg_namespace pn ON pn.oid = p.pronamespace
JOIN base_types bt ON bt.oid = p.prorettype JOIN pg_type t ON t.oid = bt.base JOIN pg_namespace tn ON tn.oid = t.typnamespace
LEFT JOIN pg_class comp ON comp.oid = t.typrelid
LEFT JOIN pg_description AS d ON d.objoid = p.oid AND d.classoid = 'pg_proc'::regclass
WHERE t.oid <> 'trigger'::regtype AND prokind = 'f' AND pn.nspname = ANY ('{shop}');
-- name: media types
SELECT lower(typname) FROM pg_type WHERE typtype = 'd' AND typname ~ '/';
-- name: representations of data
SELECT c.castsource::regtype::text, c.casttarget::regtype::text, c.castfunc::regproc::text FROM pg_catalog.pg_cast c
JOIN pg_catalog.pg_type src_t ON c.castsource = src_t.oid JOIN pg_catalog.pg_type dst_t ON c.casttarget = dst_t.oid
WHERE c.castcontext = 'i' AND c.castmethod = 'f' AND has_function_privilege(c.castfunc, 'execute')
  AND ((src_t.typtype = 'd' AND c.casttarget IN ('json'::regtype::oid, 'text'::regtype::oid))
    OR (dst_t.typtype = 'd' AND c.castsource IN ('json'::regtype::oid, 'text'::regtype::oid))) ORDER BY 1;
-- name: start of a request
BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
SELECT set_config('search_path', '"shop", "public"', true), set_config('role', current_user, true), set_config('request.jwt.claims', '{"role":"x"}', true),
  set_config('request.method', 'GET', true), set_config('request.path', '/items', true), set_config('request.headers', '{}', true);
SELECT current_setting('request.method', true), current_setting('request.nosuch', true);
COMMIT;
-- name: read as JSON
WITH pgrst_source AS (SELECT "shop"."items"."id", "shop"."items"."name" FROM "shop"."items" ORDER BY "shop"."items"."id" ASC LIMIT 10 OFFSET 0)
SELECT NULL::bigint AS total_result_set, pg_catalog.count(_postgrest_t) AS page_total, coalesce(json_agg(_postgrest_t), '[]') AS body,
  nullif(current_setting('response.headers', true), '') AS response_headers
FROM (SELECT * FROM pgrst_source) _postgrest_t;
-- name: insert of JSON
WITH pgrst_source AS (
  INSERT INTO "shop"."items" ("name", "price") SELECT pgrst_body."name", pgrst_body."price"
  FROM (SELECT '[{"name": "rest", "price": 3}]'::json AS json_data) pgrst_payload,
    LATERAL (SELECT "name", "price" FROM json_to_recordset(pgrst_payload.json_data) AS _("name" character varying(20), "price" numeric(8, 2))) pgrst_body
  RETURNING "shop"."items".*)
SELECT '' AS total_result_set, pg_catalog.count(_postgrest_t) AS page_total FROM (SELECT * FROM pgrst_source) _postgrest_t;
-- name: embedded rows
SELECT "i"."name", coalesce("p"."pairs", '[]') AS pairs FROM shop.items i
LEFT JOIN LATERAL (SELECT json_agg(p1) AS pairs FROM (SELECT b FROM shop.pairs p0 WHERE p0.b = i.id) p1) p ON true WHERE i.id < 3 ORDER BY i.id;
-- name: filters
SELECT name FROM shop.items WHERE name = ANY ('{one,two}') AND name ILIKE 'O%' AND price IS NOT NULL AND id >= '1' AND name ~ '^o';
-- name: full-text search
SELECT name FROM shop.items WHERE to_tsvector(name) @@ to_tsquery('one');
-- name: count that is planned
EXPLAIN (FORMAT JSON) SELECT 1 FROM shop.items;
-- name: reload of the schema
LISTEN "pgrst"; NOTIFY pgrst, 'reload schema'; UNLISTEN *;
