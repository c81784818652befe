//! The screen of `pleg top`: a node at a glance, live or from a recording.
//!
//! ```text
//!   an agent, or our own generator --Update--.
//!                                            v
//!   a Recording at a time ---------Update--> State --> view --> the terminal
//!                                            ^   |
//!   keys --input--> Action ------------------'   '--> Request: run the doctor, step, quit
//! ```
//!
//! [`state`] is pure: what is known of the node, and what the reader has chosen to see; the time
//! is an argument. [`view`] draws a state and changes nothing. [`input`] gives keys their meaning.
//! [`session`] is the loop around them, and [`terminal`] the terminal that is restored whatever
//! happens.

pub mod canvas;
pub mod diagnosis;
pub mod input;
pub mod recording;
pub mod session;
pub mod state;
pub mod terminal;
pub mod update;
pub mod view;

pub use recording::Recording;
pub use state::State;
pub use update::{Source, Update};
