// The scenario of Sequelize.
const assert = require("node:assert");
const { DataTypes, Sequelize, UniqueConstraintError } = require("sequelize");

async function main() {
  const db = new Sequelize(process.env.CLIENT_URL, { logging: false });
  await db.authenticate();
  const Account = db.define(
    "Account",
    { owner: { type: DataTypes.STRING(30), unique: true }, balance: DataTypes.INTEGER, opened: DataTypes.DATE },
    { tableName: "sequelize_t", timestamps: false },
  );
  await Account.sync({ force: true });
  const opened = new Date("2024-02-29T12:00:00Z");
  const ann = await Account.create({ owner: "ann", balance: 5, opened });
  await db.transaction(async (transaction) => {
    await assert.rejects(
      db.transaction({ transaction }, (nested) => Account.create({ owner: "ann" }, { transaction: nested })),
      (error) => {
        assert(error instanceof UniqueConstraintError);
        assert.deepStrictEqual(Object.keys(error.fields), ["owner"]);
        return true;
      },
    );
    await Account.create({ owner: "bob", balance: 7 }, { transaction });
  });
  await ann.increment("balance");
  await ann.reload();
  assert.strictEqual(ann.balance, 6);
  assert.strictEqual(ann.opened.getTime(), opened.getTime());
  assert.strictEqual(await Account.count(), 2);
  const found = await Account.findAll({ where: { balance: { [Sequelize.Op.gt]: 6 } } });
  assert.deepStrictEqual(found.map((account) => account.owner), ["bob"]);
  assert.strictEqual(await Account.destroy({ where: {} }), 2);
  await Account.drop();
  await db.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
