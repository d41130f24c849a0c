import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import liquibase.CatalogAndSchema;
import liquibase.Contexts;
import liquibase.LabelExpression;
import liquibase.Liquibase;
import liquibase.database.Database;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.diff.compare.CompareControl;
import liquibase.diff.output.DiffOutputControl;
import liquibase.diff.output.changelog.DiffToChangeLog;
import liquibase.resource.DirectoryResourceAccessor;
import liquibase.snapshot.DatabaseSnapshot;
import liquibase.snapshot.SnapshotControl;
import liquibase.snapshot.SnapshotGeneratorFactory;
import liquibase.structure.core.Column;
import liquibase.structure.core.Index;
import liquibase.structure.core.Table;

/** The scenarios of Liquibase. */
final class LiquibaseClient {
    private static final String HEAD =
            """
            <databaseChangeLog
                xmlns="http://www.liquibase.org/xml/ns/dbchangelog"
                xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
                xsi:schemaLocation="http://www.liquibase.org/xml/ns/dbchangelog
                    http://www.liquibase.org/xml/ns/dbchangelog/dbchangelog-latest.xsd">
            """;

    private static final String ITEMS =
            """
            <changeSet id="1" author="clients">
              <createTable tableName="liquibase_items" remarks="the items">
                <column name="id" type="int" autoIncrement="true"><constraints primaryKey="true"/></column>
                <column name="name" type="varchar(40)"><constraints nullable="false" unique="true"/></column>
              </createTable>
              <insert tableName="liquibase_items"><column name="name" value="one"/></insert>
            </changeSet>
            <changeSet id="2" author="clients">
              <addColumn tableName="liquibase_items">
                <column name="count" type="bigint" defaultValueNumeric="3"/>
              </addColumn>
              <createIndex tableName="liquibase_items" indexName="liquibase_by_count">
                <column name="count"/>
              </createIndex>
            </changeSet>
            """;

    interface Action {
        void run(Liquibase liquibase, Connection connection) throws Exception;
    }

    static Map<String, Clients.Scenario> scenarios() {
        Map<String, Clients.Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("update and rollback", () -> with(ITEMS, LiquibaseClient::updateAndRollback));
        scenarios.put("tag and rollback to it", () -> with(ITEMS, LiquibaseClient::tag));
        scenarios.put("update as SQL", () -> with(ITEMS, LiquibaseClient::updateSql));
        scenarios.put("other changes", () -> with(CHANGES, LiquibaseClient::changes));
        scenarios.put("preconditions", () -> with(PRECONDITIONS, LiquibaseClient::preconditions));
        scenarios.put("foreign keys", () -> with(FOREIGN_KEYS, (liquibase, connection) ->
                liquibase.update(new Contexts())));
        scenarios.put("functions in SQL", () -> with(FUNCTIONS, (liquibase, connection) ->
                liquibase.update(new Contexts())));
        scenarios.put("snapshot", () -> with(ITEMS, LiquibaseClient::snapshot));
        scenarios.put("change log of a database", () -> with(ITEMS, LiquibaseClient::changeLog));
        scenarios.put("drop all", () -> with(ITEMS, LiquibaseClient::dropAll));
        return scenarios;
    }

    /** Runs an action on an empty schema, with a change log. */
    private static void with(String changes, Action action) throws Exception {
        Path folder = Files.createTempDirectory("liquibase");
        Files.writeString(folder.resolve("changes.xml"), HEAD + changes + "</databaseChangeLog>\n");
        Clients.execute(
                "drop view if exists liquibase_view",
                "drop table if exists liquibase_child, liquibase_items, databasechangelog, databasechangeloglock");
        try (Connection connection = Clients.connect();
                Connection reader = Clients.connect()) {
            Database database =
                    DatabaseFactory.getInstance().findCorrectDatabaseImplementation(new JdbcConnection(connection));
            action.run(new Liquibase("changes.xml", new DirectoryResourceAccessor(folder), database), reader);
        }
    }

    private static void updateAndRollback(Liquibase liquibase, Connection reader) throws Exception {
        liquibase.update(new Contexts());
        liquibase.update(new Contexts());
        Clients.same(Clients.rows(reader, "select name, count from liquibase_items"), List.of("one 3"));
        liquibase.rollback(1, "");
        Clients.same(liquibase.listUnrunChangeSets(new Contexts(), null).size(), 1);
        Clients.same(Clients.rows(reader, "select * from liquibase_items"), List.of("1 one"));
        liquibase.update(new Contexts());
        liquibase.validate();
    }

    private static void tag(Liquibase liquibase, Connection reader) throws Exception {
        liquibase.update(1, "");
        liquibase.tag("first");
        Clients.check(liquibase.tagExists("first"), "the tag");
        liquibase.update(new Contexts());
        liquibase.rollback("first", new Contexts());
        Clients.same(Clients.rows(reader, "select * from liquibase_items"), List.of("1 one"));
    }

