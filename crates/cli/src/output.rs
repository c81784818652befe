//! Writing to standard output: whole lines, at once, and quietly no more when the reader
//! has gone. And what could not be done, in one sentence.

use std::future::pending;
use std::io::{self, Write};
use std::os::fd::AsFd;

use pleg::runtime::CallError;
use serde::Serialize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::text;

/// Whether the reader of our output has gone: `pleg watch | head` ends well.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Waits until the reader has gone: on a quiet node nothing is written by which it would
/// be noticed.
pub async fn reader_gone() {
    let gone = async {
        let out = io::stdout().as_fd().try_clone_to_owned()?;
        // Deprecated for what lies about its descriptor, which an `OwnedFd` cannot.
        #[allow(deprecated)]
        let out = AsyncFd::with_interest(out, Interest::ERROR)?;
        out.ready(Interest::ERROR).await.map(drop)
    };
    // A file cannot be waited for, and has no reader that goes.
    if gone.await.is_err() {
        pending().await
    }
}

/// Writes from a thread of its own: a reader who does not read for a while holds up
/// nothing but what is told to it.
pub async fn patiently(
    write: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<()> {
    tokio::task::spawn_blocking(write).await?
}

/// What could not be done and why, from the step to its cause.
pub fn sentence(error: &anyhow::Error) -> String {
    let parts: Vec<String> = error.chain().map(part).collect();
    parts.join(": ")
}

fn part(cause: &(dyn std::error::Error + 'static)) -> String {
    let said = cause.to_string();
    if cause.is::<CallError>() {
        return text::sentence(&said).into_owned();
    }
    if !cause.is::<io::Error>() {
        // Our own, which may have lines: a list, or a place in a file.
        let lines: Vec<_> = said.lines().map(text::sentence).collect();
        return lines.join("\n");
    }
    // "No such file or directory (os error 2)" -> "no such file or directory"
    let said = said.split(" (os error").next().unwrap_or(&said);
    let mut characters = said.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
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
