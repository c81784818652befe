//! Whether the machine is set up to run a kubelet, and whether that kubelet can report to its API server.

use std::time::Duration;

use pleg_text::WallTime;
use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// The configuration files of a kubelet that exist.
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
    /// By how much the API server's clock differs from this machine's. The API server's time is known to
    /// the second.
    pub clock: Option<ClockDifference>,
    /// Its answer to a request for the node's lease with the kubelet's client certificate.
    #[serde(default)]
    pub lease: Fact<Lease>,
}

/// An API server's answer to a request for the node's lease with the kubelet's client certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is", content = "it")]
pub enum Lease {
    /// The lease.
    #[serde(rename_all = "camelCase")]
    Renewed {
        /// How long ago the kubelet renewed it, according to the clock of this machine.
        seconds_ago: u64,
    },
    /// HTTP status 401.
    Unauthorized,
    /// HTTP status 403.
    Forbidden,
    /// The API server rejected the certificate during the TLS handshake.
    CertificateRejected(String),
    /// Another HTTP status, or no lease in the response.
    Other(u16),
}

/// Whether an API server answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is", content = "why")]
pub enum ApiAnswer {
    /// There was an HTTP response, with any status: the API server can be reached.
    Answered,
    /// No process listens at its address.
    Refused,
    /// There was no answer in time, or there is no route.
    Unreachable(String),
    /// The server's certificate cannot be verified.
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
    /// The difference, in seconds.
    pub seconds: u64,
}

impl ClockDifference {
    /// The difference if this machine's clock shows `here` while another one shows `there`.
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
    /// The start of its validity.
    pub not_before: WallTime,
    /// The end of its validity.
    pub not_after: WallTime,
    /// The node that it names.
    pub node: Option<String>,
}
