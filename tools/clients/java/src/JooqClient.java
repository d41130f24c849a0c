import static org.jooq.impl.DSL.count;
import static org.jooq.impl.DSL.field;
import static org.jooq.impl.DSL.multiset;
import static org.jooq.impl.DSL.name;
import static org.jooq.impl.DSL.param;
import static org.jooq.impl.DSL.rowNumber;
import static org.jooq.impl.DSL.select;
import static org.jooq.impl.DSL.sum;
import static org.jooq.impl.DSL.table;
import static org.jooq.impl.SQLDataType.BIGINT;
import static org.jooq.impl.SQLDataType.DECIMAL;
import static org.jooq.impl.SQLDataType.INTEGER;
import static org.jooq.impl.SQLDataType.LOCALDATE;
import static org.jooq.impl.SQLDataType.UUID;
import static org.jooq.impl.SQLDataType.VARCHAR;

import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.time.LocalDate;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jooq.DSLContext;
import org.jooq.Field;
import org.jooq.JSONB;
import org.jooq.Record;
import org.jooq.SQLDialect;
import org.jooq.Table;
import org.jooq.codegen.GenerationTool;
import org.jooq.exception.DataAccessException;
import org.jooq.impl.DSL;
import org.jooq.meta.jaxb.Configuration;
import org.jooq.meta.jaxb.Generator;
import org.jooq.meta.jaxb.Jdbc;
import org.jooq.meta.jaxb.Target;

/** The scenarios of jOOQ. */
final class JooqClient {
    private static final Table<Record> ACCOUNTS = table(name("jooq_accounts"));
    private static final Field<Integer> ID = field(name("id"), INTEGER.identity(true));
    private static final Field<String> OWNER = field(name("owner"), VARCHAR(30).notNull());
    private static final Field<Integer> BALANCE = field(name("balance"), INTEGER.notNull().defaultValue(0));

    interface Action {
        void run(DSLContext db) throws Exception;
    }

    static Map<String, Clients.Scenario> scenarios() {
        Map<String, Clients.Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("create, read, update, delete", () -> with(JooqClient::crud));
        scenarios.put("queries", () -> with(JooqClient::queries));
        scenarios.put("upserts", () -> with(JooqClient::upserts));
        scenarios.put("batches", () -> with(JooqClient::batches));
        scenarios.put("MERGE", () -> with(JooqClient::merge));
        scenarios.put("transactions and nested savepoints", () -> with(JooqClient::nested));
        scenarios.put("row locks", () -> with(JooqClient::locks));
        scenarios.put("changes of a schema", () -> with(JooqClient::schema));
        scenarios.put("types", () -> with(JooqClient::types));
        scenarios.put("json type", () -> with(JooqClient::json));
        scenarios.put("nested collections", () -> with(JooqClient::multisets));
        scenarios.put("errors", () -> with(JooqClient::errors));
        scenarios.put("lazy rows", () -> with(JooqClient::lazy));
        scenarios.put("loader and export", () -> with(JooqClient::loader));
        scenarios.put("metadata", () -> with(JooqClient::metadata));
        scenarios.put("generated code", JooqClient::generate);
        return scenarios;
    }

    /** Runs an action with two accounts. */
    private static void with(Action action) throws Exception {
        try (Connection connection = Clients.connect()) {
            DSLContext db = DSL.using(connection, SQLDialect.POSTGRES);
            db.dropTableIfExists(ACCOUNTS).execute();
            db.createTable(ACCOUNTS)
                    .columns(ID, OWNER, BALANCE)
                    .constraints(DSL.primaryKey(ID), DSL.constraint("jooq_owner").unique(OWNER))
                    .execute();
            db.insertInto(ACCOUNTS, OWNER, BALANCE).values("ann", 5).values("bob", 7).execute();
            action.run(db);
        }
    }

    private static void crud(DSLContext db) {
        Clients.same(db.select(OWNER).from(ACCOUNTS).where(BALANCE.gt(5)).fetch(OWNER), List.of("bob"));
        var inserted = db.insertInto(ACCOUNTS, OWNER).values("eve").returningResult(ID, BALANCE).fetchOne();
        Clients.same(inserted.value1() + " " + inserted.value2(), "3 0");
        Clients.same(db.update(ACCOUNTS).set(BALANCE, BALANCE.plus(1)).where(OWNER.eq("ann")).execute(), 1);
        Clients.same(db.deleteFrom(ACCOUNTS).where(ID.in(2, 3)).execute(), 2);
        Clients.same(db.fetchCount(ACCOUNTS), 1);
        Clients.same(db.fetchValue("select {0} + 1", param("n", 1)), 2);
    }

