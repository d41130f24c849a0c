//! Orders of messages in the extended protocol, with the replies that PostgreSQL 15 gave to them.
//!
//! `sequences.txt` has both: `> ` a message to the server, `< ` a reply. Replies are read behind Sync, Flush, a simple
//! query, and `> .`, which sends nothing and so waits for what comes without being asked for. A message of any content is
//! `raw`, its type, and its body, in which `\xHH` is a byte; `< closed` is the end of the connection. A line `# title`
//! begins a sequence, on a connection of its own; `malformed.txt` has those whose messages are wrong in themselves,
//! `encodings.txt` those of clients that do not use UTF-8 (bytes that are not UTF-8 stand as `\xHH`), and
//! `parameters.txt` asks for the types that statements give their parameters, without the places of errors. With
//! `GNOMON_WIRE_RECORD=HOST:PORT/USER/DATABASE` the replies are recorded anew from that server.

use std::{fmt::Write, net::TcpStream, time::Duration};

use super::common::*;

/// The fixtures: names of files, and what is in them.
const FIXTURES: [(&str, &str); 4] = [
    ("sequences.txt", include_str!("sequences.txt")),
    ("malformed.txt", include_str!("malformed.txt")),
    ("encodings.txt", include_str!("encodings.txt")),
    (PARAMETERS, include_str!("parameters.txt")),
];
const PARAMETERS: &str = "parameters.txt";

/// The bytes of a message as the fixture writes it.
fn message(line: &str) -> Vec<u8> {
    let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    let fields: Vec<&str> = rest.split('|').collect();
    match kind {
        "P" => parse(fields[0], &fields[1..].join("|")),
        "B" => {
            let parameters: Vec<Option<&str>> =
                fields[2..].iter().map(|value| Some(*value).filter(|value| *value != "~")).collect();
            bind(fields[0], fields[1], &parameters, 0)
        }
        "D" => describe(rest.chars().next().expect("S or P"), rest[1..].trim()),
        "E" => execute(fields[0], fields[1].parse().unwrap_or(0)),
        "C" => frame(b'C', format!("{}\0", rest.replacen(' ', "", 1)).as_bytes()),
        "H" => frame(b'H', b""),
        "S" => sync(),
        "Q" => frame(b'Q', format!("{rest}\0").as_bytes()),
        "d" => frame(b'd', unescape(rest).as_bytes()),
        "binary" => frame(b'd', &hex(rest)),
        "c" => frame(b'c', b""),
        "f" => frame(b'f', format!("{rest}\0").as_bytes()),
        "raw" => frame(rest.as_bytes()[0], &raw_body(rest.get(2..).unwrap_or_default())),
        "." => Vec::new(),
        other => panic!("no message {other}"),
    }
}

fn unescape(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t")
}

/// The bytes of a body in which `\xHH` stands for a byte and `\xHH{N}` for N of it.
fn raw_body(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut body = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        let count = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let (count, rest) = count.unwrap_or(("1", rest));
        body.extend(hex(digits).repeat(count.parse().expect("a count")));
        body.extend(rest.as_bytes());
    }
    body
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte =
        |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("a byte");
    digits.chunks(2).map(byte).collect()
}

/// True if the replies up to here are read behind this message.
fn is_answered(line: &str) -> bool {
    matches!(line.split(' ').next(), Some("H" | "S" | "Q" | "."))
}

/// A reply as the fixture writes it; none for those that say nothing of the sequence.
fn shown((kind, body): &RawMessage) -> Option<String> {
    let mut out = String::from(*kind as char);
    let number =
        |at: usize, bytes: usize| body[at..at + bytes].iter().fold(0_i64, |n, b| n << 8 | i64::from(*b));
    let text = |bytes: &[u8]| text(bytes).trim_end_matches('\0').replace('\n', "\\n");
    match kind {
        b'K' | b'R' => return None,
        b'S' => write!(out, " {}", text(body).replacen('\0', "=", 1)).unwrap(),
        b'C' | b'Z' | b'd' => write!(out, " {}", text(body)).unwrap(),
        b'D' => {
            let row = &rows(&[(*kind, body.clone())])[0];
            let values: Vec<&str> = row.iter().map(|value| value.as_deref().unwrap_or("~")).collect();
            write!(out, " {}", values.join("|")).unwrap();
        }
        b't' => {
            for i in 0..number(0, 2) as usize {
                write!(out, " {}", number(2 + 4 * i, 4)).unwrap();
            }
        }
        b'T' => {
            let mut at = 2;
            for _ in 0..number(0, 2) {
                let name = body[at..].split(|byte| *byte == 0).next().expect("a name");
                at += name.len() + 1;
                write!(out, " {}:{}", text(name), number(at + 6, 4)).unwrap();
                let modifier = number(at + 12, 4);
                if modifier != u32::MAX.into() {
                    write!(out, "({modifier})").unwrap();
                }
                at += 18;
            }
        }
        b'G' | b'H' => write!(out, " {} {}", body[0], number(1, 2)).unwrap(),
        b'E' | b'N' => {
            for part in body.split(|byte| *byte == 0).filter(|part| !part.is_empty()) {
                let (field, value) = (part[0] as char, text(&part[1..]));
                // Of the routines, drivers act on one.
                if "VCMDPstcdn".contains(field) || value == "RevalidateCachedQuery" {
                    write!(out, " {field}={value}").unwrap();
                }
            }
        }
        _ => {}
    }
    Some(out)
}

