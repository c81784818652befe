//! Texts that are looked for in every line whatever they support: how a line is read further.

use std::sync::LazyLock;

use causes::facts::facts;
use serde::Deserialize;

/// What else is looked for: lines that are read further, whatever they turn out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interest {
    /// A sentence about the PLEG.
    Pleg,
    /// A call to the runtime that failed.
    Call,
    /// The kubelet has started.
    Start,
    /// It has the year or the zone.
    Calendar,
    /// A connection that failed.
    Connection,
    /// The runtime answers.
    Answered,
    /// A file of another program's that writes as a kubelet does.
    OtherProgram,
    /// The journal's JSON, which carries a line of a log.
    Carrier,
    /// A dump of goroutines within one message.
    Dump,
    /// Something failed; the line does not show why.
    Failure,
    /// Talos reports the health of one of its services.
    Service,
    /// The runtime has started.
    RuntimeStart,
    /// The kubelet reports that the node is ready.
    Ready,
    /// The kubelet reports that the node is not ready.
    NotReady,
    /// The API server has taken the kubelet's node.
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

/// Those that show how a line is to be read, and nothing of the node.
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
