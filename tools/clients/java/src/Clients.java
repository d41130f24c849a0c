import java.io.PrintStream;
import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Runs the scenarios of one client against CLIENT_URL, and goes on after one that fails. */
public final class Clients {
    private static final int SECONDS = 20;

    interface Scenario {
        void run() throws Exception;
    }

    public static void main(String[] arguments) {
        // Some clients print what they do.
        PrintStream out = System.out;
        System.setOut(System.err);
        Map<String, Scenario> scenarios =
                switch (arguments[0]) {
                    case "pgjdbc" -> Pgjdbc.scenarios();
                    case "hikari" -> HikariClient.scenarios();
                    case "flyway" -> FlywayClient.scenarios();
                    case "liquibase" -> LiquibaseClient.scenarios();
                    case "hibernate" -> HibernateClient.scenarios();
                    case "jooq" -> JooqClient.scenarios();
                    default -> throw new IllegalArgumentException(arguments[0]);
                };
        out.println("version " + version(arguments[0]));
        String only = Objects.requireNonNullElse(System.getenv("CLIENT_ONLY"), "");
        scenarios.forEach((name, scenario) -> {
            if (name.contains(only)) {
                attempt(out, name, scenario);
            }
        });
        out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void attempt(PrintStream out, String name, Scenario scenario) {
        Throwable failure = null;
        try {
            CompletableFuture.runAsync(() -> {
                try {
                    scenario.run();
                } catch (Throwable error) {
                    throw new java.util.concurrent.CompletionException(error);
                }
            }, task -> new Thread(task).start()).get(SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            failure = error.getCause();
        } catch (TimeoutException | InterruptedException error) {
            failure = new TimeoutException("no end after " + SECONDS + " s");
        }
        if (failure == null) {
            out.println("ok " + name);
            return;
        }
        out.println("FAIL " + name + ": " + describe(failure));
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            out.println("  " + cause.toString().replace("\n", "\n  "));
            Arrays.stream(cause.getStackTrace()).limit(6).forEach(frame -> out.println("    at " + frame));
        }
    }

    /** The innermost error of a driver, else the innermost error, on one line. */
    private static String describe(Throwable failure) {
        Throwable chosen = failure;
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            chosen = cause;
        }
        SQLException ofDriver = sqlError(failure);
        String state = ofDriver == null ? "" : " " + ofDriver.getSQLState();
        chosen = ofDriver == null ? chosen : ofDriver;
        String text = chosen.getClass().getSimpleName() + state + ": " + chosen.getMessage();
        return text.replaceAll("\\s+", " ");
    }

    private static SQLException sqlError(Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException error && error.getSQLState() != null) {
                return error;
            }
        }
        return null;
    }

    private static String version(String client) {
        String artifact = Map.of(
                "pgjdbc", "postgresql/postgresql",
                "hikari", "HikariCP",
                "flyway", "flyway-core",
                "liquibase", "liquibase-core",
                "hibernate", "hibernate-core",
                "jooq", "jooq/jooq").get(client);
        return Arrays.stream(System.getProperty("java.class.path").split(":"))
                .filter(path -> path.contains("/" + artifact + "/"))
                .map(path -> path.replaceAll(".*/" + artifact + "/([^/]+)/.*", "$1"))
                .findFirst()
                .orElse("");
    }

    static URI server() {
        return URI.create(System.getenv("CLIENT_URL"));
    }

    static String url() {
        return "jdbc:postgresql://" + server().getHost() + ":" + server().getPort() + server().getPath();
    }

    static String user() {
        return server().getUserInfo().split(":")[0];
    }

    static Connection connect() throws SQLException {
        return connect("");
    }

    static Connection connect(String settings) throws SQLException {
        return DriverManager.getConnection(url() + settings, user(), "");
    }

    static void execute(Connection connection, String... commands) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String command : commands) {
                statement.execute(command);
            }
        }
    }

    /** Runs commands in a connection of their own. */
    static void execute(String... commands) throws SQLException {
        try (Connection connection = connect()) {
            execute(connection, commands);
        }
    }

    /** The rows of a query, each with its columns joined by a space. */
    static List<String> rows(Connection connection, String query) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            return rows(statement.executeQuery(query));
        }
    }

    static List<String> rows(ResultSet found) throws SQLException {
        List<String> rows = new ArrayList<>();
        while (found.next()) {
            List<String> row = new ArrayList<>();
            for (int column = 1; column <= found.getMetaData().getColumnCount(); column++) {
                row.add(found.getString(column));
            }
            rows.add(String.join(" ", row.stream().map(String::valueOf).toList()));
        }
        return rows;
    }

    static void same(Object found, Object expected) {
        check(Objects.equals(found, expected), found + ", expected " + expected);
    }

    static void check(boolean holds, Object seen) {
        if (!holds) {
            throw new AssertionError(String.valueOf(seen));
        }
    }

    /** Requires that an action fails with a SQLSTATE, and returns the driver's error. */
    static SQLException fails(String state, Scenario action) throws Exception {
        try {
            action.run();
        } catch (Exception error) {
            SQLException ofDriver = sqlError(error);
            if (ofDriver == null || !ofDriver.getSQLState().equals(state)) {
                throw error;
            }
            return ofDriver;
        }
        throw new AssertionError("no error, expected " + state);
    }
}
