//! The scenarios of tokio-postgres.

use crate::{same, scenario, url, Outcome, Scenario};
use futures_util::{pin_mut, SinkExt, StreamExt, TryStreamExt};
use std::time::Duration;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Error, IsolationLevel, NoTls, SimpleQueryMessage};

pub const SCENARIOS: &[Scenario] = &[
    scenario!("connect and settings", connect_and_settings),
    scenario!("create, read, update, delete", crud),
    scenario!("pipelined queries", pipelined),
    scenario!("prepared statements", prepared),
    scenario!("simple queries", simple),
    scenario!("types", types),
    scenario!("inet type", inet),
    scenario!("json type", json),
    scenario!("enum type", enum_type),
    scenario!("transactions and nested savepoints", nested),
    scenario!("isolation levels", isolation),
    scenario!("error fields", errors),
    scenario!("cancel and timeout", cancel),
    scenario!("COPY in and out", copy),
    scenario!("portals", portals),
    scenario!("listen and notify", listen),
    scenario!("notices", notices),
];

async fn connect() -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(&url(), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn table(client: &Client, name: &str, columns: &str) -> Result<(), Error> {
    client.batch_execute(&format!("DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns})")).await
}

/// Requires that a result is an error with a SQLSTATE; returns the error.
fn fails<T>(result: Result<T, Error>, state: &SqlState) -> Result<Error, String> {
    match result {
        Err(error) if error.code() == Some(state) => Ok(error),
        Err(error) => Err(format!("{error:?}, expected {state:?}")),
        Ok(_) => Err(format!("no error, expected {state:?}")),
    }
}

async fn connect_and_settings() -> Outcome {
    let mut config: tokio_postgres::Config = url().parse()?;
    config.application_name("clients").options("-c statement_timeout=5000");
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    let row = client
        .query_one("SELECT current_setting('application_name'), current_setting('statement_timeout')", &[])
        .await?;
    same!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("clients", "5s"));
    config.dbname("nosuch");
    fails(config.connect(NoTls).await.map(|_| ()), &SqlState::UNDEFINED_DATABASE)?;
    Ok(())
}

async fn crud() -> Outcome {
    let client = connect().await?;
    table(&client, "tp_crud", "id int PRIMARY KEY, name text, tags text[]").await?;
    let tags = vec!["a".to_owned(), "b,".to_owned()];
    same!(client.execute("INSERT INTO tp_crud VALUES ($1, $2, $3)", &[&1i32, &"one", &tags]).await?, 1);
    let row = client.query_one("SELECT * FROM tp_crud WHERE id = $1", &[&1i32]).await?;
    same!(row.get::<_, Vec<String>>("tags"), tags);
    same!(client.query_opt("SELECT 1 FROM tp_crud WHERE id = 5", &[]).await?.is_none(), true);
    same!(client.execute("UPDATE tp_crud SET name = $1", &[&None::<String>]).await?, 1);
    same!(client.execute("DELETE FROM tp_crud", &[]).await?, 1);
    Ok(())
}

async fn pipelined() -> Outcome {
    let client = connect().await?;
    let queries = (0..50).map(|i: i32| {
        let client = &client;
        async move { client.query_one("SELECT $1::int * 2", &[&i]).await.map(|row| row.get::<_, i32>(0)) }
    });
    let found: Vec<i32> = futures_util::stream::iter(queries).buffered(10).try_collect().await?;
    same!(found, (0..50).map(|i| i * 2).collect::<Vec<i32>>());
    Ok(())
}

async fn prepared() -> Outcome {
    let client = connect().await?;
    table(&client, "tp_prepared", "id int, name varchar(9)").await?;
    let statement = client.prepare("SELECT * FROM tp_prepared WHERE id = $1").await?;
    same!(statement.params(), [Type::INT4]);
    let types: Vec<&Type> = statement.columns().iter().map(|column| column.type_()).collect();
    same!(types, vec![&Type::INT4, &Type::VARCHAR]);
    let typed = client.prepare_typed("SELECT $1", &[Type::INT8]).await?;
    same!(client.query_one(&typed, &[&7i64]).await?.get::<_, i64>(0), 7);
    client.batch_execute("ALTER TABLE tp_prepared ADD COLUMN more int").await?;
    fails(client.query(&statement, &[&1i32]).await, &SqlState::FEATURE_NOT_SUPPORTED)?;
    fails(client.prepare("SELECT nosuch").await, &SqlState::UNDEFINED_COLUMN)?;
    Ok(())
}

