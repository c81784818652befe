//! Reads many files, although some reads may never return. One worker reads and is checked regularly. If
//! a read does not return, the worker is abandoned, and the next one continues without that file.
//!
//! ```text
//!   items --> worker --announces each read--> board <-- checked every 10 ms
//!               |                                             |
//!               +-- hangs: abandoned, a new one starts <------+
//! ```

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::collect::host::text_of;
use crate::facts::Missing;
use crate::facts::host::{Gap, Gaps};

/// A read takes microseconds. If the same read is still running at this many checks in a row, it is taken
/// to be blocked. Checks are counted, not timed: on a busy machine, the checking thread is delayed as much
/// as the reader.
const MAX_CHECKS: u32 = 50;

/// After how many checks a read is taken to be blocked if an earlier read of the same kind of file (such as
/// `stack` or `cgroup`) did not return.
const MAX_CHECKS_AGAIN: u32 = 10;

/// If this many workers are abandoned, a file is no longer read if a read of the same kind of file did not
/// return.
const MAX_ABANDONED_PER_KIND: usize = 24;

/// If this many workers are abandoned, nothing more is read.
const MAX_ABANDONED: usize = 32;

/// How often the worker is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The stack of a worker is small, because many may be abandoned.
const STACK_BYTES: usize = 256 << 10;

/// What the jobs returned, and what could not be read.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::collect) struct Outcome<T> {
    pub done: Vec<T>,
    pub gaps: Gaps,
}

/// Runs `job` for each of the `items`, until all are done or the time `until` is reached. If the worker is
/// abandoned during a job, the next one repeats it.
pub(in crate::collect) fn read_all<I, T>(
    items: Vec<I>,
    until: Instant,
    job: impl Fn(&Reads, &I) -> Option<T> + Send + Sync + 'static,
) -> Outcome<T>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
{
    let desk = Arc::new(Desk::default());
    let results = Arc::new(Mutex::new(Vec::new()));
    let (items, job) = (Arc::new(items), Arc::new(job));
    let start = |worker: usize| {
        let reads = Reads {
            desk: desk.clone(),
            worker,
        };
        let (items, job, results) = (items.clone(), job.clone(), results.clone());
        let builder = thread::Builder::new().name("reader".to_owned());
        let work = move || reads.work(&items, &*job, &results);
        builder.stack_size(STACK_BYTES).spawn(work).is_ok()
    };
    let mut is_started = start(0);
    let mut board = desk.board();
    while board.next < items.len() {
        if board.is_stuck() {
            board.abandon_worker();
            is_started = board.abandoned.len() < MAX_ABANDONED && start(board.worker);
        }
        if !is_started || Instant::now() >= until {
            break;
        }
        let waited = desk.changed.wait_timeout(board, CHECK_INTERVAL);
        board = waited.unwrap_or_else(PoisonError::into_inner).0;
        if let Some((_, checks)) = &mut board.reading {
            *checks += 1;
        }
    }
    // Workers that are still reading end, because none of them is the current one.
    board.worker = usize::MAX;
    let mut gaps = std::mem::take(&mut board.gaps);
    gaps.processes = items.len() - board.next;
    drop(board);
    let done = std::mem::take(&mut *results.lock().unwrap_or_else(PoisonError::into_inner));
    Outcome { done, gaps }
}

/// What the workers and the checking thread share.
#[derive(Default)]
struct Desk {
    board: Mutex<Board>,
    changed: Condvar,
}

#[derive(Default)]
struct Board {
    /// The current worker.
    worker: usize,
    /// The first item that is not done.
    next: usize,
    /// The file that the current worker reads, and at how many checks in a row it has been reading that
    /// file.
    reading: Option<(PathBuf, u32)>,
    /// The abandoned workers whose read has not returned.
    abandoned: HashSet<usize>,
    /// Files whose read did not return.
    blocked: HashSet<PathBuf>,
    gaps: Gaps,
}

impl Desk {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Board {
    fn is_stuck(&self) -> bool {
        self.reading
            .as_ref()
            .is_some_and(|(path, checks)| *checks >= self.max_checks(path))
    }

    fn max_checks(&self, path: &Path) -> u32 {
        match self.is_of_blocked_kind(path) {
            true => MAX_CHECKS_AGAIN,
            false => MAX_CHECKS,
        }
    }

    fn is_of_blocked_kind(&self, path: &Path) -> bool {
        let kind = path.file_name();
        self.blocked.iter().any(|other| other.file_name() == kind)
    }

