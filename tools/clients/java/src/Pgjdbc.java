import static java.util.Map.entry;

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Timer;
import java.util.TimerTask;
import java.util.UUID;
import javax.transaction.xa.XAResource;
import org.postgresql.PGConnection;
import org.postgresql.largeobject.LargeObjectManager;
import org.postgresql.util.PGobject;
import org.postgresql.util.PSQLException;
import org.postgresql.xa.PGXADataSource;

/** The scenarios of pgjdbc; those of DatabaseMetaData are in PgjdbcMetadata. */
final class Pgjdbc {
    static Map<String, Clients.Scenario> scenarios() {
        Map<String, Clients.Scenario> scenarios = new LinkedHashMap<>();
        List.<Map.Entry<String, Clients.Scenario>>of(
                        entry("connect and settings", Pgjdbc::connect),
                        entry("create, read, update, delete", Pgjdbc::crud),
                        entry("generated keys", Pgjdbc::generatedKeys),
                        entry("batches", Pgjdbc::batches),
                        entry("query modes", Pgjdbc::queryModes),
                        entry("server-side statements after a change of schema", Pgjdbc::replan),
                        entry("types", Pgjdbc::types),
                        entry("arrays", Pgjdbc::arrays),
                        entry("json type", Pgjdbc::json),
                        entry("enum type", Pgjdbc::enumType),
                        entry("transactions and nested savepoints", Pgjdbc::nested),
                        entry("isolation levels", Pgjdbc::isolation),
                        entry("autosave", Pgjdbc::autosave),
                        entry("two-phase commit (XA)", Pgjdbc::twoPhase),
                        entry("error fields", Pgjdbc::errors),
                        entry("warnings", Pgjdbc::warnings),
                        entry("cancel and timeouts", Pgjdbc::cancel),
                        entry("fetch size", Pgjdbc::fetchSize),
                        entry("scrollable and updatable results", Pgjdbc::updatable),
                        entry("several results", Pgjdbc::severalResults),
                        entry("COPY in and out", Pgjdbc::copy),
                        entry("callable statement of a procedure", Pgjdbc::procedure),
                        entry("callable statement of a function", Pgjdbc::function),
                        entry("ref cursor of a function", Pgjdbc::refCursor),
                        entry("listen and notify", Pgjdbc::listen),
                        entry("large object", Pgjdbc::largeObject),
                        entry("temporary table", Pgjdbc::temporary),
                        entry("description of a result", Pgjdbc::resultMetadata))
                .forEach(scenario -> scenarios.put(scenario.getKey(), scenario.getValue()));
        scenarios.putAll(PgjdbcMetadata.scenarios());
        return scenarios;
    }

    /** A connection, and a table made anew. */
    private static Connection withTable(String name, String columns) throws SQLException {
        Connection connection = Clients.connect();
        Clients.execute(connection, "drop table if exists " + name, "create table " + name + " (" + columns + ")");
        return connection;
    }

    private static void connect() throws Exception {
        String settings = "?ApplicationName=clients&options=-c%20statement_timeout=5000&currentSchema=public";
        try (Connection connection = Clients.connect(settings)) {
            Clients.same(Clients.rows(connection, "show application_name"), List.of("clients"));
            Clients.same(Clients.rows(connection, "show statement_timeout"), List.of("5s"));
            Clients.check(connection.isValid(5), "valid");
            Clients.same(connection.getSchema(), "public");
            connection.setClientInfo("ApplicationName", "other");
            connection.setReadOnly(true);
            Clients.check(connection.isReadOnly(), "read only");
            connection.setNetworkTimeout(Runnable::run, 5000);
        }
        Clients.fails("3D000", () -> java.sql.DriverManager.getConnection(Clients.url() + "x", Clients.user(), ""));
    }