async fn simple() -> Outcome {
    let client = connect().await?;
    let messages = client.simple_query("SELECT 1 AS a; SELECT 2 AS a, NULL AS b").await?;
    let rows: Vec<_> = messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get("a"),
            _ => None,
        })
        .collect();
    same!(rows, vec!["1", "2"]);
    Ok(())
}

async fn types() -> Outcome {
    let client = connect().await?;
    let date = time::Date::from_calendar_date(2024, time::Month::February, 29)?;
    let sql = "SELECT $1::bool, $2::int2, $3::int8, $4::float4, $5::float8, $6::bytea, \
        $7::uuid, $8::date, $9::int[], $10::\"char\"";
    let uuid = uuid::Uuid::from_u128(5);
    let list = vec![Some(1i32), None];
    let bytes = vec![0u8, 255];
    let row = client
        .query_one(
            sql,
            &[&true, &7i16, &i64::MAX, &1.5f32, &f64::INFINITY, &bytes, &uuid, &date, &list, &5i8],
        )
        .await?;
    same!((row.get(0), row.get(1), row.get(2)), (true, 7i16, i64::MAX));
    same!((row.get(3), row.get(4)), (1.5f32, f64::INFINITY));
    same!(row.get::<_, Vec<u8>>(5), bytes);
    same!((row.get(6), row.get(7), row.get::<_, Vec<Option<i32>>>(8), row.get(9)), (uuid, date, list, 5i8));
    Ok(())
}

async fn inet() -> Outcome {
    let client = connect().await?;
    let address: std::net::IpAddr = "10.0.0.1".parse()?;
    same!(client.query_one("SELECT $1::inet", &[&address]).await?.get::<_, std::net::IpAddr>(0), address);
    Ok(())
}

async fn json() -> Outcome {
    let client = connect().await?;
    let value = serde_json::json!({"a": [1, null]});
    same!(client.query_one("SELECT $1::jsonb", &[&value]).await?.get::<_, serde_json::Value>(0), value);
    Ok(())
}

async fn enum_type() -> Outcome {
    let client = connect().await?;
    client.batch_execute("CREATE TYPE tp_mood AS ENUM ('sad', 'ok')").await?;
    let statement = client.prepare("SELECT $1::text::tp_mood").await?;
    same!(statement.columns()[0].type_().name(), "tp_mood");
    client.batch_execute("DROP TYPE tp_mood").await?;
    Ok(())
}

async fn nested() -> Outcome {
    let mut client = connect().await?;
    table(&client, "tp_nested", "id int PRIMARY KEY").await?;
    let mut outer = client.transaction().await?;
    outer.execute("INSERT INTO tp_nested VALUES (1)", &[]).await?;
    let mut inner = outer.savepoint("a_point").await?;
    inner.execute("INSERT INTO tp_nested VALUES (2)", &[]).await?;
    let deeper = inner.transaction().await?;
    fails(deeper.execute("INSERT INTO tp_nested VALUES (1)", &[]).await, &SqlState::UNIQUE_VIOLATION)?;
    deeper.rollback().await?;
    inner.rollback().await?;
    outer.commit().await?;
    same!(client.query_one("SELECT array_agg(id) FROM tp_nested", &[]).await?.get::<_, Vec<i32>>(0), vec![1]);
    // A transaction that is dropped is rolled back.
    let dropped = client.transaction().await?;
    dropped.execute("DELETE FROM tp_nested", &[]).await?;
    drop(dropped);
    same!(client.query_one("SELECT count(*) FROM tp_nested", &[]).await?.get::<_, i64>(0), 1);
    Ok(())
}

async fn isolation() -> Outcome {
    let mut client = connect().await?;
    let builder = client
        .build_transaction()
        .isolation_level(IsolationLevel::Serializable)
        .read_only(true)
        .deferrable(true);
    let transaction = builder.start().await?;
    same!(transaction.query_one("SHOW transaction_isolation", &[]).await?.get::<_, &str>(0), "serializable");
    let made = transaction.batch_execute("CREATE TABLE tp_isolated (id int)").await;
    fails(made, &SqlState::READ_ONLY_SQL_TRANSACTION)?;
    Ok(())
}

