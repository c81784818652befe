//! The kernel as a source of hints. It reports at once that a process exited, and that the runtime is
//! about to start one, for any runtime, even while no call is answered.
//!
//! [`Kernel`] is what the engine uses; [`Pidfds`] implements it for Linux.
//!
//! ```
//! use pleg::kernel::{Kernel, Pidfds, Unwatched};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let kernel = Pidfds::new("/proc", "/run/containerd/containerd.sock".as_ref(), 1000);
//! let this = std::process::id();
//! match kernel.watch(this, &"61ac7eca54e9".into()).await {
//!     Ok(death) => death.await,
//!     Err(Unwatched::NotIts(pid)) => assert_eq!(pid, this),
//!     Err(why) => eprintln!("{why}"),
//! }
//! # }
//! ```

use std::future::{Future, ready};
use std::pin::Pin;

use futures_util::stream::once;

use crate::model::id::Id;

mod births;
mod pidfd;
mod readable;
mod tasks;

pub use base::host::{
    Blocking, UNFINISHED, id_directories, is_id, replace, state_directories, task_directories,
};
pub use births::{Birth, Births, UnwatchedBirths};
pub use pidfd::Pidfds;
pub use tasks::Tasks;

/// Completes when the process exits.
pub type Death = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An attempt to watch a process.
pub type Watching = Pin<Box<dyn Future<Output = Result<Death, Unwatched>> + Send>>;

/// Reports exits of processes, and births of containers.
pub trait Kernel: Send + Sync {
    /// Watches the process `pid`, which the runtime reports as the init process of the container `id`.
    /// Does not block, and has a deadline.
    fn watch(&self, pid: u32, id: &Id) -> Watching;

    /// Watches the directories in which the runtime creates a directory for each container and sandbox.
    /// Does not block, and has a deadline.
    fn births(&self) -> Births {
        Box::pin(once(ready(Birth::Unwatched(UnwatchedBirths::Unsupported))))
    }
}

/// Why a process is not watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwatched {
    /// The kernel does not support it, or refuses it.
    #[error("processes cannot be watched: {0}")]
    Unsupported(String),
    /// There is no such process: it exited, or its PID belongs to another PID namespace.
    #[error("process {0} is not visible: it has ended, or pleg is in a pod without hostPID")]
    NotSeen(u32),
    /// The process is not the container's: the PID belongs to another PID namespace, or was reused.
    #[error(
        "process {0} is not the container's: that has ended, or pleg is in a pod without hostPID"
    )]
    NotIts(u32),
    /// The container no longer has a process, although the runtime reports that it runs.
    #[error("process {0} has ended")]
    Ended(u32),
    /// The kernel does not answer: another process holds a lock that reading needs.
    #[error("the kernel does not answer about processes")]
    Silent,
    /// The limit of descriptors is reached.
    #[error("{0} processes are watched, and the limit of open files allows no more")]
    TooMany(usize),
}
