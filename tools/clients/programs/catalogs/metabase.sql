-- The queries of Metabase when it synchronizes a database and reads its fields.
-- name: version
SELECT current_setting('server_version_num')::int >= 150000, current_setting('TimeZone') <> '';
-- name: time zone
SET SESSION TIMEZONE TO 'UTC'; SHOW TIMEZONE;
-- name: schemas
SELECT nspname AS table_schem FROM pg_catalog.pg_namespace WHERE nspname <> 'pg_toast'
  AND (nspname !~ '^pg_temp_' OR nspname = (pg_catalog.current_schemas(true))[1])
  AND (nspname !~ '^pg_toast_temp_' OR nspname = replace((pg_catalog.current_schemas(true))[1], 'pg_temp_', 'pg_toast_temp_'))
ORDER BY table_schem;
-- name: tables
SELECT n.nspname AS "schema", c.relname AS "name",
  CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE'
    WHEN 'm' THEN 'MATERIALIZED VIEW' END AS type, d.description, stat.n_live_tup >= 0 AS estimated
FROM pg_catalog.pg_class c INNER JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid
LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
LEFT JOIN pg_stat_user_tables stat ON n.nspname = stat.schemaname AND c.relname = stat.relname
WHERE c.relnamespace = n.oid AND n.nspname !~ 'information_schema|^pg_' AND c.relkind IN ('r', 'p', 'v', 'f', 'm')
ORDER BY type, "schema", "name";
-- name: privileges of tables
WITH table_privileges AS (
  SELECT NULL AS role, t.schemaname AS schema, t.objectname AS table,
    pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'update') AS update,
    pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'select') AS select,
    pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'insert') AS insert,
    pg_catalog.has_table_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'delete') AS delete
  FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables
    UNION SELECT schemaname, viewname FROM pg_catalog.pg_views
    UNION SELECT schemaname, matviewname FROM pg_catalog.pg_matviews) t
  WHERE t.schemaname !~ '^pg_' AND t.schemaname <> 'information_schema'
    AND pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage'))
SELECT t.* FROM table_privileges t ORDER BY 2, 3;
-- name: fields
SELECT c.column_name AS name, CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN format('%s', c.udt_name)
    ELSE format('"%s"."%s"', c.udt_schema, c.udt_name) END AS "database-type",
  c.ordinal_position - 1 AS "database-position", c.table_schema, c.table_name, pk.column_name IS NOT NULL AS "pk?",
  col_description(CAST(CAST(format('%I.%I', CAST(c.table_schema AS text), CAST(c.table_name AS text)) AS regclass) AS oid),
    c.ordinal_position) AS "field-comment",
  ((column_default IS NULL OR lower(column_default) = 'null') AND is_nullable = 'NO'
    AND NOT ((column_default IS NOT NULL AND column_default LIKE '%nextval(%') OR is_identity <> 'NO')) AS "database-required",
  ((column_default IS NOT NULL AND column_default LIKE '%nextval(%') OR is_identity <> 'NO') AS "database-is-auto-increment"
FROM information_schema.columns AS c LEFT JOIN (
  SELECT tc.table_schema, tc.table_name, kc.column_name FROM information_schema.table_constraints AS tc
  INNER JOIN information_schema.key_column_usage AS kc ON tc.constraint_name = kc.constraint_name
    AND tc.table_schema = kc.table_schema AND tc.table_name = kc.table_name
  WHERE tc.constraint_type = 'PRIMARY KEY') AS pk
  ON c.table_schema = pk.table_schema AND c.table_name = pk.table_name AND c.column_name = pk.column_name
WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND c.table_schema = 'shop'
ORDER BY c.table_schema, c.table_name, c.ordinal_position;
-- name: fields of materialized views
SELECT pa.attname, pt.typname FROM pg_catalog.pg_class pc INNER JOIN pg_catalog.pg_namespace pn ON pn.oid = pc.relnamespace
INNER JOIN pg_catalog.pg_attribute pa ON pa.attrelid = pc.oid INNER JOIN pg_catalog.pg_type pt ON pt.oid = pa.atttypid
WHERE pc.relkind = 'm' AND pa.attnum >= 1 AND NOT pa.attisdropped;
-- name: foreign keys
SELECT fk_ns.nspname AS "fk-table-schema", fk_table.relname AS "fk-table-name", fk_column.attname AS "fk-column-name",
  pk_ns.nspname AS "pk-table-schema", pk_table.relname AS "pk-table-name", pk_column.attname AS "pk-column-name"
