import java.io.StringReader;
import java.sql.Array;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;
import org.postgresql.PGConnection;
import org.postgresql.util.PSQLException;

/** pgjdbc: CRUD, named savepoints, server-side statements, fetch sizes, COPY, metadata and an error's fields. */
final class Pgjdbc {
    static void run() throws Exception {
        try (Connection connection = Clients.connect()) {
            Clients.execute(
                    connection,
                    "drop table if exists jdbc_items",
                    "create table jdbc_items (id serial primary key, name text not null constraint jdbc_name unique,"
                            + " tags text[], at timestamptz default now())");
            change(connection);
            replan(connection);
            describe(connection);
            Clients.execute(connection, "drop table jdbc_items");
        }
    }

    private static void change(Connection connection) throws Exception {
        String insert = "insert into jdbc_items (name, tags, at) values (?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
            for (int number = 1; number <= 20; number++) {
                Array tags = connection.createArrayOf("text", new String[] {"t" + number, null});
                statement.setString(1, "item " + number);
                statement.setArray(2, tags);
                statement.setTimestamp(3, new Timestamp(0));
                statement.executeUpdate();
                ResultSet keys = statement.getGeneratedKeys();
                Clients.check(keys.next() && keys.getInt(1) == number, "keys");
            }
            statement.setString(1, "batched");
            statement.addBatch();
            statement.setString(1, "batched too");
            statement.addBatch();
            Clients.check(statement.executeBatch().length == 2, "a batch");
        }
        connection.setAutoCommit(false);
        Savepoint savepoint = connection.setSavepoint("a \"quoted\" name");
        try (PreparedStatement statement = connection.prepareStatement("update jdbc_items set name = ? where id = ?")) {
            statement.setString(1, "item 1");
            statement.setInt(2, 2);
            statement.executeUpdate();
            throw new AssertionError("UNIQUE is not kept");
        } catch (PSQLException error) {
            var fields = error.getServerErrorMessage();
            Clients.check("23505".equals(error.getSQLState()), error);
            Clients.check("jdbc_name".equals(fields.getConstraint()), fields.getConstraint());
            Clients.check("jdbc_items".equals(fields.getTable()) && "public".equals(fields.getSchema()), error);
        }
        connection.rollback(savepoint);
        Savepoint unnamed = connection.setSavepoint();
        Clients.execute(connection, "delete from jdbc_items where id > 20");
        connection.releaseSavepoint(unnamed);
        // A fetch size below the number of rows makes Execute with a limit, again and again.
        List<String> names = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement("select name from jdbc_items order by id")) {
            statement.setFetchSize(7);
            ResultSet rows = statement.executeQuery();
            while (rows.next()) {
                names.add(rows.getString(1));
            }
        }
        Clients.check(names.size() == 20 && names.get(19).equals("item 20"), names);
        connection.commit();
        connection.setAutoCommit(true);
        var copies = connection.unwrap(PGConnection.class).getCopyAPI();
        long copied = copies.copyIn("copy jdbc_items (name) from stdin", new StringReader("x\ny\n"));
        Clients.check(copied == 2, copied);
    }

    /** A statement of the server whose result changes is prepared anew by the driver, once the transaction is over. */
    private static void replan(Connection connection) throws Exception {
        try (PreparedStatement statement = connection.prepareStatement("select * from jdbc_items where id = ?")) {
            for (int run = 0; run < 8; run++) {
                statement.setInt(1, 1);
                ResultSet rows = statement.executeQuery();
                Clients.check(rows.next() && rows.getMetaData().getColumnCount() == 4 + run / 7, run);
                if (run == 6) {
                    Clients.execute(connection, "alter table jdbc_items add column more int");
                }
            }
        }
    }

    private static void describe(Connection connection) throws Exception {
        DatabaseMetaData metadata = connection.getMetaData();
        try (ResultSet keys = metadata.getPrimaryKeys(null, "public", "jdbc_items")) {
            Clients.check(keys.next() && keys.getString("COLUMN_NAME").equals("id"), "a primary key");
            Clients.check(keys.getShort("KEY_SEQ") == 1, keys.getShort("KEY_SEQ"));
        }
        List<String> columns = new ArrayList<>();
        try (ResultSet rows = metadata.getColumns(null, "public", "jdbc_items", null)) {
            while (rows.next()) {
                columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME"));
            }
        }
        Clients.check(columns.contains("tags _text") && columns.contains("id serial"), columns);
        List<String> indexes = new ArrayList<>();
        try (ResultSet rows = metadata.getIndexInfo(null, "public", "jdbc_items", true, false)) {
            while (rows.next()) {
                indexes.add(rows.getString("INDEX_NAME") + " " + rows.getString("COLUMN_NAME"));
            }
        }
        Clients.check(indexes.contains("jdbc_name name"), indexes);
        Clients.check(metadata.getSQLKeywords().contains("bigserial") || !metadata.getSQLKeywords().isEmpty(), "keywords");
        try (ResultSet rows = metadata.getTables(null, "public", "jdbc%", new String[] {"TABLE"})) {
            Clients.check(rows.next() && rows.getString("TABLE_NAME").equals("jdbc_items"), "tables");
        }
    }
}
