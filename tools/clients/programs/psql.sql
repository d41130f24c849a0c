-- Scripts of psql's commands that do more than describe. FILE is a file of two rows, FILE2 one to write.
-- name: \gdesc
SELECT id, price, tags FROM shop.items \gdesc
-- name: \gset
SELECT count(*) AS n, max(name) AS m FROM shop.items \gset v_
\echo :v_n :v_m
SELECT :'v_m';
-- name: \gexec
SELECT format('SELECT %s + %s', id, id) FROM shop.items ORDER BY id \gexec
-- name: \gx
SELECT id, name FROM shop.items ORDER BY id \gx
-- name: \g
SELECT 1 \g (format=csv)
-- name: \crosstabview
SELECT name, id > 1 AS later, price FROM shop.items ORDER BY 1 \crosstabview
-- name: \errverbose
SELECT nosuch FROM shop.items;
\errverbose
-- name: \watch
SELECT 1 / (2 - count(*)) FROM pg_class WHERE relname = 'nosuch' \g
SELECT 1 / 0 \watch 0.1
-- name: \copy from and to
CREATE TABLE copied (id int, name text);
\copy copied FROM 'FILE' CSV
\copy (SELECT * FROM copied ORDER BY id) TO STDOUT
DROP TABLE copied;
-- name: \i, \o, \qecho
\o FILE2
SELECT 1;
\qecho written
\o
\! cat FILE2
-- name: \if
SELECT count(*) > 1 AS many FROM shop.items \gset
\if :many
\echo many
\else
\echo few
\endif
-- name: \pset
\pset null (null)
\pset format html
\pset footer off
SELECT NULL AS a, 'x<y' AS b;
\pset format unaligned
SELECT 1 AS a;
\pset format latex
SELECT 1 AS a;
-- name: \x, \a, \t, \f, \C
\x
SELECT 1 AS a;
\x
\a
\t
\f ;
SELECT 1, 2;
\t
\C Title
SELECT 1 AS a;
-- name: \c
\c -
SELECT 1;
\c nosuch_database
-- name: \set and variables
\set n 5
SELECT :n + 1, :'n', :"n" FROM (SELECT 1 AS "5") x;
\echo :SERVER_VERSION_NUM
\echo :ENCODING :LAST_ERROR_SQLSTATE :ROW_COUNT
-- name: \set FETCH_COUNT
\set FETCH_COUNT 10
SELECT sum(n) OVER (ORDER BY n) FROM generate_series(1, 35) AS n;
-- name: \set ON_ERROR_ROLLBACK
\set ON_ERROR_ROLLBACK on
BEGIN;
SELECT nosuch;
SELECT 1;
COMMIT;
-- name: \set AUTOCOMMIT
\set AUTOCOMMIT off
CREATE TABLE uncommitted (id int);
ROLLBACK;
SELECT to_regclass('uncommitted');
-- name: \set ECHO_HIDDEN
\set ECHO_HIDDEN noexec
\dn
-- name: \timing, \setenv, \getenv
\setenv CLIENTS yes
\getenv found CLIENTS
\echo :found
-- name: \encoding LATIN1
\encoding LATIN1
\encoding
SELECT length(U&'\00e4');
-- name: \password
CREATE ROLE psql_role LOGIN;
\password psql_role
DROP ROLE psql_role;
-- name: \lo_import and others
\lo_import FILE
\lo_list
\lo_unlink :LASTOID
-- name: \;
SELECT 1\; SELECT 2;
-- name: errors and positions
SELECT * FROM shop.itemz;
SELECT nmae FROM shop.items;
INSERT INTO shop.items (name) VALUES ('one');
\set VERBOSITY verbose
SELECT 1 / 0;
\set VERBOSITY sqlstate
SELECT 1 / 0;
-- name: \d of foreign keys
CREATE TABLE child (item int REFERENCES shop.items ON DELETE CASCADE);
\d child
\d shop.items
DROP TABLE child;
-- name: \d of generated columns
CREATE TABLE made (a int, b int GENERATED ALWAYS AS (a * 2) STORED);
\d made
DROP TABLE made;
-- name: \d of partitions
CREATE TABLE parts (id int) PARTITION BY HASH (id);
CREATE TABLE part0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
\d+ parts
\d part0
\dP
DROP TABLE parts;
-- name: \d of range partitions
CREATE TABLE ranges (id int) PARTITION BY RANGE (id);
CREATE TABLE range1 PARTITION OF ranges FOR VALUES FROM (1) TO (10);
\d+ ranges
\d range1
DROP TABLE ranges;
-- name: \d of inherited tables
CREATE TABLE parent (id int);
CREATE TABLE heir (n int) INHERITS (parent);
\d parent
\d heir
DROP TABLE heir, parent;
-- name: \d of triggers
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TABLE watched (id int);
CREATE TRIGGER noting BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION note();
\d watched
\df note
DROP TABLE watched;
DROP FUNCTION note();
-- name: \d of materialized views
CREATE MATERIALIZED VIEW kept AS SELECT 1 AS one;
\d kept
\dm
DROP MATERIALIZED VIEW kept;
-- name: \d of an expression index
CREATE TABLE indexed (name text);
CREATE INDEX lowered ON indexed (lower(name));
\d indexed
DROP TABLE indexed;
-- name: \d of a partial index
CREATE TABLE partly (n int);
CREATE INDEX few ON partly (n) WHERE n < 2;
\d partly
\d+ few
DROP TABLE partly;
-- name: \d of policies
CREATE TABLE guarded (id int);
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON guarded USING (id = 1);
\d guarded
DROP TABLE guarded;
-- name: \dT of types
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE card AS (value int, suit text);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
\dT+
\dD
\d card
DROP TYPE mood, card;
DROP DOMAIN positive;
-- name: \df and \sf of functions
CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n * 2';
\df twice
\sf twice
DROP FUNCTION twice(int);
-- name: \du and \dp of roles
CREATE ROLE psql_reader NOLOGIN;
GRANT SELECT ON shop.items TO psql_reader;
\du psql_reader
\dp shop.items
REVOKE ALL ON shop.items FROM psql_reader;
DROP ROLE psql_reader;
-- name: \d of temporary tables
CREATE TEMP TABLE scratch (id int);
\d scratch
\dt
-- name: \dRp of publications
CREATE PUBLICATION news FOR TABLE shop.items;
\dRp+
DROP PUBLICATION news;
-- name: \dX of statistics
CREATE STATISTICS shop.related ON name, price FROM shop.items;
\dX shop.*
\d shop.items
DROP STATISTICS shop.related;
