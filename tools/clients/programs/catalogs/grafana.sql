-- The queries of Grafana's data source for PostgreSQL: its editor, macros and annotations.
-- name: version
SELECT current_setting('server_version_num')::int / 100 >= 1500 AS version;
-- name: timescale
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';
-- name: tables
SELECT CASE WHEN quote_ident(table_schema) IN (
    SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
    FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
      array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
      string_to_array(current_setting('search_path'), ',') s)
  THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
FROM information_schema.tables
WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache', '_timescaledb_catalog',
  '_timescaledb_internal', '_timescaledb_config', 'timescaledb_information', 'timescaledb_experimental') ORDER BY 1;
-- name: columns of a table
SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
WHERE CASE WHEN array_length(parse_ident('shop.items'), 1) = 2
    THEN quote_ident(table_schema) = (parse_ident('shop.items'))[1] AND quote_ident(table_name) = (parse_ident('shop.items'))[2]
    ELSE quote_ident(table_name) = 'shop.items' END ORDER BY 1;
-- name: a table with a time column
SELECT quote_ident(table_name) AS table_name, (SELECT quote_ident(column_name) AS column_name FROM information_schema.columns c
  WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name
    AND udt_name IN ('timestamptz', 'timestamp') ORDER BY ordinal_position LIMIT 1) AS time_column,
  (SELECT quote_ident(column_name) AS column_name FROM information_schema.columns c
  WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name
    AND udt_name IN ('float', 'int8', 'numeric') ORDER BY ordinal_position LIMIT 1) AS value_column
FROM information_schema.tables t WHERE EXISTS (SELECT 1 FROM information_schema.columns c
  WHERE t.table_schema = c.table_schema AND t.table_name = c.table_name AND udt_name IN ('timestamptz', 'timestamp'))
  AND table_schema = 'shop' LIMIT 1;
-- name: aggregates
SELECT DISTINCT p.proname FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid JOIN pg_type t ON t.oid = p.prorettype
WHERE p.pronargs = 1 AND p.proname IN ('avg', 'count', 'max', 'min', 'stddev', 'sum', 'variance') ORDER BY 1;
-- name: macro timeGroup
SELECT floor(extract(epoch FROM at) / 300) * 300 AS "time", avg(price) FROM shop.items
WHERE at BETWEEN '2124-02-29T00:00:00Z' AND '2124-03-01T00:00:00Z' GROUP BY 1 ORDER BY 1;
-- name: macro unixEpochGroup
SELECT floor((id) / 60) * 60 AS "time", count(*) FROM shop.items GROUP BY 1 ORDER BY 1;
-- name: time series
SELECT date_trunc('hour', t) AS time, 'web' AS metric, (extract(epoch FROM t)::int / 3600 % 3)::float8 AS value
FROM generate_series('2024-02-29 00:00+00'::timestamptz, '2024-02-29 03:00+00', '30 min') AS t ORDER BY 1;
-- name: variable with text and value
SELECT name AS __text, id AS __value FROM shop.items ORDER BY 1;
-- name: annotations
SELECT extract(epoch FROM '2024-02-29'::timestamptz) AS time, name AS text, 'tag1,tag2' AS tags FROM shop.items ORDER BY 2 LIMIT 100;
-- name: json for a panel
SELECT json_build_object('name', name, 'price', price) FROM shop.items ORDER BY id;
-- name: statistics of the database
SELECT datname, numbackends > 0, xact_commit >= 0, blks_hit >= 0, tup_returned >= 0, deadlocks FROM pg_stat_database
WHERE datname = current_database();
-- name: activity
SELECT state, count(*) FROM pg_stat_activity WHERE pid = pg_backend_pid() GROUP BY state;
-- name: sizes of tables
SELECT relname, pg_total_relation_size(relid) > 0 FROM pg_catalog.pg_statio_user_tables WHERE schemaname = 'shop' ORDER BY 1;
-- name: background writer
SELECT checkpoints_timed >= 0, buffers_clean >= 0 FROM pg_stat_bgwriter;
-- name: locks by mode
SELECT count(*) >= 0 FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = current_database();
-- name: indexes that are not used
SELECT relname, indexrelname, idx_scan FROM pg_stat_user_indexes WHERE idx_scan = 0 AND schemaname = 'shop' ORDER BY 2;
-- name: replication
SELECT count(*) FROM pg_stat_replication;
