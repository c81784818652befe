//! A pidfd for each process: readable once the process has exited. Births are reported by inotify.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::births::{Births, births};
use super::readable::readable;
use super::{Blocking, Death, Kernel, Tasks, Unwatched, Watching, task_directories};
use crate::model::id::Id;

/// The deadline for reading which cgroup a process is in.
const DEADLINE: Duration = Duration::from_secs(5);

/// Watches processes by pidfds (Linux 5.3). Clones share the limit of open descriptors.
#[derive(Clone, Debug)]
pub struct Pidfds {
    proc: PathBuf,
    tasks: Tasks,
    task_directories: Vec<PathBuf>,
    /// Whether a process was found by a PID from the runtime: then the runtime's PIDs belong to our
    /// PID namespace.
    has_our_pids: Arc<AtomicBool>,
    open: Arc<AtomicUsize>,
    max_open: usize,
    blocking: Blocking,
}

impl Pidfds {
    /// Watches the processes of the runtime that listens on `socket`. Reads cgroups under `proc`,
    /// and keeps at most `max_open` descriptors open.
    pub fn new(proc: impl Into<PathBuf>, socket: &Path, max_open: usize) -> Self {
        Self {
            proc: proc.into(),
            tasks: Tasks::of(socket),
            task_directories: task_directories(socket),
            has_our_pids: Arc::default(),
            open: Arc::default(),
            max_open,
            blocking: Blocking::default(),
        }
    }

    async fn open(&self, pid: u32, id: &Id) -> Result<Death, Unwatched> {
        let permit = Permit::take(&self.open, self.max_open)?;
        // Open the descriptor first, then read the cgroup. In the other order, the PID could be
        // reused in between, and the descriptor would hold a process other than the one that was
        // checked.
        let process = open(pid)?;
        let (proc, id) = (self.proc.clone(), id.clone());
        let reading = self.blocking.run(DEADLINE, move || is_its(&proc, pid, &id));
        if !reading.await.ok_or(Unwatched::Silent)?? {
            return Err(Unwatched::NotIts(pid));
        }
        let process =
            readable(process).map_err(|error| Unwatched::Unsupported(error.to_string()))?;
        Ok(Box::pin(async move {
            let _permit = permit;
            // An error means that the tokio runtime ends, and this task with it.
            let _ = process.readable().await;
        }))
    }

    /// Whether the container's process has ended, if its PID is not visible.
    async fn has_ended(&self, pid: u32, id: Id) -> bool {
        // A PID that still exists was reused, or the process is hidden.
        let gone = matches!(open(pid), Err(Unwatched::NotSeen(_))).then_some(pid);
        let tasks = self.tasks.clone();
        let reading = self
            .blocking
            .run(DEADLINE, move || tasks.has_ended(&id, gone));
        reading.await == Some(true)
    }
}

impl Kernel for Pidfds {
    fn watch(&self, pid: u32, id: &Id) -> Watching {
        let (this, id) = (self.clone(), id.clone());
        Box::pin(async move {
            let refusal = match this.open(pid, &id).await {
                Ok(death) => {
                    this.has_our_pids.store(true, Ordering::Relaxed);
                    return Ok(death);
                }
                Err(refusal) => refusal,
            };
            let is_invisible = matches!(refusal, Unwatched::NotSeen(_) | Unwatched::NotIts(_));
            let has_our_pids = this.has_our_pids.load(Ordering::Relaxed);
            Err(
                match is_invisible && has_our_pids && this.has_ended(pid, id).await {
                    true => Unwatched::Ended(pid),
                    false => refusal,
                },
            )
        })
    }

    fn births(&self) -> Births {
        births(self.task_directories.clone(), self.blocking.clone())
    }
}

/// Whether the process is in a cgroup that is named after the container.
fn is_its(proc: &Path, pid: u32, id: &Id) -> Result<bool, Unwatched> {
    match fs::read(proc.join(pid.to_string()).join("cgroup")) {
        Ok(text) => Ok(String::from_utf8_lossy(&text).contains(id.as_str())),
        Err(error) => Err(match Errno::from_io_error(&error) {
            // ESRCH: the process exited between opening and reading.
            Some(Errno::NOENT | Errno::SRCH) => Unwatched::NotSeen(pid),
            _ => Unwatched::Unsupported(error.to_string()),
        }),
    }
}

