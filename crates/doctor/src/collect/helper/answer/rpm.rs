//! Versions from rpm. Its database has had three formats, so `rpm` itself is run, once, with
//! limits on its duration and output.

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
/// The output for a few packages is shorter.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;
/// The time to exit after SIGTERM, and after the end of the output.
const GRACE: Duration = Duration::from_millis(200);
/// The user nobody has no write access, so it takes no lock of the database, and killing it leaves
/// none behind.
const NOBODY_UID: u32 = 65_534;

/// The output of `rpm -q` for these packages, including errors: a line for each installed one.
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
        command.uid(NOBODY_UID).gid(NOBODY_UID);
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
            let read = output.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes);
            // The receiver may be gone.
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
