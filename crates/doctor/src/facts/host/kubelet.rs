//! What shows that a machine is set up to run a kubelet, and whether that can report to its API server.

use std::time::Duration;

use pleg_text::WallTime;
use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// The files that a kubelet is configured by, as far as they exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletFiles {
    /// Their paths.
    pub paths: Vec<String>,
}

/// The API server that a kubelet's kubeconfig names, and what it answered to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiServer {
    /// Its URL.
    pub address: String,
    /// What it answered.
    pub answer: ApiAnswer,
    /// By how much its clock differs from this machine's, as far as a full second shows it.
    pub clock: Option<ClockDifference>,
    /// What it answered to the kubelet's client certificate.
    #[serde(default)]
    pub lease: Fact<Lease>,
}

/// What an API server answered to the kubelet's client certificate, about the lease of its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is", content = "it")]
pub enum Lease {
    /// The lease, and how many seconds ago the kubelet renewed it.
    #[serde(rename_all = "camelCase")]
    Renewed {
        /// By the clock of this machine, which is the kubelet's.
        seconds_ago: u64,
    },
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// It ended the connection because of the certificate.
    CertificateRejected(String),
    /// Another HTTP status, or no lease in the response.
    Other(u16),
}

/// What an API server answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is", content = "why")]
pub enum ApiAnswer {
    /// An HTTP response, of whatever status: it can be reached.
    Answered,
    /// No process listens at its address.
    Refused,
    /// There is no answer in time, or no route.
    Unreachable(String),
    /// Its certificate is not accepted.
    CertificateRejected(String),
    /// Something else failed.
    Failed(String),
}

/// How two clocks differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockDifference {
    /// Whether this machine's clock is ahead.
    pub is_ahead: bool,
    /// By how much.
    pub seconds: u64,
}

impl ClockDifference {
    /// This machine's clock says `here` while another one says `there`.
    pub fn between(here: WallTime, there: WallTime) -> Self {
        let (ahead, behind) = (here.since(there), there.since(here));
        Self {
            is_ahead: ahead > Duration::ZERO,
            seconds: ahead.max(behind).as_secs(),
        }
    }
}

/// The certificate with which a kubelet authenticates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificate {
    /// From when on it is valid.
    pub not_before: WallTime,
    /// Until when it is.
    pub not_after: WallTime,
    /// The node that it names.
    pub node: Option<String>,
}