    private static void queries(DSLContext db) {
        var rank = rowNumber().over().orderBy(BALANCE.desc()).as("r");
        Clients.same(db.select(OWNER, rank).from(ACCOUNTS).orderBy(rank).fetch(OWNER), List.of("bob", "ann"));
        var rich = name("rich").as(select(OWNER).from(ACCOUNTS).where(BALANCE.gt(5)));
        Clients.same(db.with(rich).selectFrom(rich).fetch().size(), 1);
        var odd = BALANCE.mod(DSL.inline(2));
        var grouped = db.select(odd, count(), sum(BALANCE)).from(ACCOUNTS).groupBy(odd).having(count().gt(1));
        Clients.same(grouped.fetchOne().value3(), new BigDecimal(12));
        var union = db.select(OWNER).from(ACCOUNTS).where(OWNER.likeIgnoreCase("A%")).union(select(DSL.val("z")));
        Clients.same(union.fetch().size(), 2);
        var page = db.select(OWNER).from(ACCOUNTS).orderBy(ID).seek(1).limit(1).fetch(OWNER);
        Clients.same(page, List.of("bob"));
        var values = DSL.values(DSL.row(1, "x"), DSL.row(2, "y")).as("v", "n", "s");
        Clients.same(db.selectFrom(values).fetch().size(), 2);
        Clients.same(db.select(DSL.greatest(1, 2), DSL.coalesce(DSL.val((Integer) null), 3),
                DSL.year(DSL.currentDate())).fetchOne().value2(), 3);
        Clients.same(db.select(DSL.count().filterWhere(BALANCE.gt(5))).from(ACCOUNTS).fetchOne().value1(), 1);
        Clients.same(db.select(DSL.listAgg(OWNER, ",").withinGroupOrderBy(OWNER)).from(ACCOUNTS).fetchOne().value1(),
                "ann,bob");
    }

    private static void upserts(DSLContext db) {
        var insert = db.insertInto(ACCOUNTS, OWNER, BALANCE).values("ann", 9);
        Clients.same(insert.onConflict(OWNER).doUpdate().set(BALANCE,
                DSL.excluded(BALANCE)).returning(BALANCE).fetchOne(BALANCE), 9);
        Clients.same(db.insertInto(ACCOUNTS, OWNER).values("bob").onConflictDoNothing().execute(), 0);
    }

    private static void batches(DSLContext db) {
        var batch = db.batch(db.insertInto(ACCOUNTS, OWNER, BALANCE).values((String) null, null));
        for (int i = 0; i < 200; i++) {
            batch.bind("o" + i, i);
        }
        Clients.same(batch.execute().length, 200);
    }

    private static void merge(DSLContext db) {
        var source = DSL.values(DSL.row("ann", 1), DSL.row("new", 2)).as("s", "o", "b");
        int merged = db.mergeInto(ACCOUNTS)
                .using(source)
                .on(OWNER.eq(field(name("s", "o"), VARCHAR)))
                .whenMatchedThenUpdate()
                .set(BALANCE, field(name("s", "b"), INTEGER))
                .whenNotMatchedThenInsert(OWNER, BALANCE)
                .values(field(name("s", "o"), VARCHAR), field(name("s", "b"), INTEGER))
                .execute();
        Clients.same(merged, 2);
    }

    private static void nested(DSLContext db) {
        db.transaction(outer -> {
            try {
                outer.dsl().transaction(inner -> {
                    inner.dsl().insertInto(ACCOUNTS, OWNER).values("c").execute();
                    inner.dsl().transaction(deeper -> deeper.dsl().insertInto(ACCOUNTS, OWNER).values("ann").execute());
                });
                throw new AssertionError("UNIQUE is not kept");
            } catch (DataAccessException error) {
                Clients.same(error.sqlState(), "23505");
            }
            outer.dsl().insertInto(ACCOUNTS, OWNER).values("d").execute();
        });
        Clients.same(db.fetchCount(ACCOUNTS), 3);
    }

    private static void locks(DSLContext db) {
        db.transaction(tx -> {
            Clients.same(tx.dsl().selectFrom(ACCOUNTS).forUpdate().skipLocked().fetch().size(), 2);
            Clients.same(tx.dsl().selectFrom(ACCOUNTS).forNoKeyUpdate().of(ACCOUNTS).noWait().fetch().size(), 2);
        });
    }

    private static void schema(DSLContext db) {
        db.alterTable(ACCOUNTS).addColumn("note", VARCHAR(20).defaultValue("x")).execute();
        db.alterTable(ACCOUNTS).alterColumn("note").set(VARCHAR(40).notNull()).execute();
        db.alterTable(ACCOUNTS).renameColumn("note").to("remark").execute();
        db.createIndexIfNotExists("jooq_by_remark").on(ACCOUNTS, field(name("remark"))).execute();
        db.alterIndex("jooq_by_remark").renameTo("jooq_remarks").execute();
        db.alterTable(ACCOUNTS).add(DSL.constraint("jooq_check").check(BALANCE.ge(0))).execute();
        db.alterTable(ACCOUNTS).dropConstraint("jooq_check").execute();
        db.createOrReplaceView("jooq_view").as(select(OWNER).from(ACCOUNTS)).execute();
        db.commentOnTable(ACCOUNTS).is("the accounts").execute();
        db.dropView("jooq_view").execute();
        db.createSequence("jooq_numbers").startWith(5).execute();
        Clients.same(db.nextval(DSL.sequence(name("jooq_numbers"), BIGINT)), 5L);
        db.dropSequence("jooq_numbers").execute();
        db.truncate(ACCOUNTS).restartIdentity().execute();
        db.alterTable(ACCOUNTS).dropColumn("remark").execute();
    }

