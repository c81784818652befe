//! CRI's bytes, as far as the guard reads or writes them: everything else passes untouched.
//!
//! ```text
//!   row      a sandbox or container as a list has it: read, patched, made from other messages
//!   filter   which rows a list asks for
//!   status   the state that a status answer tells
//!   request  what a mutation is about
//! ```

pub(crate) mod filter;
pub(crate) mod request;
pub(crate) mod row;
pub(crate) mod status;

/// Which of the two kinds of things a runtime has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Pod sandboxes.
    Sandbox,
    /// Containers.
    Container,
}
