// The scenarios of Knex.
const knex = require("knex");
const { mkdtempSync, rmSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { rejects, run, same, url } = require("./scenarios");

/** Runs a scenario with a pool of connections, which is ended afterwards. */
const withKnex = (scenario) => async () => {
  const db = knex({ client: "pg", connection: url, pool: { min: 0, max: 3 } });
  try {
    await scenario(db);
  } finally {
    await db.destroy();
  }
};

async function accounts(db) {
  await db.schema.dropTableIfExists("knex_accounts");
  await db.schema.createTable("knex_accounts", (table) => {
    table.increments("id");
    table.string("owner", 30).notNullable().unique();
    table.integer("balance").notNullable().defaultTo(0).index();
    table.specificType("tags", "text[]");
    table.timestamps(true, true);
  });
  await db("knex_accounts").insert([
    { owner: "ann", balance: 5, tags: ["a"] },
    { owner: "bob", balance: 7 },
  ]);
}

const MIGRATIONS = {
  "1_items.js": `
exports.up = (db) => db.schema.createTable("knex_items", (table) => { table.bigIncrements(); table.text("name"); });
exports.down = (db) => db.schema.dropTable("knex_items");`,
  "2_more.js": `
exports.up = async (db) => {
  await db.schema.alterTable("knex_items", (table) => {
    table.renameColumn("name", "title");
    table.decimal("price", 8, 2).notNullable().defaultTo(1);
    table.unique(["title"]);
  });
  await db("knex_items").insert({ title: "x" });
};
exports.down = (db) => db.schema.alterTable("knex_items", (table) => {
  table.dropUnique(["title"]);
  table.dropColumn("price");
  table.renameColumn("title", "name");
});`,
};

run("knex", {
  "connect and raw SQL": withKnex(async (db) => {
    same((await db.raw("SELECT ?::int + 1 AS n", [1])).rows, [{ n: 2 }]);
    same((await db.raw("SELECT :name::text AS ??", { name: "x" }).catch((error) => error)) instanceof Error, true);
  }),
  "create, read, update, delete": withKnex(async (db) => {
    await accounts(db);
    same(await db("knex_accounts").where("balance", ">", 5).orderBy("id").pluck("owner"), ["bob"]);
    same(await db("knex_accounts").where({ owner: "ann" }).increment("balance", 2), 1);
    same(await db("knex_accounts").sum("balance as n").first(), { n: "14" });
    same(await db("knex_accounts").insert({ owner: "eve" }).returning(["id", "balance"]), [{ id: 3, balance: 0 }]);
    same((await db("knex_accounts").whereIn("owner", ["ann"]).first()).tags, ["a"]);
    same(await db("knex_accounts").del(), 3);
  }),
  queries: withKnex(async (db) => {
    await accounts(db);
    const rich = await db
      .with("rich", db("knex_accounts").where("balance", ">", 5))
      .select("owner")
      .from("rich");
    same(rich, [{ owner: "bob" }]);
    const joined = db("knex_accounts as a").join("knex_accounts as b", "a.balance", "<", "b.balance");
    same(await joined.select("a.owner as poorer", "b.owner as richer"), [{ poorer: "ann", richer: "bob" }]);
    const ranks = db("knex_accounts")
      .select("owner")
      .rank("r", (q) => q.orderBy("balance", "desc"))
      .orderBy("r");
    same(
      (await ranks).map((row) => row.owner),
      ["bob", "ann"],
    );
    same(await db("knex_accounts").groupBy("balance").having("balance", ">", 5).count("* as n").first(), { n: "1" });
    same(await db.union([db.raw("SELECT 1 AS n"), db.raw("SELECT 2")], true).orderBy("n"), [{ n: 1 }, { n: 2 }]);
    same(await db("knex_accounts").distinctOn("owner").orderBy("owner").pluck("owner"), ["ann", "bob"]);
  }),
  upserts: withKnex(async (db) => {
    await accounts(db);
    const insert = (balance) => db("knex_accounts").insert({ owner: "ann", balance }).onConflict("owner");
    same(await insert(9).merge(["balance"]).returning("balance"), [{ balance: 9 }]);
    same((await insert(1).ignore()).rowCount, 0);
  }),
  batches: withKnex(async (db) => {
    await accounts(db);
    const rows = Array.from({ length: 500 }, (_, i) => ({ owner: `o${i}`, balance: i }));
    same((await db.batchInsert("knex_accounts", rows, 100).returning("id")).length, 500);
  }),
  "transactions and nested savepoints": withKnex(async (db) => {
    await accounts(db);
    await db.transaction(async (outer) => {
      await rejects(
        outer.transaction(async (inner) => {
          await inner("knex_accounts").insert({ owner: "c" });
          await inner.transaction((deeper) => deeper("knex_accounts").insert({ owner: "ann" }));
        }),
        { code: "23505", constraint: "knex_accounts_owner_unique" },
      );
      await outer("knex_accounts").insert({ owner: "d" });
      await outer("knex_accounts").where({ owner: "d" }).forUpdate().noWait().select();
    });
    same(await db("knex_accounts").orderBy("owner").pluck("owner"), ["ann", "bob", "d"]);
    const options = { isolationLevel: "serializable", readOnly: true };
    await rejects(
      db.transaction((tx) => tx("knex_accounts").del(), options),
      "25006",
    );
  }),
  "foreign keys": withKnex(async (db) => {
    await db.schema.dropTableIfExists("knex_child");
    await accounts(db);
    await db.schema.createTable("knex_child", (table) => {
      table.integer("account").references("id").inTable("knex_accounts").onDelete("CASCADE");
    });
    await rejects(db("knex_child").insert({ account: 99 }), "23503");
    await db.schema.dropTable("knex_child");
  }),
  "json columns": withKnex(async (db) => {
    await db.schema.dropTableIfExists("knex_json");
    await db.schema.createTable("knex_json", (table) => table.jsonb("doc"));
    await db("knex_json").insert({ doc: { a: { b: 1 } } });
    same(await db("knex_json").jsonExtract("doc", "$.a.b", "b"), [{ b: 1 }]);
    same((await db("knex_json").whereJsonSupersetOf("doc", { a: {} })).length, 1);
  }),
  "enum columns": withKnex(async (db) => {
    await db.schema.dropTableIfExists("knex_enum");
    await db.schema.createTable("knex_enum", (table) => table.enu("mood", ["sad", "ok"]));
    await rejects(db("knex_enum").insert({ mood: "angry" }), "23514");
    await db.schema.createTable("knex_native", (table) => {
      table.enu("mood", ["sad", "ok"], { useNative: true, enumName: "knex_mood" });
    });
    await db.schema.dropTable("knex_native").raw("DROP TYPE knex_mood");
  }),
  "schema and introspection": withKnex(async (db) => {
    await accounts(db);
    same(await db.schema.hasTable("knex_accounts"), true);
    same(await db.schema.hasColumn("knex_accounts", "nosuch"), false);
    const info = await db("knex_accounts").columnInfo();
    same(info.owner, { type: "character varying", maxLength: 30, nullable: false, defaultValue: null });
    await db.schema.alterTable("knex_accounts", (table) => {
      table.string("owner", 60).nullable().alter();
      table.text("note").comment("a note");
      table.dropIndex("balance");
    });
    await db.schema.createView("knex_view", (view) => view.as(db("knex_accounts").select("owner")));
    await db.schema.dropView("knex_view");
    await db.schema.renameTable("knex_accounts", "knex_renamed");
    await db.schema.dropTable("knex_renamed");
  }),
  "migrations up and down": withKnex(async (db) => {
    const directory = mkdtempSync(join(tmpdir(), "knex-"));
    try {
      for (const [name, text] of Object.entries(MIGRATIONS)) writeFileSync(join(directory, name), text);
      same((await db.migrate.latest({ directory }))[1], Object.keys(MIGRATIONS));
      same((await db("knex_items").first()).price, "1.00");
      same((await db.migrate.down({ directory }))[1], ["2_more.js"]);
      same(Object.keys(await db("knex_items").columnInfo()), ["id", "name"]);
      await db.migrate.rollback({ directory }, true);
      same(await db.schema.hasTable("knex_items"), false);
    } finally {
      rmSync(directory, { recursive: true });
    }
  }),
  "stream of rows": withKnex(async (db) => {
    let sum = 0;
    for await (const row of db.select("n").from(db.raw("generate_series(1, 500) AS n")).stream()) sum += row.n;
    same(sum, 125250);
  }),
  timeout: withKnex(async (db) => {
    await rejects(db.raw("SELECT pg_sleep(10)").timeout(200, { cancel: true }), { name: "KnexTimeoutError" });
    same((await db.raw("SELECT 1 AS n")).rows, [{ n: 1 }]);
  }),
});
