//! Goroutine dumps and profiles: who waits for what, and who is probably in the way.
//!
//! ```text
//!   lines --> reader, profile: stacks --> groups (same state, same functions)
//!                                           |  waits: for a lock, a process, netlink …
//!                                           v
//!                    holder: who has the lock that the pile waits for
//!                    rules:  stacks that prove a cause
//! ```
//!
//! ```
//! use analyze::goroutines::StackReader;
//!
//! let dump = "goroutine 386 [chan send, 1140 minutes]:
//! k8s.io/kubernetes/pkg/kubelet/pleg.(*GenericPLEG).relist(0xc42069ea20)
//! \t/src/k8s.io/kubernetes/pkg/kubelet/pleg/generic.go:261 +0x74e
//! ";
//! let mut reader = StackReader::default();
//! for (number, line) in (1..).zip(dump.lines()) {
//!     reader.line(line, number, "kubelet");
//! }
//! reader.finish();
//! let stack = &reader.take_done()[0];
//! assert_eq!((stack.id, stack.minutes), (Some(386), Some(1140)));
//! assert_eq!(stack.state.as_deref(), Some("chan send"));
//! ```

mod call;
mod group;
mod header;
mod holder;
mod idle;
mod profile;
mod program;
mod reader;
mod rules;
mod unmangle;
mod waits;

use serde::Serialize;

pub use call::Call;
pub use group::{Group, Groups, Place};
pub use header::Header;
pub use holder::{Holder, likely};
pub use profile::ProfileReader;
pub use program::Program;
pub use reader::{StackReader, Took};
pub use rules::proof;
pub use waits::Wait;

/// One goroutine, or so many of a profile with the same stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// How many.
    pub count: u64,
    /// Its number, unless the header is missing.
    pub id: Option<u64>,
    /// What it does or waits for; a profile and a missing header do not tell.
    pub state: Option<String>,
    /// For how long at least.
    pub minutes: Option<u64>,
    /// It has an operating system thread for itself.
    pub locked_to_thread: bool,
    /// From the innermost call outwards.
    pub calls: Vec<Call>,
    /// The function that started it.
    pub created_by: Option<String>,
    /// Who the carrier says it was: `dockerd`.
    pub ident: String,
    /// The first line.
    pub line: u64,
}

/// `goroutines` in the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Goroutines {
    /// All of them.
    pub total: u64,
    /// The largest group first.
    pub groups: Vec<ShownGroup>,
    /// Who is probably in everybody's way.
    pub likely_holder: Option<Holder>,
    /// Goroutines of groups beyond the bound, which are counted only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
}

/// Goroutines with the same state and the same functions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownGroup {
    /// How many.
    pub count: u64,
    /// What they do or wait for; null where nothing tells.
    pub state: Option<String>,
    /// The shortest wait; null where none is told.
    pub min_wait_minutes: Option<u64>,
    /// The longest wait.
    pub max_wait_minutes: Option<u64>,
    /// The function that tells what they are about: the first outside of Go's own library.
    pub function: String,
    /// Functions from the innermost outwards.
    pub frames: Vec<String>,
    /// The function that started them.
    pub created_by: Option<String>,
    /// How goroutines of a healthy process wait.
    pub idle: bool,
    /// The address of the lock that most of them wait for, if all its digits are certain.
    pub lock: Option<String>,
    /// How many wait for that very lock.
    pub lock_waiters: Option<u64>,
}

/// Without the import path: `network.(*PluginManager)`.
pub fn short(function: &str) -> &str {
    let upto = function.find('(').unwrap_or(function.len());
    let start = function[..upto].rfind('/').map_or(0, |at| at + 1);
    &function[start..]
}
