import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** The scenarios of HikariCP. */
final class HikariClient {
    static Map<String, Clients.Scenario> scenarios() {
        Map<String, Clients.Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("pool under load", HikariClient::load);
        scenarios.put("settings of connections", HikariClient::settings);
        scenarios.put("state is reset on return", HikariClient::reset);
        scenarios.put("terminated connections are replaced", HikariClient::replaced);
        scenarios.put("exhausted pool", HikariClient::exhausted);
        return scenarios;
    }

    private static HikariConfig config() {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(Clients.url());
        config.setUsername(Clients.user());
        config.setMaximumPoolSize(4);
        config.setConnectionTimeout(2000);
        return config;
    }

    private static void load() throws Exception {
        try (HikariDataSource pool = new HikariDataSource(config());
                var threads = new AutoThreads()) {
            Clients.execute("drop table if exists hikari_n", "create table hikari_n as select 0 as n");
            List<Future<?>> done = new ArrayList<>();
            for (int i = 0; i < 50; i++) {
                done.add(threads.submit(() -> {
                    try (Connection connection = pool.getConnection()) {
                        Clients.execute(connection, "update hikari_n set n = n + 1");
                    }
                    return null;
                }));
            }
            for (Future<?> one : done) {
                one.get();
            }
            try (Connection connection = pool.getConnection()) {
                Clients.same(Clients.rows(connection, "select n from hikari_n"), List.of("50"));
            }
            Clients.check(pool.getHikariPoolMXBean().getTotalConnections() <= 4, "too many connections");
        }
    }

    /** Threads that end with a block. */
    private static final class AutoThreads implements AutoCloseable {
        private final java.util.concurrent.ExecutorService service = Executors.newFixedThreadPool(8);

        Future<?> submit(java.util.concurrent.Callable<?> task) {
            return service.submit(task);
        }

        @Override
        public void close() {
            service.shutdownNow();
        }
    }

    private static void settings() throws Exception {
        HikariConfig config = config();
        config.setTransactionIsolation("TRANSACTION_SERIALIZABLE");
        config.setReadOnly(true);
        config.setSchema("public");
        config.setConnectionInitSql("set statement_timeout = '7s'");
        config.setConnectionTestQuery("select 1");
        config.addDataSourceProperty("ApplicationName", "hikari");
        try (HikariDataSource pool = new HikariDataSource(config);
                Connection connection = pool.getConnection()) {
            Clients.same(Clients.rows(connection, "show transaction_isolation"), List.of("serializable"));
            Clients.check(connection.isReadOnly(), "read only");
            Clients.same(Clients.rows(connection, "show statement_timeout"), List.of("7s"));
            Clients.same(Clients.rows(connection, "show application_name"), List.of("hikari"));
        }
    }

    private static void reset() throws Exception {
        HikariConfig config = config();
        config.setMaximumPoolSize(1);
        Clients.execute("drop table if exists hikari_reset", "create table hikari_reset (id int)");
        try (HikariDataSource pool = new HikariDataSource(config)) {
            try (Connection connection = pool.getConnection()) {
                connection.setAutoCommit(false);
                connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
                Clients.execute(connection, "insert into hikari_reset values (1)");
            }
            try (Connection connection = pool.getConnection()) {
                Clients.check(connection.getAutoCommit(), "autocommit");
                Clients.same(Clients.rows(connection, "show transaction_isolation"), List.of("read committed"));
                Clients.same(Clients.rows(connection, "select count(*) from hikari_reset"), List.of("0"));
            }
        }
    }

    private static void replaced() throws Exception {
        HikariConfig config = config();
        config.setMaximumPoolSize(1);
        try (HikariDataSource pool = new HikariDataSource(config)) {
            String pid;
            try (Connection connection = pool.getConnection()) {
                pid = Clients.rows(connection, "select pg_backend_pid()").get(0);
            }
            Clients.execute("select pg_terminate_backend(" + pid + ")");
            Thread.sleep(700);
            try (Connection connection = pool.getConnection()) {
                Clients.check(!Clients.rows(connection, "select pg_backend_pid()").get(0).equals(pid), "the same");
            }
        }
    }

    private static void exhausted() throws Exception {
        HikariConfig config = config();
        config.setMaximumPoolSize(1);
        config.setConnectionTimeout(300);
        try (HikariDataSource pool = new HikariDataSource(config);
                Connection held = pool.getConnection()) {
            try (Connection second = pool.getConnection()) {
                throw new AssertionError("a second connection");
            } catch (SQLException error) {
                Clients.check(error.getMessage().contains("not available"), error);
            }
            Clients.same(Clients.rows(held, "select 1"), List.of("1"));
        }
    }
}
