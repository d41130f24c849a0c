//! Nothing is accepted and ignored: a setting or clause has its effect, is refused, or answers with a NOTICE.

use crate::support::{database, ok, run, value};
use gnomon_sql::session::{Session, SessionOptions, SqlDatabase};

fn session() -> Session {
    database().session(SessionOptions::default()).expect("a session")
}

/// The outcome of a clause.
enum Outcome {
    /// It has its effect, or asks for nothing.
    Works,
    /// A NOTICE that begins like this.
    Notice(&'static str),
    /// An error of this state.
    Refused(&'static str),
}

use Outcome::{Notice, Refused, Works};

#[rustfmt::skip]
const CLAUSES: &[(&str, Outcome)] = &[
    ("CREATE TABLE n (a int) WITH (fillfactor = 70)", Notice("storage parameter \"fillfactor\" has no effect")),
    ("CREATE TABLE n (a int) WITH (autovacuum_enabled = false)", Notice("storage parameter \"autovacuum_enabled\" has no effect")),
    ("CREATE TABLE n (a int) WITH (nosuch = 1)", Refused("22023")),
    ("CREATE TABLE n (a int) TABLESPACE pg_default", Works),
    ("CREATE TABLE n (a int) TABLESPACE nosuch", Refused("42704")),
    ("CREATE UNLOGGED TABLE n (a int)", Notice("UNLOGGED has no effect")),
    ("CREATE TEMP TABLE n (a int)", Refused("0A000")),
    ("CREATE OR REPLACE TABLE n (a int)", Refused("42601")),
    ("CREATE TRANSIENT TABLE n (a int)", Refused("42601")),
    ("CREATE VOLATILE TABLE n (a int)", Refused("42601")),
    ("CREATE TABLE n (a int) ENGINE = innodb", Refused("42601")),
    ("CREATE TABLE n (a int) COMMENT 'x'", Refused("42601")),
    ("CREATE TABLE n (a int) COMMENT = 'x'", Refused("42601")),
    ("CREATE TABLE n (a int) DEFAULT CHARSET = utf8", Refused("42601")),
    ("CREATE TABLE n (a int) COLLATE = utf8", Refused("42601")),
    ("CREATE TABLE n (a int) AUTO_INCREMENT = 5", Refused("42601")),
    ("CREATE TABLE n (a int) ORDER BY a", Refused("42601")),
    ("CREATE TABLE n (a int) LOCATION 'x'", Refused("42601")),
    ("CREATE TABLE n (a int) STORED AS parquet", Refused("42601")),
    ("CREATE TABLE n (a int) ROW FORMAT DELIMITED", Refused("42601")),
    ("CREATE TABLE n (a int) DISTKEY(a)", Refused("42601")),
    ("CREATE TABLE n (a int) DISTSTYLE ALL", Refused("42601")),
    ("CREATE TABLE n (a int) BACKUP NO", Refused("42601")),
    ("CREATE TABLE n (a int) INHERITS (t)", Refused("0A000")),
    ("CREATE TABLE n (LIKE t)", Works),
    ("CREATE TABLE n (a int) ON COMMIT DROP", Refused("42P16")),
    ("CREATE TABLE n (a int CHECK (a > 0) NO INHERIT)", Refused("0A000")),
    ("CREATE TABLE n (a int, CHECK (a > 0) NO INHERIT)", Refused("0A000")),
    ("CREATE TABLE n (a int CHECK (a > 0) NOT ENFORCED)", Refused("42601")),
    ("CREATE TABLE n (a int, CHECK (a > 0) NOT ENFORCED)", Refused("42601")),
    ("CREATE TABLE n (a int UNIQUE DEFERRABLE)", Refused("0A000")),
    ("CREATE TABLE n (a int, UNIQUE NULLS NOT DISTINCT (a))", Refused("0A000")),
    ("CREATE TABLE n (a int, PRIMARY KEY (a) INCLUDE (a))", Refused("0A000")),
    ("CREATE TABLE n (a int, PRIMARY KEY (a) USING BTREE)", Refused("42601")),
    ("CREATE TABLE n (a int, PRIMARY KEY (a) COMMENT 'x')", Refused("42601")),
    ("CREATE TABLE n (a int REFERENCES t)", Refused("0A000")),
    ("CREATE TABLE n (a int GENERATED ALWAYS AS (1) STORED)", Refused("0A000")),
    ("CREATE TABLE n (a int AUTO_INCREMENT)", Refused("42601")),
    ("CREATE TABLE n (a int PRIMARY KEY AUTOINCREMENT, b text)", Refused("42601")),
    ("CREATE TABLE n (a int PRIMARY KEY DESC)", Refused("42601")),
    ("CREATE TABLE n (auto_increment int, PRIMARY KEY (auto_increment))", Works),
    ("CREATE TABLE n (a text COLLATE \"de_DE\")", Refused("42704")),
    ("CREATE TABLE n (a text COLLATE \"C\")", Works),
    ("CREATE TABLE n (a int GENERATED ALWAYS AS IDENTITY (CACHE 10))", Notice("CACHE has no effect")),
    ("CREATE TABLE n (a int GENERATED ALWAYS AS IDENTITY (CACHE 1))", Works),
    ("CREATE INDEX n ON t (b) WITH (fillfactor = 70)", Notice("storage parameter \"fillfactor\" has no effect")),
    ("CREATE INDEX CONCURRENTLY n ON t (b)", Notice("CONCURRENTLY has no effect")),
    ("CREATE INDEX n ON t (b text_pattern_ops)", Works),
    ("CREATE INDEX n ON t (b nosuch_ops)", Refused("42704")),
    ("CREATE INDEX n ON t (b) WHERE b IS NOT NULL", Refused("0A000")),
    ("CREATE INDEX n ON t (b) INCLUDE (c)", Refused("0A000")),
    ("CREATE INDEX n ON t USING hash (b)", Refused("0A000")),
    ("CREATE INDEX n ON t (b) COMMENT 'x'", Refused("42601")),
    ("CREATE INDEX ASYNC n ON t (b)", Refused("42601")),
    ("CREATE UNIQUE INDEX n ON t (b) NULLS NOT DISTINCT", Refused("0A000")),
    ("CREATE VIEW n WITH (security_barrier = true) AS SELECT 1", Works),
    ("CREATE VIEW n WITH (security_invoker = true) AS SELECT 1", Notice("security_invoker has no effect")),
    ("CREATE VIEW n WITH (check_option = local) AS SELECT 1", Refused("0A000")),
    ("CREATE VIEW n WITH (nosuch = 1) AS SELECT 1", Refused("22023")),
    ("CREATE VIEW n WITH (security_barrier = maybe) AS SELECT 1", Refused("22023")),
    ("CREATE VIEW n OPTIONS (x = 1) AS SELECT 1", Refused("42601")),
    ("CREATE VIEW IF NOT EXISTS n AS SELECT 1", Refused("42601")),
    ("CREATE OR ALTER VIEW n AS SELECT 1", Refused("42601")),
    ("CREATE SECURE VIEW n AS SELECT 1", Refused("42601")),
    ("CREATE VIEW n (a COMMENT 'x') AS SELECT 1", Refused("42601")),
    ("CREATE VIEW n CLUSTER BY (a) AS SELECT 1 AS a", Refused("42601")),
    ("CREATE VIEW n COPY GRANTS AS SELECT 1", Refused("42601")),
    ("CREATE ALGORITHM = merge VIEW n AS SELECT 1", Refused("42601")),
    ("CREATE TEMP VIEW n AS SELECT 1", Refused("0A000")),
    ("CREATE SCHEMA n AUTHORIZATION somebody", Notice("AUTHORIZATION has no effect")),
    ("CREATE SCHEMA n WITH (x = 1)", Refused("42601")),
    ("CREATE SCHEMA n OPTIONS (x = 1)", Refused("42601")),
    ("CREATE SCHEMA n DEFAULT COLLATE 'x'", Refused("42601")),
    ("CREATE SCHEMA n CLONE m", Refused("42601")),
    ("CREATE SEQUENCE n CACHE 5", Notice("CACHE has no effect")),
    ("CREATE SEQUENCE n CACHE 1", Works),
    ("CREATE UNLOGGED SEQUENCE n", Notice("UNLOGGED has no effect")),
    ("CREATE INDEX n ON t (b COLLATE \"C\" text_ops)", Works),
    ("CREATE INDEX n ON t (a COLLATE \"C\")", Refused("42804")),
    ("CREATE INDEX n ON t (b int4_ops)", Refused("42804")),
    ("CREATE INDEX n ON t (b bpchar_ops)", Refused("0A000")),
    ("CREATE INDEX n ON t (b public.text_ops)", Refused("42704")),
    ("CREATE SCHEMA name_of_more_than_63_bytes_is_cut_behind_the_sixty_third_byte_of_it", Notice("identifier \"name_of_more_than_63_bytes_is_cut_behind_the_sixty_third_byte_of_it\" will be truncated to \"name_of_more_than_63_bytes_is_cut_behind_the_sixty_third_byte_o\"")),
    ("TRUNCATE TABLE IF EXISTS t", Refused("42601")),
    ("TRUNCATE t RESTART IDENTITY", Works),
    ("ALTER TABLE t SET (fillfactor = 70)", Notice("storage parameter \"fillfactor\" has no effect")),
    ("ALTER TABLE t OWNER TO somebody", Notice("OWNER TO has no effect")),
    ("ALTER TABLE t OWNER TO CURRENT_USER", Works),
    ("ALTER TABLE t REPLICA IDENTITY FULL", Notice("REPLICA IDENTITY has no effect")),
    ("ALTER TABLE t VALIDATE CONSTRAINT nosuch", Refused("42704")),
    ("ALTER TABLE t VALIDATE CONSTRAINT t_pkey", Works),
    ("ALTER TABLE t ADD CONSTRAINT n CHECK (c > 0) NOT VALID", Refused("0A000")),
    ("ALTER TABLE t ADD CONSTRAINT n CHECK (c > 0) NOT ENFORCED", Refused("42601")),
    ("ALTER TABLE t ON CLUSTER x ADD COLUMN k int", Refused("42601")),
    ("ALTER TABLE t SET LOGGED", Works),
    ("ALTER TABLE t SET TABLESPACE x", Refused("0A000")),
    ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", Refused("0A000")),
    ("CREATE TABLE n (a int CONSTRAINT c CHECK (a > 0)); COMMENT ON CONSTRAINT c ON n IS 'x'", Works),
    ("COMMENT ON CONSTRAINT t_pkey ON t IS 'x'", Works),
    ("COMMENT ON CONSTRAINT nosuch ON t IS 'x'", Refused("42704")),
    ("COMMENT ON DATABASE gnomon IS 'x'", Works),
    ("SELECT a FROM t WITH (nolock)", Refused("42601")),
    ("SELECT TOP 5 a FROM t", Refused("42601")),
    ("SELECT first_value(b) IGNORE NULLS OVER (ORDER BY a) FROM t", Refused("42601")),
    ("SELECT first_value(b) RESPECT NULLS OVER (ORDER BY a) FROM t", Refused("42601")),
    ("SELECT a FROM t TABLESAMPLE SYSTEM (10)", Refused("0A000")),
    ("SELECT /*+ hint */ a FROM t", Works),
    ("SELECT a FROM ONLY t", Works),
    ("SELECT a INTO n FROM t", Works),
    ("SELECT (t).* FROM t", Works),
    ("SELECT * FROM ROWS FROM (generate_series(1, 2), generate_series(1, 3)) WITH ORDINALITY", Works),
    ("SELECT * FROM generate_series(1, 2) AS g (x int)", Refused("0A000")),
    ("SELECT a FROM t WINDOW w AS (), w AS ()", Refused("42P20")),
    ("SELECT a FROM t WINDOW w AS (ORDER BY nosuch)", Refused("42703")),
    ("SELECT sum(a) OVER v FROM t WINDOW w AS (PARTITION BY b), v AS (w ORDER BY a)", Works),
    ("SELECT a FROM t FOR UPDATE OF public.t", Refused("42601")),
    ("SELECT a FROM t, generate_series(1, 1) AS g FOR UPDATE OF g", Refused("0A000")),
    ("WITH n AS (DELETE FROM t RETURNING a) SELECT a FROM n", Refused("0A000")),
    ("WITH n AS (SELECT 1) DELETE FROM t WHERE a = 99", Works),
    ("WITH n AS (SELECT nosuch) INSERT INTO t DEFAULT VALUES", Refused("42703")),
    ("WITH n AS (SELECT 20 AS x), m AS (SELECT 1) INSERT INTO t (a) WITH m AS (SELECT 1) SELECT x FROM n, m", Works),
    ("INSERT INTO t (a) VALUES (20) ON CONFLICT (a) WHERE a > 0 DO NOTHING", Works),
    ("INSERT INTO t (a) VALUES (20) ON CONFLICT (a) WHERE nosuch DO NOTHING", Refused("42703")),
    ("INSERT INTO t (a) VALUES (20) ON CONFLICT (a DESC) DO NOTHING", Refused("42P10")),
    ("INSERT INTO t (a) VALUES (20) ON CONFLICT (a NULLS FIRST) DO NOTHING", Refused("42P10")),
    ("INSERT INTO t (a) VALUES (20) ON CONFLICT (a COLLATE \"C\") DO NOTHING", Refused("42804")),
    ("INSERT INTO t (a) VALUES (20) ON CONFLICT (a int4_ops) DO NOTHING", Works),
    ("INSERT INTO t (a) VALUES (20) ON CONFLICT ((a)) DO NOTHING", Works),
    ("INSERT INTO t (a) VALUES (20) ON CONFLICT ((a + 1)) DO NOTHING", Refused("0A000")),
    ("UPDATE ONLY t SET b = 'x' WHERE false", Works),
    ("UPDATE t SET b[1] = 'x'", Refused("42804")),
    ("UPDATE t SET (b) = 'x'", Refused("0A000")),
    ("UPDATE t SET (b) = ROW ('x')", Works),
    ("DELETE FROM t WHERE CURRENT OF n", Refused("34000")),
    ("INSERT INTO t (a) PARTITION (b = 'x') VALUES (18)", Refused("42601")),
    ("INSERT INTO TABLE t VALUES (15)", Refused("42601")),
    ("INSERT OVERWRITE t VALUES (15)", Refused("42601")),
    ("INSERT OR REPLACE INTO t VALUES (15)", Refused("42601")),
    ("UPDATE OR REPLACE t SET b = 'x'", Refused("42601")),
    ("DELETE FROM t ORDER BY a LIMIT 1", Refused("42601")),
    ("COPY t TO STDOUT (FREEZE)", Notice("FREEZE has no effect")),
    ("COPY t TO STDOUT (FREEZE false)", Works),
    ("COPY t TO STDOUT (ENCODING 'latin1')", Works),
    ("COPY t TO STDOUT (ENCODING 'johab')", Refused("0A000")),
    ("EXPLAIN VERBOSE SELECT 1", Works),
    ("EXPLAIN (ANALYZE, BUFFERS) SELECT 1", Notice("EXPLAIN option BUFFERS has no effect")),
    ("EXPLAIN (ANALYZE, WAL) SELECT 1", Notice("EXPLAIN option WAL has no effect")),
    ("EXPLAIN (COSTS off, TIMING off) SELECT 1", Works),
    ("EXPLAIN (NOSUCH) SELECT 1", Refused("42601")),
    ("EXPLAIN (FORMAT json, COSTS off) SELECT 1", Works),
    ("EXPLAIN (FORMAT nosuch) SELECT 1", Refused("22023")),
    ("DROP INDEX CONCURRENTLY IF EXISTS n", Notice("CONCURRENTLY has no effect")),
    ("DROP INDEX CONCURRENTLY IF EXISTS n CASCADE", Refused("0A000")),
    ("DROP INDEX CONCURRENTLY IF EXISTS n, m", Refused("0A000")),
    ("DROP INDEX IF EXISTS t_pkey RESTRICT", Refused("2BP01")),
    ("SELECT set_config('enable_seqscan', 'off', false)", Notice("setting \"enable_seqscan\" has no effect")),
    ("SELECT set_config('application_name', 'x', false)", Works),
    ("WITH n AS NOT MATERIALIZED (SELECT 1) TABLE n", Notice("NOT MATERIALIZED has no effect")),
    ("WITH n AS MATERIALIZED (SELECT 1) TABLE n", Works),
    ("VACUUM FULL t", Notice("VACUUM option FULL has no effect")),
    ("VACUUM (FREEZE, ANALYZE) t", Notice("VACUUM option FREEZE has no effect")),
    ("VACUUM (NOSUCH) t", Refused("42601")),
    ("VACUUM VERBOSE t", Works),
    ("ANALYZE (SKIP_LOCKED) t", Notice("ANALYZE option SKIP_LOCKED has no effect")),
    ("DECLARE n BINARY CURSOR WITH HOLD FOR SELECT 1", Works),
    ("SET CONSTRAINTS ALL DEFERRED", Refused("0A000")),
    ("SET ROLE somebody", Refused("22023")),
];

#[test]
fn clauses_work_or_say_that_they_do_not() {
    let mut session = session();
    ok(&mut session, "CREATE TABLE t (a int PRIMARY KEY, b text, c int)");
    let mut wrong = Vec::new();
    for (sql, outcome) in CLAUSES {
        let done = run(&mut session, sql);
        let fits = match (outcome, &done) {
            (Works, Ok(done)) => done.notices.is_empty(),
            (Notice(beginning), Ok(done)) => done.notices.iter().any(|told| told.starts_with(beginning)),
            (Refused(state), Err(error)) => error.state().0 == *state,
            _ => false,
        };
        if !fits {
            wrong.push(format!("{sql}: {:?}", done.map(|done| done.notices)));
        }
        for kind in ["VIEW", "INDEX", "SEQUENCE", "TABLE", "SCHEMA"] {
            let _ = run(&mut session, &format!("DROP {kind} IF EXISTS n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The rows of the table in `docs/settings.md`, and those of `pg_settings`.
#[test]
fn the_documents_list_all_settings() {
    let mut session = session();
    let listed: Vec<String> = include_str!("../../../../docs/settings.md")
        .lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(str::to_owned)
        .collect();
    let sql = "SELECT name, vartype, coalesce(boot_val, '') || coalesce(replace(unit, '8kB', ' x 8kB'), ''), \
               short_desc FROM pg_settings \
               ORDER BY lower(name)";
    let found: Vec<String> = ok(&mut session, sql)
        .rows
        .iter()
        .map(|row| {
            let default = row[2].replace(env!("CARGO_PKG_VERSION"), "VERSION");
            let default = if default == "(empty)" { String::new() } else { format!("`{default}`") };
            format!("| `{}` | {} | {default} | {} |", row[0], row[1], row[3])
        })
        .collect();
    assert_eq!(listed, found);
}

#[test]
fn a_checkpoint_is_taken_where_one_can_be() {
    for recovery in gnomon_engine::Recovery::ALL {
        let options =
            gnomon_engine::Options { recovery: Some(recovery), ..gnomon_engine::Options::default() };
        let engine = gnomon_engine::Database::in_memory(options).unwrap();
        let mut session =
            SqlDatabase::open(engine.clone()).unwrap().session(SessionOptions::default()).unwrap();
        ok(
            &mut session,
            "CREATE TABLE t (a text); INSERT INTO t SELECT repeat('x', 900) FROM generate_series(1, 100)",
        );
        let before = engine.stats().log_bytes;
        let notices = ok(&mut session, "CHECKPOINT").notices;
        let has_log_of_pages = matches!(recovery, gnomon_engine::Recovery::PageLog(_));
        assert_eq!(
            notices.iter().any(|notice| notice.starts_with("CHECKPOINT has no effect")),
            has_log_of_pages
        );
        assert!(
            has_log_of_pages || before == 0 || engine.stats().log_bytes < before.min(1000),
            "{recovery:?}"
        );
    }
}

/// A value other than the default of a setting without effect is told of.
#[test]
fn settings_without_effect_say_so() {
    let mut session = session();
    let sql = "SELECT name, short_desc, vartype, boot_val, enumvals::text, min_val, max_val FROM pg_settings";
    let settings = ok(&mut session, sql).rows;
    let mut count = 0;
    for row in settings.iter().filter(|row| row[1].starts_with("No effect: ")) {
        let (name, default) = (&row[0], row[3].trim_start_matches("(empty)"));
        let other = match row[2].as_str() {
            "bool" if default == "on" => "off",
            "bool" => "on",
            "enum" => {
                let words = row[4].trim_matches(['{', '}']).split(',');
                words.map(|word| word.trim_matches('"')).find(|word| *word != default).expect("another word")
            }
            "string" => "de_DE",
            // The default of some is a bound.
            _ if row[5] == default => &row[6],
            _ => &row[5],
        };
        let told = ok(&mut session, &format!("SET {name} = '{other}'")).notices;
        assert!(
            told.iter().any(|notice| notice.starts_with(&format!("setting \"{name}\" has no effect: "))),
            "{name}: {told:?}"
        );
        assert_eq!(ok(&mut session, &format!("SET {name} = '{default}'")).notices, [""; 0], "{name}");
        count += 1;
    }
    assert!(count >= 128, "{count} settings without effect");
    for (refused, state) in
        [("default_tablespace = 'x'", "22023"), ("default_table_access_method = 'x'", "22023")]
    {
        assert_eq!(
            run(&mut session, &format!("SET {refused}")).err().map(|error| error.state().0),
            Some(state)
        );
    }
}

/// Options of views are kept and shown; conditions from around do not see rows that the view hides.
#[test]
fn options_of_views_are_kept_and_hold() {
    let mut session = session();
    ok(&mut session, "CREATE TABLE t (a int, shown bool); INSERT INTO t VALUES (1, true), (0, false)");
    ok(&mut session, "CREATE VIEW v WITH (security_barrier) AS SELECT a FROM t WHERE shown");
    ok(
        &mut session,
        "CREATE VIEW w WITH (security_barrier = on, security_invoker = 'false') AS SELECT a FROM t WHERE shown",
    );
    let options = |session: &mut Session, name: &str| {
        value(session, &format!("SELECT reloptions::text FROM pg_class WHERE relname = '{name}'"))
    };
    assert_eq!(options(&mut session, "v"), "{security_barrier=true}");
    assert_eq!(options(&mut session, "w"), "{security_barrier=on,security_invoker=false}");
    for name in ["v", "w"] {
        assert_eq!(value(&mut session, &format!("SELECT count(*) FROM {name} WHERE 1 / a = 1")), "1");
    }
    ok(&mut session, "CREATE OR REPLACE VIEW v AS SELECT a FROM t");
    assert_eq!(options(&mut session, "v"), "NULL");
}
