import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;

/** Runs one client's scenario against CLIENT_URL; exits with 0 if it passes. */
public final class Clients {
    interface Scenario {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Scenario scenario = switch (arguments[0]) {
            case "pgjdbc" -> Pgjdbc::run;
            case "flyway" -> FlywayClient::run;
            case "liquibase" -> LiquibaseClient::run;
            case "hibernate" -> HibernateClient::run;
            default -> throw new IllegalArgumentException(arguments[0]);
        };
        scenario.run();
        System.exit(0);
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
        return DriverManager.getConnection(url(), user(), "");
    }

    static void execute(Connection connection, String... commands) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String command : commands) {
                statement.execute(command);
            }
        }
    }

    static void check(boolean holds, Object seen) {
        if (!holds) {
            throw new AssertionError(String.valueOf(seen));
        }
    }
}
