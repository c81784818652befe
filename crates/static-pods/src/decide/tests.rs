//! The decisions, tried in a small world: a runtime that does what it is asked for, late or never,
//! a view of it that may be old or partial, and runs that are killed.

mod calls;
mod ending;
mod policy;
mod sandboxes;
mod sight;
mod walks;
mod world;
