//! Texts that every line is searched for, besides those of rules. They decide how a line is read further.

use std::sync::LazyLock;

use causes::facts::facts;
use serde::Deserialize;

/// Why a line is read further, besides the rules that match it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interest {
    /// A sentence about the PLEG.
    Pleg,
    /// A call to the runtime that failed.
    Call,
    /// The kubelet has started.
    Start,
    /// The line contains the year or the zone.
    Calendar,
    /// A connection that failed.
    Connection,
    /// The runtime answers.
    Answered,
    /// A source file of another program that logs in the kubelet's format.
    OtherProgram,
    /// A line of the journal's JSON, which carries a log line.
    Carrier,
    /// A dump of goroutines within one message.
    Dump,
    /// Talos reports the health of one of its services.
    Service,
    /// The runtime has started.
    RuntimeStart,
    /// The kubelet reports that the node is ready.
    Ready,
    /// The kubelet reports that the node is not ready.
    NotReady,
    /// The API server has registered the kubelet's node.
    Registered,
    /// The program that wrote the line calls it an error.
    Error,
    /// The version of runc.
    RuncVersion,
}

/// The texts of all interests.
pub(super) fn interests() -> &'static [(&'static str, Interest)] {
    static ALL: LazyLock<Vec<(&str, Interest)>> = LazyLock::new(|| {
        let each = facts().lines.iter().flat_map(|(name, texts)| {
            let interest = crate::named(name);
            texts.iter().map(move |text| (text.as_str(), interest))
        });
        each.collect()
    });
    &ALL
}

/// The interests that only show how to read a line, and nothing about the node.
pub(super) const OF_FORM: u32 = Interest::OtherProgram.bit()
    | Interest::Carrier.bit()
    | Interest::Dump.bit()
    | Interest::Error.bit()
    | Interest::RuncVersion.bit();

impl Interest {
    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }
}
