//! All IO: calls the runtime and reads the machine, each step with a deadline.
//!
//! ```text
//!   Asking (socket, known ids, an agent's answers)
//!     |
//!     v
//!   probes: Version, Status, the lists, then each id --> what hangs
//!     |                                                    |
//!     v                                                    v
//!   kubelet: /healthz            tasks: ids, first processes and names of what runs
//!
//!   host: /proc, /sys, cgroups, the system bus, packages
//!     \-- what may block in the kernel: helper, a process started beforehand
//! ```

pub mod agent;
pub mod helper;
pub mod host;
pub mod probes;
pub mod task_folder;

mod answers;
mod bounded;
mod calls;
mod dead;
mod kubelet;
mod listener;
mod patience;
mod pulse;
mod round;
mod stacks;
mod step;
mod suspects;
mod targets;
mod vanished;
