//! The recorder as a whole, on real files.

mod clock;
mod disk;
mod folded;
mod hostile;
mod killed;
mod noted;
mod readers;
mod replayed;
mod support;