fn open(pid: u32) -> Result<OwnedFd, Unwatched> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or(Unwatched::NotSeen(pid))?;
    pidfd_open(number, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH => Unwatched::NotSeen(pid),
        // The number is that of a thread, which is never a container's init process.
        Errno::INVAL => Unwatched::NotIts(pid),
        error => Unwatched::Unsupported(error.to_string()),
    })
}

/// A permit for one open descriptor, returned when dropped.
#[derive(Debug)]
struct Permit(Arc<AtomicUsize>);

impl Permit {
    fn take(open: &Arc<AtomicUsize>, max_open: usize) -> Result<Self, Unwatched> {
        let permit = Self(open.clone());
        if open.fetch_add(1, Ordering::Relaxed) >= max_open {
            return Err(Unwatched::TooMany(max_open));
        }
        Ok(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use tokio::time::timeout;

    use super::*;

    /// A socket without a runtime and without directories.
    const NOWHERE: &str = "/nowhere/runtime.sock";

    /// A `/proc` in which the process is in a cgroup of that name.
    fn proc_with(pid: u32, cgroup: &str) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        let folder = proc.path().join(pid.to_string());
        fs::create_dir(&folder).unwrap();
        let text = format!("0::/kubepods/podx/cri-containerd-{cgroup}.scope\n");
        fs::write(folder.join("cgroup"), text).unwrap();
        proc
    }

    fn sleeping() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[tokio::test]
    async fn an_exit_is_reported_at_once() {
        let mut process = sleeping();
        let proc = proc_with(process.id(), "abc");
        let kernel = Pidfds::new(proc.path(), NOWHERE.as_ref(), 1);
        let mut death = kernel.watch(process.id(), &"abc".into()).await.unwrap();
        let moment = Duration::from_millis(50);
        assert!(
            timeout(moment, &mut death).await.is_err(),
            "the process still runs"
        );
        process.kill().unwrap();
        timeout(Duration::from_secs(5), death).await.unwrap();
        process.wait().unwrap();
    }

    #[tokio::test]
    async fn a_process_in_the_cgroup_of_another_container_is_refused() {
        let mut process = sleeping();
        let proc = proc_with(process.id(), "another");
        let pid = process.id();
        let refused = Pidfds::new(proc.path(), NOWHERE.as_ref(), 1)
            .watch(pid, &"abc".into())
            .await;
        assert_eq!(refused.err(), Some(Unwatched::NotIts(pid)));
        process.kill().unwrap();
        process.wait().unwrap();
    }

    #[tokio::test]
    async fn a_pid_of_no_process_is_not_seen() {
        let mut process = sleeping();
        let pid = process.id();
        process.kill().unwrap();
        process.wait().unwrap();
        let kernel = Pidfds::new("/proc", NOWHERE.as_ref(), 1);
        for pid in [pid, 0, u32::MAX] {
            let refused = kernel.watch(pid, &"abc".into()).await;
            assert_eq!(refused.err(), Some(Unwatched::NotSeen(pid)));
        }
    }

    #[tokio::test]
    async fn a_missing_process_has_ended_if_the_runtime_uses_our_pid_namespace() {
        let mut process = sleeping();
        let living = process.id();
        let proc = proc_with(living, "abc");
        let run = tempfile::tempdir().unwrap();
        let tasks = run.path().join("io.containerd.runtime.v2.task/k8s.io");
        fs::create_dir_all(tasks.join("abc")).unwrap();
        fs::write(tasks.join("abc/init.pid"), living.to_string()).unwrap();
        let kernel = Pidfds::new(proc.path(), &run.path().join("containerd.sock"), 2);
        let refused = async |pid| kernel.watch(pid, &"ended".into()).await.err().unwrap();
        assert_eq!(refused(0).await, Unwatched::NotSeen(0));
        let _death = kernel.watch(living, &"abc".into()).await.unwrap();
        assert_eq!(refused(0).await, Unwatched::Ended(0));
        // A PID that was reused.
        assert_eq!(refused(living).await, Unwatched::Ended(living));
        process.kill().unwrap();
        process.wait().unwrap();
    }

    #[tokio::test]
    async fn open_descriptors_are_bounded_and_released() {
        let mut process = sleeping();
        let proc = proc_with(process.id(), "abc");
        let kernel = Pidfds::new(proc.path(), NOWHERE.as_ref(), 1);
        let watch = || kernel.watch(process.id(), &"abc".into());
        let first = watch().await.unwrap();
        assert_eq!(watch().await.err(), Some(Unwatched::TooMany(1)));
        drop(first);
        drop(watch().await.unwrap());
        process.kill().unwrap();
        process.wait().unwrap();
    }
}
