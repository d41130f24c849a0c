import jakarta.persistence.CascadeType;
import jakarta.persistence.Column;
import jakarta.persistence.Embeddable;
import jakarta.persistence.Embedded;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Index;
import jakarta.persistence.LockModeType;
import jakarta.persistence.ManyToMany;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.Table;
import jakarta.persistence.Version;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.hibernate.LockMode;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.StaleObjectStateException;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.cfg.Configuration;
import org.hibernate.exception.ConstraintViolationException;
import org.hibernate.type.SqlTypes;

/** The scenarios of Hibernate. */
final class HibernateClient {
    @Entity(name = "Item")
    @Table(name = "hibernate_items", indexes = @Index(name = "hibernate_by_count", columnList = "count desc, name"))
    public static class Item {
        @Id
        @GeneratedValue(strategy = GenerationType.SEQUENCE)
        Long id;

        @Column(unique = true, nullable = false, length = 40)
        String name;

        int count;

        @Version int version;

        Item() {}

        Item(String name) {
            this.name = name;
        }
    }

    @Embeddable
    public static class Address {
        String street;
        String town;
    }

    public enum Mood {
        SAD,
        OK
    }

    @Entity(name = "Typed")
    @Table(name = "hibernate_typed")
    public static class Typed {
        @Id @GeneratedValue UUID id;

        @Column(precision = 10, scale = 2)
        BigDecimal price;

        LocalDate day;
        Instant at;
        Duration length;
        boolean good;
        byte[] data;
        String[] tags;

        @Enumerated(EnumType.STRING)
        Mood mood;

        @Embedded Address address;
    }

    @Entity(name = "Doc")
    @Table(name = "hibernate_docs")
    public static class Doc {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        Long id;

        @JdbcTypeCode(SqlTypes.JSON)
        Map<String, String> doc;
    }

    @Entity(name = "Moody")
    @Table(name = "hibernate_moody")
    public static class Moody {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        Long id;

        @JdbcTypeCode(SqlTypes.NAMED_ENUM)
        Mood mood;
    }

    @Entity(name = "Author")
    @Table(name = "hibernate_authors")
    public static class Author {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        Long id;

        @OneToMany(mappedBy = "author", cascade = CascadeType.ALL)
        List<Book> books = new ArrayList<>();
    }

    @Entity(name = "Book")
    @Table(name = "hibernate_books")
    public static class Book {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        Long id;

        @ManyToOne(optional = false)
        Author author;

        @ManyToMany List<Item> items = new ArrayList<>();
    }

    static Map<String, Clients.Scenario> scenarios() {
        Map<String, Clients.Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("create, read, update, delete", () -> withItems(HibernateClient::crud));
        scenarios.put("schema made, changed, validated and dropped", HibernateClient::schema);
        scenarios.put("queries", () -> withItems(HibernateClient::queries));
        scenarios.put("batches and stateless sessions", () -> withItems(HibernateClient::batches));
        scenarios.put("row locks and versions", () -> withItems(HibernateClient::locks));
        scenarios.put("errors", () -> withItems(HibernateClient::errors));
        scenarios.put("streamed rows", () -> withItems(HibernateClient::streamed));
        scenarios.put("isolation and read-only", () -> withItems(HibernateClient::isolation));
        scenarios.put("types", HibernateClient::types);
        scenarios.put("json type", HibernateClient::json);
        scenarios.put("enum type", HibernateClient::enumType);
        scenarios.put("associations", HibernateClient::associations);
        return scenarios;
    }

    private static SessionFactory open(String schema, Class<?>... entities) {
        Configuration configuration = new Configuration()
                .setProperty("hibernate.connection.url", Clients.url())
                .setProperty("hibernate.connection.username", Clients.user())
                .setProperty("hibernate.jdbc.batch_size", "20")
                .setProperty("hibernate.hbm2ddl.halt_on_error", "true")
                .setProperty("hibernate.hbm2ddl.auto", schema);
        for (Class<?> entity : entities) {
            configuration.addAnnotatedClass(entity);
        }
        return configuration.buildSessionFactory();
    }

    interface Action {
        void run(SessionFactory factory) throws Exception;
    }

