//! What is known of a node in one file, to be attached to a ticket and read elsewhere.
//!
//! ```text
//!   gzip of lines:
//!     {"kind": "pleg-snapshot", "version": 1, "taken": ..., "missing": ["..."]}
//!     {"status": {...}}     as `pleg status -o json`      \
//!     {"pods": [...]}       as `pleg pods -o json`         | each of them only if it was to be had
//!     {"bundle": {...}}     as `pleg doctor --bundle`     /
//!     {"entry": {...}}      an entry of the history; any number of such lines
//!     {"end": {"entries": 1234}}
//! ```
//!
//! Lines, so that neither the writer nor `zcat FILE | jq` needs the whole in memory. It has what its
//! parts have: no environment, no command lines, no labels or annotations.

mod read;
mod write;

pub use read::{ReadError, Snapshot, is_snapshot, open};
pub use write::{Parts, write};

use pleg::model::wall_time::WallTime;
use serde::{Deserialize, Serialize};

/// Identifies a snapshot: the first line begins so.
const BEGINNING: &str = "{\"kind\":\"pleg-snapshot\"";

/// The value of `kind`.
const KIND: &str = "pleg-snapshot";

/// The version of the format. Fields and kinds of lines may be added within a version.
const VERSION: u32 = 1;

/// How the line of a bundle begins and ends.
const BUNDLE: (&[u8], &[u8]) = (b"{\"bundle\":", b"}");

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    kind: String,
    version: u32,
    /// Which pleg wrote it.
    pub made_by: String,
    /// When.
    pub taken: WallTime,
    /// Since when the history is in it.
    pub since: WallTime,
    /// What was not to be had, one sentence each.
    pub missing: Vec<String>,
}

impl Head {
    /// Of a snapshot that is taken now.
    pub fn new(taken: WallTime, since: WallTime, missing: Vec<String>) -> Self {
        Self {
            kind: KIND.to_owned(),
            version: VERSION,
            made_by: concat!("pleg ", env!("CARGO_PKG_VERSION")).to_owned(),
            taken,
            since,
            missing,
        }
    }
}

/// The last line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct End {
    entries: u64,
}
