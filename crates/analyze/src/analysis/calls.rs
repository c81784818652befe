//! Failed calls to the runtime, as the kubelet logs them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use causes::facts::facts;
use causes::finding::Culprit;
use serde::Deserialize;

use super::Quote;
use super::names;
use crate::line::has;
use crate::series::Around;

/// The method of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    ListPodSandbox,
    ListContainers,
    PodSandboxStatus,
    ContainerStatus,
    RunPodSandbox,
    StopPodSandbox,
    StopContainer,
    Status,
    /// A list call, if the kubelet's message does not show which.
    AnyList,
    /// A status call of a pod, if the message does not show which.
    AnyStatus,
    Other,
}

impl Method {
    /// The method's name in CRI, or the kind of call if the message shows no more; `None` for `Other`.
    pub fn name(self) -> Option<String> {
        match self {
            Self::AnyList => Some("a list".to_owned()),
            Self::AnyStatus => Some("a status call".to_owned()),
            Self::Other => None,
            named => Some(format!("{named:?}")),
        }
    }

    fn is_list(self) -> bool {
        matches!(
            self,
            Self::ListPodSandbox | Self::ListContainers | Self::AnyList
        )
    }

    fn is_status(self) -> bool {
        matches!(
            self,
            Self::PodSandboxStatus | Self::ContainerStatus | Self::AnyStatus
        )
    }

    /// Whether the method's timeout is the kubelet's `runtimeRequestTimeout`. Calls that start a sandbox or
    /// stop a container have longer timeouts.
    pub fn waits_for_request_timeout(self) -> bool {
        !matches!(
            self,
            Self::RunPodSandbox | Self::StopContainer | Self::Other
        )
    }
}

/// Texts in the kubelet's messages, each with the method that it shows.
static METHODS: LazyLock<Vec<(&str, Method)>> = LazyLock::new(|| {
    let each = facts().call_methods.iter();
    each.map(|(text, method)| (text.as_str(), crate::named(method)))
        .collect()
});

/// Calls of one kind that timed out.
#[derive(Clone, Debug, Default)]
pub struct TimedOut {
    /// How many lines report such a timeout.
    pub lines: u64,
    /// The containers or pods that the calls were about, each with its number of lines.
    pub targets: BTreeMap<String, (u64, Culprit)>,
    /// The first of the lines that report such a timeout.
    pub quotes: Vec<Quote>,
}

/// All failed calls.
#[derive(Debug, Default)]
pub struct Calls {
    /// The calls that timed out, by method.
    pub late: BTreeMap<Method, TimedOut>,
    /// Whether some of the failed calls are calls of the dockershim to dockerd.
    pub are_of_dockershim: bool,
}

const MAX_NAMES: usize = 500;
const MAX_QUOTES: usize = 3;

impl Calls {
    /// Reads a line about a failed call. Returns the method and the target if the call timed out.
    pub fn line(
        &mut self,
        line: &[u8],
        around: &mut Around,
        quote: impl FnOnce() -> Quote,
    ) -> Option<(Method, Culprit)> {
        let is_of_dockershim = has(line, "operation timeout");
        self.are_of_dockershim |= is_of_dockershim;
        let (_, method) = METHODS.iter().find(|(name, _)| has(line, name))?;
        // Probes often exceed their own time limit.
        if has(line, "ExecSync") {
            return None;
        }
        let late =
            is_of_dockershim || has(line, "eadlineExceeded") || has(line, "deadline exceeded");
        let refused = has(line, "connection refused")
            || has(line, "no such file")
            || has(line, "Unavailable");
        if method.is_list() {
            around.lists_refused += u64::from(refused);
            around.lists_failed += u64::from(!refused);
            around.lists_late += u64::from(late);
        }
        if !late {
            return None;
        }
        around.statuses_late += u64::from(method.is_status());
        let entry = self.late.entry(*method).or_default();
        entry.lines += 1;
        if entry.quotes.len() < MAX_QUOTES {
            entry.quotes.push(quote());
        }
        let culprit = names::in_line(line);
        let pod = culprit.pod.as_ref().and_then(|pod| pod.name.clone());
        if let Some(key) = culprit.id.clone().or(pod) {
            entry.add_target(key, 1, culprit.clone());
        }
        Some((*method, culprit))
    }

    /// Adds the calls of another input.
    pub fn absorb(&mut self, other: Self) {
        self.are_of_dockershim |= other.are_of_dockershim;
        for (method, late) in other.late {
            let known = self.late.entry(method).or_default();
            known.lines += late.lines;
            let room = MAX_QUOTES.saturating_sub(known.quotes.len());
            known.quotes.extend(late.quotes.into_iter().take(room));
            for (key, (count, culprit)) in late.targets {
                known.add_target(key, count, culprit);
            }
        }
    }

    /// How many lines report a timeout of this method.
    pub fn lines(&self, method: Method) -> u64 {
        self.late.get(&method).map_or(0, |late| late.lines)
    }
}

impl TimedOut {
    fn add_target(&mut self, key: String, times: u64, culprit: Culprit) {
        if self.targets.len() < MAX_NAMES || self.targets.contains_key(&key) {
            let (count, known) = self.targets.entry(key).or_default();
            *count += times;
            known.learn(culprit);
        }
    }

    /// The container or pod with the most timeouts.
    pub fn most(&self) -> Option<&Culprit> {
        let most = self.targets.values().max_by_key(|(count, _)| *count);
        most.map(|(_, culprit)| culprit)
    }
}
