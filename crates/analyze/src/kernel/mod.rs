//! Kernel stacks, wherever they come from: hung tasks in the log, `/proc/PID/stack`,
//! back-traces of `crash`.

mod reader;
mod rules;

pub use reader::{KernelStack, KernelStackReader};
pub use rules::{cause_of_function, proof};
