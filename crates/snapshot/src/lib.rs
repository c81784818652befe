//! What is known of a node in one file, to be attached to a ticket and read elsewhere.
//!
//! ```text
//!   gzip of lines:
//!     {"kind": "pleg-snapshot", "version": 1, "taken": ..., "missing": ["..."]}
//!     {"status": {...}}     as `pleg status -o json`      if it was to be had
//!     {"pods": [...]}       as `pleg pods -o json`        if they were to be had
//!     {"entry": {...}}      an entry of the history; any number of such lines
//!     {"bundle": {...}}     as `pleg doctor --bundle`     if it was to be had
//!     {"end": {"entries": 1234}}
//! ```
//!
//! Where a file is cut or damaged, what is before that place is read. The bundle, which is often the
//! largest part and of use only as a whole, is therefore after the history. Older files have it
//! before the history; a reader takes lines in any order.
//!
//! Lines, so that neither the writer nor `zcat FILE | jq` needs the whole in memory. It has what its
//! parts have: no environment, no command lines, no labels or annotations.

mod read;
mod write;

pub use read::{ReadError, Snapshot, is_snapshot, open};
pub use write::{Parts, write, write_to};

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
    /// Whether status and pods are of whoever took it, because no agent responded.
    #[serde(default)]
    pub own_look: bool,
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
            own_look: false,
        }
    }
}

/// The last line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct End {
    entries: u64,
}
