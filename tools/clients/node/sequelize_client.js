// The scenarios of Sequelize.
const { DataTypes, ForeignKeyConstraintError, Op, QueryTypes, Sequelize, Transaction } = require("sequelize");
const { assert, rejects, run, same, url } = require("./scenarios");

const opened = new Date("2024-02-29T12:00:00Z");

/** Runs a scenario with a pool of connections, which is ended afterwards. */
const withDb = (scenario) => async () => {
  const db = new Sequelize(url, { logging: false, pool: { max: 3 } });
  try {
    await scenario(db);
  } finally {
    await db.close();
  }
};

async function model(db, name, columns, options = {}) {
  const made = db.define(name, columns, { tableName: `seq_${name.toLowerCase()}`, timestamps: false, ...options });
  await made.sync({ force: true });
  return made;
}

async function accounts(db) {
  const columns = {
    owner: { type: DataTypes.STRING(30), unique: true, allowNull: false },
    balance: { type: DataTypes.INTEGER, defaultValue: 0 },
    opened: DataTypes.DATE,
  };
  const Account = await model(db, "Account", columns, { indexes: [{ fields: ["balance"] }] });
  await Account.bulkCreate([
    { owner: "ann", balance: 5, opened },
    { owner: "bob", balance: 7, opened },
  ]);
  return Account;
}

