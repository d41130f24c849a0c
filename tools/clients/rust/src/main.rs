//! Scenarios of Rust clients: each a function, of which one line tells the result.

mod sqlx_client;
mod tokio_postgres_client;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

pub type Outcome = Result<(), Box<dyn std::error::Error>>;
type Running = Pin<Box<dyn Future<Output = Outcome>>>;

/// A scenario: its name, and the function that starts it.
pub type Scenario = (&'static str, fn() -> Running);

/// Makes a scenario of an async function.
#[macro_export]
macro_rules! scenario {
    ($name:literal, $function:path) => {
        ($name, || Box::pin($function()))
    };
}

/// Ends a scenario with an error if two values differ.
#[macro_export]
macro_rules! same {
    ($found:expr, $expected:expr) => {
        match (&$found, &$expected) {
            (found, expected) if found == expected => {}
            (found, expected) => return Err(format!("{found:?}, expected {expected:?}").into()),
        }
    };
}

pub fn url() -> String {
    std::env::var("CLIENT_URL").expect("CLIENT_URL")
}

/// The version of a package in the lock file.
fn version(package: &str) -> &'static str {
    include_str!("../Cargo.lock")
        .split("[[package]]")
        .find(|entry| entry.contains(&format!("name = \"{package}\"\n")))
        .and_then(|entry| entry.split("version = \"").nth(1)?.split('"').next())
        .unwrap_or_default()
}

/// An error and its causes on one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text += &format!(": {inner_text}");
        }
        cause = inner.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let client = std::env::args().nth(1).unwrap_or_default();
    let scenarios = match client.as_str() {
        "sqlx" => sqlx_client::SCENARIOS,
        _ => tokio_postgres_client::SCENARIOS,
    };
    println!("version {}", version(&client));
    let only = std::env::var("CLIENT_ONLY").unwrap_or_default();
    for (name, start) in scenarios.iter().filter(|(name, _)| name.contains(&only)) {
        match tokio::time::timeout(LIMIT, start()).await {
            Ok(Ok(())) => println!("ok {name}"),
            Ok(Err(error)) => println!("FAIL {name}: {}", describe(error.as_ref())),
            Err(_) => println!("FAIL {name}: no end after {LIMIT:?}"),
        }
    }
}
