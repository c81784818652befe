//! All IO: observes the runtime through an engine and reads the machine, each step with a deadline.
//!
//! ```text
//!   engine, in this process or an agent's --> observation: reports until one is complete
//!                                                |
//!                                                v
//!   kubelet: /healthz       report: facts       tasks: ids, first processes and names of what runs
//!
//!   host: /proc, /sys, cgroups, the system bus, packages
//!     \-- what may block in the kernel: helper, a process started beforehand
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
