// The scenario of node-postgres.
const assert = require("node:assert");
const { Client } = require("pg");

async function main() {
  const db = new Client({ connectionString: process.env.CLIENT_URL });
  await db.connect();
  await db.query("DROP TABLE IF EXISTS node_t");
  await db.query("CREATE TABLE node_t (id int PRIMARY KEY, name text NOT NULL, tags text[])");
  await db.query("INSERT INTO node_t VALUES ($1, $2, $3)", [1, "one", ["a", "b c"]]);
  const { rows } = await db.query("SELECT * FROM node_t WHERE id = $1", [1]);
  assert.deepStrictEqual(rows, [{ id: 1, name: "one", tags: ["a", "b c"] }]);

  await db.query("BEGIN");
  await db.query('SAVEPOINT "a point"');
  await assert.rejects(db.query("INSERT INTO node_t VALUES (1, 'again')"), (error) => {
    assert.strictEqual(error.code, "23505");
    assert.strictEqual(error.schema, "public");
    assert.strictEqual(error.table, "node_t");
    assert.strictEqual(error.constraint, "node_t_pkey");
    return true;
  });
  await db.query('ROLLBACK TO SAVEPOINT "a point"');
  await db.query("INSERT INTO node_t VALUES (2, 'two')");
  await db.query("COMMIT");

  const byId = { name: "by id", text: "SELECT name FROM node_t WHERE id = $1" };
  for (let i = 0; i < 3; i++) {
    assert.strictEqual((await db.query({ ...byId, values: [2] })).rows[0].name, "two");
  }
  await assert.rejects(db.query({ name: "wrong", text: "SELECT nosuch FROM node_t" }), { code: "42703" });
  await assert.rejects(db.query("INSERT INTO node_t VALUES (3, $1)", [null]), { code: "23502", column: "name" });
  assert.strictEqual((await db.query("UPDATE node_t SET name = name || '!'")).rowCount, 2);
  assert.strictEqual((await db.query("DELETE FROM node_t")).rowCount, 2);
  await db.query("DROP TABLE node_t");
  await db.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