run("sequelize", {
  connect: withDb(async (db) => {
    await db.authenticate();
    assert((await db.databaseVersion()).startsWith("15."));
    same(await db.query("SELECT :n::int + 1 AS n", { replacements: { n: 1 }, type: QueryTypes.SELECT }), [{ n: 2 }]);
    same(await db.query("SELECT $n::int + 1 AS n", { bind: { n: 1 }, type: QueryTypes.SELECT }), [{ n: 2 }]);
  }),
  "create, read, update, delete": withDb(async (db) => {
    const Account = await accounts(db);
    const ann = await Account.findOne({ where: { owner: "ann" } });
    await ann.increment("balance");
    await ann.reload();
    same([ann.balance, ann.opened.getTime()], [6, opened.getTime()]);
    const found = await Account.findAll({ where: { balance: { [Op.gt]: 6 } } });
    same(
      found.map((account) => account.owner),
      ["bob"],
    );
    same(await Account.update({ balance: 1 }, { where: { owner: "bob" } }), [1]);
    const [, made] = await Account.findOrCreate({ where: { owner: "eve" }, defaults: { balance: 3 } });
    same(made, true);
    same(await Account.count(), 3);
    same(await Account.destroy({ where: {} }), 3);
  }),
  "upserts and batches": withDb(async (db) => {
    const Account = await accounts(db);
    const [ann] = await Account.upsert({ owner: "ann", balance: 9 }, { conflictFields: ["owner"] });
    same(ann.balance, 9);
    const rows = Array.from({ length: 300 }, (_, i) => ({ owner: `o${i}`, balance: i }));
    same(
      (await Account.bulkCreate(rows, { updateOnDuplicate: ["balance"], conflictAttributes: ["owner"] })).length,
      300,
    );
    await Account.bulkCreate([{ owner: "o1" }], { ignoreDuplicates: true });
    same(await Account.max("balance"), 299);
  }),
  queries: withDb(async (db) => {
    const Account = await accounts(db);
    const where = { [Op.or]: [{ owner: { [Op.iLike]: "A%" } }, { balance: { [Op.between]: [50, 60] } }] };
    same((await Account.findAndCountAll({ where, limit: 1, offset: 0, order: [["id", "DESC"]] })).count, 1);
    const grouped = await Account.findAll({
      attributes: [
        [db.fn("date_trunc", "month", db.col("opened")), "month"],
        [db.fn("sum", db.col("balance")), "n"],
      ],
      group: ["month"],
      raw: true,
    });
    same(grouped[0].n, "12");
    same((await Account.findAll({ where: db.where(db.fn("upper", db.col("owner")), "BOB") })).length, 1);
    same((await Account.findAll({ where: { owner: { [Op.in]: db.literal("(SELECT 'ann')") } } })).length, 1);
  }),
  associations: withDb(async (db) => {
    await db.query("DROP TABLE IF EXISTS seq_book, seq_author CASCADE");
    const Author = await model(db, "Author", { name: DataTypes.STRING });
    const Book = db.define("Book", { title: DataTypes.STRING }, { tableName: "seq_book", timestamps: false });
    Author.hasMany(Book, { as: "books", onDelete: "CASCADE" });
    Book.belongsTo(Author);
    await Book.sync({ force: true });
    await Author.create({ name: "ann", books: [{ title: "one" }, { title: "two" }] }, { include: "books" });
    same((await Author.findOne({ include: "books" })).books.length, 2);
    const error = await rejects(Book.create({ title: "three", AuthorId: 99 }), "23503");
    assert(error instanceof ForeignKeyConstraintError);
    await Author.destroy({ where: {} });
    same(await Book.count(), 0);
  }),
  types: withDb(async (db) => {
    const Typed = await model(db, "Typed", {
      id: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4, primaryKey: true },
      price: DataTypes.DECIMAL(10, 2),
      big: DataTypes.BIGINT,
      ratio: DataTypes.DOUBLE,
      data: DataTypes.BLOB,
      day: DataTypes.DATEONLY,
      good: DataTypes.BOOLEAN,
      tags: DataTypes.ARRAY(DataTypes.TEXT),
    });
    const given = {
      price: "1.50",
      big: "9007199254740993",
      ratio: 1.5,
      day: "2024-02-29",
      good: true,
      tags: ["a", "b"],
    };
    await Typed.create({ ...given, data: Buffer.from([0, 255]) });
    const { id, data, ...found } = (await Typed.findOne({ where: { tags: { [Op.contains]: ["a"] } } })).get();
    same(found, given);
    same([...data], [0, 255]);
  }),
  "json type": withDb(async (db) => {
    const Doc = await model(db, "Doc", { doc: DataTypes.JSONB });
    await Doc.create({ doc: { a: { b: 1 } } });
    same((await Doc.findOne({ where: { doc: { a: { b: 1 } } } })).doc, { a: { b: 1 } });
  }),
  "enum type": withDb(async (db) => {
    const Mood = await model(db, "Mood", { mood: DataTypes.ENUM("sad", "ok") });
    same((await Mood.create({ mood: "ok" })).mood, "ok");
    await db.query('DROP TABLE seq_mood; DROP TYPE "enum_seq_mood_mood"');
  }),
  "range type": withDb(async (db) => {
    const Ranged = await model(db, "Ranged", { ages: DataTypes.RANGE(DataTypes.INTEGER) });
    await Ranged.create({ ages: [1, 5] });
    same(await Ranged.count({ where: { ages: { [Op.contains]: 3 } } }), 1);
  }),
  "network types": withDb(async (db) => {
    const Host = await model(db, "Host", { ip: DataTypes.INET, net: DataTypes.CIDR, mac: DataTypes.MACADDR });
    same((await Host.create({ ip: "10.0.0.1", net: "10.0.0.0/8", mac: "08:00:2b:01:02:03" })).ip, "10.0.0.1");
  }),
  "transactions and nested savepoints": withDb(async (db) => {
    const Account = await accounts(db);
    await db.transaction(async (transaction) => {
      const nested = db.transaction({ transaction }, (inner) =>
        Account.create({ owner: "ann" }, { transaction: inner }),
      );
      const error = await rejects(nested, { code: "23505", constraint: "seq_account_owner_key" });
      same(Object.keys(error.fields), ["owner"]);
      await Account.create({ owner: "c" }, { transaction });
      await Account.findAll({ transaction, lock: transaction.LOCK.UPDATE, skipLocked: true });
    });
    same(await Account.count(), 3);
    const isolationLevel = Transaction.ISOLATION_LEVELS.SERIALIZABLE;
    await db.transaction({ isolationLevel }, async (transaction) => {
      const [row] = await db.query("SHOW transaction_isolation", { transaction, type: QueryTypes.SELECT });
      same(row.transaction_isolation, "serializable");
    });
  }),
  errors: withDb(async (db) => {
    const Account = await accounts(db);
    await rejects(db.query("SELECT * FROM nosuch"), "42P01");
    await rejects(db.query("INSERT INTO seq_account (balance) VALUES (1)"), { code: "23502", column: "owner" });
    await rejects(Account.create({ owner: "x".repeat(40) }), "22001");
  }),
  introspection: withDb(async (db) => {
    await accounts(db);
    const queries = db.getQueryInterface();
    same((await queries.showAllTables()).includes("seq_account"), true);
    const columns = await queries.describeTable("seq_account");
    same([columns.id.primaryKey, columns.owner.type, columns.owner.allowNull], [true, "CHARACTER VARYING(30)", false]);
    const indexes = await queries.showIndex("seq_account");
    same(indexes.map((index) => index.fields.map((field) => field.attribute)[0]).sort(), ["balance", "id", "owner"]);
    same((await queries.showConstraint("seq_account")).length > 1, true);
    same(await queries.tableExists("seq_account"), true);
  }),
  "foreign keys read from the catalog": withDb(async (db) => {
    await accounts(db);
    same(await db.getQueryInterface().getForeignKeyReferencesForTable("seq_account"), []);
  }),
  "sync that alters": withDb(async (db) => {
    const Account = await accounts(db);
    const More = db.define(
      "More",
      { owner: DataTypes.STRING(60), balance: DataTypes.BIGINT, note: DataTypes.TEXT },
      { tableName: "seq_account", timestamps: false },
    );
    await More.sync({ alter: true });
    await More.create({ owner: "x", note: "added" });
    same(await Account.count(), 3);
  }),
  "migrations up and down": withDb(async (db) => {
    const queries = db.getQueryInterface();
    await db.query("DROP TABLE IF EXISTS seq_items, seq_things");
    await queries.createTable("seq_items", { id: { type: DataTypes.INTEGER, primaryKey: true, autoIncrement: true } });
    await queries.addColumn("seq_items", "name", { type: DataTypes.STRING(20), defaultValue: "x" });
    await queries.changeColumn("seq_items", "name", { type: DataTypes.TEXT, allowNull: false });
    await queries.renameColumn("seq_items", "name", "title");
    await queries.addIndex("seq_items", ["title"], {
      name: "seq_title",
      unique: true,
      where: { title: { [Op.ne]: "" } },
    });
    await queries.addConstraint("seq_items", {
      type: "check",
      fields: ["title"],
      name: "seq_long",
      where: { title: { [Op.ne]: "no" } },
    });
    await rejects(queries.bulkInsert("seq_items", [{ title: "no" }]), "23514");
    await queries.removeConstraint("seq_items", "seq_long");
    await queries.removeIndex("seq_items", "seq_title");
    await queries.removeColumn("seq_items", "title");
    await queries.renameTable("seq_items", "seq_things");
    await queries.dropTable("seq_things");
  }),
});
