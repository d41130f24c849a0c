import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import liquibase.Contexts;
import liquibase.Liquibase;
import liquibase.database.Database;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.resource.DirectoryResourceAccessor;

/** Liquibase: a change log in two steps, and going one change back. */
final class LiquibaseClient {
    private static final String CHANGES =
            """
            <databaseChangeLog
                xmlns="http://www.liquibase.org/xml/ns/dbchangelog"
                xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
                xsi:schemaLocation="http://www.liquibase.org/xml/ns/dbchangelog
                    http://www.liquibase.org/xml/ns/dbchangelog/dbchangelog-latest.xsd">
              <changeSet id="1" author="clients">
                <createTable tableName="liquibase_items">
                  <column name="id" type="int" autoIncrement="true"><constraints primaryKey="true"/></column>
                  <column name="name" type="varchar(40)"><constraints nullable="false" unique="true"/></column>
                </createTable>
                <insert tableName="liquibase_items"><column name="name" value="one"/></insert>
              </changeSet>
              <changeSet id="2" author="clients">
                <addColumn tableName="liquibase_items"><column name="count" type="bigint" defaultValueNumeric="3"/></addColumn>
                <createIndex tableName="liquibase_items" indexName="liquibase_by_count"><column name="count"/></createIndex>
              </changeSet>
            </databaseChangeLog>
            """;

    static void run() throws Exception {
        Path folder = Files.createTempDirectory("liquibase");
        Files.writeString(folder.resolve("changes.xml"), CHANGES);
        drop();
        try (Connection connection = Clients.connect()) {
            Database database =
                    DatabaseFactory.getInstance().findCorrectDatabaseImplementation(new JdbcConnection(connection));
            Liquibase liquibase = new Liquibase("changes.xml", new DirectoryResourceAccessor(folder), database);
            liquibase.update(new Contexts());
            liquibase.update(new Contexts());
            try (Connection other = Clients.connect()) {
                ResultSet rows = other.createStatement().executeQuery("select name, count from liquibase_items");
                Clients.check(rows.next() && rows.getInt(2) == 3 && !rows.next(), "a row");
            }
            liquibase.rollback(1, "");
            Clients.check(liquibase.listUnrunChangeSets(new Contexts(), null).size() == 1, "one change back");
        }
        drop();
    }

    private static void drop() throws Exception {
        try (Connection connection = Clients.connect()) {
            Clients.execute(
                    connection, "drop table if exists liquibase_items, databasechangelog, databasechangeloglock");
        }
    }
}
