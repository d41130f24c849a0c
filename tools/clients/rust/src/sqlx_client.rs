//! The scenarios of sqlx.

use crate::{same, scenario, url, Outcome, Scenario};
use futures_util::TryStreamExt;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions, PgRow};
use sqlx::types::ipnetwork::IpNetwork;
use sqlx::types::{BigDecimal, Json, Uuid};
use sqlx::{Column, Connection, Executor, PgConnection, QueryBuilder, Row, Statement, TypeInfo};
use std::borrow::Cow;
use std::time::Duration;

pub const SCENARIOS: &[Scenario] = &[
    scenario!("connect and settings", connect_and_settings),
    scenario!("create, read, update, delete", crud),
    scenario!("rows as structs", structs),
    scenario!("batches", batches),
    scenario!("description of statements", describe),
    scenario!("prepared statements after a change of schema", replan),
    scenario!("types", types),
    scenario!("inet type", inet),
    scenario!("json type", json),
    scenario!("enum type", enum_type),
    scenario!("transactions and nested savepoints", nested),
    scenario!("errors", errors),
    scenario!("streamed rows", streamed),
    scenario!("COPY in and out", copy),
    scenario!("advisory locks", advisory),
    scenario!("listener", listen),
    scenario!("migrations up and down", migrations),
    scenario!("pool", pool),
];

async fn connect() -> Result<PgConnection, sqlx::Error> {
    PgConnection::connect(&url()).await
}

async fn table(db: &mut PgConnection, name: &str, columns: &str) -> Result<(), sqlx::Error> {
    db.execute(format!("DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns})").as_str()).await?;
    Ok(())
}

/// Requires that a result is an error with a SQLSTATE; returns the error.
fn fails<T>(result: Result<T, sqlx::Error>, state: &str) -> Result<sqlx::Error, String> {
    match result {
        Err(error) if error.as_database_error().and_then(|e| e.code()).as_deref() == Some(state) => Ok(error),
        Err(error) => Err(format!("{error}, expected {state}")),
        Ok(_) => Err(format!("no error, expected {state}")),
    }
}

async fn connect_and_settings() -> Outcome {
    let options: PgConnectOptions = url().parse()?;
    let options = options.application_name("clients").options([("statement_timeout", "5s")]);
    let mut db = PgConnection::connect_with(&options).await?;
    let found: (String, String) =
        sqlx::query_as("SELECT current_setting('application_name'), current_setting('statement_timeout')")
            .fetch_one(&mut db)
            .await?;
    same!(found, ("clients".to_owned(), "5s".to_owned()));
    db.ping().await?;
    fails(PgConnection::connect_with(&options.database("nosuch")).await, "3D000")?;
    Ok(())
}

async fn crud() -> Outcome {
    let mut db = connect().await?;
    table(&mut db, "sx_crud", "id int PRIMARY KEY, name text, tags text[]").await?;
    let insert =
        sqlx::query("INSERT INTO sx_crud VALUES ($1, $2, $3)").bind(1i32).bind("one").bind(vec!["a", "b,"]);
    same!(insert.execute(&mut db).await?.rows_affected(), 1);
    let row =
        sqlx::query("SELECT * FROM sx_crud WHERE id = ANY($1)").bind(vec![1i32]).fetch_one(&mut db).await?;
    same!(row.get::<Vec<String>, _>("tags"), vec!["a", "b,"]);
    let name: Option<String> =
        sqlx::query_scalar("UPDATE sx_crud SET name = NULL RETURNING name").fetch_one(&mut db).await?;
    same!(name, None);
    same!(sqlx::query("DELETE FROM sx_crud").execute(&mut db).await?.rows_affected(), 1);
    Ok(())
}

#[derive(sqlx::FromRow, Debug, PartialEq)]
struct Numbered {
    n: i32,
    name: Option<String>,
}

async fn structs() -> Outcome {
    let mut db = connect().await?;
    let found: Vec<Numbered> =
        sqlx::query_as("SELECT n, CASE WHEN n > 1 THEN 'x' END AS name FROM generate_series(1, 2) AS n")
            .fetch_all(&mut db)
            .await?;
    same!(found, vec![Numbered { n: 1, name: None }, Numbered { n: 2, name: Some("x".into()) }]);
    Ok(())
}

async fn batches() -> Outcome {
    let mut db = connect().await?;
    table(&mut db, "sx_batch", "id int, name text").await?;
    let mut query = QueryBuilder::new("INSERT INTO sx_batch ");
    query.push_values(0..500, |mut row, i| {
        row.push_bind(i).push_bind(format!("n{i}"));
    });
    same!(query.build().execute(&mut db).await?.rows_affected(), 500);
    let ids: Vec<i32> = (0..100).collect();
    let unnest = "INSERT INTO sx_batch SELECT * FROM UNNEST($1::int[], $2::text[])";
    let names = vec!["x"; 100];
    same!(sqlx::query(unnest).bind(ids).bind(names).execute(&mut db).await?.rows_affected(), 100);
    Ok(())
}

