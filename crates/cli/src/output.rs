//! Writing to standard output: whole lines, at once, and quietly no more when the reader
//! has gone. And what could not be done, in one sentence. Here nothing passes that a runtime
//! could disturb a terminal with, whoever forgot to escape it.

use std::error::Error;
use std::future::pending;
use std::io::{self, Write};
use std::os::fd::AsFd;

use agent::ConfigError;
use serde::Serialize;
use sim::ScenarioError;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::endpoint::NoRuntime;

/// The reader of our output has gone. A type of its own, because a connection to an agent or
/// a runtime breaks with the same error code, and that is a failure.
#[derive(Debug, thiserror::Error)]
#[error("the output was closed by its reader")]
struct ReaderGone;

/// Whether the reader of our output has gone: `pleg watch | head` ends well.
pub fn is_reader_gone(error: &anyhow::Error) -> bool {
    error.is::<ReaderGone>()
}

fn write(mut out: impl Write, bytes: &[u8]) -> anyhow::Result<()> {
    written(out.write_all(bytes).and_then(|()| out.flush()))
}

/// A reader who has gone has read enough: what was found counts all the same, so `pleg doctor |
/// head` ends as `pleg doctor` does.
pub fn read_enough(shown: anyhow::Result<()>) -> anyhow::Result<()> {
    match shown {
        Err(error) if is_reader_gone(&error) => Ok(()),
        other => other,
    }
}

/// What became of writing to standard output.
pub fn written(result: io::Result<()>) -> anyhow::Result<()> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => error.into(),
    })
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

fn part(cause: &(dyn Error + 'static)) -> String {
    let said = cause.to_string();
    if has_lines(cause) {
        let lines: Vec<_> = said.lines().map(pleg_text::escape::sentence).collect();
        return lines.join("\n");
    }
    let said = pleg_text::escape::sentence(&said);
    if !cause.is::<io::Error>() {
        return said.into_owned();
    }
    // "No such file or directory (os error 2)" -> "no such file or directory"
    let said = said.split(" (os error").next().unwrap_or(&said);
    let mut characters = said.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

/// Whether an error consists of lines that we wrote: a list, or a place in the user's file.
/// In any other a line break was put in by somebody else.
fn has_lines(cause: &(dyn Error + 'static)) -> bool {
    cause.is::<ConfigError>() || cause.is::<ScenarioError>() || cause.is::<NoRuntime>()
}

/// Writes text; colours are taken out on a pipe or with NO_COLOR.
pub fn text(text: &str) -> anyhow::Result<()> {
    write(
        anstream::stdout().lock(),
        pleg_text::escape::page(text).as_bytes(),
    )
}

/// Writes what was generated from our own text alone, as it is.
pub fn generated(bytes: &[u8]) -> anyhow::Result<()> {
    write(io::stdout().lock(), bytes)
}

/// Writes one JSON value on a line of its own.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut line = pleg_text::escape::json(serde_json::to_string(value)?);
    line.push('\n');
    write(io::stdout().lock(), line.as_bytes())
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use pleg::runtime::CallError;

    use super::*;

    /// Every character that could do more than show itself.
    fn unprintable() -> impl Iterator<Item = char> {
        ('\0'..=char::MAX).filter(|character| !pleg_text::escape::is_printable(*character))
    }

    #[test]
    fn no_error_can_forge_a_line_or_drive_a_terminal() {
        for character in unprintable() {
            let evil = format!("a{character}b");
            let escaped = format!("a{}b", character.escape_default());
            let refused = anyhow::Error::from(CallError::Refused(evil.clone().into()));
            for error in [
                anyhow!(evil.clone()),
                io::Error::other(evil.clone()).into(),
                refused,
                anyhow!("cause").context(evil.clone()),
            ] {
                let said = sentence(&error);
                assert!(said.contains(&escaped), "{character:?}: {said:?}");
                assert!(
                    said.chars().all(pleg_text::escape::is_printable),
                    "{said:?}"
                );
            }
        }
    }

    /// A pipe, a socket or a disk that takes nothing.
    struct Closed(io::ErrorKind);

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_our_own_reader_may_go() {
        let gone = write(Closed(io::ErrorKind::BrokenPipe), b"x").unwrap_err();
        assert!(is_reader_gone(&gone));
        let full = write(Closed(io::ErrorKind::StorageFull), b"x").unwrap_err();
        assert!(!is_reader_gone(&full));
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        let agent = anyhow::Error::from(broken).context("the agent does not answer");
        assert!(!is_reader_gone(&agent));
        assert_eq!(sentence(&agent), "the agent does not answer: broken pipe");
    }

    #[test]
    fn our_own_lists_keep_their_lines() {
        let error = NoRuntime("\n  a\u{1b}b\n  c".to_owned()).into();
        assert!(sentence(&error).ends_with("Tried:\n  a\\u{1b}b\n  c"));
    }
}
