//! Calls to the runtime that failed, as the kubelet tells of them.

use std::collections::BTreeMap;

use causes::finding::Culprit;

use super::Quote;
use super::names;
use crate::line::has;
use crate::series::Around;

/// What a call was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    ListPodSandbox,
    ListContainers,
    PodSandboxStatus,
    ContainerStatus,
    RunPodSandbox,
    StopPodSandbox,
    StopContainer,
    Status,
    /// Lists by the kubelet's own words, which do not tell which.
    AnyList,
    /// A pod's status, of which the words do not tell which call it was.
    AnyStatus,
    Other,
}

/// The longer name first where one is a part of another.
const NAMES: [(&str, Method); 14] = [
    ("ListPodSandbox", Method::ListPodSandbox),
    ("ListContainers", Method::ListContainers),
    ("PodSandboxStatus", Method::PodSandboxStatus),
    ("ContainerStatus", Method::ContainerStatus),
    ("RunPodSandbox", Method::RunPodSandbox),
    ("StopPodSandbox", Method::StopPodSandbox),
    ("StopContainer", Method::StopContainer),
    ("listing containers: ", Method::ListContainers),
    ("listing pod sandboxes: ", Method::ListPodSandbox),
    (
        "getting the status of the container",
        Method::ContainerStatus,
    ),
    ("GenericPLEG: Unable to retrieve pods", Method::AnyList),
    ("PLEG: Ignoring events for pod", Method::AnyStatus),
    ("Status from runtime service failed", Method::Status),
    ("from runtime service failed", Method::Other),
];

/// Calls of one kind that ran out of time.
#[derive(Clone, Debug, Default)]
pub struct Late {
    /// How many lines tell of one.
    pub lines: u64,
    /// Whom they were about, and how often.
    pub whom: BTreeMap<String, (u64, Culprit)>,
    /// The first lines.
    pub quotes: Vec<Quote>,
}

/// All that failed.
#[derive(Debug, Default)]
pub struct Calls {
    /// By what they were for.
    pub late: BTreeMap<Method, Late>,
}

/// Stages of RunPodSandbox in which no CNI plug-in is asked, as the error names them.
const BEFORE_THE_NETWORK: [&str; 5] = [
    "failed to create a sandbox for pod",
    "failed to start sandbox container",
    "failed to create containerd task",
    "failed to create containerd container",
    "failed to get sandbox image",
];

const MOST_NAMES: usize = 500;
const MOST_QUOTES: usize = 3;

impl Calls {
    /// Takes a line in that tells of a failed call.
    pub fn line(&mut self, line: &[u8], around: &mut Around, quote: impl FnOnce() -> Quote) {
        let Some((_, method)) = NAMES.iter().find(|(name, _)| has(line, name)) else {
            return;
        };
        let is_of_no_plugin = *method == Method::RunPodSandbox
            && BEFORE_THE_NETWORK.iter().any(|stage| has(line, stage));
        let method = if is_of_no_plugin {
            &Method::Other
        } else {
            method
        };
        // A probe that takes longer than its own limit is everyday.
        if has(line, "ExecSync") {
            return;
        }
        let late = has(line, "eadlineExceeded")
            || has(line, "deadline exceeded")
            || has(line, "operation timeout");
        let refused = has(line, "connection refused")
            || has(line, "no such file")
            || has(line, "Unavailable");
        let is_list = matches!(
            method,
            Method::ListPodSandbox | Method::ListContainers | Method::AnyList
        );
        if is_list {
            around.lists_refused += u64::from(refused);
            around.lists_failed += u64::from(!refused);
            around.lists_late += u64::from(late);
        }
        if !late {
            return;
        }
        let of_status = matches!(
            method,
            Method::PodSandboxStatus | Method::ContainerStatus | Method::AnyStatus
        );
        around.statuses_late += u64::from(of_status);
        let entry = self.late.entry(*method).or_default();
        entry.lines += 1;
        if entry.quotes.len() < MOST_QUOTES {
            entry.quotes.push(quote());
        }
        let culprit = names::in_line(line);
        let pod = culprit.pod.as_ref().and_then(|pod| pod.name.clone());
        let Some(key) = culprit.id.clone().or(pod) else {
            return;
        };
        entry.asked_for(key, 1, culprit);
    }

    /// Takes in what another input tells.
    pub fn absorb(&mut self, other: Self) {
        for (method, late) in other.late {
            let known = self.late.entry(method).or_default();
            known.lines += late.lines;
            let room = MOST_QUOTES.saturating_sub(known.quotes.len());
            known.quotes.extend(late.quotes.into_iter().take(room));
            for (key, (count, culprit)) in late.whom {
                known.asked_for(key, count, culprit);
            }
        }
    }

    /// How many lines tell of such a call that ran out of time.
    pub fn lines(&self, method: Method) -> u64 {
        self.late.get(&method).map_or(0, |late| late.lines)
    }
}

impl Late {
    fn asked_for(&mut self, key: String, times: u64, culprit: Culprit) {
        if self.whom.len() < MOST_NAMES || self.whom.contains_key(&key) {
            let (count, known) = self.whom.entry(key).or_default();
            *count += times;
            known.learn(culprit);
        }
    }

    /// The one that was asked for in vain most often.
    pub fn most(&self) -> Option<&Culprit> {
        let most = self.whom.values().max_by_key(|(count, _)| *count);
        most.map(|(_, culprit)| culprit)
    }
}
