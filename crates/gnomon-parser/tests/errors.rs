//! Statements that PostgreSQL refuses, with its message, state and position, in `errors.txt`.
//!
//! `GNOMON_ERRORS_RECORD=HOST:PORT/USER` asks a PostgreSQL server anew. Nothing is run there: a text is parsed as a
//! whole, and each has something behind it that is wrong.

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
};

/// What is refused: the state, the place in characters, and the message; nothing if the statement is well formed.
type Refusal = Option<(String, Option<usize>, String)>;

/// Wrong in any statement.
const MARK: &str = "\n;\n~~~ mark";

fn mine(sql: &str) -> Refusal {
    let error = gnomon_parser::parse(sql).err()?;
    Some((error.kind.sqlstate().to_owned(), error.position.character(sql), error.message.clone()))
}

fn show(refusal: &Refusal) -> String {
    match refusal {
        None => "accepted".to_owned(),
        Some((state, position, message)) => {
            let position = position.map_or("-".to_owned(), |position| position.to_string());
            format!("{state} {position} {}", message.replace('\\', "\\\\").replace('\n', "\\n"))
        }
    }
}

/// A client that knows as much of the protocol as it takes to be refused.
struct Server(TcpStream);

impl Server {
    fn connect(target: &str) -> Server {
        let (address, user) = target.split_once('/').expect("HOST:PORT/USER");
        let mut server = Server(TcpStream::connect(address).unwrap());
        let parameters = format!("user\0{user}\0database\0{user}\0client_encoding\0UTF8\0\0");
        let mut startup = (parameters.len() as u32 + 8).to_be_bytes().to_vec();
        startup.extend(196_608_u32.to_be_bytes());
        startup.extend(parameters.bytes());
        server.0.write_all(&startup).unwrap();
        server.answer();
        server
    }

    /// Reads up to the end of an answer, and returns the error in it.
    fn answer(&mut self) -> Refusal {
        let mut refusal = None;
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
            let mut body = vec![0; length - 4];
            self.0.read_exact(&mut body).unwrap();
            match head[0] {
                b'Z' => return refusal,
                b'E' => {
                    let fields: HashMap<u8, String> = body
                        .split(|byte| *byte == 0)
                        .filter(|field| !field.is_empty())
                        .map(|field| (field[0], String::from_utf8_lossy(&field[1..]).into_owned()))
                        .collect();
                    let position = fields.get(&b'P').map(|position| position.parse().unwrap());
                    refusal = Some((fields[&b'C'].clone(), position, fields[&b'M'].clone()));
                }
                _ => {}
            }
        }
    }

    fn ask(&mut self, sql: &str) -> Refusal {
        let mut query = |text: &str| {
            let mut message = vec![b'Q'];
            message.extend((text.len() as u32 + 5).to_be_bytes());
            message.extend(text.bytes());
            message.push(0);
            self.0.write_all(&message).unwrap();
            self.answer()
        };
        let marked = query(&format!("{sql}{MARK}"));
        let (_, position, message) = marked.clone().expect("the mark is refused");
        let mark = sql.chars().count() + 4;
        if position == Some(mark) && message == "syntax error at or near \"~~~\"" {
            return None;
        }
        // The mark would be a part of the message where the text ends too early.
        query(sql)
    }
}

/// A record is a statement, a line `----`, what is said of it, and an empty line.
#[test]
fn wrong_statements_are_refused_as_in_postgres() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors.txt");
    let text = fs::read_to_string(&path).unwrap();
    let mut server = std::env::var("GNOMON_ERRORS_RECORD").ok().map(|target| Server::connect(&target));
    let (mut written, mut wrong, mut count) = (String::new(), Vec::new(), 0);
    for record in text.split("\n\n\n").filter(|record| !record.trim().is_empty()) {
        let (sql, said) = record.trim_matches('\n').split_once("\n----").expect("a line ----");
        let said = match &mut server {
            Some(server) => show(&server.ask(sql)),
            None => said.trim().to_owned(),
        };
        writeln!(written, "{sql}\n----\n{said}\n\n").unwrap();
        let mine = show(&mine(sql));
        if mine != said {
            wrong.push(format!("{sql}\n  PostgreSQL {said}\n  here       {mine}"));
        }
        count += 1;
    }
    if server.is_some() {
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        fs::write(&path, written).unwrap();
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 300, "{count}");
}
