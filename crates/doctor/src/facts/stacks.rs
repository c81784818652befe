//! What a runtime's goroutines tell.

use serde::{Deserialize, Serialize};

/// Its goroutines, which it was asked for by a signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stacks {
    /// How many there are.
    pub goroutines: u64,
    /// The function of the one that is probably in everybody's way.
    pub holder: Option<String>,
    /// Why it is taken for that.
    pub why: Option<String>,
}