    /// Abandons the current worker and the file that it reads.
    fn abandon_worker(&mut self) {
        if let Some((path, _)) = self.reading.take() {
            self.gaps.add(Gap {
                file: path.display().to_string(),
                why: Missing::blocked(CHECK_INTERVAL * self.max_checks(&path)),
            });
            self.blocked.insert(path);
            self.abandoned.insert(self.worker);
        }
        self.worker += 1;
    }
}

/// The reads of one worker.
pub(in crate::collect) struct Reads {
    desk: Arc<Desk>,
    worker: usize,
}

impl Reads {
    /// Reads `path`, unless an earlier read of it did not return.
    pub fn at<R>(&self, path: &Path, read: impl FnOnce() -> io::Result<R>) -> Result<R, Missing> {
        self.announce(path)?;
        let read = read();
        let mut board = self.desk.board();
        self.check_current(&mut board)?;
        board.reading = None;
        Ok(read?)
    }

    /// The text of a file. Opening it may block as well.
    pub fn text(&self, path: &Path) -> Result<String, Missing> {
        self.at(path, || text_of(File::open(path)?))
    }

    /// Announces the read of a path, or refuses it if reads of this file, or of too many files of its kind,
    /// did not return.
    fn announce(&self, path: &Path) -> Result<(), Missing> {
        let mut board = self.desk.board();
        self.check_current(&mut board)?;
        if board.blocked.contains(path) {
            return Err(Missing::blocked(CHECK_INTERVAL * MAX_CHECKS));
        }
        if board.abandoned.len() >= MAX_ABANDONED_PER_KIND && board.is_of_blocked_kind(path) {
            let why = "it was not read, because reads of this file did not return for other \
                       processes";
            board.gaps.add(Gap {
                file: path.display().to_string(),
                why: why.into(),
            });
            return Err(why.into());
        }
        board.reading = Some((path.to_owned(), 0));
        Ok(())
    }

    /// Fails if this worker was abandoned.
    fn check_current(&self, board: &mut Board) -> Result<(), Missing> {
        if board.worker == self.worker {
            return Ok(());
        }
        board.abandoned.remove(&self.worker);
        Err("another worker is reading it".into())
    }

    fn work<I, T>(
        &self,
        items: &[I],
        job: impl Fn(&Self, &I) -> Option<T>,
        results: &Mutex<Vec<T>>,
    ) {
        loop {
            let next = {
                let board = self.desk.board();
                if board.worker != self.worker {
                    return;
                }
                board.next
            };
            let Some(item) = items.get(next) else {
                self.desk.changed.notify_all();
                return;
            };
            let result = job(self, item);
            let mut board = self.desk.board();
            if board.worker != self.worker {
                return;
            }
            board.next += 1;
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.extend(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(folder: &Path, names: &[String], until: Duration) -> Outcome<String> {
        let paths = names.iter().map(|name| folder.join(name)).collect();
        read_all(paths, Instant::now() + until, |reads, path: &PathBuf| {
            reads.at(path, || std::fs::read_to_string(path)).ok()
        })
    }

    fn folder(readable: usize, stuck: usize) -> (tempfile::TempDir, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut names = Vec::new();
        for number in 0..readable.max(stuck) {
            if number < stuck {
                let name = format!("stuck-{number}");
                let path = folder.path().join(&name);
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                let fifo = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).expect("a pipe");
                names.push(name);
            }
            if number < readable {
                let name = format!("readable-{number}");
                std::fs::write(folder.path().join(&name), &name).expect("to write");
                names.push(name);
            }
        }
        (folder, names)
    }

    #[test]
    fn a_read_that_never_returns_costs_only_that_file() {
        for stuck in [1, 12] {
            let (folder, names) = folder(100, stuck);
            let outcome = read(folder.path(), &names, Duration::from_secs(20));
            assert_eq!(outcome.done.len(), 100);
            assert_eq!(outcome.gaps.files.len(), stuck);
            assert_eq!(outcome.gaps.processes, 0);
            for gap in &outcome.gaps.files {
                assert!(
                    gap.file.contains("/stuck-") && gap.why.is_blocked(),
                    "{gap:?}"
                );
            }
        }
    }

    #[test]
    fn what_was_read_until_the_deadline_is_kept_and_the_rest_is_counted() {
        let until = Instant::now() + Duration::from_millis(200);
        let outcome = read_all((0..1000).collect(), until, |_, number: &u32| {
            thread::sleep(Duration::from_millis(5));
            Some(*number)
        });
        let read = outcome.done.len();
        assert!(read > 0, "{:?}", outcome.gaps);
        assert_eq!(read + outcome.gaps.processes, 1000);
        assert_eq!(outcome.done, (0..read as u32).collect::<Vec<_>>());
        assert!(outcome.gaps.files.is_empty(), "{:?}", outcome.gaps);
    }
}
