//! The goroutines of a runtime, which it writes on SIGUSR1: the only step that affects another
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
use crate::facts::Fact;
use crate::facts::host::process::is_stopped;
use crate::facts::stacks::Stacks;
use crate::limits::WRITING_STACKS;

/// How often the file is checked. A hundred thousand goroutines are not written in a single write.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Sends SIGUSR1 to containerd.
pub type DumpGoroutines = fn(Pid) -> io::Result<()>;

/// Makes the runtime dump its goroutines, and reads which one blocks the others.
pub(super) fn ask(proc: &Path, runtime: u32, dump: DumpGoroutines) -> Fact<Stacks> {
    let source = format!("SIGUSR1 to process {runtime}");
    let Some(stat) = read_stat(&proc.join(runtime.to_string())) else {
        return Fact::missing("its process is gone", source);
    };
    // SIGUSR1 may kill other runtimes, and a stopped process does not handle it.
    if stat.comm != "containerd" {
        return Fact::missing(
            "only containerd is known to write its goroutines to a file",
            source,
        );
    }
    if is_stopped(stat.state) {
        return Fact::missing("it is stopped", source);
    }
    let asked = SystemTime::now();
    let pid = i32::try_from(runtime).ok().and_then(Pid::from_raw);
    let sent = pid.map(dump);
    if let Some(Err(error)) = sent {
        return Fact::missing(error, source);
    }
    let file = file(proc, runtime);
    match written(&file, asked) {
        true => read(&file, source),
        false => Fact::missing(format!("{} was not written", file.display()), source),
    }
}

/// Where containerd writes them, in its own mount namespace.
fn file(proc: &Path, pid: u32) -> PathBuf {
    let root = proc.join(pid.to_string()).join("root");
    root.join(format!("tmp/containerd.{pid}.stacks.log"))
}

/// Waits until the file is newer than `asked` and does not grow any more.
fn written(file: &Path, asked: SystemTime) -> bool {
    // A file system's clock is coarser than ours.
    let asked = asked - CHECK_INTERVAL;
    let begun = Instant::now();
    let mut before = None;
    while begun.elapsed() < WRITING_STACKS {
        std::thread::sleep(CHECK_INTERVAL);
        let found = fs::metadata(file).ok();
        let new = found.filter(|found| found.modified().is_ok_and(|time| time >= asked));
        let length = new.map(|found| found.len()).filter(|length| *length > 0);
        if length.is_some() && length == before {
            return true;
        }
        before = length;
    }
    false
}

fn read(file: &Path, source: String) -> Fact<Stacks> {
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
        return Fact::missing(&unreadable.source, source);
    }
    let Some(goroutines) = analyzer.finish().goroutines else {
        return Fact::missing("it contains no goroutines", source);
    };
    let holder = goroutines.likely_holder;
    Fact::known(
        Stacks {
            goroutines: goroutines.total,
            holder: holder.as_ref().map(|holder| holder.function.clone()),
            why: holder.map(|holder| holder.why),
        },
        source,
    )
}