    private static void updateSql(Liquibase liquibase, Connection reader) throws Exception {
        StringWriter out = new StringWriter();
        liquibase.update(new Contexts(), new LabelExpression(), out);
        Clients.check(out.toString().contains("CREATE TABLE public.liquibase_items"), out);
        Clients.same(liquibase.listLocks().length, 0);
    }

    private static final String CHANGES = ITEMS
            + """
            <changeSet id="3" author="clients">
              <renameColumn tableName="liquibase_items" oldColumnName="name" newColumnName="title"/>
              <modifyDataType tableName="liquibase_items" columnName="title" newDataType="text"/>
              <addNotNullConstraint tableName="liquibase_items" columnName="count" defaultNullValue="0"/>
              <dropNotNullConstraint tableName="liquibase_items" columnName="title"/>
              <addDefaultValue tableName="liquibase_items" columnName="title" defaultValue="none"/>
              <createView viewName="liquibase_view">select title from liquibase_items</createView>
              <createSequence sequenceName="liquibase_numbers" startValue="5"/>
              <dropSequence sequenceName="liquibase_numbers"/>
              <update tableName="liquibase_items"><column name="count" valueNumeric="9"/><where>id = 1</where></update>
              <delete tableName="liquibase_items"><where>id = 99</where></delete>
              <setColumnRemarks tableName="liquibase_items" columnName="title" remarks="a title"/>
              <sql splitStatements="true">insert into liquibase_items (title) values ('a'); select 1;</sql>
            </changeSet>
            """;

    private static void changes(Liquibase liquibase, Connection reader) throws Exception {
        liquibase.update(new Contexts());
        Clients.same(Clients.rows(reader, "select * from liquibase_view order by 1"), List.of("a", "one"));
    }

    private static final String PRECONDITIONS = ITEMS
            + """
            <changeSet id="3" author="clients">
              <preConditions onFail="MARK_RAN">
                <tableExists tableName="liquibase_items"/>
                <columnExists tableName="liquibase_items" columnName="count"/>
                <indexExists indexName="liquibase_by_count"/>
                <primaryKeyExists tableName="liquibase_items"/>
                <not><viewExists viewName="liquibase_view"/></not>
                <not><sequenceExists sequenceName="nosuch"/></not>
                <sqlCheck expectedResult="1">select count(*) from liquibase_items</sqlCheck>
                <dbms type="postgresql"/>
              </preConditions>
              <insert tableName="liquibase_items"><column name="name" value="checked"/></insert>
            </changeSet>
            """;

    private static void preconditions(Liquibase liquibase, Connection reader) throws Exception {
        liquibase.update(new Contexts());
        Clients.same(Clients.rows(reader, "select count(*) from liquibase_items"), List.of("2"));
    }

    private static final String FOREIGN_KEYS = ITEMS
            + """
            <changeSet id="3" author="clients">
              <createTable tableName="liquibase_child"><column name="item" type="int"/></createTable>
              <addForeignKeyConstraint baseTableName="liquibase_child" baseColumnNames="item"
                  constraintName="liquibase_fk"
                  referencedTableName="liquibase_items" referencedColumnNames="id" onDelete="CASCADE"/>
            </changeSet>
            """;

    private static final String FUNCTIONS =
            """
            <changeSet id="1" author="clients">
              <sql splitStatements="false">create or replace function liquibase_one() returns int language plpgsql as
                $$ begin return 1; end $$</sql>
            </changeSet>
            """;

    private static void snapshot(Liquibase liquibase, Connection reader) throws Exception {
        liquibase.update(new Contexts());
        Database database = liquibase.getDatabase();
        DatabaseSnapshot found = SnapshotGeneratorFactory.getInstance()
                .createSnapshot(CatalogAndSchema.DEFAULT, database, new SnapshotControl(database));
        Table items = found.get(Table.class).stream().filter(t ->
                t.getName().equals("liquibase_items")).findFirst().get();
        Clients.same(items.getColumns().stream().map(Column::getName).toList(), List.of("id", "name", "count"));
        Clients.check(found.get(Index.class).stream().anyMatch(i -> i.getName().equals("liquibase_by_count")),
                "the index");
    }

    private static void changeLog(Liquibase liquibase, Connection reader) throws Exception {
        liquibase.update(new Contexts());
        Path made = Files.createTempDirectory("liquibase").resolve("made.xml");
        var report = liquibase.diff(liquibase.getDatabase(), null, new CompareControl());
        new DiffToChangeLog(report, new DiffOutputControl(true, true, false, null)).print(made.toString());
        String text = Files.readString(made);
        Clients.check(text.contains("liquibase_by_count") && text.contains("VARCHAR(40)"), text);
    }

    private static void dropAll(Liquibase liquibase, Connection reader) throws Exception {
        liquibase.update(new Contexts());
        liquibase.dropAll();
        Clients.same(
                Clients.rows(reader,
                        "select count(*) from information_schema.tables where table_name like 'liquibase%'"),
                List.of("0"));
    }
}
