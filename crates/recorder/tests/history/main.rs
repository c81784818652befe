//! The recorder as a whole, on real files.

#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "what is left out is said aloud, and a process that is killed says how far it came"
)]

mod clock;
mod disk;
mod folded;
mod gathered;
mod hostile;
mod killed;
mod noted;
mod readers;
mod replayed;
mod support;
mod synced;
