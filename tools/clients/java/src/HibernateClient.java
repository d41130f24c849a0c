import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.LockModeType;
import jakarta.persistence.Table;
import java.util.List;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.hibernate.exception.ConstraintViolationException;

/** Hibernate: the schema made, kept and dropped by it, entities changed and locked, a constraint's name in an error. */
final class HibernateClient {
    @Entity(name = "Item")
    @Table(name = "hibernate_items")
    public static class Item {
        @Id
        @GeneratedValue(strategy = GenerationType.SEQUENCE)
        Long id;

        @Column(unique = true, nullable = false, length = 40)
        String name;

        int count;

        Item() {}

        Item(String name) {
            this.name = name;
        }
    }

    private static SessionFactory open(String schema) {
        return new Configuration()
                .addAnnotatedClass(Item.class)
                .setProperty("hibernate.connection.url", Clients.url())
                .setProperty("hibernate.connection.username", Clients.user())
                .setProperty("hibernate.hbm2ddl.auto", schema)
                .buildSessionFactory();
    }

    static void run() {
        try (SessionFactory factory = open("create")) {
            factory.inTransaction(session -> List.of("a", "b", "c").forEach(name -> session.persist(new Item(name))));
            factory.inTransaction(session -> {
                Item item = byName(session, "a");
                session.lock(item, LockModeType.PESSIMISTIC_WRITE);
                item.count++;
                session.remove(byName(session, "b"));
            });
            try {
                factory.inTransaction(session -> session.persist(new Item("a")));
                throw new AssertionError("UNIQUE is not kept");
            } catch (ConstraintViolationException error) {
                Clients.check("23505".equals(error.getSQLState()) && error.getConstraintName() != null, error);
            }
        }
        // The tables are compared with the entities, and then dropped.
        open("update").close();
        open("validate").close();
        try (SessionFactory factory = open("create-drop")) {
            factory.inTransaction(session -> session.persist(new Item("a")));
        }
    }

    private static Item byName(org.hibernate.Session session, String name) {
        return session.createQuery("from Item i where i.name = :name", Item.class)
                .setParameter("name", name)
                .getSingleResult();
    }
}
