//! Collects the facts of this node. The runtime is observed through an engine, and the machine is read; each
//! step has a deadline.
//!
//! ```text
//!   engine, in this process or an agent's --> observation: until a report is complete --\
//!   task_folder: the runtime's state directories below /run ----------------------------+--> report --> facts
//!   kubelet: /healthz ------------------------------------------------------------------/
//!   host: /proc, /sys, cgroups, the system bus, packages -----------------------------------> facts
//!     \-- helper: reads that may block, in a process that was started beforehand
//! ```

pub mod helper;
pub mod host;
pub mod observation;
pub mod observed;
pub mod probes;
pub mod task_folder;

mod bounded;
mod disagreements;
mod kubelet;
mod listener;
mod names;
mod report;
mod single_calls;
mod slow_calls;
mod stacks;
mod step;
