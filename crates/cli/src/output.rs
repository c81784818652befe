//! Writing to standard output: whole lines, at once, and quietly no more when the reader
//! has gone.

use std::io::{self, Write};

use serde::Serialize;

/// Whether the reader of our output has gone: `pleg watch | head` ends well.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes text; colours are taken out on a pipe or with NO_COLOR.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes one JSON value on a line of its own.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()?;
    Ok(())
}
