//! The screen as text: states are fed with updates, moved by keys, and drawn on a test backend.

mod support;

mod dates;
mod frames;
mod keys;
mod replay;
mod session;
mod sizes;
mod staleness;
mod terminal;
mod views;
