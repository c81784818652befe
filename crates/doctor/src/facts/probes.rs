//! What the runtime answered when it was asked, call by call.

use serde::{Deserialize, Serialize};

/// The answers of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeFacts {}
