//! Standard output: whole lines, flushed at once, and no error when its reader has gone. Errors
//! become one sentence. All text is escaped here once more, so that no text from a runtime can control
//! a terminal.

use std::error::Error;
use std::future::pending;
use std::io::{self, Write};
use std::os::fd::AsFd;

use agent::ConfigError;
use serde::Serialize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::act;
use crate::args::Format;
use crate::endpoint::NoRuntime;

/// The reader of our output has gone. This is a separate type because a broken connection to an
/// agent or a runtime has the same error code, and is a failure.
#[derive(Debug, thiserror::Error)]
#[error("the output was closed by its reader")]
struct ReaderGone;

/// Whether the error means that the reader of our output has gone, which is not a failure: `pleg watch
/// | head` succeeds.
pub fn is_reader_gone(error: &anyhow::Error) -> bool {
    error.is::<ReaderGone>()
}

fn write(mut out: impl Write, bytes: &[u8]) -> anyhow::Result<()> {
    written(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Ignores that the reader has gone: `pleg doctor | head` has the exit code of `pleg doctor`.
pub fn ignore_gone_reader(written: anyhow::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if is_reader_gone(&error) => Ok(()),
        other => other,
    }
}

/// The result of writing to standard output, with [`ReaderGone`] recognised.
pub fn written(result: io::Result<()>) -> anyhow::Result<()> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => error.into(),
    })
}

/// Waits until the reader has gone. On a quiet node, no write would show it.
pub async fn reader_gone() {
    let gone = async {
        let out = io::stdout().as_fd().try_clone_to_owned()?;
        // Deprecated because of types that return a wrong descriptor, which `OwnedFd` cannot.
        #[allow(deprecated)]
        let out = AsyncFd::with_interest(out, Interest::ERROR)?;
        out.ready(Interest::ERROR).await.map(drop)
    };
    // A regular file cannot be registered with epoll, and has no reader.
    if gone.await.is_err() {
        pending().await
    }
}

/// Writes in another thread, so that a reader that does not read delays nothing else.
pub async fn write_in_thread(
    write: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<()> {
    tokio::task::spawn_blocking(write).await?
}

/// An error as one sentence: what failed, then each cause.
pub fn sentence(error: &anyhow::Error) -> String {
    let parts: Vec<String> = error.chain().map(part).collect();
    parts.join(": ")
}

fn part(cause: &(dyn Error + 'static)) -> String {
    let text = cause.to_string();
    if has_own_line_breaks(cause) {
        let lines: Vec<_> = text.lines().map(pleg_text::escape::sentence).collect();
        return lines.join("\n");
    }
    let text = pleg_text::escape::sentence(&text);
    if !cause.is::<io::Error>() {
        return text.into_owned();
    }
    // "No such file or directory (os error 2)" -> "no such file or directory"
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

/// Whether pleg itself wrote the line breaks in an error: a list, or a position in the user's file. In
/// other errors they come from foreign text.
fn has_own_line_breaks(cause: &(dyn Error + 'static)) -> bool {
    cause.is::<ConfigError>() || cause.is::<NoRuntime>() || act::has_own_line_breaks(cause)
}

/// Writes text; without colours on a pipe or with NO_COLOR.
pub fn text(text: &str) -> anyhow::Result<()> {
    write(
        anstream::stdout().lock(),
        pleg_text::escape::page(text).as_bytes(),
    )
}

/// Writes a value as JSON, or its text.
pub fn show(
    format: Format,
    value: &impl Serialize,
    text_of: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match format {
        Format::Json => json(value),
        Format::Text => text(&text_of()),
    }
}

/// Writes bytes that contain no foreign text, unchanged.
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

    /// Every character that is not printable.
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
                let text = sentence(&error);
                assert!(text.contains(&escaped), "{character:?}: {text:?}");
                assert!(
                    text.chars().all(pleg_text::escape::is_printable),
                    "{text:?}"
                );
            }
        }
    }

    /// A pipe, a socket or a disk that accepts nothing.
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
    fn only_a_broken_pipe_of_standard_output_means_that_the_reader_has_gone() {
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
