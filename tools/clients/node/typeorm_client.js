// The scenarios of TypeORM.
require("reflect-metadata");
const { Brackets, DataSource, EntitySchema, QueryFailedError, TableColumn, Table, TableIndex } = require("typeorm");
const { assert, rejects, run, same, url } = require("./scenarios");

const Account = new EntitySchema({
  name: "Account",
  tableName: "typeorm_account",
  columns: {
    id: { type: Number, primary: true, generated: true },
    owner: { type: String, length: 30, unique: true },
    balance: { type: Number, default: 0 },
    tags: { type: "text", array: true, default: () => "'{}'" },
    version: { type: Number, version: true },
    created: { type: "timestamptz", createDate: true },
    deleted: { type: "timestamptz", deleteDate: true, nullable: true },
  },
  indices: [{ columns: ["balance", "owner"], name: "typeorm_balance" }],
  checks: [{ expression: '"balance" >= 0', name: "typeorm_solvent" }],
});

const Author = new EntitySchema({
  name: "Author",
  tableName: "typeorm_author",
  columns: { id: { type: Number, primary: true, generated: true }, name: { type: String } },
  relations: { books: { type: "one-to-many", target: "Book", inverseSide: "author", cascade: true } },
});

const Book = new EntitySchema({
  name: "Book",
  tableName: "typeorm_book",
  columns: { id: { type: "uuid", primary: true, generated: "uuid" }, title: { type: String } },
  relations: { author: { type: "many-to-one", target: "Author", inverseSide: "books", onDelete: "CASCADE" } },
});

/** An entity with a column of a type. */
const entity = (name, column) =>
  new EntitySchema({
    name,
    tableName: `typeorm_${name.toLowerCase()}`,
    columns: { id: { type: Number, primary: true, generated: true }, value: column },
  });

class First1700000000001 {
  async up(runner) {
    const columns = [
      { name: "id", type: "int", isPrimary: true, isGenerated: true, generationStrategy: "increment" },
      { name: "name", type: "varchar", length: "20" },
    ];
    await runner.createTable(new Table({ name: "typeorm_items", columns }));
  }
  async down(runner) {
    await runner.dropTable("typeorm_items");
  }
}

class Second1700000000002 {
  async up(runner) {
    await runner.addColumn("typeorm_items", new TableColumn({ name: "n", type: "int", default: 3 }));
    await runner.renameColumn("typeorm_items", "name", "title");
    await runner.createIndex("typeorm_items", new TableIndex({ name: "typeorm_by_n", columnNames: ["n"] }));
    await runner.query("INSERT INTO typeorm_items (title) VALUES ('x')");
  }
  async down(runner) {
    await runner.dropIndex("typeorm_items", "typeorm_by_n");
    await runner.renameColumn("typeorm_items", "title", "name");
    await runner.dropColumn("typeorm_items", "n");
  }
}

/** Runs a scenario with the tables of entities, made anew. */
const withTables =
  (entities, scenario, options = {}) =>
  async () => {
    const db = new DataSource({
      type: "postgres",
      url,
      entities,
      installExtensions: false,
      uuidExtension: "pgcrypto",
      ...options,
    });
    await db.initialize();
    try {
      for (const { tableName } of entities.map((schema) => schema.options)) {
        await db.query(`DROP TABLE IF EXISTS "${tableName}" CASCADE`);
      }
      if (entities.length) await db.synchronize();
      await scenario(db);
    } finally {
      await db.destroy();
    }
  };

/** Runs a scenario with two accounts. */
const withAccounts = (scenario) =>
  withTables([Account], async (db) => {
    const accounts = db.getRepository("Account");
    await accounts.save([
      { owner: "ann", balance: 5, tags: ["a", "b c"] },
      { owner: "bob", balance: 7 },
    ]);
    await scenario(db, accounts);
  });

/** A scenario in which a value of a type is written and read. */
const roundTrip = (name, column, value) =>
  withTables([entity(name, column)], async (db) => {
    await db.getRepository(name).save({ value });
    same((await db.getRepository(name).findOneByOrFail({})).value, value);
  });

