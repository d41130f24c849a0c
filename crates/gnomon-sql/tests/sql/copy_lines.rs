//! COPY FROM: newline styles, and the context of errors. What is expected is what PostgreSQL 15 gives.

use crate::support::{Collect, database, ok, value};
use gnomon_sql::session::{CopySource, SessionOptions, Sink};

/// The outcome of a COPY: its rows, or state, message, hint and context of an error.
type Expected = Result<&'static str, (&'static str, &'static str, Option<&'static str>, &'static str)>;

/// Format, table, data, outcome.
#[rustfmt::skip]
const CASES: [(&str, &str, &str, Expected); 42] = [
    ("text", "t(a int,b text)", "1\tx\nz\ty\n", Err(("22P02", "invalid input syntax for type integer: \"z\"", None, "COPY t, line 2, column a: \"z\""))),
    ("text", "t(a int,b text)", "1\tx\n2\ty\tz\n", Err(("22P04", "extra data after last expected column", None, "COPY t, line 2: \"2\ty\tz\""))),
    ("text", "t(a int,b text)", "1\tx\n2\n", Err(("22P04", "missing data for column \"b\"", None, "COPY t, line 2: \"2\""))),
    ("text", "t(a int not null,b text)", "1\tx\n\\N\ty\n", Err(("23502", "null value in column \"a\" of relation \"t\" violates not-null constraint", None, "COPY t, line 2: \"\\N\ty\""))),
    ("text", "t(a int check (a>0),b text)", "1\tx\n-1\ty\n", Err(("23514", "new row for relation \"t\" violates check constraint \"t_a_check\"", None, "COPY t, line 2: \"-1\ty\""))),
    ("text", "t(a int primary key,b text)", "1\tx\n1\ty\n", Err(("23505", "duplicate key value violates unique constraint \"t_pkey\"", None, "COPY t, line 2"))),
    ("text", "t(a int,b varchar(2))", "1\tx\n2\tabc\n", Err(("22001", "value too long for type character varying(2)", None, "COPY t, line 2, column b: \"abc\""))),
    ("text", "t(a int,b text)", "1\tx\n99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999\ty\n", Err(("22003", "value \"99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999\" is out of range for type integer", None, "COPY t, line 2, column a: \"9999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999...\""))),
    ("text", "t(a int,b text)", "1\tx\n1\tyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\tz\n", Err(("22P04", "extra data after last expected column", None, "COPY t, line 2: \"1\tyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy...\""))),
    ("text", "t(a int,b text)", "1\tx\r2\ty\r", Ok("1|x 2|y")),
    ("text", "t(a int,b text)", "1\tx\r\n2\ty\r\n", Ok("1|x 2|y")),
    ("text", "t(a int,b text)", "1\tx\n2\ty\r\n", Err(("22P04", "literal carriage return found in data", Some("Use \"\\r\" to represent carriage return."), "COPY t, line 2"))),
    ("text", "t(a int,b text)", "1\tx\r\n2\ty\n", Err(("22P04", "literal newline found in data", Some("Use \"\\n\" to represent newline."), "COPY t, line 2"))),
    ("text", "t(a int,b text)", "1\tx\r\n2\ty\r", Err(("22P04", "literal carriage return found in data", Some("Use \"\\r\" to represent carriage return."), "COPY t, line 2"))),
    ("text", "t(a int,b text)", "1\tx\r\n2\ty\r3\tz\r\n", Err(("22P04", "literal carriage return found in data", Some("Use \"\\r\" to represent carriage return."), "COPY t, line 2"))),
    ("text", "t(a int,b text)", "1\tx\r2\ty\n", Err(("22P04", "literal newline found in data", Some("Use \"\\n\" to represent newline."), "COPY t, line 2"))),
    ("text", "t(a int,b text)", "1\tx\r2\ty\r\n", Err(("22P04", "literal newline found in data", Some("Use \"\\n\" to represent newline."), "COPY t, line 3"))),
    ("text", "t(a int,b text)", "1\tx\n2\ty\r3\tz\n", Err(("22P04", "literal carriage return found in data", Some("Use \"\\r\" to represent carriage return."), "COPY t, line 2"))),
    ("text", "t(a int,b text)", "1\tx\r2\ty", Ok("1|x 2|y")),
    ("text", "t(a int,b text)", "1\tx\\\n2\n2\ty\nq\tz\n", Err(("22P02", "invalid input syntax for type integer: \"q\"", None, "COPY t, line 3, column a: \"q\""))),
    ("text", "t(a int,b text)", "1\tx\\\r2\r2\ty\r", Ok("1|x<r>2 2|y")),
    ("text", "t(a int,b text)", "1\tx\r2\ty\r\\.\r", Ok("1|x 2|y")),
    ("text", "t(a int,b text)", "1\tx\r2\ty\r\\.\n", Err(("22P04", "end-of-copy marker does not match previous newline style", None, "COPY t, line 3"))),
    ("text", "t(a int,b text)", "1\tx\n\\.\r\n", Err(("22P04", "end-of-copy marker does not match previous newline style", None, "COPY t, line 2"))),
    ("text", "t(a int,b text)", "1\tx\r\n\\.\n", Err(("22P04", "end-of-copy marker does not match previous newline style", None, "COPY t, line 2"))),
    ("text", "t(a int,b text)", "1\tx\n\\.x\n", Err(("22P04", "end-of-copy marker corrupt", None, "COPY t, line 2"))),
    ("csv", "t(a int,b text)", "1,x\r2,y\r", Ok("1|x 2|y")),
    ("csv", "t(a int,b text)", "1,x\r\n2,y\r\n", Ok("1|x 2|y")),
    ("csv", "t(a int,b text)", "1,x\n2,y\r\n", Err(("22P04", "unquoted carriage return found in data", Some("Use quoted CSV field to represent carriage return."), "COPY t, line 2"))),
    ("csv", "t(a int,b text)", "1,x\r\n2,y\n", Err(("22P04", "unquoted newline found in data", Some("Use quoted CSV field to represent newline."), "COPY t, line 2"))),
    ("csv", "t(a int,b text)", "1,x\r\n2,y\r3,z\r\n", Err(("22P04", "unquoted carriage return found in data", Some("Use quoted CSV field to represent carriage return."), "COPY t, line 2"))),
    ("csv", "t(a int,b text)", "1,x\r2,y\n", Err(("22P04", "unquoted newline found in data", Some("Use quoted CSV field to represent newline."), "COPY t, line 2"))),
    ("csv", "t(a int,b text)", "1,\"x\ny\"\n2,\"a\nb\"\nq,z\n", Err(("22P02", "invalid input syntax for type integer: \"q\"", None, "COPY t, line 4, column a: \"q\""))),
    ("csv", "t(a int,b text)", "1,\"x\ry\"\r2,\"a\rb\"\rq,z\r", Err(("22P02", "invalid input syntax for type integer: \"q\"", None, "COPY t, line 5, column a: \"q\""))),
    ("csv", "t(a int,b text)", "1,\"x\r\ny\"\r\n2,\"a\r\nb\"\r\nq,z\r\n", Err(("22P02", "invalid input syntax for type integer: \"q\"", None, "COPY t, line 5, column a: \"q\""))),
    ("csv", "t(a int,b text)", "1,x\n2,\"y\n", Err(("22P04", "unterminated CSV quoted field", None, "COPY t, line 3: \"2,\"y\n\""))),
    ("csv", "t(a int,b text)", "1,x\n2,y,z\n", Err(("22P04", "extra data after last expected column", None, "COPY t, line 2: \"2,y,z\""))),
    ("csv", "t(a int,b text)", "1,x\n,y\nq,\n", Err(("22P02", "invalid input syntax for type integer: \"q\"", None, "COPY t, line 3, column a: \"q\""))),
    ("csv", "t(a int,b text)", "1,x\n2\n", Err(("22P04", "missing data for column \"b\"", None, "COPY t, line 2: \"2\""))),
    ("csv", "t(a int not null,b text)", "1,x\n,y\n", Err(("23502", "null value in column \"a\" of relation \"t\" violates not-null constraint", None, "COPY t, line 2: \",y\""))),
    ("csv", "t(a int,b text)", "1,x\n\"q\",y\n", Err(("22P02", "invalid input syntax for type integer: \"q\"", None, "COPY t, line 2, column a: \"q\""))),
    ("csv", "t(a int,b text)", "1,\"x\ny\"\n\"q\n\",y\n", Err(("22P02", "invalid input syntax for type integer: \"q\n\"", None, "COPY t, line 3, column a: \"q\n\""))),
];

