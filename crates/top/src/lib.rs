//! The screen of `pleg top`: a node at a glance, live or from a recording.
//!
//! ```text
//!   an agent, or a local engine -----Update--.
//!                                            v
//!   a Recording at a time ---------Update--> State --> view --> the terminal
//!                                            ^   |
//!   keys --input--> Action ------------------'   '--> Request: run the doctor, step, quit
//! ```
//!
//! [`state`] is pure: it contains what is known of the node, and the reader's choices; the time is an
//! argument. [`view`] draws a state and changes nothing. [`input`] maps keys to actions. [`session`]
//! is the loop around them, and [`terminal`] restores the terminal whatever happens.

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
