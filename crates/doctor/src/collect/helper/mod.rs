//! Helpers make the reads that may block in the kernel. They are processes, because a process whose thread
//! sleeps uninterruptibly cannot end, and they are started before anything is read, because on some nodes
//! no new program can be executed.
//!
//! A request is a line of JSON, and so is its answer. A helper that misses a deadline is abandoned, and the
//! next one is used.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::facts::Missing;

mod answer;
mod crew;
mod request;

pub(crate) use answer::{CgroupWalk, FanotifyMarks};
pub(in crate::collect) use crew::{Outcome, Reads, read_all};
pub(in crate::collect) use request::Request;

/// Answers requests until there are no more. A hidden subcommand of the program calls it with its standard
/// input and output.
pub fn serve(requests: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    for line in requests.lines() {
        let line = line?;
        let answer = match serde_json::from_str::<Request>(&line) {
            Ok(request) => request.answer(),
            Err(error) => Err(error.to_string().into()),
        };
        writeln!(answers, "{}", serde_json::to_string(&answer)?)?;
        answers.flush()?;
    }
    Ok(())
}

/// A helper: a process or, where none can be started, a thread.
pub struct Helper {
    requests: Box<dyn Write + Send>,
    answers: Receiver<io::Result<String>>,
    child: Option<Child>,
}

impl Helper {
    /// Starts a helper process. The `command` has to run [`serve`] on its standard input and output.
    pub fn process(mut command: Command) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let missing = || io::Error::other("the helper has no pipe");
        let requests = child.stdin.take().ok_or_else(missing)?;
        let answers = child.stdout.take().ok_or_else(missing)?;
        Self::new(requests, BufReader::new(answers), Some(child))
    }

    /// Starts a helper thread in this process. Deadlines are kept, but if the thread blocks in the kernel,
    /// this process cannot end.
    pub fn thread() -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let answers = BufReader::new(theirs.try_clone()?);
        thread::Builder::new()
            .name("helper".to_owned())
            .spawn(move || serve(answers, theirs))?;
        Self::new(ours.try_clone()?, BufReader::new(ours), None)
    }

    fn new(
        requests: impl Write + Send + 'static,
        answers: impl BufRead + Send + 'static,
        child: Option<Child>,
    ) -> io::Result<Self> {
        let (sender, received) = channel();
        thread::Builder::new()
            .name("answers".to_owned())
            .spawn(move || {
                for line in answers.lines() {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            requests: Box::new(requests),
            answers: received,
            child,
        })
    }

    /// The line that answers a request. If the helper has exited, the error is `Disconnected`.
    fn ask(&mut self, request: &str, limit: Duration) -> Result<String, RecvTimeoutError> {
        let sent = writeln!(self.requests, "{request}").and_then(|()| self.requests.flush());
        sent.map_err(|_| RecvTimeoutError::Disconnected)?;
        let line = self.answers.recv_timeout(limit)?;
        line.map_err(|_| RecvTimeoutError::Disconnected)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Waiting for a process that sleeps uninterruptibly might never return.
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.try_wait();
        }
    }
}

/// Why nothing is read once all helpers are blocked or have exited.
const NONE_LEFT: &str = "no helper process is left to read it";

/// The helpers of one collection.
#[derive(Default)]
pub struct Helpers {
    waiting: Vec<Helper>,
    /// Blocked helpers, kept until the end so that they are killed with the others.
    blocked: Vec<Helper>,
}

impl Helpers {
    /// Uses these helpers, which were started beforehand.
    pub fn new(helpers: Vec<Helper>) -> Self {
        Self {
            waiting: helpers,
            blocked: Vec::new(),
        }
    }

    /// Takes one helper away, for reads that run at the same time as others. The last helper is not taken.
    pub(in crate::collect) fn take_one(&mut self) -> Self {
        let is_last = self.waiting.len() <= 1;
        let one = self.waiting.pop_if(|_| !is_last);
        Self::new(one.into_iter().collect())
    }

    /// Threads of this process, for use where no process can be started.
    pub fn threads(count: usize) -> io::Result<Self> {
        let helpers = (0..count).map(|_| Helper::thread());
        helpers.collect::<io::Result<_>>().map(Self::new)
    }

    /// Whether a read has blocked.
    pub(crate) fn is_any_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// The answer to a request. A helper that does not answer within `limit` is not used again.
    pub(in crate::collect) fn ask<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        limit: Duration,
    ) -> Result<T, Missing> {
        let failed = |error: serde_json::Error| Missing::from(error.to_string());
        let text = serde_json::to_string(request).map_err(failed)?;
        while let Some(mut helper) = self.waiting.pop() {
            match helper.ask(&text, limit) {
                Ok(line) => {
                    self.waiting.push(helper);
                    return serde_json::from_str(&line).map_err(failed)?;
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.blocked.push(helper);
                    return Err(Missing::blocked(limit));
                }
                // The helper had exited before, so it did not read the request.
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        Err(NONE_LEFT.into())
    }
}

/// Opens a file without blocking on the other end of a pipe or device.
pub(crate) fn open_without_waiting(path: &std::path::Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::host::Filesystem;

    #[test]
    fn a_helper_that_blocks_is_abandoned_and_the_next_one_answers() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().to_owned();
        let mut helpers = Helpers::threads(2).expect("threads");
        let limit = Duration::from_millis(50);
        let sleeping = Request::Sleep { seconds: 2 };
        assert_eq!(
            helpers.ask::<()>(&sleeping, limit),
            Err(Missing::blocked(limit))
        );
        let request = Request::Filesystem { path: root };
        let answer = helpers.ask::<Filesystem>(&request, Duration::from_secs(5));
        assert!(answer.expect("an answer").bytes > 0);
        assert_eq!(
            helpers.ask::<()>(&sleeping, limit),
            Err(Missing::blocked(limit))
        );
        assert_eq!(helpers.ask::<()>(&sleeping, limit), Err(NONE_LEFT.into()));
    }

    #[test]
    fn an_invalid_request_gets_an_error_and_does_not_end_the_helper() {
        let mut answers = Vec::new();
        serve(
            &b"nonsense\n{\"sleep\":{\"seconds\":0}}\n"[..],
            &mut answers,
        )
        .expect("to serve");
        let answers = String::from_utf8(answers).expect("text");
        let lines: Vec<_> = answers.lines().collect();
        assert!(lines[0].starts_with("{\"Err\""), "{answers}");
        assert_eq!(lines[1], "{\"Ok\":null}");
    }
}
