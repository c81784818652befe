//! The database of rpm has had three formats: rpm itself is asked, once. It may take so
//! long and say so much, and then it is ended, whatever it does.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process_group};

/// A query by names takes tens of milliseconds.
const LIMIT: Duration = Duration::from_secs(3);
/// No answer about a handful of packages is longer.
const LONGEST: u64 = 64 * 1024;
/// After a request to end, and after the end of the output.
const GRACE: Duration = Duration::from_millis(200);
/// Nobody: who may write nowhere takes no lock of the database, so that being ended leaves
/// none behind.
const NOBODY: u32 = 65_534;

/// What `rpm -q` says of these packages, errors included: a row for each that is installed.
pub(in super::super) fn rpm(program: &Path, packages: &[String]) -> io::Result<String> {
    let (output, theirs) = io::pipe()?;
    let mut command = Command::new(program);
    command
        .args(["-q", "--qf", "%{NAME}\\t%{EVR}\\n"])
        .args(packages)
        .env_clear()
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(theirs.try_clone()?)
        .stderr(theirs)
        .process_group(0);
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut child = command.spawn()?;
    // Our ends of its output, without which that never ends.
    drop(command);
    let said = read(output);
    if said.is_err() || !has_ended(&mut child, GRACE) {
        end(&mut child);
    }
    said
}

fn read(output: impl Read + Send + 'static) -> io::Result<String> {
    let (sender, received) = channel();
    thread::Builder::new()
        .name("output".to_owned())
        .spawn(move || {
            let mut bytes = Vec::new();
            let read = output.take(LONGEST).read_to_end(&mut bytes);
            // Whoever waited may have stopped.
            let _ = sender.send(read.map(|_| bytes));
        })?;
    let bytes = received
        .recv_timeout(LIMIT)
        .map_err(|_| io::Error::other(format!("rpm did not answer within {LIMIT:?}")))??;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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

/// Ends it and what it has started. One that sleeps in the kernel ends when that lets it.
fn end(child: &mut Child) {
    let group = Pid::from_child(child);
    // Until it is waited for, its number is nobody else's.
    let _ = kill_process_group(group, Signal::TERM);
    sleep(GRACE);
    let _ = kill_process_group(group, Signal::KILL);
    has_ended(child, GRACE);
}
