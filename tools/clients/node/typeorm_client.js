// The scenario of TypeORM.
require("reflect-metadata");
const assert = require("node:assert");
const { DataSource, EntitySchema, QueryFailedError } = require("typeorm");

const Account = new EntitySchema({
  name: "Account",
  tableName: "typeorm_t",
  columns: {
    id: { type: Number, primary: true, generated: true },
    owner: { type: String, length: 30, unique: true },
    balance: { type: Number, default: 0 },
    tags: { type: "text", array: true, default: () => "'{}'" },
  },
});

async function main() {
  const db = new DataSource({ type: "postgres", url: process.env.CLIENT_URL, entities: [Account], installExtensions: false });
  await db.initialize();
  await db.query('DROP TABLE IF EXISTS "typeorm_t"');
  await db.synchronize();
  const accounts = db.getRepository("Account");
  const ann = await accounts.save({ owner: "ann", balance: 5, tags: ["a", "b c"] });
  await db.transaction(async (outer) => {
    await assert.rejects(
      outer.transaction((inner) => inner.insert("Account", { owner: "ann" })),
      (error) => {
        assert(error instanceof QueryFailedError);
        assert.strictEqual(error.driverError.code, "23505");
        assert.strictEqual(error.driverError.table, "typeorm_t");
        return true;
      },
    );
    await outer.insert("Account", { owner: "bob", balance: 7 });
  });
  await accounts.increment({ id: ann.id }, "balance", 1);
  const found = await accounts.findOneByOrFail({ owner: "ann" });
  assert.deepStrictEqual([found.balance, found.tags], [6, ["a", "b c"]]);
  assert.strictEqual(await accounts.count(), 2);
  // A second time there is nothing to change.
  assert.deepStrictEqual((await db.driver.createSchemaBuilder().log()).upQueries.map((query) => query.query), []);
  await accounts.delete({ owner: "bob" });
  assert.strictEqual(await accounts.count(), 1);
  await db.query('DROP TABLE "typeorm_t"');
  await db.destroy();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
