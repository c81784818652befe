//! The kernel as a source of hints: it knows that a process died the moment it does, and that the
//! runtime is about to start another one, on any runtime, and while no call is answered.
//!
//! [`Kernel`] is what the generator asks; [`Pidfds`] is Linux.
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
    Blocking, id_directories, is_id, replace, state_directories, task_directories,
};
pub use births::{Birth, Births, UnwatchedBirths};
pub use pidfd::Pidfds;
pub use tasks::Tasks;

/// Ends when the process does.
pub type Death = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The attempt to watch a process.
pub type Watching = Pin<Box<dyn Future<Output = Result<Death, Unwatched>> + Send>>;

/// Knows which processes live, and which are about to.
pub trait Kernel: Send + Sync {
    /// Watches the process `pid`, which the runtime says is the init process of the
    /// container `id`. What may block is done elsewhere, and has a deadline.
    fn watch(&self, pid: u32, id: &Id) -> Watching;

    /// Watches where the runtime makes a directory for each container and sandbox that it starts. What
    /// may block is done elsewhere, and has a deadline.
    fn births(&self) -> Births {
        Box::pin(once(ready(Birth::Unwatched(UnwatchedBirths::Unsupported))))
    }
}

/// Why a process is not watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwatched {
    /// This kernel cannot, or we may not.
    #[error("processes cannot be watched: {0}")]
    Unsupported(String),
    /// No such process: it is dead already, or its pid is of another pid namespace.
    #[error("process {0} is not visible: it has ended, or hostPID is missing in our pod")]
    NotSeen(u32),
    /// There is one, of something else: the pid is of another namespace, or was used again.
    #[error("process {0} is not the container's: that has ended, or hostPID is missing in our pod")]
    NotIts(u32),
    /// No process of the container is there any more, although the runtime says that it runs.
    #[error("process {0} has ended")]
    Ended(u32),
    /// The kernel does not answer: something else holds a lock that reading needs.
    #[error("the kernel does not answer about processes")]
    Silent,
    /// All descriptors that may be used for this are in use.
    #[error("{0} processes are watched, and the limit of open files allows no more")]
    TooMany(usize),
}
