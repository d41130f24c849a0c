// The scenarios of postgres.js.
const { Readable } = require("node:stream");
const { pipeline } = require("node:stream/promises");
const postgres = require("postgres");
const { assert, rejects, run, same, url } = require("./scenarios");

/** Runs a scenario with a pool of connections, which is ended afterwards. */
const withSql =
  (scenario, options = {}) =>
  async () => {
    const sql = postgres(url, { max: 3, onnotice: () => {}, ...options });
    try {
      await scenario(sql);
    } finally {
      await sql.end({ timeout: 1 });
    }
  };

async function table(sql, name, columns) {
  await sql.unsafe(`DROP TABLE IF EXISTS ${name}`);
  await sql.unsafe(`CREATE TABLE ${name} (${columns})`);
}

run("postgres", {
  connect: withSql(
    async (sql) => {
      same([...(await sql`SELECT 1 AS one`)], [{ one: 1 }]);
      same((await sql`SHOW application_name`)[0].application_name, "clients");
      await rejects(() => postgres(url, { database: "nosuch", max: 1 })`SELECT 1`, "3D000");
    },
    { connection: { application_name: "clients" } },
  ),
  "create, read, update, delete": withSql(async (sql) => {
    await table(sql, "js_crud", "id int PRIMARY KEY, name text, tags text[]");
    const row = { id: 1, name: "one", tags: ["a", "b c"] };
    same([...(await sql`INSERT INTO js_crud ${sql(row)} RETURNING *`)], [row]);
    const rows = [
      { id: 2, name: "two" },
      { id: 3, name: null },
    ];
    same((await sql`INSERT INTO js_crud ${sql(rows, "id", "name")}`).count, 2);
    same((await sql`UPDATE js_crud SET ${sql({ name: "x" })} WHERE id IN ${sql([2, 3])}`).count, 2);
    same(
      [...(await sql`SELECT ${sql(["id", "name"])} FROM ${sql("js_crud")} ORDER BY id DESC LIMIT 1`)],
      [{ id: 3, name: "x" }],
    );
    same((await sql`DELETE FROM js_crud WHERE tags IS NULL`).command, "DELETE");
  }),
  "pipelined queries": withSql(
    async (sql) => {
      const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => sql`SELECT ${i}::int AS n`));
      same(
        answers.map(([row]) => row.n),
        Array.from({ length: 100 }, (_, i) => i),
      );
    },
    { max: 1 },
  ),
  types: withSql(async (sql) => {
    const at = new Date("2024-02-29T12:00:00.123Z");
    const [row] = await sql`SELECT ${true}::bool AS a, ${7}::int AS b, ${"9007199254740993"}::int8 AS c,
      ${1.5}::float8 AS d, ${"1.50"}::numeric AS e, ${Buffer.from([0, 255])}::bytea AS f, ${at}::timestamptz AS g,
      ${["a", 'b"']}::text[] AS h, ${[1, 2]}::int[] AS i, ${null}::int AS j`;
    same(row, {
      a: true,
      b: 7,
      c: "9007199254740993",
      d: 1.5,
      e: "1.50",
      f: Buffer.from([0, 255]),
      g: at,
      h: ["a", 'b"'],
      i: [1, 2],
      j: null,
    });
  }),
  json: withSql(async (sql) => {
    await table(sql, "js_json", "doc jsonb");
    await sql`INSERT INTO js_json VALUES (${sql.json({ a: [1, null] })})`;
    same((await sql`SELECT doc FROM js_json`)[0].doc, { a: [1, null] });
  }),
  "types of the catalog": withSql(async (sql) => {
    // The client reads the types of arrays when it connects.
    same((await sql`SELECT ARRAY['2024-02-29'::date] AS days`)[0].days.length, 1);
    same((await sql`SELECT ${sql.array([1, 2])}::int[] AS a`)[0].a, [1, 2]);
  }),
  "transactions and nested savepoints": withSql(async (sql) => {
    await table(sql, "js_nested", "id int PRIMARY KEY");
    await sql.begin(async (tx) => {
      await tx`INSERT INTO js_nested VALUES (1)`;
      const expected = { code: "23505", table_name: "js_nested", constraint_name: "js_nested_pkey" };
      await rejects(
        tx.savepoint(async (inner) => {
          await inner`INSERT INTO js_nested VALUES (2)`;
          await inner.savepoint("deeper", (deeper) => deeper`INSERT INTO js_nested VALUES (1)`);
        }),
        expected,
      );
      await tx`INSERT INTO js_nested VALUES (3)`;
    });
    same(
      (await sql`SELECT id FROM js_nested ORDER BY id`).map((row) => row.id),
      [1, 3],
    );
    await rejects(
      sql.begin("isolation level serializable read only", (tx) => tx`DELETE FROM js_nested`),
      "25006",
    );
  }),
  errors: withSql(async (sql) => {
    await rejects(() => sql`SELECT * FROM nosuch`, { code: "42P01", position: "15", severity: "ERROR" });
    await rejects(() => sql`SELECT ${"x"}::int`, "22P02");
    await rejects(() => sql`SELEC`, "42601");
    same((await sql`SELECT 1 AS one`)[0].one, 1);
  }),
  "prepared statements after a change of schema": withSql(
    async (sql) => {
      await table(sql, "js_prepared", "id int");
      for (let i = 0; i < 3; i++) same((await sql`SELECT * FROM js_prepared`).columns.length, 1);
      await sql`ALTER TABLE js_prepared ADD COLUMN more int`;
      same((await sql`SELECT * FROM js_prepared`).columns.length, 2);
    },
    { max: 1 },
  ),
  "description of a statement": withSql(async (sql) => {
    const found = await sql`SELECT ${1}::int AS a, 'x'::text AS b`.describe();
    same(found.types, [23]);
    same(
      found.columns.map((column) => [column.name, column.type]),
      [
        ["a", 23],
        ["b", 25],
      ],
    );
  }),
  "cancel and timeout": withSql(async (sql) => {
    const query = sql`SELECT pg_sleep(10)`;
    setTimeout(() => query.cancel(), 200);
    await rejects(query, "57014");
    await rejects(
      sql.begin(async (tx) => {
        await tx`SET LOCAL statement_timeout = '100ms'`;
        await tx`SELECT pg_sleep(10)`;
      }),
      "57014",
    );
  }),
  cursor: withSql(async (sql) => {
    const sizes = [];
    for await (const rows of sql`SELECT * FROM generate_series(1, 25)`.cursor(10)) sizes.push(rows.length);
    same(sizes, [10, 10, 5]);
    let seen = 0;
    await sql`SELECT * FROM generate_series(1, 50)`.forEach(() => seen++);
    same(seen, 50);
  }),
  "COPY in and out": withSql(async (sql) => {
    await table(sql, "js_copied", "id int, name text");
    await pipeline(Readable.from(["1\tone\n2\t\\N\n"]), await sql`COPY js_copied FROM STDIN`.writable());
    let text = "";
    for await (const part of await sql`COPY js_copied TO STDOUT`.readable()) text += part;
    same(text, "1\tone\n2\t\\N\n");
  }),
  "listen and notify": withSql(async (sql) => {
    let came;
    const done = new Promise((resolve) => (came = resolve));
    const { unlisten } = await sql.listen("js_news", came);
    await sql.notify("js_news", "hello");
    same(await done, "hello");
    await unlisten();
  }),
  "several statements and files": withSql(async (sql) => {
    const results = await sql`SELECT 1 AS a; SELECT 2 AS b`.simple();
    same(
      results.map(([row]) => row),
      [{ a: 1 }, { b: 2 }],
    );
    assert((await sql.unsafe("SELECT $1::int AS n", [4]))[0].n === 4);
  }),
  "reserved connection": withSql(async (sql) => {
    const reserved = await sql.reserve();
    await reserved`SET search_path = nosuch`;
    same((await reserved`SHOW search_path`)[0].search_path, "nosuch");
    await reserved`RESET search_path`;
    reserved.release();
  }),
});
