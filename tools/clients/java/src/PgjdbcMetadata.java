import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.ResultSet;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** All of DatabaseMetaData that pgjdbc implements: the answers of PostgreSQL are in java/metadata.txt. */
final class PgjdbcMetadata {
    interface Question {
        ResultSet ask(DatabaseMetaData metadata) throws Exception;
    }

    private static final Path ANSWERS = Path.of("java/metadata.txt");
    private static final boolean RECORD = System.getenv("CLIENT_RECORD") != null;
    private static boolean made;
    private static final Map<String, List<String>> recorded = new TreeMap<>();

    private static final Map<String, Question> QUESTIONS = new LinkedHashMap<>();

    static {
        String[] all = null;
        QUESTIONS.put("getBestRowIdentifier", m -> m.getBestRowIdentifier(null, "public", "meta_items", 2, true));
        QUESTIONS.put("getCatalogs", m -> m.getCatalogs());
        QUESTIONS.put("getClientInfoProperties", m -> m.getClientInfoProperties());
        QUESTIONS.put("getColumnPrivileges", m -> m.getColumnPrivileges(null, "public", "meta_items", "%"));
        QUESTIONS.put("getColumns", m -> m.getColumns(null, "public", "meta%", "%"));
        QUESTIONS.put("getCrossReference", m -> m.getCrossReference(null, "public", "meta_items", null, "public",
                "meta_view"));
        QUESTIONS.put("getExportedKeys", m -> m.getExportedKeys(null, "public", "meta_items"));
        QUESTIONS.put("getFunctionColumns", m -> m.getFunctionColumns(null, "pg_catalog", "initcap", "%"));
        QUESTIONS.put("getFunctions", m -> m.getFunctions(null, "pg_catalog", "initcap"));
        QUESTIONS.put("getImportedKeys", m -> m.getImportedKeys(null, "public", "meta_items"));
        QUESTIONS.put("getIndexInfo", m -> m.getIndexInfo(null, "public", "meta_items", false, true));
        QUESTIONS.put("getPrimaryKeys", m -> m.getPrimaryKeys(null, "public", "meta_items"));
        QUESTIONS.put("getProcedureColumns", m -> m.getProcedureColumns(null, "public", "meta%", "%"));
        QUESTIONS.put("getProcedures", m -> m.getProcedures(null, "public", "meta%"));
        QUESTIONS.put("getSchemas", m -> m.getSchemas(null, "p%c%"));
        QUESTIONS.put("getTablePrivileges", m -> m.getTablePrivileges(null, "public", "meta_items"));
        QUESTIONS.put("getTables", m -> m.getTables(null, "public", "meta%", all));
        QUESTIONS.put("getTables of a kind", m -> m.getTables(null, null, "meta%", new String[] {"TABLE", "SEQUENCE"}));
        QUESTIONS.put("getTables of the catalog", m -> m.getTables(null, "pg_catalog", "pg_cl%",
                new String[] {"SYSTEM TABLE"}));
        QUESTIONS.put("getTableTypes", m -> m.getTableTypes());
        QUESTIONS.put("getTypeInfo", m -> m.getTypeInfo());
        QUESTIONS.put("getUDTs", m -> m.getUDTs(null, "public", "meta%", null));
        QUESTIONS.put("getVersionColumns", m -> m.getVersionColumns(null, "public", "meta_items"));
    }

    private static final String[] SCHEMA = {
        "create table meta_items (id serial primary key, name varchar(20) not null constraint meta_name unique,"
                + " price numeric(8, 2) default 1.5, at timestamptz, tags text[], good bool not null default true,"
                + " constraint meta_price check (price > 0))",
        "create index meta_by_price on meta_items (price desc, name)",
        "create table meta_pairs (a int, b bigint, c date, d double precision, e bytea, f uuid, g char(5),"
                + " primary key (b, a))",
        "create view meta_view as select id, name from meta_items",
        "create sequence meta_numbers",
        "create procedure meta_add(inout n int, in m text) language sql as 'select n + 1'",
        "comment on table meta_items is 'the items'",
        "comment on column meta_items.price is 'in euros'",
    };

    static Map<String, Clients.Scenario> scenarios() {
        Map<String, Clients.Scenario> scenarios = new LinkedHashMap<>();
        QUESTIONS.forEach((name, question) -> scenarios.put("metadata " + name, () -> compare(name, question)));
        scenarios.put("metadata of foreign keys", PgjdbcMetadata::foreignKeys);
        scenarios.put("metadata of enums and composite types", PgjdbcMetadata::types);
        scenarios.put("metadata values", PgjdbcMetadata::values);
        return scenarios;
    }