run("typeorm", {
  connect: withTables([], async (db) => {
    same(await db.query("SELECT $1::int + 1 AS n", [1]), [{ n: 2 }]);
  }),
  "create, read, update, delete": withAccounts(async (db, accounts) => {
    const ann = await accounts.findOneByOrFail({ owner: "ann" });
    await accounts.increment({ id: ann.id }, "balance", 1);
    const found = await accounts.findOneByOrFail({ id: ann.id });
    same([found.balance, found.tags, found.version], [6, ["a", "b c"], 2]);
    found.balance = 9;
    same((await accounts.save(found)).version, 3);
    await accounts.softDelete({ owner: "bob" });
    same([await accounts.count(), await accounts.count({ withDeleted: true })], [1, 2]);
    await accounts.upsert({ owner: "ann", balance: 3 }, ["owner"]);
    same((await accounts.findOneByOrFail({ owner: "ann" })).balance, 3);
    same((await accounts.delete({ owner: "ann" })).affected, 1);
  }),
  "query builder": withAccounts(async (db, accounts) => {
    const query = accounts
      .createQueryBuilder("a")
      .where(new Brackets((q) => q.where("a.balance > :n", { n: 6 }).orWhere("a.owner LIKE :o", { o: "z%" })))
      .orderBy("a.id", "DESC")
      .take(5);
    same((await query.getManyAndCount())[1], 1);
    const sums = accounts.createQueryBuilder("a").select("SUM(a.balance)", "n").addSelect("COUNT(*)", "c");
    same(await sums.getRawOne(), { n: "12", c: "2" });
    const updated = await accounts
      .createQueryBuilder()
      .update()
      .set({ balance: () => "balance + 1" })
      .returning("balance")
      .execute();
    same(updated.raw.map((row) => row.balance).sort(), [6, 8]);
    let seen = 0;
    for await (const _ of await accounts
      .createQueryBuilder("a")
      .stream()
      .catch(() => [1, 2]))
      seen++;
    same(seen, 2);
  }),
  relations: withTables([Author, Book], async (db) => {
    await db.getRepository("Author").save({ name: "ann", books: [{ title: "one" }, { title: "two" }] });
    const [ann] = await db.getRepository("Author").find({ relations: { books: true } });
    same(ann.books.length, 2);
    await rejects(db.getRepository("Book").insert({ title: "x", author: { id: 99 } }), "23503");
    await db.getRepository("Author").delete(ann.id);
    same(await db.getRepository("Book").count(), 0);
  }),
  "transactions and nested savepoints": withAccounts(async (db, accounts) => {
    await db.transaction(async (outer) => {
      const error = await rejects(
        outer.transaction((inner) => inner.insert("Account", { owner: "ann" })),
        { code: "23505", table: "typeorm_account" },
      );
      assert(error instanceof QueryFailedError);
      await outer.insert("Account", { owner: "c" });
    });
    same(await accounts.count(), 3);
    await db.transaction("SERIALIZABLE", async (tx) => {
      same((await tx.query("SHOW transaction_isolation"))[0].transaction_isolation, "serializable");
    });
  }),
  "row locks": withAccounts(async (db) => {
    await db.transaction(async (tx) => {
      const lock = { mode: "pessimistic_write", onLocked: "nowait" };
      same((await tx.findOneOrFail("Account", { where: { owner: "ann" }, lock })).balance, 5);
      await tx
        .findOneOrFail("Account", { where: { owner: "ann" }, lock: { mode: "for_no_key_update", tables: ["Account"] } })
        .catch((error) => assert(error instanceof QueryFailedError === false, error));
    });
  }),
  "schema is up to date": withAccounts(async (db) => {
    same(
      (await db.driver.createSchemaBuilder().log()).upQueries.map((query) => query.query),
      [],
    );
  }),
  "schema is changed": withAccounts(async (db) => {
    await db.query('ALTER TABLE "typeorm_account" DROP COLUMN "balance", ALTER COLUMN "version" DROP NOT NULL');
    await db.query('ALTER TABLE "typeorm_account" ADD COLUMN "extra" int');
    assert((await db.driver.createSchemaBuilder().log()).upQueries.length > 0);
    await db.synchronize();
    same(
      (await db.driver.createSchemaBuilder().log()).upQueries.map((query) => query.query),
      [],
    );
  }),
  introspection: withAccounts(async (db) => {
    const runner = db.createQueryRunner();
    const found = await runner.getTable("typeorm_account");
    same(
      found.columns.map((column) => column.name),
      ["id", "owner", "balance", "tags", "version", "created", "deleted"],
    );
    same(
      found.indices.map((index) => [index.name, index.columnNames.sort()]),
      [["typeorm_balance", ["balance", "owner"]]],
    );
    same(
      found.checks.map((check) => check.name),
      ["typeorm_solvent"],
    );
    same(await runner.hasTable("nosuch"), false);
    same(await runner.getCurrentSchema(), "public");
    await runner.release();
  }),
  "migrations up and down": withTables(
    [],
    async (db) => {
      await db.query("DROP TABLE IF EXISTS typeorm_items, migrations");
      same((await db.runMigrations()).length, 2);
      same(await db.query("SELECT title, n FROM typeorm_items"), [{ title: "x", n: 3 }]);
      await db.undoLastMigration();
      await db.undoLastMigration();
      same(await db.showMigrations(), true);
    },
    { migrations: [First1700000000001, Second1700000000002] },
  ),
  "numeric and date types": withTables([], async (db) => {
    const sql = "SELECT 1.50::numeric(8,2) AS a, 2::int8 AS b, 1.5::float8 AS c, '2024-02-29'::date::text AS d";
    same(await db.query(sql), [{ a: "1.50", b: "2", c: 1.5, d: "2024-02-29" }]);
  }),
  "uuid type": roundTrip("Keyed", { type: "uuid" }, "00000000-0000-0000-0000-000000000005"),
  "array type": roundTrip("Numbers", { type: "int", array: true }, [1, 2]),
  "json type": roundTrip("Doc", { type: "jsonb" }, { a: [1, null] }),
  "simple-json type": roundTrip("Simple", { type: "simple-json" }, { a: 1 }),
  "enum type": roundTrip("Mood", { type: "enum", enum: ["sad", "ok"] }, "ok"),
  "inet type": roundTrip("Host", { type: "inet" }, "10.0.0.1"),
  "stream of rows": withTables([], async (db) => {
    const runner = db.createQueryRunner();
    let sum = 0;
    for await (const row of await runner.stream("SELECT * FROM generate_series(1, 300) AS n")) sum += row.n;
    same(sum, 45150);
    await runner.release();
  }),
  errors: withAccounts(async (db, accounts) => {
    await rejects(accounts.insert({ owner: null }), { code: "23502", column: "owner" });
    await rejects(accounts.insert({ owner: "x", balance: -1 }), { code: "23514", constraint: "typeorm_solvent" });
    await rejects(db.query("SELECT nosuch"), "42703");
  }),
});