/// Data in pieces of one size.
struct Pieces<'a>(std::slice::Chunks<'a, u8>);

impl CopySource for Pieces<'_> {
    fn next(&mut self) -> gnomon_sql::Result<Option<Vec<u8>>> {
        Ok(self.0.next().map(<[u8]>::to_vec))
    }
}

/// Gives data to COPY in pieces.
struct Feed<'a> {
    data: &'a [u8],
    piece_bytes: usize,
    inner: Collect,
}

impl Sink for Feed<'_> {
    fn columns(&mut self, columns: &[gnomon_sql::session::ResultColumn]) -> gnomon_sql::Result<()> {
        self.inner.columns(columns)
    }
    fn row(
        &mut self,
        context: &gnomon_sql::types::Context<'_>,
        row: &[gnomon_sql::types::Datum],
    ) -> gnomon_sql::Result<()> {
        self.inner.row(context, row)
    }
    fn complete(&mut self, tag: &str) -> gnomon_sql::Result<()> {
        self.inner.complete(tag)
    }
    fn empty(&mut self) -> gnomon_sql::Result<()> {
        Ok(())
    }
    fn notice(&mut self, notice: gnomon_sql::Notice) -> gnomon_sql::Result<()> {
        self.inner.notice(notice)
    }
    fn copy_out(&mut self, _: bool, _: usize) -> gnomon_sql::Result<()> {
        Ok(())
    }
    fn copy_data(&mut self, _: &[u8]) -> gnomon_sql::Result<()> {
        Ok(())
    }
    fn copy_done(&mut self) -> gnomon_sql::Result<()> {
        Ok(())
    }
    fn copy_in(&mut self, _: bool, _: usize) -> gnomon_sql::Result<Box<dyn CopySource + '_>> {
        Ok(Box::new(Pieces(self.data.chunks(self.piece_bytes))))
    }
}

