import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.FlywayException;
import org.flywaydb.core.api.MigrationState;
import org.flywaydb.core.api.configuration.FluentConfiguration;
import org.flywaydb.database.postgresql.PostgreSQLConfigurationExtension;

/** The scenarios of Flyway, each in a schema of its own. */
final class FlywayClient {
    private static final String FIRST = "create table items (id int primary key, name text);";
    private static final String SECOND = "insert into items values (1, 'one'), (2, 'two');";

    static Map<String, Clients.Scenario> scenarios() {
        Map<String, Clients.Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("migrate", FlywayClient::migrate);
        scenarios.put("info and validate", FlywayClient::info);
        scenarios.put("repeatable migrations and placeholders", FlywayClient::repeatable);
        scenarios.put("failed migration", FlywayClient::failed);
        scenarios.put("baseline", FlywayClient::baseline);
        scenarios.put("repair", FlywayClient::repair);
        scenarios.put("clean", FlywayClient::clean);
        scenarios.put("two at the same time", FlywayClient::concurrent);
        scenarios.put("statements of scripts", FlywayClient::scripts);
        scenarios.put("functions and triggers in scripts", FlywayClient::functions);
        return scenarios;
    }

    /** A folder of migrations and the schema that they are for. */
    private record Project(Path folder, String schema) {
        static Project of(String schema, String... migrations) throws Exception {
            Path folder = Files.createTempDirectory("flyway");
            for (int i = 0; i < migrations.length; i++) {
                Files.writeString(folder.resolve("V" + (i + 1) + "__step.sql"), migrations[i]);
            }
            return new Project(folder, schema);
        }

        void add(String name, String text) throws Exception {
            Files.writeString(folder.resolve(name), text);
        }

        FluentConfiguration configure() {
            return Flyway.configure()
                    .dataSource(Clients.url(), Clients.user(), "")
                    .schemas(schema)
                    .cleanDisabled(false)
                    .locations("filesystem:" + folder);
        }

        int migrate() {
            return configure().load().migrate().migrationsExecuted;
        }

        List<String> rows(String query) throws Exception {
            try (Connection connection = Clients.connect()) {
                Clients.execute(connection, "set search_path = " + schema);
                return Clients.rows(connection, query);
            }
        }
    }

    private static void migrate() throws Exception {
        Project project = Project.of("flyway_migrate", FIRST, SECOND);
        Clients.same(project.migrate(), 2);
        project.add("V3__more.sql", "alter table items add column more int default 7;");
        Clients.same(project.migrate(), 1);
        Clients.same(project.migrate(), 0);
        Clients.same(project.rows("select more from items where id = 2"), List.of("7"));
        Clients.same(project.rows("select count(*) from flyway_schema_history where success"), List.of("4"));
    }

    private static void info() throws Exception {
        Project project = Project.of("flyway_info", FIRST, SECOND);
        Clients.same(project.configure().target("1").load().migrate().migrationsExecuted, 1);
        Flyway flyway = project.configure().load();
        Clients.same(flyway.info().current().getVersion().toString(), "1");
        Clients.same(flyway.info().pending().length, 1);
        flyway.migrate();
        flyway.validate();
        project.add("V2__step.sql", SECOND + " -- changed");
        Clients.check(!project.configure().load().validateWithResult().validationSuccessful,
                "a changed script is valid");
    }

    private static void repeatable() throws Exception {
        Project project = Project.of("flyway_repeatable", FIRST, "insert into items values (1, '${name}');");
        project.add("R__view.sql", "create or replace view names as select name from items;");
        var configuration = project.configure().placeholders(Map.of("name", "ann"));
        Clients.same(configuration.load().migrate().migrationsExecuted, 3);
        project.add("R__view.sql", "create or replace view names as select name, id from items;");
        Clients.same(configuration.load().migrate().migrationsExecuted, 1);
        Clients.same(project.rows("select * from names"), List.of("ann 1"));
    }

    private static void failed() throws Exception {
        Project project = Project.of("flyway_failed", FIRST, SECOND + " select nosuch;");
        Clients.fails("42703", project::migrate);
        Clients.same(project.rows("select count(*) from items"), List.of("0"));
        project.add("V2__step.sql", SECOND);
        Clients.same(project.migrate(), 1);
    }

    private static void baseline() throws Exception {
        Project project = Project.of("flyway_baseline", FIRST, SECOND);
        Clients.execute("create schema flyway_baseline", "create table flyway_baseline.items (id int, name text)");
        try {
            project.migrate();
            throw new AssertionError("a schema that is not empty was migrated");
        } catch (FlywayException error) {
            Clients.check(error.getMessage().contains("non-empty"), error);
        }
        Flyway flyway = project.configure().baselineVersion("1").load();
        flyway.baseline();
        Clients.same(flyway.migrate().migrationsExecuted, 1);
        Clients.same(flyway.info().applied()[0].getState(), MigrationState.BASELINE);
    }

    private static void repair() throws Exception {
        Project project = Project.of("flyway_repair", FIRST);
        project.migrate();
        project.add("V1__step.sql", FIRST + " -- changed");
        Flyway flyway = project.configure().load();
        flyway.repair();
        flyway.validate();
    }

    private static void clean() throws Exception {
        Project project = Project.of(
                "flyway_clean",
                FIRST,
                "create view names as select name from items; create sequence numbers;"
                        + " create index by_name on items (name);");
        project.migrate();
        project.configure().load().clean();
        String left = "select count(*) from pg_class where relnamespace::regnamespace::text = 'flyway_clean'";
        Clients.same(project.rows(left), List.of("0"));
        Clients.same(project.migrate(), 2);
    }

    private static void concurrent() throws Exception {
        Project project = Project.of("flyway_concurrent", FIRST, SECOND + " select pg_sleep(0.5);");
        Clients.execute("create schema flyway_concurrent");
        var first = CompletableFuture.supplyAsync(project::migrate);
        var second = CompletableFuture.supplyAsync(project::migrate);
        Clients.same(first.get() + second.get(), 2);
    }

    private static void scripts() throws Exception {
        Project project = Project.of(
                "flyway_scripts",
                FIRST + "\n/* a comment; */ insert into items values (1, 'a;b'), (2, $$c;d$$), (3, E'e\\'f');",
                "copy items from stdin;\n10\tten\n11\t\\N\n\\.\n",
                "create index concurrently by_name on items (name);");
        // With Flyway's lock in a transaction, CREATE INDEX CONCURRENTLY would wait for it.
        var configuration = project.configure();
        configuration.getConfigurationExtension(PostgreSQLConfigurationExtension.class).setTransactionalLock(false);
        Clients.same(configuration.load().migrate().migrationsExecuted, 3);
        Clients.same(project.rows("select count(*) from items"), List.of("5"));
    }

    private static void functions() throws Exception {
        Project project = Project.of(
                "flyway_functions",
                FIRST,
                """
                create function note() returns trigger language plpgsql as $$
                begin new.name := upper(new.name); return new; end; $$;
                create trigger noting before insert on items for each row execute function note();
                insert into items values (1, 'x');
                do $$ begin perform 1; end $$;
                """);
        Clients.same(project.migrate(), 2);
        Clients.same(project.rows("select name from items"), List.of("X"));
    }
}