FROM pg_constraint c INNER JOIN pg_class fk_table ON c.conrelid = fk_table.oid
INNER JOIN pg_namespace fk_ns ON c.connamespace = fk_ns.oid INNER JOIN pg_attribute fk_column ON c.conrelid = fk_column.attrelid
INNER JOIN pg_class pk_table ON c.confrelid = pk_table.oid INNER JOIN pg_namespace pk_ns ON pk_table.relnamespace = pk_ns.oid
INNER JOIN pg_attribute pk_column ON c.confrelid = pk_column.attrelid
WHERE fk_ns.nspname !~ '^information_schema|catalog_history|pg_' AND c.contype = 'f'::char
  AND fk_column.attnum = ANY (c.conkey) AND pk_column.attnum = ANY (c.confkey) ORDER BY 1, 2;
-- name: indexes
SELECT tmp.table_schem, tmp.table_name, trim(BOTH '"' FROM pg_catalog.pg_get_indexdef(tmp.ci_oid, tmp.pos, false)) AS field_name
FROM (SELECT n.nspname AS table_schem, ct.relname AS table_name, ci.oid AS ci_oid, i.indpred,
    (information_schema._pg_expandarray(i.indkey)).n AS pos
  FROM pg_catalog.pg_class ct JOIN pg_catalog.pg_namespace n ON ct.relnamespace = n.oid
  JOIN pg_catalog.pg_index i ON ct.oid = i.indrelid JOIN pg_catalog.pg_class ci ON ci.oid = i.indexrelid
  WHERE pg_catalog.pg_get_expr(i.indpred, i.indrelid) IS NULL AND n.nspname !~ '^information_schema|catalog_history|pg_') tmp
WHERE tmp.pos = 1 ORDER BY 1, 2, 3;
-- name: enums
SELECT nspname, typname, enumlabel FROM pg_type JOIN pg_enum ON pg_enum.enumtypid = pg_type.oid
LEFT JOIN pg_namespace ON pg_type.typnamespace = pg_namespace.oid ORDER BY 1, 2, enumsortorder;
-- name: actions of a table
SELECT column_name, column_default, is_nullable FROM information_schema.columns WHERE table_schema = 'shop' AND table_name = 'items'
ORDER BY ordinal_position;
-- name: fingerprint of fields
SELECT substring("shop"."items"."name", 1, 1234) AS "substring1", "shop"."items"."price", "shop"."items"."at" IS NULL
FROM "shop"."items" LIMIT 10000;
-- name: bucket of dates
SELECT date_trunc('month', source.at) AS at, count(*) AS count FROM (SELECT CAST('2024-02-29' AS timestamptz) AS at) source
GROUP BY date_trunc('month', source.at) ORDER BY date_trunc('month', source.at) ASC;
-- name: week of a date
SELECT CAST(date_trunc('week', CAST('2024-02-29'::timestamp + INTERVAL '1 day' AS timestamp)) + INTERVAL '-1 day' AS timestamp);
-- name: quarter and day of a date
SELECT extract(quarter FROM DATE '2024-02-29'), CAST(extract(dow FROM DATE '2024-02-29') AS integer) + 1;
-- name: bins of numbers
SELECT floor((("shop"."items"."price" - 0.0) / 0.5)) * 0.5 + 0.0 AS price, count(*) FROM shop.items GROUP BY 1 ORDER BY 1;
-- name: median
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price), percentile_cont(0.9) WITHIN GROUP (ORDER BY price) FROM shop.items;
-- name: running totals
SELECT name, sum(sum(price)) OVER (ORDER BY name ASC ROWS UNBOUNDED PRECEDING) FROM shop.items GROUP BY name ORDER BY name;
-- name: fields of json
SELECT count(*) FROM (SELECT (json_each_text('{"a": 1, "b": "x"}'::json)).*) x;
-- name: regular expressions
SELECT substring(name FROM '(^o.)'), regexp_replace(name, 'o', '0', 'g') FROM shop.items ORDER BY name;
-- name: cancel of a query
SELECT pg_cancel_backend(0) IS NOT NULL;