    private static void crud() throws Exception {
        try (Connection connection = withTable("jdbc_crud", "id int primary key, name text not null");
                PreparedStatement insert = connection.prepareStatement("insert into jdbc_crud values (?, ?)")) {
            insert.setInt(1, 1);
            insert.setString(2, "o'ne\\");
            Clients.same(insert.executeUpdate(), 1);
            Clients.same(Clients.rows(connection, "select * from jdbc_crud"), List.of("1 o'ne\\"));
            try (Statement statement = connection.createStatement()) {
                Clients.same(statement.executeLargeUpdate("update jdbc_crud set name = 'x' where id < 5"), 1L);
                Clients.same(statement.executeUpdate("delete from jdbc_crud"), 1);
            }
        }
    }

    private static void generatedKeys() throws Exception {
        String insert = "insert into jdbc_keys (name) values (?)";
        try (Connection connection = withTable("jdbc_keys",
                "id serial primary key, name text, at timestamptz default now()");
                PreparedStatement all = connection.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS);
                PreparedStatement named = connection.prepareStatement(insert, new String[] {"id"})) {
            for (int number = 1; number <= 20; number++) {
                PreparedStatement statement = number % 2 == 0 ? all : named;
                statement.setString(1, "item " + number);
                statement.executeUpdate();
                ResultSet keys = statement.getGeneratedKeys();
                Clients.check(keys.next() && keys.getInt("id") == number, "keys");
            }
        }
    }

    private static void batches() throws Exception {
        withTable("jdbc_batch", "id int primary key, name text").close();
        for (String settings : List.of("", "?reWriteBatchedInserts=true")) {
            try (Connection connection = Clients.connect(settings);
                    PreparedStatement statement = connection.prepareStatement("insert into jdbc_batch values (?, ?)")) {
                for (int number = 0; number < 500; number++) {
                    statement.setInt(1, number);
                    statement.setString(2, "item " + number);
                    statement.addBatch();
                }
                Clients.same(statement.executeBatch().length, 500);
                statement.setInt(1, 1000);
                statement.addBatch();
                statement.setInt(1, 1);
                statement.addBatch();
                Clients.fails("23505", statement::executeBatch);
                Clients.same(Clients.rows(connection, "select count(*) from jdbc_batch where id < 1000"),
                        List.of("500"));
                Clients.execute(connection, "delete from jdbc_batch");
            }
        }
        try (Connection connection = Clients.connect();
                Statement statement = connection.createStatement()) {
            statement.addBatch("insert into jdbc_batch values (1, 'a')");
            statement.addBatch("update jdbc_batch set name = 'b'");
            statement.addBatch("select nosuch");
            try {
                statement.executeBatch();
                throw new AssertionError("a wrong batch");
            } catch (BatchUpdateException error) {
                Clients.same(error.getSQLState(), "42703");
            }
        }
    }

    private static void queryModes() throws Exception {
        for (String mode : List.of("simple", "extended", "extendedForPrepared", "extendedCacheEverything")) {
            String settings = "?preferQueryMode=" + mode + "&binaryTransfer=" + mode.equals("extended");
            try (Connection connection = Clients.connect(settings);
                    PreparedStatement statement =
                            connection.prepareStatement("select ?::int + 1, ?::text, ?::timestamp")) {
                for (int run = 0; run < 7; run++) {
                    statement.setInt(1, run);
                    statement.setString(2, "a'b");
                    statement.setTimestamp(3, Timestamp.valueOf("2024-02-29 12:00:00"));
                    Clients.same(Clients.rows(statement.executeQuery()), List.of(run + 1 + " a'b 2024-02-29 12:00:00"));
                }
            }
        }
    }

    /** A statement of the server whose result changes is prepared anew by the driver, once the transaction is over. */
    private static void replan() throws Exception {
        try (Connection connection = withTable("jdbc_replan", "id int");
                PreparedStatement statement = connection.prepareStatement("select * from jdbc_replan where id = ?")) {
            Clients.execute(connection, "insert into jdbc_replan values (1)");
            for (int run = 0; run < 8; run++) {
                statement.setInt(1, 1);
                ResultSet rows = statement.executeQuery();
                Clients.check(rows.next() && rows.getMetaData().getColumnCount() == 1 + run / 7, run);
                if (run == 6) {
                    Clients.execute(connection, "alter table jdbc_replan add column more int");
                }
            }
        }
    }

    private static void types() throws Exception {
        List<Map.Entry<String, Object>> values = List.of(
                entry("bool", true),
                entry("int2", 7),
                entry("int8", Long.MAX_VALUE),
                entry("float8", 1.5),
                entry("numeric", new BigDecimal("12345678901234567890.123")),
                entry("text", "äöü"),
                entry("date", LocalDate.of(2024, 2, 29)),
                entry("timestamptz", OffsetDateTime.of(2024, 2, 29, 12, 0, 0, 0, ZoneOffset.UTC)),
                entry("uuid", new UUID(0, 5)));
        try (Connection connection = Clients.connect("?prepareThreshold=2")) {
            for (var value : values) {
                try (PreparedStatement statement = connection.prepareStatement("select ?::" + value.getKey())) {
                    for (int run = 0; run < 4; run++) {
                        statement.setObject(1, value.getValue());
                        ResultSet rows = statement.executeQuery();
                        rows.next();
                        Clients.same(rows.getObject(1, value.getValue().getClass()), value.getValue());
                    }
                }
            }
            String bytes = "select ?::bytea, ?::int, '1 day'::interval";
            try (PreparedStatement statement = connection.prepareStatement(bytes)) {
                statement.setBytes(1, new byte[] {0, -1});
                statement.setNull(2, Types.INTEGER);
                ResultSet rows = statement.executeQuery();
                rows.next();
                Clients.check(rows.getBytes(1)[1] == -1 && rows.getInt(2) == 0 && rows.wasNull(), "bytes and null");
            }
        }
    }

    private static void arrays() throws Exception {
        try (Connection connection = Clients.connect();
                PreparedStatement statement = connection.prepareStatement("select ?::text[], ?::int[]")) {
            Array texts = connection.createArrayOf("text", new String[] {"a", null, "b,\""});
            for (int run = 0; run < 7; run++) {
                statement.setArray(1, texts);
                statement.setObject(2, new int[] {1, 2});
                ResultSet rows = statement.executeQuery();
                rows.next();
                Clients.same(List.of(((String[]) rows.getArray(1).getArray())[2]), List.of("b,\""));
                Clients.same(((Integer[]) rows.getArray(2).getArray())[1], 2);
            }
            ResultSet parts = texts.getResultSet();
            Clients.check(parts.next() && parts.getString(2).equals("a"), "parts");
        }
    }

    private static void json() throws Exception {
        try (Connection connection = withTable("jdbc_json", "doc jsonb");
                PreparedStatement statement = connection.prepareStatement("insert into jdbc_json values (?)")) {
            PGobject doc = new PGobject();
            doc.setType("jsonb");
            doc.setValue("{\"a\": [1, null]}");
            statement.setObject(1, doc);
            statement.executeUpdate();
            Clients.same(Clients.rows(connection, "select doc -> 'a' from jdbc_json"), List.of("[1, null]"));
        }
    }

    private static void enumType() throws Exception {
        try (Connection connection = Clients.connect()) {
            Clients.execute(connection, "create type jdbc_mood as enum ('sad', 'ok')");
            try (PreparedStatement statement = connection.prepareStatement("select ?::jdbc_mood")) {
                statement.setObject(1, "ok", Types.OTHER);
                Clients.same(Clients.rows(statement.executeQuery()), List.of("ok"));
            }
            Clients.execute(connection, "drop type jdbc_mood");
        }
    }

    private static void nested() throws Exception {
        try (Connection connection = withTable("jdbc_nested", "id int primary key")) {
            connection.setAutoCommit(false);
            Clients.execute(connection, "insert into jdbc_nested values (1)");
            Savepoint outer = connection.setSavepoint("a \"quoted\" name");
            Clients.execute(connection, "insert into jdbc_nested values (2)");
            Savepoint inner = connection.setSavepoint();
            Clients.fails("23505", () -> Clients.execute(connection, "insert into jdbc_nested values (1)"));
            connection.rollback(inner);
            connection.releaseSavepoint(inner);
            connection.rollback(outer);
            connection.commit();
            Clients.same(Clients.rows(connection, "select * from jdbc_nested"), List.of("1"));
            Clients.execute(connection, "delete from jdbc_nested");
            connection.rollback();
            Clients.same(Clients.rows(connection, "select count(*) from jdbc_nested"), List.of("1"));
        }
    }

    private static void isolation() throws Exception {
        try (Connection connection = withTable("jdbc_isolated", "n int");
                Connection other = Clients.connect()) {
            Clients.execute(connection, "insert into jdbc_isolated values (0)");
            Clients.same(connection.getTransactionIsolation(), Connection.TRANSACTION_READ_COMMITTED);
            connection.setAutoCommit(false);
            connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            Clients.rows(connection, "select * from jdbc_isolated");
            Clients.execute(other, "update jdbc_isolated set n = 1");
            Clients.fails("40001", () -> Clients.execute(connection, "update jdbc_isolated set n = 2"));
            connection.rollback();
            connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            connection.setReadOnly(true);
            Clients.fails("25006", () -> Clients.execute(connection, "delete from jdbc_isolated"));
            connection.rollback();
        }
    }

    private static void autosave() throws Exception {
        withTable("jdbc_autosave", "id int primary key").close();
        try (Connection connection = Clients.connect("?autosave=always&cleanupSavepoints=true")) {
            connection.setAutoCommit(false);
            Clients.execute(connection, "insert into jdbc_autosave values (1)");
            Clients.fails("23505", () -> Clients.execute(connection, "insert into jdbc_autosave values (1)"));
            Clients.execute(connection, "insert into jdbc_autosave values (2)");
            connection.commit();
            Clients.same(Clients.rows(connection, "select count(*) from jdbc_autosave"), List.of("2"));
        }
    }

    private record Xid(int getFormatId, byte[] getGlobalTransactionId, byte[] getBranchQualifier)
            implements javax.transaction.xa.Xid {
        @Override
        public int getFormatId() {
            return getFormatId;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return getGlobalTransactionId;
        }

        @Override
        public byte[] getBranchQualifier() {
            return getBranchQualifier;
        }
    }

    private static void twoPhase() throws Exception {
        withTable("jdbc_two_phase", "id int").close();
        PGXADataSource source = new PGXADataSource();
        source.setUrl(Clients.url());
        source.setUser(Clients.user());
        var connection = source.getXAConnection();
        XAResource resource = connection.getXAResource();
        Xid xid = new Xid(7, "global".getBytes(StandardCharsets.UTF_8), "branch".getBytes(StandardCharsets.UTF_8));
        resource.start(xid, XAResource.TMNOFLAGS);
        Clients.execute(connection.getConnection(), "insert into jdbc_two_phase values (1)");
        resource.end(xid, XAResource.TMSUCCESS);
        Clients.same(resource.prepare(xid), XAResource.XA_OK);
        Clients.same(resource.recover(XAResource.TMSTARTRSCAN).length, 1);
        resource.commit(xid, false);
        Clients.same(Clients.rows(connection.getConnection(), "select * from jdbc_two_phase"), List.of("1"));
        connection.close();
    }

    private static void errors() throws Exception {
        try (Connection connection = withTable("jdbc_errors",
                "id int primary key, name text not null constraint jdbc_name unique")) {
            Clients.execute(connection, "insert into jdbc_errors values (1, 'a')");
            SQLException error =
                    Clients.fails("23505", () -> Clients.execute(connection,
                            "insert into jdbc_errors values (2, 'a')"));
            var fields = ((PSQLException) error).getServerErrorMessage();
            Clients.same(fields.getSchema() + " " + fields.getTable(), "public jdbc_errors");
            Clients.same(fields.getConstraint(), "jdbc_name");
            Clients.same(fields.getDetail(), "Key (name)=(a) already exists.");
            error = Clients.fails("42P01", () -> Clients.execute(connection, "select * from nosuch"));
            Clients.same(((PSQLException) error).getServerErrorMessage().getPosition(), 15);
        }
    }

    private static void warnings() throws Exception {
        try (Connection connection = Clients.connect();
                Statement statement = connection.createStatement()) {
            statement.execute("drop table if exists nosuch");
            Clients.same(statement.getWarnings().getMessage(), "table \"nosuch\" does not exist, skipping");
        }
    }

    private static void cancel() throws Exception {
        try (Connection connection = Clients.connect();
                Statement statement = connection.createStatement()) {
            new Timer(true).schedule(new TimerTask() {
                @Override
                public void run() {
                    try {
                        statement.cancel();
                    } catch (SQLException error) {
                        throw new IllegalStateException(error);
                    }
                }
            }, 300);
            Clients.fails("57014", () -> statement.execute("select pg_sleep(10)"));
            statement.setQueryTimeout(1);
            Clients.fails("57014", () -> statement.execute("select pg_sleep(10)"));
        }
    }

    /** A fetch size below the number of rows makes Execute with a limit, again and again. */
    private static void fetchSize() throws Exception {
        try (Connection connection = Clients.connect()) {
            connection.setAutoCommit(false);
            try (PreparedStatement statement = connection.prepareStatement("select * from generate_series(1, 1000)")) {
                statement.setFetchSize(7);
                Clients.same(Clients.rows(statement.executeQuery()).size(), 1000);
                statement.setMaxRows(10);
                Clients.same(Clients.rows(statement.executeQuery()).size(), 10);
            }
            connection.rollback();
        }
    }

    private static void updatable() throws Exception {
        try (Connection connection = withTable("jdbc_updatable", "id int primary key, name text")) {
            Clients.execute(connection, "insert into jdbc_updatable values (1, 'a'), (2, 'b'), (3, 'c')");
            try (Statement statement =
                    connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
                ResultSet rows = statement.executeQuery("select id, name from jdbc_updatable order by id");
                Clients.check(rows.absolute(-1) && rows.getInt(1) == 3 && rows.previous(), "scrolling");
                rows.updateString("name", "changed");
                rows.updateRow();
                rows.refreshRow();
                rows.moveToInsertRow();
                rows.updateInt(1, 4);
                rows.updateString(2, "d");
                rows.insertRow();
                rows.first();
                rows.deleteRow();
            }
            Clients.same(Clients.rows(connection, "select * from jdbc_updatable order by id"), List.of("2 changed",
                    "3 c", "4 d"));
        }
    }

    private static void severalResults() throws Exception {
        try (Connection connection = Clients.connect();
                Statement statement = connection.createStatement()) {
            Clients.check(statement.execute("select 1; select 2"), "a first result");
            Clients.same(Clients.rows(statement.getResultSet()), List.of("1"));
            Clients.check(statement.getMoreResults(), "a second result");
            Clients.same(Clients.rows(statement.getResultSet()), List.of("2"));
        }
    }

    private static void copy() throws Exception {
        try (Connection connection = withTable("jdbc_copied", "id int, name text")) {
            var copies = connection.unwrap(PGConnection.class).getCopyAPI();
            Clients.same(copies.copyIn("copy jdbc_copied from stdin", new StringReader("1\tx\n2\t\\N\n")), 2L);
            StringWriter out = new StringWriter();
            Clients.same(copies.copyOut("copy jdbc_copied to stdout with (format csv, header)", out), 2L);
            Clients.same(out.toString(), "id,name\n1,x\n2,\n");
            Clients.fails("22P02", () -> copies.copyIn("copy jdbc_copied from stdin", new StringReader("x\ty\n")));
        }
    }

    private static void procedure() throws Exception {
        try (Connection connection = Clients.connect("?escapeSyntaxCallMode=callIfNoReturn")) {
            Clients.execute(connection,
                    "create or replace procedure jdbc_add(inout n int) language sql as 'select n + 1'");
            try (CallableStatement statement = connection.prepareCall("{call jdbc_add(?)}")) {
                statement.setInt(1, 4);
                statement.registerOutParameter(1, Types.INTEGER);
                statement.execute();
                Clients.same(statement.getInt(1), 5);
            }
        }
    }

    private static void function() throws Exception {
        try (Connection connection = Clients.connect()) {
            try (CallableStatement statement = connection.prepareCall("{? = call upper(?)}")) {
                statement.registerOutParameter(1, Types.VARCHAR);
                statement.setString(2, "x");
                statement.execute();
                Clients.same(statement.getString(1), "X");
            }
            Clients.same(Clients.rows(connection, "select {fn concat('a', 'b')}, {d '2024-02-29'}"),
                    List.of("ab 2024-02-29"));
        }
    }

    private static void refCursor() throws Exception {
        try (Connection connection = Clients.connect()) {
            Clients.execute(
                    connection,
                    "create or replace function jdbc_rows() returns refcursor language plpgsql as"
                            + " $$ declare c refcursor; begin open c for select 7; return c; end $$");
            connection.setAutoCommit(false);
            try (CallableStatement statement = connection.prepareCall("{? = call jdbc_rows()}")) {
                statement.registerOutParameter(1, Types.REF_CURSOR);
                statement.execute();
                Clients.same(Clients.rows(statement.getObject(1, ResultSet.class)), List.of("7"));
            }
            connection.rollback();
        }
    }

    private static void listen() throws Exception {
        try (Connection connection = Clients.connect();
                Connection other = Clients.connect()) {
            Clients.execute(connection, "listen jdbc_news");
            Clients.execute(other, "notify jdbc_news, 'hello'");
            var notes = connection.unwrap(PGConnection.class).getNotifications(3000);
            Clients.same(notes.length == 1 ? notes[0].getParameter() : null, "hello");
        }
    }

    private static void largeObject() throws Exception {
        try (Connection connection = Clients.connect()) {
            connection.setAutoCommit(false);
            LargeObjectManager manager = connection.unwrap(PGConnection.class).getLargeObjectAPI();
            long oid = manager.createLO();
            try (var object = manager.open(oid)) {
                object.write("hello".getBytes(StandardCharsets.UTF_8));
                object.seek(1);
                Clients.same(new String(object.read(3), StandardCharsets.UTF_8), "ell");
            }
            manager.delete(oid);
            connection.commit();
        }
    }

    private static void temporary() throws Exception {
        try (Connection connection = Clients.connect()) {
            Clients.execute(connection, "create temporary table jdbc_scratch (id int)",
                    "insert into jdbc_scratch values (1)");
            Clients.same(Clients.rows(connection, "select * from jdbc_scratch"), List.of("1"));
        }
    }

    private static void resultMetadata() throws Exception {
        try (Connection connection = withTable("jdbc_described", "id serial primary key, price numeric(8, 2) not null");
                PreparedStatement statement =
                        connection.prepareStatement("select id, price as cost, 1 + ? from jdbc_described")) {
            var columns = statement.getMetaData();
            Clients.check(columns.isAutoIncrement(1) && columns.isNullable(2) == 0, "serial, not null");
            Clients.same(columns.getTableName(2) + "." + columns.getColumnLabel(2), "jdbc_described.cost");
            Clients.same(List.of(columns.getPrecision(2), columns.getScale(2)), List.of(8, 2));
            Clients.same(statement.getParameterMetaData().getParameterTypeName(1), "int4");
        }
    }
}