    private static void types(DSLContext db) {
        var row = db.select(
                        DSL.val(new BigDecimal("1.50"), DECIMAL(8, 2)).cast(DECIMAL(8, 2)),
                        DSL.val(LocalDate.of(2024, 2, 29)).cast(LOCALDATE),
                        DSL.val(new java.util.UUID(0, 5)).cast(UUID),
                        DSL.val(new Integer[] {1, 2}).cast(INTEGER.array()),
                        DSL.val(new byte[] {0, -1}))
                .fetchOne();
        Clients.same(row.value1() + " " + row.value2() + " " + row.value4()[1] + " " + row.value5()[1],
                "1.50 2024-02-29 2 -1");
    }

    private static void json(DSLContext db) {
        var found = db.select(DSL.val(JSONB.valueOf("{\"a\": 1}")), DSL.jsonObject("k", DSL.val(1))).fetchOne();
        Clients.same(found.value1().data() + found.value2().data(), "{\"a\": 1}{\"k\" : 1}");
    }

    private static void multisets(DSLContext db) {
        var owners = multiset(select(OWNER).from(ACCOUNTS).orderBy(OWNER)).as("owners");
        Clients.same(db.select(owners).fetchOne().value1().getValues(0), List.of("ann", "bob"));
    }

    private static void errors(DSLContext db) throws Exception {
        Clients.fails("23505", () -> db.insertInto(ACCOUNTS, OWNER).values("ann").execute());
        Clients.fails("42703", () -> db.select(field("nosuch")).from(ACCOUNTS).fetch());
        Clients.fails("22001", () -> db.insertInto(ACCOUNTS, OWNER).values("x".repeat(40)).execute());
    }

    private static void lazy(DSLContext db) {
        db.transaction(tx -> {
            try (var cursor = tx.dsl().resultQuery("select * from generate_series(1, 300)").fetchSize(50).fetchLazy()) {
                int seen = 0;
                while (cursor.fetchNext() != null) {
                    seen++;
                }
                Clients.same(seen, 300);
            }
        });
    }

    private static void loader(DSLContext db) throws Exception {
        var loaded = db.loadInto(ACCOUNTS).bulkAfter(2).loadCSV("owner,balance\nx,1\ny,2\nz,3\n").fields(OWNER,
                BALANCE).execute();
        Clients.same(loaded.stored(), 3);
        Clients.check(db.selectFrom(ACCOUNTS).fetch().formatCSV().contains("z,3"), "the CSV");
    }

    private static void metadata(DSLContext db) {
        var found = db.meta().getTables("jooq_accounts").get(0);
        Clients.same(found.getPrimaryKey().getFields().get(0).getName(), "id");
        Clients.same(found.field("owner").getDataType().length(), 30);
        Clients.check(!found.getUniqueKeys().isEmpty() && found.getIndexes() != null, "keys");
        Clients.check(db.meta(found).ddl().queries().length > 0, "DDL");
    }

    private static void generate() throws Exception {
        Clients.execute(
                "drop table if exists jooq_generated",
                "create table jooq_generated (id serial primary key, name varchar(20) not null unique, tags text[],"
                        + " price numeric(8, 2) check (price > 0))");
        Path folder = Files.createTempDirectory("jooq");
        org.jooq.meta.jaxb.Database database = new org.jooq.meta.jaxb.Database()
                .withName("org.jooq.meta.postgres.PostgresDatabase")
                .withIncludes("jooq_generated")
                .withLogSlowQueriesAfterSeconds(60)
                .withInputSchema("public");
        Configuration configuration = new Configuration()
                .withOnError(org.jooq.meta.jaxb.OnError.FAIL)
                .withJdbc(new Jdbc().withUrl(Clients.url()).withUser(Clients.user()))
                .withGenerator(new Generator()
                        .withDatabase(database)
                        .withTarget(new Target().withPackageName("made").withDirectory(folder.toString())));
        GenerationTool.generate(configuration);
        String made = Files.readString(folder.resolve("made/tables/JooqGenerated.java"));
        Clients.check(made.contains("SQLDataType.VARCHAR(20).nullable(false)"), "the column");
        Clients.check(Files.readString(folder.resolve("made/Keys.java")).contains("jooq_generated_pkey"), "the key");
    }
}