async fn errors() -> Outcome {
    let client = connect().await?;
    table(&client, "tp_errors", "id int PRIMARY KEY, name text NOT NULL").await?;
    let error =
        fails(client.execute("INSERT INTO tp_errors VALUES (1)", &[]).await, &SqlState::NOT_NULL_VIOLATION)?;
    let fields = error.as_db_error().ok_or("no fields")?;
    same!(
        (fields.table(), fields.column(), fields.detail()),
        (Some("tp_errors"), Some("name"), Some("Failing row contains (1, null)."))
    );
    fails(client.batch_execute("SELEC").await, &SqlState::SYNTAX_ERROR)?;
    fails(client.query("SELECT 1 / $1::int", &[&0i32]).await, &SqlState::DIVISION_BY_ZERO)?;
    Ok(())
}

async fn cancel() -> Outcome {
    let client = connect().await?;
    let token = client.cancel_token();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let _ = token.cancel_query(NoTls).await;
    });
    fails(client.batch_execute("SELECT pg_sleep(10)").await, &SqlState::QUERY_CANCELED)?;
    fails(
        client.batch_execute("SET statement_timeout = 100; SELECT pg_sleep(10)").await,
        &SqlState::QUERY_CANCELED,
    )?;
    Ok(())
}

async fn copy() -> Outcome {
    let client = connect().await?;
    table(&client, "tp_copied", "id int, name text").await?;
    let sink = client.copy_in("COPY tp_copied FROM STDIN").await?;
    pin_mut!(sink);
    sink.send(&b"1\tone\n2\t\\N\n"[..]).await?;
    same!(sink.finish().await?, 2);
    let parts: Vec<_> = client.copy_out("COPY tp_copied TO STDOUT").await?.try_collect().await?;
    let text: Vec<u8> = parts.concat();
    same!(String::from_utf8(text)?, "1\tone\n2\t\\N\n");
    Ok(())
}

async fn portals() -> Outcome {
    let mut client = connect().await?;
    let transaction = client.transaction().await?;
    let portal = transaction.bind("SELECT * FROM generate_series(1, 10)", &[]).await?;
    same!(transaction.query_portal(&portal, 4).await?.len(), 4);
    same!(transaction.query_portal(&portal, 0).await?.len(), 6);
    let rows = transaction.query_raw("SELECT * FROM generate_series(1, 100)", Vec::<i32>::new()).await?;
    same!(rows.try_collect::<Vec<_>>().await?.len(), 100);
    Ok(())
}

/// Runs statements, and returns what the server sends beside the answers.
async fn messages(statements: &str) -> Result<Vec<AsyncMessage>, Box<dyn std::error::Error>> {
    let (client, mut connection) = tokio_postgres::connect(&url(), NoTls).await?;
    let mut stream = futures_util::stream::poll_fn(move |context| connection.poll_message(context));
    let (done, ran) = tokio::sync::oneshot::channel();
    let statements = statements.to_owned();
    tokio::spawn(async move {
        let result = client.batch_execute(&statements).await;
        let _ = done.send(result);
        tokio::time::sleep(Duration::from_millis(300)).await;
    });
    let mut found = Vec::new();
    while let Some(message) = stream.next().await {
        found.push(message?);
    }
    ran.await??;
    Ok(found)
}

async fn listen() -> Outcome {
    let found = messages("LISTEN tp_news; NOTIFY tp_news, 'hello'").await?;
    let payload = found.iter().find_map(|message| match message {
        AsyncMessage::Notification(note) => Some(note.payload().to_owned()),
        _ => None,
    });
    same!(payload.as_deref(), Some("hello"));
    Ok(())
}

async fn notices() -> Outcome {
    let found = messages("DROP TABLE IF EXISTS nosuch").await?;
    let text = found.iter().find_map(|message| match message {
        AsyncMessage::Notice(notice) => Some(notice.message().to_owned()),
        _ => None,
    });
    same!(text.as_deref(), Some("table \"nosuch\" does not exist, skipping"));
    Ok(())
}
