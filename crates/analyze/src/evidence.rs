//! What a piece of an input shows, in one form for stacks, listings, dumps and what commands print.
//!
//! ```
//! use analyze::evidence::Evidence;
//! use causes::Cause;
//! use causes::finding::{Confidence, Culprit};
//!
//! let evidence = Evidence::new(Cause::DiskFull, Confidence::High, 3, "/dev/sda1 is full")
//!     .of(Culprit::default());
//! assert_eq!((evidence.cause.id(), evidence.line), ("disk-full", 3));
//! ```

use causes::Cause;
use causes::finding::{Confidence, Culprit};

/// One observation that supports a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The cause.
    pub cause: Cause,
    /// How strongly the observation supports the cause.
    pub confidence: Confidence,
    /// What was seen, in a sentence without a full stop.
    pub says: String,
    /// What is known about the culprit.
    pub culprit: Culprit,
    /// A short sentence about this node that replaces the title of the cause.
    pub headline: Option<String>,
    /// What to do with this node first.
    pub advice: Option<String>,
    /// Whether the evidence counts only beside other evidence for the cause.
    pub is_beside: bool,
    /// The line of the input that shows it; 0 if the whole input does.
    pub line: u64,
}

impl Evidence {
    /// Evidence without a culprit.
    pub fn new(cause: Cause, confidence: Confidence, line: u64, says: impl Into<String>) -> Self {
        Self {
            cause,
            confidence,
            says: says.into(),
            culprit: Culprit::default(),
            headline: None,
            advice: None,
            is_beside: false,
            line,
        }
    }

    /// Sets the culprit.
    pub fn of(self, culprit: Culprit) -> Self {
        Self { culprit, ..self }
    }

    /// Sets the sentence that is shown in place of the title.
    pub fn headed(self, headline: Option<String>) -> Self {
        Self { headline, ..self }
    }
}
