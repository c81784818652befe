//! The goroutines of a runtime.

use serde::{Deserialize, Serialize};

/// The runtime's goroutines, dumped on a signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stacks {
    /// How many goroutines there are.
    pub goroutines: u64,
    /// The function of the goroutine that probably blocks the others.
    pub holder: Option<String>,
    /// Why that goroutine was chosen.
    pub why: Option<String>,
}
