//! The goroutines of a runtime, which it writes on SIGUSR1. This is the only step that affects another
//! process. The caller supplies the function that sends the signal, if the operator allows it.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use analyze::analysis::Analyzer;
use analyze::input::{self, NoObserver};
use pleg::model::wall_time::system_clock;
use rustix::process::Pid;

use super::host::read_stat;
use crate::facts::host::process::is_stopped;
use crate::facts::stacks::Stacks;
use crate::facts::{Fact, Missing};
use crate::limits::WRITING_STACKS;

/// How often the file is checked for growth: many goroutines take several writes.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Sends SIGUSR1 to containerd.
pub type DumpGoroutines = fn(Pid) -> io::Result<()>;

/// Makes the runtime write its goroutines, and finds out which one blocks the others.
pub(super) fn fact(proc: &Path, runtime: u32, dump: DumpGoroutines) -> Fact<Stacks> {
    let stacks = stacks(proc, runtime, dump);
    Fact::of(stacks, format!("SIGUSR1 to process {runtime}"))
}

fn stacks(proc: &Path, runtime: u32, dump: DumpGoroutines) -> Result<Stacks, Missing> {
    let stat = read_stat(&proc.join(runtime.to_string()));
    let stat = stat.ok_or("its process is gone")?;
    // SIGUSR1 may kill other runtimes, and a stopped process does not handle it.
    if stat.comm != "containerd" {
        return Err("only containerd is known to write its goroutines to a file".into());
    }
    if is_stopped(stat.state) {
        return Err("it is stopped".into());
    }
    let signalled = SystemTime::now();
    if let Some(pid) = i32::try_from(runtime).ok().and_then(Pid::from_raw) {
        dump(pid)?;
    }
    let file = file(proc, runtime);
    match is_written(&file, signalled) {
        true => read(&file),
        false => Err(format!("{} was not written", file.display()).into()),
    }
}

/// The file that containerd writes, in its own mount namespace.
fn file(proc: &Path, pid: u32) -> PathBuf {
    let root = proc.join(pid.to_string()).join("root");
    root.join(format!("tmp/containerd.{pid}.stacks.log"))
}

/// Waits until the file is newer than the signal and no longer grows. Returns whether that happened in time.
fn is_written(file: &Path, signalled: SystemTime) -> bool {
    // A file system's clock is coarser than the system's.
    let earliest = signalled - CHECK_INTERVAL;
    let begun = Instant::now();
    let mut before = None;
    while begun.elapsed() < WRITING_STACKS {
        std::thread::sleep(CHECK_INTERVAL);
        let found = fs::metadata(file).ok();
        let new = found.filter(|found| found.modified().is_ok_and(|time| time >= earliest));
        let length = new.map(|found| found.len()).filter(|length| *length > 0);
        if length.is_some() && length == before {
            return true;
        }
        before = length;
    }
    false
}

fn read(file: &Path) -> Result<Stacks, Missing> {
    let mut analyzer = Analyzer::new();
    let path = file.display().to_string();
    let unreadable = input::read(
        &[path],
        system_clock()(),
        NonZeroUsize::MIN,
        &mut analyzer,
        &mut NoObserver,
    );
    if let Some(unreadable) = unreadable.first() {
        return Err((&unreadable.source).into());
    }
    let goroutines = analyzer.finish().goroutines;
    let goroutines = goroutines.ok_or("it contains no goroutines")?;
    let holder = goroutines.likely_holder;
    Ok(Stacks {
        goroutines: goroutines.total,
        holder: holder.as_ref().map(|holder| holder.function.clone()),
        why: holder.map(|holder| holder.why),
    })
}
