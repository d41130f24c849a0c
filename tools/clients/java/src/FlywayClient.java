import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import org.flywaydb.core.Flyway;

/** Flyway: two migrations, a third after them, validation, and a schema of its own. */
final class FlywayClient {
    static void run() throws Exception {
        Path folder = Files.createTempDirectory("flyway");
        Files.writeString(folder.resolve("V1__items.sql"), "create table items (id int primary key, name text);");
        Files.writeString(folder.resolve("V2__rows.sql"), "insert into items values (1, 'one'), (2, 'two');");
        try (Connection connection = Clients.connect()) {
            Clients.execute(
                    connection,
                    "drop table if exists flyway_clients.items, flyway_clients.flyway_schema_history",
                    "drop schema if exists flyway_clients");
            Clients.check(migrate(folder) == 2, "the first two");
            Files.writeString(folder.resolve("V3__more.sql"), "alter table items add column more int default 7;");
            Clients.check(migrate(folder) == 1 && migrate(folder) == 0, "the third");
            ResultSet rows = connection.createStatement().executeQuery("select more from flyway_clients.items where id = 2");
            Clients.check(rows.next() && rows.getInt(1) == 7, "a row");
            Clients.execute(
                    connection,
                    "drop table flyway_clients.items, flyway_clients.flyway_schema_history",
                    "drop schema flyway_clients");
        }
    }

    private static int migrate(Path folder) {
        Flyway flyway =
                Flyway.configure()
                        .dataSource(Clients.url(), Clients.user(), "")
                        .schemas("flyway_clients")
                        .locations("filesystem:" + folder)
                        .load();
        int migrations = flyway.migrate().migrationsExecuted;
        flyway.validate();
        return migrations;
    }
}
