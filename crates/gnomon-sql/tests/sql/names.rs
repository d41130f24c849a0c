//! Names that are not there and names that are chosen, as PostgreSQL 15 answers.

use crate::support::{database, ok, run, value};
use gnomon_sql::session::SessionOptions;

/// Queries and the hint of their error, empty if it has none.
const HINTS: [(&str, &str); 42] = [
    ("select fields.nam from fields", "Perhaps you meant to reference the column \"fields.name\"."),
    ("select nam from fields", "Perhaps you meant to reference the column \"fields.name\"."),
    (
        "select nmae from authors, r",
        "Perhaps you meant to reference the column \"authors.name\" or the column \"r.name\".",
    ),
    (
        "select f.name from fields f where fields.id=1",
        "Perhaps you meant to reference the table alias \"f\".",
    ),
    ("select author.id from authors a", ""),
    ("select authors.id from authors a", "Perhaps you meant to reference the table alias \"a\"."),
    ("select xyzzy from fields", ""),
    ("select fields.xyzzy from fields", ""),
    (
        "select idd from fields, authors",
        "Perhaps you meant to reference the column \"fields.id\" or the column \"authors.id\".",
    ),
    ("select id from fields, lateral (select fields2.id) x", ""),
    ("select * from fields join authors on r.id=1, r", ""),
    (
        "select * from authors, fields join r on authors.id=1",
        "There is an entry for table \"authors\", but it cannot be referenced from this part of the query.",
    ),
    (
        "select * from authors, (select authors.id) x",
        "There is an entry for table \"authors\", but it cannot be referenced from this part of the query.",
    ),
    (
        "select * from authors, (select name2) x",
        "Perhaps you meant to reference the column \"authors.name\".",
    ),
    (
        "select * from authors, (select \"First Name\") x",
        "There is a column named \"First Name\" in table \"authors\", but it cannot be referenced from this part of the query.",
    ),
    (
        "select * from authors join fields on label2=1",
        "Perhaps you meant to reference the column \"fields.label\".",
    ),
    ("select firstname from authors", "Perhaps you meant to reference the column \"authors.First Name\"."),
    (
        "select \"first name\" from authors",
        "Perhaps you meant to reference the column \"authors.First Name\".",
    ),
    ("insert into fields values (1) on conflict(id) do update set name=exclude.name", ""),
    (
        "insert into fields as q values (1) returning fields.id",
        "Perhaps you meant to reference the table alias \"q\".",
    ),
    (
        "delete from fields using authors where authors.nam=1",
        "Perhaps you meant to reference the column \"authors.name\".",
    ),
    ("select labl from fields f group by label", "Perhaps you meant to reference the column \"f.label\"."),
    (
        "create view vv as select fields.nmae from fields",
        "Perhaps you meant to reference the column \"fields.name\".",
    ),
    (
        "select naem, count(*) from fields group by 1",
        "Perhaps you meant to reference the column \"fields.name\".",
    ),
    (
        "select a from fields a, authors b where a.auther_id = b.id",
        "Perhaps you meant to reference the column \"a.author_id\".",
    ),
    ("select auth_id from fields", "Perhaps you meant to reference the column \"fields.author_id\"."),
    ("select authorid from fields", "Perhaps you meant to reference the column \"fields.author_id\"."),
    (
        "select x.id from (select id as idx from fields) x",
        "Perhaps you meant to reference the column \"x.idx\".",
    ),
    ("select tablename.id from fields", ""),
    ("with w as (select 1 as a) select w.b from w", ""),
    ("with w as (select 1 as aa) select ab from w", "Perhaps you meant to reference the column \"w.aa\"."),
    (
        "select pg_catalog.fields.id from fields",
        "There is an entry for table \"fields\", but it cannot be referenced from this part of the query.",
    ),
    ("select public.fields.nam from fields", "Perhaps you meant to reference the column \"fields.name\"."),
    ("select label from authors a, (select id from fields) x", ""),
    (
        "select * from fields f, authors a join r on f.id=r.id",
        "There is an entry for table \"f\", but it cannot be referenced from this part of the query.",
    ),
    ("delete from fields returning authors.id", ""),
    ("update fields set name='x' from authors where field.id=1", ""),
    ("select (select fields.nam) from fields", "Perhaps you meant to reference the column \"fields.name\"."),
    ("select i.id from fields, r where exists (select 1 from authors where nmae = 1)", ""),
    (
        "select 1 from (fields f1 join authors f2 using (id)) j where j.nam = ''",
        "Perhaps you meant to reference the column \"f1.name\" or the column \"f2.name\".",
    ),
    (
        "select f1.name from (fields f1 join authors f2 using (id)) j",
        "There is an entry for table \"f1\", but it cannot be referenced from this part of the query.",
    ),
    (
        "insert into fields values (1) on conflict (nam) do nothing",
        "Perhaps you meant to reference the column \"fields.name\".",
    ),
];

