//! BACKUP TO STDOUT: the database as a stream of bytes, in the form of COPY's output.

use std::io;

use gnomon_engine::{BackupId, Interrupt};

use crate::{
    Result, SqlError,
    context::SessionContext,
    sink::{Sink, Tag, tag},
};

/// Output goes out in pieces of at most so many bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Runs a BACKUP; `since` is the name of the backup that it goes on from.
pub(super) fn backup(session: &SessionContext, since: Option<&str>, sink: &mut dyn Sink) -> Result<Tag> {
    let since = since.map(str::parse::<BackupId>).transpose()?;
    let engine = session.shared.engine.clone();
    let interrupt = session.interrupt.clone();
    let mut out = Out { sink, interrupt: &interrupt, has_begun: false, failure: None };
    match (engine.backup(since, &mut out, &mut |_, _| ()), out.failure) {
        (Ok(_), _) => {
            sink.copy_done()?;
            tag("BACKUP")
        }
        (Err(_), Some(failure)) => Err(failure),
        (Err(error), None) => Err(error.into()),
    }
}

/// The stream on its way to the client.
struct Out<'a> {
    sink: &'a mut dyn Sink,
    interrupt: &'a Interrupt,
    has_begun: bool,
    /// Why it cannot go on.
    failure: Option<SqlError>,
}

impl Out<'_> {
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.interrupt.check()?;
        // Not before there is something: errors at the beginning come without.
        if !self.has_begun {
            self.sink.copy_out(true, 1)?;
            self.has_begun = true;
        }
        self.sink.copy_data(bytes)
    }
}

impl io::Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        self.send(piece).map_err(|failure| {
            self.failure = Some(failure);
            io::Error::other("the client does not take it")
        })?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
