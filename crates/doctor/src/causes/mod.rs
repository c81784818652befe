//! From facts to findings: pure functions, one file for each cause, by the ids of
//! [`Cause`].

use crate::cause::Cause;
use crate::facts::NodeFacts;
use crate::finding::Finding;

/// What a cause says of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Opinion {
    /// It is this, or may be; one for each culprit.
    Found(Vec<Finding>),
    /// It is not this.
    Clear,
    /// Facts that it needs are missing: which, and why.
    CannotTell(String),
}

/// Judges a node.
pub type Judge = fn(&NodeFacts) -> Opinion;

/// Who judges which cause, in the order in which causes explain each other: what comes
/// first is the root, and what comes later its victim, if both are found.
pub const JUDGES: &[(Cause, Judge)] = &[];