#[test]
fn errors_name_the_columns_and_relations_that_may_have_been_meant() {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    ok(
        &mut session,
        "CREATE TABLE authors (id int, name text, \"First Name\" text);
         CREATE TABLE fields (id int, name text, label text, author_id int);
         CREATE TABLE r (id int, name text)",
    );
    for (sql, expected) in HINTS {
        let error = run(&mut session, sql).map(drop).expect_err(sql);
        assert_eq!(error.report().hint.as_deref().unwrap_or_default(), expected, "{sql}: {error}");
    }
}

#[test]
fn constraints_without_a_name_get_that_of_postgresql() {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    ok(
        &mut session,
        "CREATE TABLE t (i int CHECK (i > 0), j int CHECK (j > 0 AND i > 0), k int CHECK (1 > 0), CHECK (i > 1),
            CHECK (i > j), CHECK (k IS NULL), CHECK (2 > 1));
         ALTER TABLE t ADD CHECK (j > i), ADD CHECK (k > 7);
         ALTER TABLE t ADD m int CHECK (m > 0) UNIQUE;
         ALTER TABLE t ADD UNIQUE (m), ADD UNIQUE (m, k);
         CREATE TABLE a_b (c int CHECK (c > 0));
         CREATE TABLE a (b_c int CHECK (b_c > 0))",
    );
    let names = "SELECT string_agg(conname, ' ' ORDER BY conname COLLATE \"C\") FROM pg_constraint";
    let expected = "a_b_c_check a_b_c_check1 t_check t_check1 t_check2 t_check3 t_check4 t_i_check t_i_check1 t_k_check \
        t_k_check1 t_m_check t_m_k_key t_m_key t_m_key1";
    assert_eq!(value(&mut session, names), expected);
    let long = "l".repeat(60);
    ok(&mut session, &format!("CREATE TABLE {long} (c{long} int CHECK (c{long} > 0))"));
    let name = format!("{}_c{}_check", "l".repeat(28), "l".repeat(27));
    assert_eq!(
        value(&mut session, &format!("SELECT count(*) FROM pg_constraint WHERE conname = '{name}'")),
        "1"
    );
}

#[test]
fn checks_are_made_in_the_order_of_their_names() {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    ok(
        &mut session,
        "CREATE TABLE t (a int, CONSTRAINT z CHECK (a > 1), CHECK (a > 2), CONSTRAINT b CHECK (a > 3))",
    );
    for (value, violated) in [(3, "b"), (2, "b"), (0, "b")] {
        let error =
            run(&mut session, &format!("INSERT INTO t VALUES ({value})")).map(drop).expect_err("a violation");
        assert_eq!(error.report().constraint.as_deref(), Some(violated));
    }
    ok(&mut session, "ALTER TABLE t DROP CONSTRAINT b");
    let error = run(&mut session, "INSERT INTO t VALUES (1)").map(drop).expect_err("a violation");
    assert_eq!(error.report().constraint.as_deref(), Some("t_a_check"));
}
