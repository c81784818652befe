//! The screen as text: states are fed with updates, moved by keys, and drawn on a test backend.

mod support;

mod frames;
mod honesty;
mod keys;
mod looks;
mod replay;
mod session;
mod terminal;
