//! A snapshot: what is known of a node in one file, for a ticket.
//!
//! ```text
//!   gzip of lines:
//!     {"kind": "pleg-snapshot", "version": 1, "taken": ..., "missing": ["..."]}
//!     {"status": {...}}     as `pleg status -o json`      if it was available
//!     {"pods": [...]}       as `pleg pods -o json`        if they were available
//!     {"entry": {...}}      an entry of the recording; any number of such lines
//!     {"bundle": {...}}     as `pleg doctor --bundle`     if it was available
//!     {"end": {"entries": 1234}}
//! ```
//!
//! If a file is cut or damaged, what is before that place is read. The bundle, which is often the
//! largest part and usable only as a whole, is therefore after the recording. Older files have it
//! before the recording; a reader accepts lines in any order.
//!
//! The file has lines, so that neither the writer nor `zcat FILE | jq` needs all of it in memory.
//! Like its parts, it contains no environment, no command lines, no labels or annotations.

mod read;
mod write;

pub use read::{ReadError, Snapshot, is_snapshot, open};
pub use write::{Parts, write, write_to};

use pleg::model::wall_time::WallTime;
use serde::{Deserialize, Serialize};

/// The beginning of the first line, which identifies a snapshot.
const BEGINNING: &str = "{\"kind\":\"pleg-snapshot\"";

/// The version of the format. Fields and kinds of lines may be added within a version.
const VERSION: u32 = 1;

/// The beginning and the end of the line of a bundle.
const BUNDLE: (&[u8], &[u8]) = (b"{\"bundle\":", b"}");

/// The first line of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    kind: String,
    version: u32,
    /// The version of pleg that wrote the snapshot.
    pub made_by: String,
    /// When the snapshot was taken.
    pub taken: WallTime,
    /// When the recording in the snapshot begins.
    pub since: WallTime,
    /// What could not be collected, one sentence each.
    pub missing: Vec<String>,
    /// Whether `pleg snapshot` itself requested status and pods from the runtime, because no agent
    /// responded.
    #[serde(rename = "ownLook", default)]
    pub own_examination: bool,
}

impl Head {
    /// The head of a snapshot that is taken now.
    pub fn new(taken: WallTime, since: WallTime, missing: Vec<String>) -> Self {
        Self {
            kind: "pleg-snapshot".to_owned(),
            version: VERSION,
            made_by: concat!("pleg ", env!("CARGO_PKG_VERSION")).to_owned(),
            taken,
            since,
            missing,
            own_examination: false,
        }
    }
}

/// The last line of a snapshot.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct End {
    entries: u64,
}