    /** Runs an action on a table of three items. */
    private static void withItems(Action action) throws Exception {
        Clients.execute("drop table if exists hibernate_items", "drop sequence if exists hibernate_items_seq");
        try (SessionFactory factory = open("create-drop", Item.class)) {
            factory.inTransaction(session -> List.of("a", "b", "c").forEach(name -> session.persist(new Item(name))));
            action.run(factory);
        }
    }

    private static Item byName(Session session, String name) {
        return session.createQuery("from Item i where i.name = :name", Item.class)
                .setParameter("name", name)
                .getSingleResult();
    }

    private static void crud(SessionFactory factory) {
        factory.inTransaction(session -> {
            byName(session, "a").count++;
            session.remove(byName(session, "b"));
        });
        List<Integer> counts = factory.fromTransaction(
                session -> session.createQuery("select count from Item order by name", Integer.class).list());
        Clients.same(counts, List.of(1, 0));
    }

    private static void schema() throws Exception {
        Clients.execute("drop table if exists hibernate_items", "drop sequence if exists hibernate_items_seq");
        open("create-only", Item.class).close();
        open("validate", Item.class).close();
        Clients.execute("alter table hibernate_items drop column count");
        open("update", Item.class).close();
        open("validate", Item.class).close();
        open("create", Item.class).close();
        open("create-drop", Item.class).close();
        try (var connection = Clients.connect()) {
            Clients.same(Clients.rows(connection, "select to_regclass('hibernate_items')"), List.of("null"));
        }
    }

    private static void queries(SessionFactory factory) {
        factory.inTransaction(session -> {
            String update = "update Item set count = count + length(name) where name <> 'c'";
            session.createMutationQuery(update).executeUpdate();
            Clients.same(session.createQuery("select sum(count) from Item", Long.class).getSingleResult(), 2L);
            var page = session.createQuery("from Item order by name", Item.class).setFirstResult(1).setMaxResults(1);
            Clients.same(page.getSingleResult().name, "b");
            String grouped = "select count, count(*) from Item group by count having count(*) > 1";
            Clients.same(session.createQuery(grouped, Object[].class).list().size(), 1);
            String windows = "select name, row_number() over (order by name desc) from Item order by name";
            Clients.same(session.createQuery(windows, Object[].class).list().get(0)[1], 3L);
            String nested = "from Item i where i.count = (select max(j.count) from Item j) and upper(i.name) like 'A%'";
            Clients.same(session.createQuery(nested, Item.class).list().size(), 1);
            var builder = session.getCriteriaBuilder();
            var criteria = builder.createQuery(Item.class);
            var root = criteria.from(Item.class);
            criteria.where(builder.or(builder.equal(root.get("name"), "a"), builder.gt(root.get("count"), 5)));
            Clients.same(session.createQuery(criteria).list().size(), 1);
            String sql = "with rich as (select * from hibernate_items where count > 0)"
                    + " select name from rich order by 1";
            Clients.same(session.createNativeQuery(sql, String.class).list(), List.of("a", "b"));
            String dates = "select extract(year from local date), current timestamp, str(1), cast('5' as Integer)";
            Clients.same(session.createQuery(dates, Object[].class).getSingleResult()[3], 5);
        });
    }

    private static void batches(SessionFactory factory) {
        factory.inTransaction(session -> {
            for (int i = 0; i < 200; i++) {
                session.persist(new Item("item " + i));
            }
        });
        factory.inStatelessTransaction(session -> {
            Item item = new Item("stateless");
            session.insert(item);
            item.count = 4;
            session.update(item);
            session.upsert(item);
            session.delete(item);
        });
        Clients.same(
                factory.fromTransaction(session -> session.createQuery("select count(*) from Item",
                        Long.class).uniqueResult()),
                203L);
    }

    private static void locks(SessionFactory factory) {
        factory.inTransaction(session -> {
            Item item = byName(session, "a");
            session.lock(item, LockModeType.PESSIMISTIC_WRITE);
            session.refresh(byName(session, "b"), LockModeType.PESSIMISTIC_READ);
            var query = session.createQuery("from Item", Item.class).setHibernateLockMode(LockMode.UPGRADE_SKIPLOCKED);
            Clients.same(query.list().size(), 3);
        });
        Item stale = factory.fromTransaction(session -> byName(session, "a"));
        factory.inTransaction(session -> byName(session, "a").count = 5);
        stale.count = 6;
        try {
            factory.inTransaction(session -> session.merge(stale));
            throw new AssertionError("a stale item was written");
        } catch (StaleObjectStateException | jakarta.persistence.OptimisticLockException expected) {
            Clients.check(expected.getMessage() != null, expected);
        }
    }