async fn describe() -> Outcome {
    // The macros of sqlx check queries by what this returns.
    let mut db = connect().await?;
    table(&mut db, "sx_described", "id int PRIMARY KEY, price numeric, name text NOT NULL").await?;
    let found = (&mut db).describe("SELECT id, price, name FROM sx_described WHERE id = $1").await?;
    same!((found.nullable(0), found.nullable(1), found.nullable(2)), (Some(false), Some(true), Some(false)));
    let statement = (&mut db).prepare("SELECT id, price FROM sx_described").await?;
    same!(statement.columns()[1].type_info().name(), "NUMERIC");
    Ok(())
}

async fn replan() -> Outcome {
    let mut db = connect().await?;
    table(&mut db, "sx_replan", "id int").await?;
    for _ in 0..3 {
        sqlx::query("SELECT * FROM sx_replan").fetch_all(&mut db).await?;
    }
    db.execute("ALTER TABLE sx_replan ADD COLUMN more int").await?;
    fails(sqlx::query("SELECT * FROM sx_replan").fetch_all(&mut db).await, "0A000")?;
    db.clear_cached_statements().await?;
    sqlx::query("SELECT * FROM sx_replan").fetch_all(&mut db).await?;
    Ok(())
}

/// Sends a value and reads it.
macro_rules! round_trip {
    ($db:expr, $type:literal, $value:expr) => {
        let value = $value;
        let mut found = value.clone();
        found.clone_from(
            &sqlx::query_scalar(concat!("SELECT $1::", $type)).bind(&value).fetch_one(&mut $db).await?,
        );
        same!(found, value);
    };
}

async fn types() -> Outcome {
    let mut db = connect().await?;
    round_trip!(db, "bool", true);
    round_trip!(db, "int8", i64::MAX);
    round_trip!(db, "float8", 1.5f64);
    round_trip!(db, "text", "äöü".to_owned());
    round_trip!(db, "bytea", vec![0u8, 255]);
    round_trip!(db, "uuid", Uuid::from_u128(5));
    round_trip!(db, "numeric", "12345678901234567890.123".parse::<BigDecimal>()?);
    round_trip!(db, "date", time::Date::from_calendar_date(2024, time::Month::February, 29)?);
    round_trip!(db, "timestamptz", time::OffsetDateTime::from_unix_timestamp(1_709_208_000)?);
    round_trip!(db, "int4[]", vec![1i32, 2]);
    round_trip!(db, "uuid[]", vec![Uuid::from_u128(5)]);
    round_trip!(db, "interval", sqlx::postgres::types::PgInterval { months: 1, days: 2, microseconds: 3 });
    Ok(())
}

async fn inet() -> Outcome {
    let mut db = connect().await?;
    round_trip!(db, "inet", "10.0.0.1/8".parse::<IpNetwork>()?);
    Ok(())
}

async fn json() -> Outcome {
    let mut db = connect().await?;
    round_trip!(db, "jsonb", Json(serde_json::json!({"a": [1, null]})));
    Ok(())
}

#[derive(sqlx::Type, Debug, Clone, PartialEq)]
#[sqlx(type_name = "sx_mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Ok,
}

async fn enum_type() -> Outcome {
    let mut db = connect().await?;
    db.execute("CREATE TYPE sx_mood AS ENUM ('sad', 'ok')").await?;
    round_trip!(db, "sx_mood", Mood::Ok);
    round_trip!(db, "sx_mood", Mood::Sad);
    db.execute("DROP TYPE sx_mood").await?;
    Ok(())
}

async fn nested() -> Outcome {
    let mut db = connect().await?;
    table(&mut db, "sx_nested", "id int PRIMARY KEY").await?;
    let mut outer = db.begin().await?;
    outer.execute("INSERT INTO sx_nested VALUES (1)").await?;
    let mut inner = outer.begin().await?;
    inner.execute("INSERT INTO sx_nested VALUES (2)").await?;
    let mut deeper = inner.begin().await?;
    let error = fails(deeper.execute("INSERT INTO sx_nested VALUES (1)").await, "23505")?;
    same!(error.as_database_error().and_then(|e| e.constraint()), Some("sx_nested_pkey"));
    deeper.rollback().await?;
    drop(inner);
    outer.commit().await?;
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM sx_nested").fetch_one(&mut db).await?;
    same!(count, 1);
    let mut serializable = db.begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY").await?;
    fails(serializable.execute("DELETE FROM sx_nested").await, "25006")?;
    Ok(())
}

