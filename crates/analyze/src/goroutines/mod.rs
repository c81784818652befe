//! Goroutine dumps and profiles: what waits for what, and which goroutine blocks the others.
//!
//! ```text
//!   lines --> reader, profile: stacks --> groups (same state, same functions)
//!                                           |  waits: for a lock, a process, netlink …
//!                                           v
//!                    holder: which goroutine holds the lock that the others wait for
//!                    rules:  stacks that show a cause
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
//! let stack = reader.take_done().next().unwrap();
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

pub use call::{Call, Calls};
pub use group::{Group, Groups, Place};
pub use header::Header;
pub use holder::{Holder, likely};
pub use profile::ProfileReader;
pub use program::Program;
pub use reader::{LineClass, StackReader};
#[cfg(test)]
pub(crate) use rules::searched_texts;
pub use rules::{Context, GoroutineRule, evidence};
pub use waits::Wait;

/// One goroutine, or several of a profile with the same stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// The number of goroutines.
    pub count: u64,
    /// The goroutine's number; `None` in a profile or without a header.
    pub id: Option<u64>,
    /// The goroutine's state; `None` in a profile or without a header.
    pub state: Option<String>,
    /// How many minutes the goroutine has waited at least.
    pub minutes: Option<u64>,
    /// Whether the program crashed because of this goroutine.
    pub crashed: bool,
    /// The calls, from the innermost outwards.
    pub calls: Calls,
    /// The function that started the goroutine.
    pub created_by: Option<String>,
    /// The program that the surrounding log names: `dockerd`.
    pub ident: String,
    /// The number of the stack's first line.
    pub line: u64,
}

impl Stack {
    /// Whether it has a header or several calls: a single call is more likely source code.
    fn is_certain(&self) -> bool {
        self.state.is_some() || self.calls.len() >= 2
    }

    /// Sets the program from the place of a source file, unless the log names it: a library may fail in any
    /// program, and the place of its source shows in which one.
    fn note_source(&mut self, place: &[u8]) {
        if self.ident.is_empty()
            && let Some(program) = Program::of_source(place)
        {
            program.name().clone_into(&mut self.ident);
        }
    }
}

/// `goroutines` in the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Goroutines {
    /// The number of all goroutines.
    pub total: u64,
    /// The groups, the largest first.
    pub groups: Vec<ShownGroup>,
    /// The goroutine that probably blocks the others.
    pub likely_holder: Option<Holder>,
    /// The number of goroutines in groups beyond the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
}

/// Goroutines with the same state and the same functions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownGroup {
    /// The number of goroutines.
    pub count: u64,
    /// The state of the goroutines; null if unknown.
    pub state: Option<String>,
    /// The shortest wait in minutes; null if unknown.
    pub min_wait_minutes: Option<u64>,
    /// The longest wait in minutes; null if unknown.
    pub max_wait_minutes: Option<u64>,
    /// The innermost function outside Go's standard library, which shows the purpose of the goroutines.
    pub function: String,
    /// The functions on the stack, from the innermost outwards.
    pub frames: Vec<String>,
    /// The function that started the goroutines.
    pub created_by: Option<String>,
    /// Whether the goroutines wait as in a healthy process.
    pub idle: bool,
    /// The address of the lock that most of the goroutines wait for, if all its digits are certain.
    pub lock: Option<String>,
    /// How many of the goroutines wait for `lock`.
    pub lock_waiters: Option<u64>,
}

/// The name of a function without the import path: `network.(*PluginManager)`.
pub fn short(function: &str) -> &str {
    let upto = function.find('(').unwrap_or(function.len());
    let start = function[..upto].rfind('/').map_or(0, |at| at + 1);
    &function[start..]
}