    private static void make() throws Exception {
        if (!made) {
            Clients.execute(SCHEMA);
            made = true;
        }
    }

    /** True for a row of getTypeInfo that is of a common type; there is a type for each table too. */
    private static boolean common(String row) {
        return row.matches("(?:bool|int[248]|float[48]|numeric|text|varchar|bpchar|bytea|date"
                + "|timestamp|timestamptz|time|interval|uuid|oid|serial|bigserial) .*");
    }

    private static void compare(String name, Question question) throws Exception {
        make();
        try (Connection connection = Clients.connect()) {
            List<String> rows = new ArrayList<>();
            for (String row : Clients.rows(question.ask(connection.getMetaData()))) {
                boolean other = name.equals("getCatalogs") && !row.equals(connection.getCatalog());
                if (!other && (!name.equals("getTypeInfo") || common(row))) {
                    rows.add(normal(connection, row));
                }
            }
            same(name, rows);
        }
    }

    /** A row without the names of this database and its user, numbers of objects, and estimates of an index's size. */
    private static String normal(Connection connection, String row) throws Exception {
        return row.replaceAll("_\\d{5,}$", "_OID")
                .replaceAll(" ([AD]) -?\\d+ \\d+ ", " $1 ROWS PAGES ")
                .replaceAll("\\b" + connection.getCatalog() + "\\b", "DATABASE")
                .replaceAll("\\b" + Clients.user() + "\\b", "USER")
                .strip();
    }

    private static void same(String name, List<String> rows) throws Exception {
        if (RECORD) {
            recorded.put(name, rows);
            List<String> lines = new ArrayList<>();
            recorded.forEach((title, content) -> {
                lines.add("## " + title);
                lines.addAll(content);
            });
            Files.write(ANSWERS, lines);
            return;
        }
        List<String> lines = Files.readAllLines(ANSWERS);
        int start = lines.indexOf("## " + name) + 1;
        List<String> expected = lines.stream().skip(start).takeWhile(line -> !line.startsWith("## ")).toList();
        for (String row : expected) {
            Clients.check(rows.contains(row), "no row " + row + "; " + nearest(rows, row));
        }
        for (String row : rows) {
            Clients.check(expected.contains(row), "another row " + row);
        }
        Clients.same(rows, expected);
    }

    /** The row that has the longest beginning in common with an expected one. */
    private static String nearest(List<String> rows, String expected) {
        Comparator<String> common =
                Comparator.comparingInt(row -> Arrays.mismatch(row.toCharArray(), expected.toCharArray()));
        return rows.stream().max(common).map(row -> "nearest " + row).orElse("there is no row");
    }

    private static void foreignKeys() throws Exception {
        make();
        Clients.execute(
                "create table meta_child (item int constraint meta_fk references meta_items on delete cascade)");
        try (Connection connection = Clients.connect()) {
            DatabaseMetaData metadata = connection.getMetaData();
            for (ResultSet keys : List.of(
                    metadata.getImportedKeys(null, "public", "meta_child"),
                    metadata.getExportedKeys(null, "public", "meta_items"),
                    metadata.getCrossReference(null, "public", "meta_items", null, "public", "meta_child"))) {
                Clients.check(keys.next(), "a foreign key");
                Clients.same(keys.getString("FK_NAME") + " " + keys.getString("FKCOLUMN_NAME"), "meta_fk item");
                Clients.same((int) keys.getShort("DELETE_RULE"), DatabaseMetaData.importedKeyCascade);
            }
        } finally {
            Clients.execute("drop table if exists meta_child");
        }
    }

    private static void types() throws Exception {
        Clients.execute("create type meta_mood as enum ('sad', 'ok')",
                "create type meta_card as (value int, suit text)");
        try (Connection connection = Clients.connect()) {
            ResultSet found = connection.getMetaData().getUDTs(null, "public", "meta_card", null);
            Clients.check(found.next(), "a composite type");
        } finally {
            Clients.execute("drop type meta_mood, meta_card");
        }
    }

    /** Every method without arguments that answers with a value. */
    private static void values() throws Exception {
        try (Connection connection = Clients.connect()) {
            DatabaseMetaData metadata = connection.getMetaData();
            List<String> lines = new ArrayList<>();
            for (Method method : DatabaseMetaData.class.getMethods()) {
                Class<?> kind = method.getReturnType();
                boolean plain = kind.isPrimitive() || kind == String.class;
                boolean varies = method.getName().matches("getURL|getDatabase.*Version");
                if (method.getParameterCount() == 0 && plain && !varies) {
                    lines.add(normal(connection, method.getName() + " " + method.invoke(metadata)));
                }
            }
            lines.sort(null);
            same("values", lines);
        }
    }
}