async fn errors() -> Outcome {
    let mut db = connect().await?;
    table(&mut db, "sx_errors", "id int PRIMARY KEY, n int CONSTRAINT sx_positive CHECK (n > 0)").await?;
    let error = fails(db.execute("INSERT INTO sx_errors VALUES (1, 0)").await, "23514")?;
    let fields = error.as_database_error().ok_or("no fields")?;
    same!((fields.is_check_violation(), fields.table()), (true, Some("sx_errors")));
    fails(db.execute("SELECT * FROM nosuch").await, "42P01")?;
    fails(sqlx::query("SELECT 1 / $1").bind(0i32).execute(&mut db).await, "22012")?;
    db.execute("SET statement_timeout = 100").await?;
    fails(db.execute("SELECT pg_sleep(10)").await, "57014")?;
    Ok(())
}

async fn streamed() -> Outcome {
    let mut db = connect().await?;
    let mut rows = sqlx::query("SELECT * FROM generate_series(1, 1000) AS n")
        .map(|row: PgRow| row.get::<i32, _>(0))
        .fetch(&mut db);
    let mut sum = 0;
    while let Some(n) = rows.try_next().await? {
        sum += n;
    }
    same!(sum, 500_500);
    Ok(())
}

async fn copy() -> Outcome {
    let mut db = connect().await?;
    table(&mut db, "sx_copied", "id int, name text").await?;
    let mut copy = db.copy_in_raw("COPY sx_copied FROM STDIN (FORMAT csv)").await?;
    copy.send(&b"1,one\n2,\n"[..]).await?;
    same!(copy.finish().await?, 2);
    let parts: Vec<_> = db.copy_out_raw("COPY sx_copied TO STDOUT").await?.try_collect().await?;
    let text: Vec<u8> = parts.concat();
    same!(String::from_utf8(text)?, "1\tone\n2\t\\N\n");
    Ok(())
}

async fn advisory() -> Outcome {
    let lock = sqlx::postgres::PgAdvisoryLock::new("sx lock");
    let held = lock.acquire(connect().await?).await?;
    let taken = lock.try_acquire(connect().await?).await?;
    same!(matches!(taken, sqlx::Either::Left(_)), false);
    held.release_now().await?;
    Ok(())
}

async fn listen() -> Outcome {
    let mut listener = PgListener::connect(&url()).await?;
    listener.listen("sx_news").await?;
    sqlx::query("SELECT pg_notify('sx_news', 'hello')").execute(&mut connect().await?).await?;
    same!(listener.recv().await?.payload(), "hello");
    Ok(())
}

fn migration(version: i64, up: bool, sql: &'static str) -> Migration {
    let kind = if up { MigrationType::ReversibleUp } else { MigrationType::ReversibleDown };
    Migration::new(version, Cow::Borrowed("step"), kind, Cow::Borrowed(sql), false)
}

async fn migrations() -> Outcome {
    let mut db = connect().await?;
    let migrator = Migrator {
        migrations: Cow::Owned(vec![
            migration(1, true, "CREATE TABLE sx_items (id serial PRIMARY KEY)"),
            migration(1, false, "DROP TABLE sx_items"),
            migration(
                2,
                true,
                "ALTER TABLE sx_items ADD COLUMN n int DEFAULT 3; INSERT INTO sx_items DEFAULT VALUES",
            ),
            migration(2, false, "ALTER TABLE sx_items DROP COLUMN n"),
        ]),
        ..Migrator::DEFAULT
    };
    migrator.run(&mut db).await?;
    migrator.run(&mut db).await?;
    let n: i32 = sqlx::query_scalar("SELECT n FROM sx_items").fetch_one(&mut db).await?;
    same!(n, 3);
    migrator.undo(&mut db, 0).await?;
    let gone: Option<String> =
        sqlx::query_scalar("SELECT to_regclass('sx_items')::text").fetch_one(&mut db).await?;
    same!(gone, None);
    Ok(())
}

async fn pool() -> Outcome {
    let pool: PgPool = PgPoolOptions::new()
        .max_connections(3)
        .acquire_timeout(Duration::from_secs(5))
        .connect(&url())
        .await?;
    pool.execute("DROP TABLE IF EXISTS sx_pooled; CREATE TABLE sx_pooled AS SELECT 0 AS n").await?;
    let updates = (0..30).map(|_| sqlx::query("UPDATE sx_pooled SET n = n + 1").execute(&pool));
    for done in futures_util::future::join_all(updates).await {
        done?;
    }
    let n: i32 = sqlx::query_scalar("SELECT n FROM sx_pooled").fetch_one(&pool).await?;
    same!(n, 30);
    pool.close().await;
    Ok(())
}
