//! Random texts of SQL: whatever a text is, it gives results or errors with a SQLSTATE of their own, and the session
//! goes on.
//!
//! The texts are made of pieces of the statements in `tests/slt`; `GNOMON_FUZZ_SECONDS` says for how long.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::support::{database, ok, run, value};
use gnomon_engine::{InterruptReason, sync::thread};
use gnomon_sql::{
    SqlState,
    session::{MemoryLimits, Session, SessionOptions},
};
use gnomon_testing::fuzz;
use proptest::{collection::vec, prelude::*};

/// A piece of a text.
#[derive(Clone, Debug)]
enum Piece {
    /// One of the corpus.
    Statement(u16),
    /// Some words of one of the corpus, beginning with one of them.
    Words { statement: u16, first: u8, count: u8 },
    /// A word of the corpus.
    Word(u16),
    /// Any text.
    Text(String),
    /// The end of a statement.
    Semicolon,
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        4 => any::<u16>().prop_map(Piece::Statement),
        8 => (any::<u16>(), 0..16u8, 0..16u8)
            .prop_map(|(statement, first, count)| Piece::Words { statement, first, count }),
        4 => any::<u16>().prop_map(Piece::Word),
        1 => any::<String>().prop_map(Piece::Text),
        1 => Just(Piece::Semicolon),
    ]
}

/// Statements and the words in them, each once and sorted.
struct Corpus {
    statements: Vec<String>,
    words: Vec<String>,
}

impl Corpus {
    fn read() -> Corpus {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
        let mut statements = BTreeSet::new();
        for file in fs::read_dir(folder).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            for record in text.split("\n\n") {
                let mut lines = record.lines().skip_while(|line| !is_head(line)).skip(1);
                let statement: Vec<_> =
                    lines.by_ref().take_while(|line| *line != "----" && *line != "--data").collect();
                statements.insert(statement.join("\n"));
            }
        }
        let words = statements.iter().flat_map(|statement| words(statement)).map(str::to_owned);
        let words: BTreeSet<_> = words.collect();
        Corpus { statements: statements.into_iter().collect(), words: words.into_iter().collect() }
    }

    fn text(&self, pieces: &[Piece]) -> String {
        let statement = |number: u16| &*self.statements[usize::from(number) % self.statements.len()];
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Statement(number) => text.push_str(statement(*number)),
                Piece::Words { statement: number, first, count } => {
                    let words = words(statement(*number)).skip(usize::from(*first) % 16);
                    let some: Vec<_> = words.take(usize::from(*count) % 16).collect();
                    text.push_str(&some.join(" "));
                }
                Piece::Word(number) => text.push_str(&self.words[usize::from(*number) % self.words.len()]),
                Piece::Text(any) => text.push_str(any),
                Piece::Semicolon => text.push(';'),
            }
            text.push(' ');
        }
        text
    }
}

fn is_head(line: &str) -> bool {
    line.starts_with("statement ") || line.starts_with("query ")
}

/// Names and numbers as wholes, all other characters for themselves.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.split_inclusive(move |c: char| !is_word(c))
        .flat_map(move |part| {
            let end = part.trim_end_matches(|c: char| !is_word(c)).len();
            let (word, after) = part.split_at(end);
            [word, after]
        })
        .filter(|word| !word.trim().is_empty())
}

/// Cancels what a session runs, a while after it began.
struct Watchdog {
    began: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

const TICK: Duration = Duration::from_millis(20);

impl Watchdog {
    fn over(session: &Session) -> Watchdog {
        let (began, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (interrupt, seen, stopped) = (session.interrupt(), began.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let (mut last, mut ticks) = (0, 0);
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(TICK);
                let now = seen.load(Ordering::Relaxed);
                ticks = if now == last { ticks + 1 } else { 0 };
                last = now;
                if ticks > 10 {
                    interrupt.raise(InterruptReason::Cancel);
                }
            }
        });
        Watchdog { began, stop, thread: Some(thread) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it runs").join().expect("it does not panic");
    }
}

/// A session, and the number of texts that it has run.
struct Target {
    session: Session,
    watchdog: Watchdog,
    texts: u64,
}

/// Texts that one database runs: what they leave behind stays little.
const TEXTS_MAX: u64 = 300;

/// The end of messages that PostgreSQL has as internal errors too: of states of aggregates that users give.
const INTERNAL_OF_POSTGRES: &str = "-element float8 array";

impl Target {
    fn new() -> Target {
        let db = database();
        db.limit_memory(MemoryLimits { session_bytes: 64 << 20, ..MemoryLimits::default() });
        let session = db.session(SessionOptions::default()).unwrap();
        let watchdog = Watchdog::over(&session);
        Target { session, watchdog, texts: 0 }
    }

    fn run(&mut self, text: &str) {
        self.texts += 1;
        self.watchdog.began.store(self.texts, Ordering::Relaxed);
        if let Err(error) = run(&mut self.session, text) {
            let state = error.state();
            let is_of_postgres = error.report().message.ends_with(INTERNAL_OF_POSTGRES);
            assert!(state != SqlState::INTERNAL_ERROR || is_of_postgres, "{text}: {error:?}");
            assert_eq!(state.0.len(), 5, "{text}: {error:?}");
        }
        // The session goes on, with everything that a client relies on.
        self.watchdog.began.fetch_add(TEXTS_MAX, Ordering::Relaxed);
        self.session.interrupt().clear();
        let _ = run(&mut self.session, "ROLLBACK");
        ok(&mut self.session, "DISCARD ALL");
        assert_eq!(value(&mut self.session, "SELECT 1"), "1", "after {text}");
    }
}

#[test]
fn fuzz_texts_of_sql() {
    let corpus = Corpus::read();
    assert!(corpus.statements.len() > 2000, "{} statements in tests/slt", corpus.statements.len());
    let target = RefCell::new(Target::new());
    fuzz(&vec(piece(), 1..8), |pieces| {
        let text = corpus.text(&pieces);
        let mut target = target.borrow_mut();
        if target.texts == TEXTS_MAX {
            *target = Target::new();
        }
        target.run(&text);
    });
}
