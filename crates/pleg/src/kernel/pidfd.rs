//! A pidfd for each process: readable once the process has exited. Births are reported by inotify.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Blocking;
use super::births::{Births, births};
use super::readable::readable;
use super::task_directories;
use super::{Death, Kernel, Tasks, Unwatched, Watching};
use crate::model::id::Id;

/// The deadline for reading which cgroup a process is in.
const DEADLINE: Duration = Duration::from_secs(5);

/// Watches processes by pidfds (Linux 5.3).
#[derive(Debug)]
pub struct Pidfds {
    proc: PathBuf,
    tasks: Tasks,
    task_directories: Vec<PathBuf>,
    /// Whether a process was found by a PID from the runtime: then PIDs are of this namespace.
    has_our_pids: Arc<AtomicBool>,
    open: Arc<AtomicUsize>,
    most: usize,
    blocking: Blocking,
}

impl Pidfds {
    /// Watches the processes of the runtime that listens on `socket`. Reads cgroups under `proc`,
    /// and keeps at most `most` descriptors open.
    pub fn new(proc: impl Into<PathBuf>, socket: &Path, most: usize) -> Self {
        Self {
            proc: proc.into(),
            tasks: Tasks::of(socket),
            task_directories: task_directories(socket),
            has_our_pids: Arc::default(),
            open: Arc::default(),
            most,
            blocking: Blocking::default(),
        }
    }
}

/// Whether the process is in a cgroup that is named after the container.
fn is_its(proc: &Path, pid: u32, id: &Id) -> Result<bool, Unwatched> {
    match fs::read(proc.join(pid.to_string()).join("cgroup")) {
        Ok(text) => Ok(String::from_utf8_lossy(&text).contains(id.as_str())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Unwatched::NotSeen(pid)),
        // The process exited between opening and reading.
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {
            Err(Unwatched::NotSeen(pid))
        }
        Err(error) => Err(Unwatched::Unsupported(error.to_string())),
    }
}

impl Kernel for Pidfds {
    fn watch(&self, pid: u32, id: &Id) -> Watching {
        let watching = self.open(pid, id);
        let (tasks, has_our_pids) = (self.tasks.clone(), self.has_our_pids.clone());
        let (id, blocking) = (id.clone(), self.blocking.clone());
        Box::pin(async move {
            let unseen = match watching.await {
                Ok(death) => {
                    has_our_pids.store(true, Ordering::Relaxed);
                    return Ok(death);
                }
                Err(unseen @ (Unwatched::NotSeen(_) | Unwatched::NotIts(_))) => unseen,
                Err(why) => return Err(why),
            };
            if !has_our_pids.load(Ordering::Relaxed) {
                return Err(unseen);
            }
            // The process exists, although it is hidden.
            let gone = matches!(open(pid), Err(Unwatched::NotSeen(_))).then_some(pid);
            let has_ended = blocking.run(DEADLINE, move || tasks.has_ended(&id, gone));
            Err(match has_ended.await {
                Some(true) => Unwatched::Ended(pid),
                _ => unseen,
            })
        })
    }

    fn births(&self) -> Births {
        births(self.task_directories.clone(), self.blocking.clone())
    }
}

impl Pidfds {
    fn open(&self, pid: u32, id: &Id) -> Watching {
        let seat = Seat::take(&self.open, self.most);
        let (proc, id, blocking) = (self.proc.clone(), id.clone(), self.blocking.clone());
        Box::pin(async move {
            let seat = seat?;
            // Open the descriptor first, then read the cgroup: so the check is of the process that is
            // held, even if the PID is reused in between.
            let process = open(pid)?;
            let its = blocking.run(DEADLINE, move || is_its(&proc, pid, &id));
            if !its.await.ok_or(Unwatched::Silent)?? {
                return Err(Unwatched::NotIts(pid));
            }
            let process =
                readable(process).map_err(|error| Unwatched::Unsupported(error.to_string()))?;
            let death: Death = Box::pin(async move {
                let _seat = seat;
                // An error means that the tokio runtime ends, and this task with it.
                let _ = process.readable().await;
            });
            Ok(death)
        })
    }
}

fn open(pid: u32) -> Result<OwnedFd, Unwatched> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or(Unwatched::NotSeen(pid))?;
    pidfd_open(number, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH => Unwatched::NotSeen(pid),
        // The number of a thread, which no init process has.
        Errno::INVAL => Unwatched::NotIts(pid),
        error => Unwatched::Unsupported(error.to_string()),
    })
}

/// A permit for one open descriptor, returned when dropped.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn take(open: &Arc<AtomicUsize>, most: usize) -> Result<Self, Unwatched> {
        let seat = Self(open.clone());
        if open.fetch_add(1, Ordering::Relaxed) >= most {
            return Err(Unwatched::TooMany(most));
        }
        Ok(seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use tokio::time::timeout;

    use super::*;

    /// No runtime, and no directories.
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
    async fn a_death_is_seen_at_once() {
        let mut process = sleeping();
        let proc = proc_with(process.id(), "abc");
        let kernel = Pidfds::new(proc.path(), NOWHERE.as_ref(), 1);
        let mut death = kernel.watch(process.id(), &"abc".into()).await.unwrap();
        let moment = Duration::from_millis(50);
        assert!(timeout(moment, &mut death).await.is_err(), "it lives");
        process.kill().unwrap();
        timeout(Duration::from_secs(5), death).await.unwrap();
        process.wait().unwrap();
    }

    #[tokio::test]
    async fn a_process_whose_cgroup_does_not_name_the_container_is_not_its() {
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
    async fn a_pid_that_is_nobodys_is_not_seen() {
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
    async fn a_process_that_is_not_there_has_ended_where_the_runtimes_pids_are_ours() {
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
    async fn descriptors_are_bounded_and_given_back() {
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