    private static void errors(SessionFactory factory) {
        try {
            factory.inTransaction(session -> session.persist(new Item("a")));
            throw new AssertionError("UNIQUE is not kept");
        } catch (ConstraintViolationException error) {
            Clients.check("23505".equals(error.getSQLState()) && error.getConstraintName() != null, error);
        }
    }

    private static void streamed(SessionFactory factory) {
        factory.inTransaction(session -> {
            String sql = "select n from generate_series(1, 500) as n";
            var rows = session.createNativeQuery(sql, Integer.class).setFetchSize(50).getResultStream();
            Clients.same(rows.mapToInt(Integer::intValue).sum(), 125250);
        });
    }

    private static void isolation(SessionFactory factory) {
        factory.inSession(session -> {
            session.doWork(connection ->
                    connection.setTransactionIsolation(java.sql.Connection.TRANSACTION_SERIALIZABLE));
            var transaction = session.beginTransaction();
            session.setDefaultReadOnly(true);
            byName(session, "a").count = 77;
            transaction.commit();
        });
        Clients.same(factory.fromTransaction(session -> byName(session, "a").count), 0);
    }

    private static void types() throws Exception {
        Clients.execute("drop table if exists hibernate_typed");
        try (SessionFactory factory = open("create-drop", Typed.class)) {
            Typed given = new Typed();
            given.price = new BigDecimal("1.50");
            given.day = LocalDate.of(2024, 2, 29);
            given.at = Instant.parse("2024-02-29T12:00:00Z");
            given.length = Duration.ofSeconds(5);
            given.good = true;
            given.data = new byte[] {0, -1};
            given.tags = new String[] {"a", "b,"};
            given.mood = Mood.OK;
            given.address = new Address();
            given.address.town = "Wien";
            factory.inTransaction(session -> session.persist(given));
            Typed found = factory.fromTransaction(session -> session.find(Typed.class, given.id));
            Clients.same(
                    List.of(found.price, found.day, found.at, found.length, found.good, found.tags[1], found.mood),
                    List.of(given.price, given.day, given.at, given.length, true, "b,", Mood.OK));
            Clients.same(found.address.town, "Wien");
        }
    }

    private static void json() throws Exception {
        Clients.execute("drop table if exists hibernate_docs");
        try (SessionFactory factory = open("create-drop", Doc.class)) {
            Doc given = new Doc();
            given.doc = Map.of("a", "b");
            factory.inTransaction(session -> session.persist(given));
            Clients.same(factory.fromTransaction(session -> session.find(Doc.class, given.id).doc), given.doc);
        }
    }

    private static void enumType() throws Exception {
        Clients.execute("drop table if exists hibernate_moody");
        try (SessionFactory factory = open("create-drop", Moody.class)) {
            Moody given = new Moody();
            given.mood = Mood.OK;
            factory.inTransaction(session -> session.persist(given));
            Clients.same(factory.fromTransaction(session -> session.find(Moody.class, given.id).mood), Mood.OK);
        }
    }

    private static void associations() throws Exception {
        Clients.execute("drop table if exists hibernate_books_hibernate_items, hibernate_books, hibernate_authors");
        try (SessionFactory factory = open("create-drop", Author.class, Book.class, Item.class)) {
            Author author = new Author();
            Book book = new Book();
            book.author = author;
            author.books.add(book);
            factory.inTransaction(session -> {
                Item item = new Item("linked");
                session.persist(item);
                book.items.add(item);
                session.persist(author);
            });
            String query = "select a from Author a join fetch a.books b where size(b.items) = 1";
            Clients.same(factory.fromTransaction(session -> session.createQuery(query, Author.class).list().size()), 1);
            Clients.fails("23503", () -> Clients.execute("delete from hibernate_authors"));
        }
    }
}
