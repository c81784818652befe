//! The recorder as a whole, on real files.

#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "skipped tests are printed, and a process that is killed prints its progress"
)]

mod batches;
mod changes;
mod clock;
mod damaged;
mod disk;
mod fold;
mod killed;
mod readers;
mod replay;
mod support;
mod sync;