/// Each case with its data in one piece, and in pieces of one byte to three.
#[test]
fn lines_end_and_errors_tell_their_place_as_in_postgresql() {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    for (format, table, data, expected) in &CASES {
        for piece_bytes in [1, 2, 3, 1 << 20] {
            ok(&mut session, &format!("DROP TABLE IF EXISTS t; CREATE TABLE {table}"));
            let mut feed = Feed { data: data.as_bytes(), piece_bytes, inner: Collect::default() };
            let done = session.execute(&format!("COPY t FROM STDIN (FORMAT {format})"), &mut feed);
            let place = format!("{data:?} in pieces of {piece_bytes}");
            match (done, expected) {
                (Ok(()), Ok(rows)) => {
                    let sql = "SELECT string_agg(a || '|' || coalesce(replace(replace(b, chr(10), '<n>'), \
                               chr(13), '<r>'), 'N'), ' ') FROM t";
                    assert_eq!(value(&mut session, sql), **rows, "{place}");
                }
                (Err(error), Err((state, message, hint, context))) => {
                    let report = error.report();
                    assert_eq!(report.state.0, *state, "{place}");
                    assert_eq!(report.message, *message, "{place}");
                    assert_eq!(report.hint.as_deref(), *hint, "{place}");
                    assert_eq!(report.context.as_deref(), Some(*context), "{place}");
                }
                (done, _) => panic!("{place}: {:?}", done.map_err(|error| error.report().message.clone())),
            }
        }
    }
}
