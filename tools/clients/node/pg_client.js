// The scenarios of node-postgres, with pg-cursor, pg-query-stream and pg-copy-streams.
const { once } = require("node:events");
const { Readable } = require("node:stream");
const { pipeline } = require("node:stream/promises");
const { Client, Pool, escapeIdentifier, types } = require("pg");
const copy = require("pg-copy-streams");
const Cursor = require("pg-cursor");
const QueryStream = require("pg-query-stream");
const { assert, rejects, run, same, url } = require("./scenarios");

/** Runs a scenario with connections, which are ended afterwards. */
const withClients = (count, scenario) => async () => {
  const clients = Array.from({ length: count }, () => new Client({ connectionString: url }));
  for (const client of clients) client.on("error", () => {});
  try {
    for (const client of clients) await client.connect();
    await scenario(...clients);
  } finally {
    for (const client of clients) client.end().catch(() => {});
  }
};
const withClient = (scenario) => withClients(1, scenario);

async function table(db, name, columns) {
  await db.query(`DROP TABLE IF EXISTS ${name}`);
  await db.query(`CREATE TABLE ${name} (${columns})`);
}

const value = async (db, text, values) => Object.values((await db.query(text, values)).rows[0])[0];

run("pg", {
  "connect and settings": async () => {
    const db = new Client({ connectionString: url, application_name: "clients", statement_timeout: 5000 });
    await db.connect();
    same(await value(db, "SHOW application_name"), "clients");
    same(await value(db, "SHOW statement_timeout"), "5s");
    same(await value(db, "SELECT pg_backend_pid()"), db.processID);
    await db.end();
    const wrong = new Client({ connectionString: url.replace(/\/\w+$/, "/nosuch") });
    await rejects(wrong.connect(), "3D000");
  },
  "create, read, update, delete": withClient(async (db) => {
    await table(db, "node_crud", "id int PRIMARY KEY, name text NOT NULL, tags text[]");
    await db.query("INSERT INTO node_crud VALUES ($1, $2, $3)", [1, "one", ["a", "b c"]]);
    const { rows, fields } = await db.query("SELECT * FROM node_crud WHERE id = $1", [1]);
    same(rows, [{ id: 1, name: "one", tags: ["a", "b c"] }]);
    same(
      fields.map((field) => field.dataTypeID),
      [23, 25, 1009],
    );
    same((await db.query("UPDATE node_crud SET name = name || '!'")).rowCount, 1);
    same((await db.query("DELETE FROM node_crud RETURNING name")).rows, [{ name: "one!" }]);
  }),
  "several statements in one query": withClient(async (db) => {
    const results = await db.query("SELECT 1 AS a; SELECT 2 AS b, 3 AS c");
    same(
      results.map((result) => result.rows),
      [[{ a: 1 }], [{ b: 2, c: 3 }]],
    );
    same((await db.query({ text: "SELECT 1, 2", rowMode: "array" })).rows, [[1, 2]]);
  }),
  "queued queries": withClient(async (db) => {
    const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => value(db, "SELECT $1::int + 1", [i])));
    same(
      answers,
      Array.from({ length: 50 }, (_, i) => i + 1),
    );
  }),
  "prepared statements": withClient(async (db) => {
    await table(db, "node_prepared", "id int, name text");
    await db.query("INSERT INTO node_prepared VALUES (2, 'two')");
    const byId = { name: "by id", text: "SELECT * FROM node_prepared WHERE id = $1" };
    for (let i = 0; i < 3; i++) same((await db.query({ ...byId, values: [2] })).rows[0].name, "two");
    await rejects(db.query({ name: "wrong", text: "SELECT nosuch FROM node_prepared" }), "42703");
    same(await value(db, "SELECT count(*)::int FROM pg_prepared_statements"), 1);
    await db.query("ALTER TABLE node_prepared ADD COLUMN more int");
    await rejects(db.query({ ...byId, values: [2] }), "0A000");
    await db.query("DISCARD ALL");
  }),
  types: withClient(async (db) => {
    const at = new Date("2024-02-29T12:00:00.123Z");
    const given = [true, 7, "9007199254740993", 1.5, "1.50", "ä", Buffer.from([0, 255]), at, ["a", 'b",']];
    const sql =
      "SELECT $1::bool AS a, $2::int AS b, $3::int8 AS c, $4::float8 AS d, $5::numeric AS e, $6::text AS f," +
      " $7::bytea AS g, $8::timestamptz AS h, $9::text[] AS i";
    same(Object.values((await db.query(sql, given)).rows[0]), given);
    same(await value(db, "SELECT ARRAY[1, NULL, 3]"), [1, null, 3]);
    same(await value(db, "SELECT NULL::int"), null);
    types.setTypeParser(types.builtins.INT8, BigInt);
    same(await value(db, "SELECT 9007199254740993::int8"), 9007199254740993n);
    same((await value(db, "SELECT '1 day 02:00'::interval")).hours, 2);
  }),
  "arrays of two dimensions": withClient(async (db) => {
    same(
      await value(db, "SELECT $1::int[]", [
        [
          [1, 2],
          [3, 4],
        ],
      ]),
      [
        [1, 2],
        [3, 4],
      ],
    );
  }),
  "points and circles": withClient(async (db) => {
    same({ ...(await value(db, "SELECT '(1,2)'::point")) }, { x: 1, y: 2 });
  }),
  json: withClient(async (db) => {
    await table(db, "node_json", "doc jsonb");
    await db.query("INSERT INTO node_json VALUES ($1)", [{ a: [1, null] }]);
    same(await value(db, "SELECT doc FROM node_json WHERE doc @> $1", [{ a: [1] }]), { a: [1, null] });
    same(await value(db, "SELECT doc #>> '{a,0}' FROM node_json"), "1");
  }),
  "json functions": withClient(async (db) => {
    same(await value(db, "SELECT json_agg(x) FROM (SELECT 1 AS a, 'b' AS b) x"), [{ a: 1, b: "b" }]);
    same(await value(db, "SELECT row_to_json(x) FROM (SELECT 1 AS a) x"), { a: 1 });
    same((await db.query("SELECT * FROM jsonb_to_recordset($1) AS x(a int)", ['[{"a": 1}]'])).rows, [{ a: 1 }]);
  }),
  "transactions and nested savepoints": withClient(async (db) => {
    await table(db, "node_nested", "id int PRIMARY KEY, name text");
    await db.query("INSERT INTO node_nested VALUES (1)");
    await db.query("BEGIN");
    await db.query('SAVEPOINT "a point"');
    await db.query("INSERT INTO node_nested VALUES (5)");
    await db.query("SAVEPOINT inner_point");
    const expected = { code: "23505", schema: "public", table: "node_nested", constraint: "node_nested_pkey" };
    await rejects(db.query("INSERT INTO node_nested VALUES (1)"), expected);
    await rejects(db.query("SELECT 1"), "25P02");
    await db.query('ROLLBACK TO SAVEPOINT "a point"');
    await db.query("INSERT INTO node_nested VALUES (2)");
    same((await db.query("COMMIT")).command, "COMMIT");
    same((await db.query("SELECT id FROM node_nested ORDER BY id")).rows, [{ id: 1 }, { id: 2 }]);
  }),
  "isolation levels": withClients(2, async (db, other) => {
    await table(db, "node_isolated", "n int");
    await db.query("INSERT INTO node_isolated VALUES (0)");
    await db.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    same(await value(db, "SELECT n FROM node_isolated"), 0);
    await other.query("UPDATE node_isolated SET n = 1");
    await rejects(db.query("UPDATE node_isolated SET n = 2"), "40001");
    await db.query("ROLLBACK");
    await db.query("BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY");
    await rejects(db.query("DELETE FROM node_isolated"), "25006");
    await db.query("ROLLBACK");
  }),
  errors: withClient(async (db) => {
    await table(db, "node_errors", "id int PRIMARY KEY, name varchar(3) NOT NULL");
    await rejects(db.query("INSERT INTO node_errors VALUES (3, $1)", [null]), { code: "23502", column: "name" });
    await rejects(db.query("INSERT INTO node_errors VALUES (3, $1)", ["long"]), "22001");
    await rejects(db.query("SELECT $1::int", ["x"]), "22P02");
    await rejects(db.query("SELECT * FROM nosuch"), { code: "42P01", position: "15", severity: "ERROR" });
    await rejects(db.query("SELECT FROM FROM"), { code: "42601", position: "13" });
    await rejects(db.query("SELECT 1 +"), { code: "42601", message: "syntax error at end of input" });
  }),
  notices: withClient(async (db) => {
    const came = once(db, "notice");
    await db.query("DROP TABLE IF EXISTS nosuch");
    same((await came)[0].message, 'table "nosuch" does not exist, skipping');
  }),
  "notices of a DO block": withClient(async (db) => {
    const came = once(db, "notice");
    await db.query("DO $$ BEGIN RAISE WARNING 'careful'; END $$");
    same((await came)[0].message, "careful");
  }),
  "listen and notify": withClients(2, async (db, other) => {
    await db.query("LISTEN node_news");
    const came = once(db, "notification");
    await other.query("SELECT pg_notify('node_news', 'hello')");
    same((await came)[0].payload, "hello");
  }),
  "cancel and timeouts": withClients(2, async (db, other) => {
    const sleeping = rejects(db.query("SELECT pg_sleep(10)"), "57014");
    await new Promise((done) => setTimeout(done, 200));
    same(await value(other, "SELECT pg_cancel_backend($1)", [db.processID]), true);
    await sleeping;
    await db.query("SET statement_timeout = 100");
    await rejects(db.query("SELECT pg_sleep(10)"), "57014");
    await rejects(other.query({ text: "SELECT pg_sleep(1)", query_timeout: 100 }), { message: "Query read timeout" });
  }),
  "terminated connection": withClients(2, async (db, other) => {
    await other.query("SELECT pg_terminate_backend($1)", [db.processID]);
    await new Promise((done) => setTimeout(done, 200));
    await rejects(db.query("SELECT 1"));
    const found = await other.query("SELECT state FROM pg_stat_activity WHERE pid = $1", [other.processID]);
    same(found.rows, [{ state: "active" }]);
  }),
  cursor: withClient(async (db) => {
    const cursor = db.query(new Cursor("SELECT * FROM generate_series(1, $1::int) AS n", [10]));
    same(
      (await cursor.read(3)).map((row) => row.n),
      [1, 2, 3],
    );
    same((await cursor.read(100)).length, 7);
    await cursor.close();
    same(await value(db, "SELECT 1"), 1);
  }),
  "stream of rows": withClient(async (db) => {
    let sum = 0;
    const stream = db.query(new QueryStream("SELECT * FROM generate_series(1, 1000) AS n", [], { batchSize: 50 }));
    for await (const row of stream) sum += row.n;
    same(sum, 500500);
  }),
  "COPY in and out": withClient(async (db) => {
    await table(db, "node_copied", "id int, name text");
    const into = db.query(copy.from("COPY node_copied FROM STDIN"));
    await pipeline(Readable.from(["1\tone\n2\t", "\\N\n"]), into);
    same(into.rowCount, 2);
    let text = "";
    for await (const part of db.query(copy.to("COPY node_copied TO STDOUT CSV HEADER"))) text += part;
    same(text, "id,name\n1,one\n2,\n");
    await rejects(pipeline(Readable.from(["x\n"]), db.query(copy.from("COPY node_copied FROM STDIN"))), "22P02");
  }),
  "temporary table": withClient(async (db) => {
    await db.query("CREATE TEMP TABLE node_scratch (id int)");
    await db.query("INSERT INTO node_scratch VALUES (1)");
    same(await value(db, "SELECT id FROM pg_temp.node_scratch"), 1);
  }),
  "identifiers and literals": withClient(async (db) => {
    const name = escapeIdentifier('odd "node"');
    await table(db, name, "id int");
    same((await db.query(`SELECT * FROM ${name}`)).rows, []);
    same(await value(db, `SELECT ${db.escapeLiteral("a'b\\c")}`), "a'b\\c");
  }),
  introspection: withClient(async (db) => {
    await table(db, "node_described", "id serial PRIMARY KEY, price numeric(8,2) NOT NULL DEFAULT 1, name varchar(9)");
    const { rows } = await db.query(
      "SELECT column_name, data_type, is_nullable, column_default, numeric_precision, character_maximum_length" +
        " FROM information_schema.columns WHERE table_name = $1 ORDER BY ordinal_position",
      ["node_described"],
    );
    same(
      rows.map((row) => Object.values(row)),
      [
        ["id", "integer", "NO", "nextval('node_described_id_seq'::regclass)", 32, null],
        ["price", "numeric", "NO", "1", 8, null],
        ["name", "character varying", "YES", null, null, 9],
      ],
    );
  }),
  pool: async () => {
    const pool = new Pool({ connectionString: url, max: 3, idleTimeoutMillis: 100 });
    pool.on("error", () => {});
    await table(pool, "node_pooled", "n int");
    await pool.query("INSERT INTO node_pooled VALUES (0)");
    await Promise.all(Array.from({ length: 30 }, () => pool.query("UPDATE node_pooled SET n = n + 1")));
    same(await value(pool, "SELECT n FROM node_pooled"), 30);
    assert(pool.totalCount <= 3);
    const db = await pool.connect();
    await db.query("BEGIN");
    db.release(true);
    await pool.end();
  },
});
