// The scenarios of Drizzle, over node-postgres and postgres.js, and of drizzle-kit.
const { spawnSync } = require("node:child_process");
const { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { join } = require("node:path");
const { and, asc, count, desc, eq, gt, ilike, inArray, relations, sql, sum } = require("drizzle-orm");
const { drizzle } = require("drizzle-orm/node-postgres");
const { migrate } = require("drizzle-orm/node-postgres/migrator");
const core = require("drizzle-orm/pg-core");
const overPostgres = require("drizzle-orm/postgres-js");
const { Pool } = require("pg");
const postgres = require("postgres");
const { assert, rejects, run, same, url } = require("./scenarios");

const accounts = core.pgTable("drizzle_accounts", {
  id: core.serial("id").primaryKey(),
  owner: core.varchar("owner", { length: 30 }).notNull().unique(),
  balance: core.integer("balance").notNull().default(0),
  opened: core.timestamp("opened", { withTimezone: true }).defaultNow(),
});
const posts = core.pgTable("drizzle_posts", {
  id: core.serial("id").primaryKey(),
  account: core.integer("account"),
  title: core.text("title"),
});
const accountRelations = relations(accounts, ({ many }) => ({ posts: many(posts) }));
const postRelations = relations(posts, ({ one }) => ({
  owner: one(accounts, { fields: [posts.account], references: [accounts.id] }),
}));

/** Runs a scenario with a pool, and two accounts. */
const withDb = (scenario) => async () => {
  const pool = new Pool({ connectionString: url, max: 3 });
  try {
    await pool.query("DROP TABLE IF EXISTS drizzle_accounts, drizzle_posts");
    await pool.query(
      "CREATE TABLE drizzle_accounts (id serial PRIMARY KEY, owner varchar(30) NOT NULL UNIQUE," +
        " balance int NOT NULL DEFAULT 0, opened timestamptz DEFAULT now())",
    );
    await pool.query("CREATE TABLE drizzle_posts (id serial PRIMARY KEY, account int, title text)");
    const db = drizzle(pool, { schema: { accounts, posts, accountRelations, postRelations } });
    await db.insert(accounts).values([
      { owner: "ann", balance: 5 },
      { owner: "bob", balance: 7 },
    ]);
    await scenario(db, pool);
  } finally {
    await pool.end();
  }
};

/** Runs drizzle-kit in a folder with a schema. */
function kit(folder, ...words) {
  const command = join(process.env.NODE_PATH, ".bin/drizzle-kit");
  const ran = spawnSync(command, [...words, "--config", "drizzle.config.js"], {
    cwd: folder,
    encoding: "utf8",
    timeout: 18000,
  });
  // A line that is drawn again and again is one line.
  const lines = `${ran.stdout}\n${ran.stderr}`.replace(/\x1b\[[0-9;]*[A-Za-z]/g, "\n").split("\n");
  const message =
    lines.find((line) => /error:|not supported|does not exist/i.test(line)) ?? `exit code ${ran.status}, no message`;
  assert(ran.status === 0 && !/error:/i.test(ran.stderr), `drizzle-kit ${words[0]}: ${message}`);
  return ran.stdout;
}

/** Runs a scenario in a folder with a schema of one table, for drizzle-kit. */
const withKit = (scenario) => async () => {
  const folder = mkdtempSync(join(process.env.NODE_PATH, "..", "kit-"));
  try {
    const table = `import { index, integer, pgSchema, serial, varchar } from "drizzle-orm/pg-core";
export const kit = pgSchema("kit");
export const items = kit.table("items", {
  id: serial("id").primaryKey(),
  name: varchar("name", { length: 20 }).notNull().unique(),
  n: integer("n").default(3),
}, (t) => [index("kit_n").on(t.n)]);\n`;
    writeFileSync(join(folder, "schema.ts"), table);
    const config = {
      dialect: "postgresql",
      schema: "./schema.ts",
      out: "./out",
      dbCredentials: { url },
      schemaFilter: ["kit"],
    };
    writeFileSync(join(folder, "drizzle.config.js"), `module.exports = ${JSON.stringify(config)};\n`);
    const pool = new Pool({ connectionString: url, max: 1 });
    try {
      await pool.query("DROP TABLE IF EXISTS kit.items; DROP SCHEMA IF EXISTS kit");
      await scenario(folder, pool);
    } finally {
      await pool.end();
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
};

run("drizzle-orm", {
  connect: withDb(async (db) => {
    same((await db.execute(sql`SELECT ${1}::int + 1 AS n`)).rows, [{ n: 2 }]);
  }),
  "create, read, update, delete": withDb(async (db) => {
    const found = await db.select({ owner: accounts.owner }).from(accounts).where(gt(accounts.balance, 5));
    same(found, [{ owner: "bob" }]);
    const [eve] = await db.insert(accounts).values({ owner: "eve" }).returning();
    same([eve.id, eve.balance, eve.opened instanceof Date], [3, 0, true]);
    const raised = db
      .update(accounts)
      .set({ balance: sql`${accounts.balance} + 1` })
      .where(eq(accounts.owner, "ann"));
    same(await raised.returning({ balance: accounts.balance }), [{ balance: 6 }]);
    same((await db.delete(accounts).where(inArray(accounts.owner, ["eve"]))).rowCount, 1);
  }),
  upserts: withDb(async (db) => {
    const insert = () => db.insert(accounts).values({ owner: "ann", balance: 9 });
    const set = { balance: sql`excluded.balance` };
    same((await insert().onConflictDoUpdate({ target: accounts.owner, set }).returning())[0].balance, 9);
    same(await insert().onConflictDoNothing().returning(), []);
  }),
  queries: withDb(async (db) => {
    const rich = db.$with("rich").as(db.select().from(accounts).where(gt(accounts.balance, 5)));
    same((await db.with(rich).select().from(rich)).length, 1);
    same(await db.select({ n: count(), s: sum(accounts.balance) }).from(accounts), [{ n: 2, s: "12" }]);
    const where = and(ilike(accounts.owner, "%N%"), gt(accounts.id, 0));
    same(
      (await db.select().from(accounts).where(where).orderBy(desc(accounts.id), asc(accounts.owner)).limit(5)).length,
      1,
    );
    const twin = core.alias(accounts, "twin");
    same((await db.select().from(accounts).leftJoin(twin, gt(twin.balance, accounts.balance))).length, 2);
    same(await db.$count(accounts), 2);
  }),
  "relational queries": withDb(async (db) => {
    await db.insert(posts).values([
      { account: 1, title: "one" },
      { account: 1, title: "two" },
    ]);
    const found = await db.query.accounts.findMany({ with: { posts: true }, orderBy: asc(accounts.id) });
    same(
      found.map((account) => account.posts.map((post) => post.title)),
      [["one", "two"], []],
    );
  }),
  "prepared statements": withDb(async (db) => {
    const byOwner = db
      .select()
      .from(accounts)
      .where(eq(accounts.owner, sql.placeholder("owner")))
      .prepare("by_owner");
    for (const owner of ["ann", "bob", "ann"]) same((await byOwner.execute({ owner }))[0].owner, owner);
  }),
  "transactions and nested savepoints": withDb(async (db) => {
    await db.transaction(async (outer) => {
      const twice = outer.transaction((inner) => inner.insert(accounts).values({ owner: "ann" }));
      await rejects(twice, { code: "23505", constraint: "drizzle_accounts_owner_key" });
      await outer.insert(accounts).values({ owner: "c" });
      await rejects(
        outer.transaction(async (inner) => {
          await inner.delete(accounts);
          inner.rollback();
        }),
      );
    });
    same(await db.$count(accounts), 3);
    const options = { isolationLevel: "serializable", accessMode: "read only", deferrable: true };
    await rejects(
      db.transaction((tx) => tx.delete(accounts), options),
      "25006",
    );
  }),
  "row locks": withDb(async (db) => {
    await db.transaction(async (tx) => {
      same((await tx.select().from(accounts).for("update", { skipLocked: true })).length, 2);
      same((await tx.select().from(accounts).for("no key update", { of: accounts, noWait: true })).length, 2);
    });
  }),
  types: withDb(async (db, pool) => {
    await pool.query("DROP TABLE IF EXISTS drizzle_types");
    await pool.query(
      "CREATE TABLE drizzle_types (a uuid, b numeric(8,2), c bigint, d date, e boolean, f text[], g time, h interval)",
    );
    const types = core.pgTable("drizzle_types", {
      a: core.uuid("a"),
      b: core.numeric("b", { precision: 8, scale: 2 }),
      c: core.bigint("c", { mode: "bigint" }),
      d: core.date("d"),
      e: core.boolean("e"),
      f: core.text("f").array(),
      g: core.time("g"),
      h: core.interval("h"),
    });
    const row = {
      a: "00000000-0000-0000-0000-000000000005",
      b: "1.50",
      c: 2n ** 62n,
      d: "2024-02-29",
      e: true,
      f: ["a", "b,"],
      g: "01:02:03",
      h: "1 day",
    };
    await db.insert(types).values(row);
    same(await db.select().from(types), [row]);
  }),
  "json type": withDb(async (db, pool) => {
    await pool.query("DROP TABLE IF EXISTS drizzle_json");
    await pool.query("CREATE TABLE drizzle_json (doc jsonb)");
    const docs = core.pgTable("drizzle_json", { doc: core.jsonb("doc") });
    await db.insert(docs).values({ doc: { a: [1, null] } });
    same(await db.select().from(docs), [{ doc: { a: [1, null] } }]);
  }),
  errors: withDb(async (db) => {
    await rejects(db.insert(accounts).values({ owner: "x".repeat(40) }), "22001");
    await rejects(db.execute(sql`SELECT * FROM nosuch`), "42P01");
  }),
  migrations: withDb(async (db, pool) => {
    const folder = mkdtempSync(join(process.env.NODE_PATH, "..", "migrations-"));
    try {
      await pool.query("DROP TABLE IF EXISTS drizzle_items");
      mkdirSync(join(folder, "meta"));
      const entry = (idx, tag) => ({ idx, version: "7", when: 1700000000000 + idx, tag, breakpoints: true });
      const journal = {
        version: "7",
        dialect: "postgresql",
        entries: [entry(0, "0000_first"), entry(1, "0001_second")],
      };
      writeFileSync(join(folder, "meta/_journal.json"), JSON.stringify(journal));
      writeFileSync(join(folder, "0000_first.sql"), 'CREATE TABLE "drizzle_items" ("id" serial PRIMARY KEY NOT NULL);');
      const second = [
        'ALTER TABLE "drizzle_items" ADD COLUMN "name" text;',
        'CREATE INDEX "drizzle_name" ON "drizzle_items" USING btree ("name");',
      ];
      writeFileSync(join(folder, "0001_second.sql"), second.join("\n--> statement-breakpoint\n"));
      await migrate(db, { migrationsFolder: folder });
      await migrate(db, { migrationsFolder: folder });
      same((await pool.query("SELECT count(*)::int AS n FROM drizzle.__drizzle_migrations")).rows, [{ n: 2 }]);
      await pool.query("INSERT INTO drizzle_items (name) VALUES ('x')");
    } finally {
      rmSync(folder, { recursive: true });
    }
  }),
  "drizzle-kit generate and migrate": withKit(async (folder, pool) => {
    kit(folder, "generate");
    kit(folder, "migrate");
    same((await pool.query("INSERT INTO kit.items (name) VALUES ('x') RETURNING id, n")).rows, [{ id: 1, n: 3 }]);
  }),
  "drizzle-kit push": withKit(async (folder, pool) => {
    kit(folder, "push", "--force");
    same((await pool.query("INSERT INTO kit.items (name) VALUES ('x') RETURNING id, n")).rows, [{ id: 1, n: 3 }]);
    assert(/No changes/.test(kit(folder, "push", "--force")), "a second push changes something");
  }),
  "drizzle-kit pull": withKit(async (folder, pool) => {
    await pool.query("CREATE SCHEMA kit");
    await pool.query(
      "CREATE TABLE kit.items (id serial PRIMARY KEY, name varchar(20) NOT NULL UNIQUE, n int DEFAULT 3)",
    );
    kit(folder, "pull");
    const found = readFileSync(join(folder, "out/schema.ts"), "utf8");
    assert(/varchar\(\{ length: 20 \}\)\.notNull\(\)/.test(found) && /items_name_key/.test(found), found);
  }),
  "over postgres.js": async () => {
    const client = postgres(url, { max: 2, onnotice: () => {} });
    try {
      const db = overPostgres.drizzle(client);
      await client`DROP TABLE IF EXISTS drizzle_posts`;
      await client`CREATE TABLE drizzle_posts (id serial PRIMARY KEY, account int, title text)`;
      same(
        (
          await db
            .insert(posts)
            .values([{ title: "a" }, { title: "b" }])
            .returning({ id: posts.id })
        ).length,
        2,
      );
      same((await db.transaction((tx) => tx.select().from(posts))).length, 2);
    } finally {
      await client.end();
    }
  },
});