/// The sequences of a fixture: title and lines.
fn sequences(fixture: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let sequences = fixture.split("\n# ").skip(1);
    sequences
        .map(|sequence| {
            let (title, lines) = sequence.split_once('\n').expect("a title");
            (title, lines.lines().filter(|line| !line.is_empty()).collect())
        })
        .collect()
}

/// Sends a sequence and reads the replies: at each place as many as are expected, or those that come for a while. Returns
/// the sequence as the fixture has it.
fn play(raw: &mut Raw<TcpStream>, lines: &[&str], is_recorded: bool) -> String {
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(sent) = line.strip_prefix("> ") else { continue };
        raw.bytes(&message(sent));
        writeln!(out, "{line}").unwrap();
        if !is_answered(sent) {
            continue;
        }
        let expected = lines[at + 1..].iter().take_while(|line| line.starts_with("< ")).count();
        let mut read = 0;
        let wait = if is_recorded { Duration::from_millis(400) } else { Duration::from_secs(20) };
        raw.stream.set_read_timeout(Some(wait)).unwrap();
        while is_recorded || read < expected {
            let Ok(count) = raw.stream.peek(&mut [0]) else { break };
            let reply = if count == 0 { Some("closed".into()) } else { raw.read().as_ref().and_then(shown) };
            let Some(reply) = reply else { continue };
            read += 1;
            writeln!(out, "< {reply}").unwrap();
            if count == 0 {
                return out;
            }
        }
    }
    out
}

/// Replies without the places of errors in the text.
fn without_positions(replies: &str) -> String {
    let kept = |line: &str| match line.rsplit_once(" P=") {
        Some((head, place)) if line.starts_with("< E") && place.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{head}\n")
        }
        _ => format!("{line}\n"),
    };
    replies.lines().map(kept).collect()
}

fn connect(addr: std::net::SocketAddr, user: &str, database: &str) -> Raw<TcpStream> {
    let mut raw = Raw::connect(addr);
    raw.untyped(3 << 16, format!("user\0{user}\0database\0{database}\0\0").as_bytes());
    raw.until_ready();
    raw
}

#[test]
fn replies_are_postgresqls_in_every_order_of_messages() {
    if let Ok(target) = std::env::var("GNOMON_WIRE_RECORD") {
        let mut parts = target.split('/');
        let mut next = || parts.next().expect("HOST:PORT/USER/DATABASE");
        let (addr, user, database) = (next().parse().expect("an address"), next(), next());
        for (file, fixture) in FIXTURES {
            let mut out = fixture.split_once("\n# ").expect("a head").0.to_owned();
            for (title, lines) in sequences(fixture) {
                write!(out, "\n# {title}\n{}", play(&mut connect(addr, user, database), &lines, true))
                    .unwrap();
            }
            if file == PARAMETERS {
                out = without_positions(&out);
            }
            #[expect(clippy::disallowed_methods, reason = "the fixture is no file of an engine")]
            std::fs::write(format!("{}/tests/wire/{file}", env!("CARGO_MANIFEST_DIR")), out).unwrap();
        }
        return;
    }
    let server = TestServer::start(options());
    let mut wrong = Vec::new();
    let all = FIXTURES.into_iter().flat_map(|(file, fixture)| {
        sequences(fixture).into_iter().map(move |(title, lines)| (file, title, lines))
    });
    for (file, title, lines) in all {
        let mut got = play(&mut connect(server.addr, "tester", "bank"), &lines, false);
        let expected: String = lines.iter().map(|line| format!("{line}\n")).collect();
        if file == PARAMETERS {
            got = without_positions(&got);
        }
        if got != expected {
            wrong.push(format!("# {title}\n--- PostgreSQL\n{expected}--- here\n{got}"));
        }
    }
    assert!(wrong.is_empty(), "{} sequences\n{}", wrong.len(), wrong.join("\n"));
}
