//! The JSON of a call in a report.

use causes::finding::PodName;
use pleg::runtime::Rpc;
use serde::Serialize;

use super::{End, Outcome, Probe};

/// A call as shown in reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeReport<'a> {
    call: Rpc,
    id: Option<&'a str>,
    outcome: Outcome,
    seconds: f64,
    message: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    by_agent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a PodName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'a str>,
}

impl<'a> From<&'a Probe> for ProbeReport<'a> {
    fn from(probe: &'a Probe) -> Self {
        let message = match &probe.end {
            End::Failed(error) => Some(error.to_string()),
            End::Hung if probe.by_agent => Some("called by the agent on this node".to_owned()),
            End::Hung | End::Answered => None,
        };
        Self {
            call: probe.call,
            id: probe.id.as_deref(),
            outcome: probe.outcome(),
            seconds: probe.seconds,
            message,
            by_agent: probe.by_agent,
            bytes: probe.bytes,
            pod: probe.pod.as_ref(),
            container: probe.container.as_deref(),
        }
    }
}
