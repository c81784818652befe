//! Runs `rpm` and `journalctl`, with limits on their duration and output. The files of rpm and journald are
//! not read directly, because the formats have changed several times.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process_group};

use crate::limits::{JOURNAL, MAX_JOURNAL_BYTES, RPM};

/// The maximum output of rpm for a few packages.
const RPM_BYTES: u64 = 64 * 1024;
/// The maximum number of lines of the journal. A kubelet that logs verbosely writes this many in 15
/// minutes.
const JOURNAL_LINES: &str = "20000";
/// How long a program may take to exit after SIGTERM, and after the end of its output.
const GRACE: Duration = Duration::from_millis(200);
/// The unprivileged user on most distributions. A program that runs as this user has no write access, so it
/// takes no lock of the database, and killing it leaves no lock behind.
const UNPRIVILEGED_UID: u32 = 65_534;

/// The output of `rpm -q` for these packages, including errors: a line for each installed package.
pub(in super::super) fn rpm(program: &Path, packages: &[String]) -> io::Result<String> {
    let mut command = Command::new(program);
    command
        .args(["-q", "--qf", "%{NAME}\\t%{EVR}\\n"])
        .args(packages);
    if geteuid().is_root() {
        command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
    }
    run(command, RPM, RPM_BYTES)
}

/// The lines that these units have written to the journal after `since`, a time in seconds since 1970; the
/// newest first.
pub(in super::super) fn journal(
    program: &Path,
    units: &[String],
    since: i64,
) -> io::Result<String> {
    let mut command = Command::new(program);
    command
        .args(["--quiet", "--no-pager", "--reverse", "--output=short-iso"])
        .args(["--lines", JOURNAL_LINES])
        .arg(format!("--since=@{since}"))
        .args(units.iter().map(|unit| format!("--unit={unit}")));
    run(command, JOURNAL, MAX_JOURNAL_BYTES)
}

/// Runs a program. Returns its output and its errors, at most `max_bytes` together, or fails if they do not
/// end within `limit`.
fn run(mut command: Command, limit: Duration, max_bytes: u64) -> io::Result<String> {
    let name = Path::new(command.get_program())
        .file_name()
        .map(OsStr::to_owned);
    let name = name.unwrap_or_default().display().to_string();
    let (output, theirs) = io::pipe()?;
    command
        .env_clear()
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(theirs.try_clone()?)
        .stderr(theirs)
        .process_group(0);
    let mut child = command.spawn()?;
    // The command holds this process's copies of the pipe: the output does not end before they are closed.
    drop(command);
    let output = read(output, limit, max_bytes).unwrap_or_else(|| {
        let why = format!("{name} did not answer within {limit:?}");
        Err(io::Error::other(why))
    });
    if output.is_err() || !has_ended(&mut child, GRACE) {
        end(&mut child);
    }
    output
}

/// The output of a program; `None` if it does not end in time.
fn read(
    output: impl Read + Send + 'static,
    limit: Duration,
    max_bytes: u64,
) -> Option<io::Result<String>> {
    let (sender, received) = channel();
    let reading = thread::Builder::new().name("output".to_owned());
    let reading = reading.spawn(move || {
        let mut bytes = Vec::new();
        let read = output.take(max_bytes).read_to_end(&mut bytes);
        // The receiver may be gone.
        let _ = sender.send(read.map(|_| bytes));
    });
    if let Err(error) = reading {
        return Some(Err(error));
    }
    let bytes = received.recv_timeout(limit).ok()?;
    Some(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn has_ended(child: &mut Child, limit: Duration) -> bool {
    let start = Instant::now();
    while !matches!(child.try_wait(), Ok(Some(_))) {
        if start.elapsed() > limit {
            return false;
        }
        sleep(Duration::from_millis(5));
    }
    true
}

/// Ends a program and the processes that it has started. A process that sleeps uninterruptibly ends later.
fn end(child: &mut Child) {
    let group = Pid::from_child(child);
    // No other process gets its PID before `wait` reaps it.
    let _ = kill_process_group(group, Signal::TERM);
    sleep(GRACE);
    let _ = kill_process_group(group, Signal::KILL);
    has_ended(child, GRACE);
}
