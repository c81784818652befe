//! Kernel stacks from any source: hung tasks in the log, `/proc/PID/stack`,
//! back-traces of `crash`.
//!
//! ```
//! use analyze::kernel::{KernelStackReader, evidence};
//!
//! let log = "INFO: task dockerd:1810 blocked for more than 328 seconds.
//! Call Trace:
//!  __schedule+0x47d/0x600
//!  schedule+0x67/0x90
//!  rwsem_down_read_slowpath+0x1e5/0x3a0
//!  ovl_sync_fs+0x2f/0x50
//! ";
//! let mut reader = KernelStackReader::default();
//! for (number, line) in (1..).zip(log.lines()) {
//!     reader.line(line, number);
//! }
//! reader.finish();
//! let stack = &reader.take_done()[0];
//! assert_eq!(stack.task().as_deref(), Some("dockerd (1810)"));
//! assert_eq!(evidence(stack)[0].cause.id(), "storage-unresponsive");
//! ```

mod lines;
mod reader;
mod rules;

pub use lines::blocked_task;
pub use reader::{KernelStack, KernelStackReader};
#[cfg(test)]
pub(crate) use rules::searched_texts;
pub use rules::{
    KernelStackRule, blocked_by_kernel_lock, cause_in, cause_of_function, cause_of_long_wait,
    evidence, waiting,
};
