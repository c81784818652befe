//! A finding: a cause that was found, with confidence, culprit, evidence and advice.
//!
//! ```
//! use causes::Cause;
//! use causes::finding::{Confidence, Culprit, Finding, Verdict};
//!
//! let mut finding = Finding::new(Cause::ContainerStatusLock, Confidence::High)
//!     .advising("kill -CONT 20596");
//! finding.culprit = Culprit { pid: Some(20596), ..Culprit::default() };
//! assert_eq!(finding.verdict, Verdict::Problem);
//! assert_eq!(finding.advice[0], "kill -CONT 20596");
//! ```

use std::borrow::Cow;
use std::collections::VecDeque;

use pleg_text::WallTime;
use serde::{Deserialize, Serialize};

use crate::Cause;

/// Whether a finding is a problem, or only a suspicion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// This cause is possible.
    Suspect,
    /// This is the cause.
    Problem,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum Confidence {
    #[default]
    Low,
    Medium,
    High,
    Certain,
}

impl Confidence {
    /// All confidences, the lowest first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Certain];

    /// Whether a finding with this confidence is a problem or only a suspicion.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Certain | Self::High => Verdict::Problem,
            Self::Medium | Self::Low => Verdict::Suspect,
        }
    }

    /// The word that the JSON uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Certain => "certain",
        }
    }
}

/// A pod. Parts of its identity may be unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the words say it")]
pub struct PodName {
    pub uid: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
}

/// What is known about a culprit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Culprit {
    /// The pod.
    pub pod: Option<PodName>,
    /// The container's name.
    pub container: Option<String>,
    /// The id of a container or sandbox.
    pub id: Option<String>,
    /// The process's id.
    pub pid: Option<u32>,
    /// The process's name.
    pub process: Option<String>,
    /// The systemd unit.
    pub unit: Option<String>,
}

impl Culprit {
    /// Whether the two name different pods, containers or processes.
    pub fn contradicts(&self, other: &Self) -> bool {
        self.is_of_another_pod(other)
            || differ(&self.container, &other.container)
            || differ(&self.id, &other.id)
            || differ(&self.pid, &other.pid)
    }

    fn is_of_another_pod(&self, other: &Self) -> bool {
        let pods = self.pod.as_ref().zip(other.pod.as_ref());
        pods.is_some_and(|(one, other)| {
            differ(&one.uid, &other.uid)
                || differ(&one.namespace, &other.namespace)
                || differ(&one.name, &other.name)
        })
    }

    /// Fills in what is not known yet, unless `other` is another culprit.
    pub fn learn(&mut self, other: Self) {
        if self.contradicts(&other) {
            return;
        }
        fn fill<T>(known: &mut Option<T>, other: Option<T>) {
            if known.is_none() {
                *known = other;
            }
        }
        fill(&mut self.pod, other.pod);
        fill(&mut self.container, other.container);
        fill(&mut self.id, other.id);
        fill(&mut self.pid, other.pid);
        fill(&mut self.process, other.process);
        fill(&mut self.unit, other.unit);
    }

    /// A process, by its name and id if they are known.
    pub fn of_process(process: Option<String>, pid: Option<u32>) -> Self {
        Self {
            process,
            pid,
            ..Self::default()
        }
    }

    /// The culprit without its pod and container, for a fault of the whole node.
    pub fn of_node(self) -> Self {
        Self {
            pod: None,
            container: None,
            id: None,
            ..self
        }
    }

    /// What is known, as text: `pod shop/web-0, id 61ac7eca54e9, containerd-shim (20596)`. Parts that
    /// `said` contains are left out; `None` if nothing is left.
    pub fn named_beside(&self, said: &str) -> Option<String> {
        let pod = self.pod.as_ref().map(|pod| {
            let part = |part: &Option<String>| part.clone().unwrap_or_else(|| "?".to_owned());
            format!("{}/{}", part(&pod.namespace), part(&pod.name))
        });
        let process = match (&self.process, self.pid) {
            (Some(process), Some(pid)) => Some(("", format!("{process} ({pid})"))),
            (Some(process), None) => Some(("", process.clone())),
            (None, pid) => pid.map(|pid| ("process ", pid.to_string())),
        };
        let parts = [
            pod.map(|pod| ("pod ", pod)),
            self.id.clone().map(|id| ("id ", id)),
            process,
            self.unit.clone().map(|unit| ("", unit)),
        ];
        let parts = parts.into_iter().flatten();
        let new = parts.filter(|(_, value)| !said.contains(value.as_str()));
        let new: Vec<String> = new.map(|(what, value)| format!("{what}{value}")).collect();
        (!new.is_empty()).then(|| new.join(", "))
    }

    /// Whether nothing is known about the culprit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn differ<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
    one.is_some() && other.is_some() && one != other
}

/// The signal that unblocks what waits for a culprit, and the processes to send it to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "action", content = "pids")]
pub enum Remedy {
    /// SIGCONT, because these processes are stopped.
    Continue(Vec<u32>),
    /// SIGKILL, because this `runc` does not return. The operation that it was started for fails.
    EndRunc([u32; 1]),
}

/// A cause that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// The title of the cause: a short sentence, the same on all nodes.
    pub title: &'static str,
    /// What is known about this node, in a sentence with names; empty if the title says all of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sentence: String,
    /// Whether the finding is a problem or a suspicion.
    pub verdict: Verdict,
    /// How sure the finding is.
    pub confidence: Confidence,
    /// Whether the finding is past: an earlier diagnosis found it, and it was not found again.
    pub past: bool,
    /// When the earlier diagnosis found it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_at: Option<WallTime>,
    /// The culprit.
    pub culprit: Culprit,
    /// The evidence: sentences, and lines with file and line number in front.
    pub evidence: Vec<String>,
    /// What to do, the most urgent first; with ids if they are known.
    pub advice: Vec<Cow<'static, str>>,
    /// The first advice as an action, if it is to send a signal and is safe without looking at the node.
    #[serde(skip)]
    pub remedy: Option<Remedy>,
    /// The versions in which the fault is fixed.
    pub fixed_in: Vec<&'static str>,
    /// Where the cause is discussed.
    pub references: &'static [String],
}

impl Finding {
    /// A finding without evidence yet.
    pub fn new(cause: Cause, confidence: Confidence) -> Self {
        let about = cause.about();
        let advice = about.advice.iter();
        Self {
            cause,
            title: &about.title,
            sentence: String::new(),
            verdict: confidence.verdict(),
            confidence,
            past: false,
            found_at: None,
            culprit: Culprit::default(),
            evidence: Vec::new(),
            advice: advice.map(|it| Cow::Borrowed(&*it.text)).collect(),
            remedy: None,
            fixed_in: about.fixed_in.iter().map(String::as_str).collect(),
            references: &about.references,
        }
    }

    /// The finding in one sentence: about this node, or else its title.
    pub fn said(&self) -> &str {
        match self.sentence.is_empty() {
            true => self.title,
            false => &self.sentence,
        }
    }

    /// Whether both findings are about one fault: the same cause, and no different culprits.
    pub fn is_same_fault(&self, other: &Self) -> bool {
        self.cause == other.cause && !self.culprit.contradicts(&other.culprit)
    }

    /// A note for a finding that is past: `past, found at 2026-11-23 18:21:42 UTC`; empty if it is current.
    pub fn past_note(&self) -> String {
        match self.found_at {
            _ if !self.past => String::new(),
            Some(time) => format!("past, found at {}", time.timestamp().strftime("%F %T UTC")),
            None => "past".to_owned(),
        }
    }

    /// Puts this advice first.
    pub fn advising(mut self, advice: impl Into<String>) -> Self {
        self.advise_first(advice);
        self
    }

    /// Replaces credentials, which log lines and names of mounts may contain. This is the last step of
    /// making a finding.
    pub fn redact(&mut self) {
        let advice = self.advice.iter_mut().filter_map(|advice| match advice {
            Cow::Owned(advice) => Some(advice),
            Cow::Borrowed(_) => None,
        });
        let names = [&mut self.culprit.process, &mut self.culprit.unit];
        let names = names.into_iter().flatten();
        let texts = self.evidence.iter_mut().chain([&mut self.sentence]);
        for text in texts.chain(advice).chain(names) {
            *text = pleg_text::redacted(std::mem::take(text));
        }
    }

    /// Puts advice about this node before the general advice.
    pub fn advise_first(&mut self, advice: impl Into<String>) {
        self.advice.insert(0, Cow::Owned(advice.into()));
        self.remedy = None;
    }
}

/// The maximum length of a headline in characters; with a full stop it has fewer than 100.
pub const MAX_HEADLINE: usize = 98;

/// A headline is not cut after a clause that ends before this place: it would say too little.
const MIN_HEADLINE: usize = 40;

/// As many whole clauses of the text as fit into a headline.
pub fn headline(text: &str) -> String {
    let end = text.char_indices().nth(MAX_HEADLINE).map(|(end, _)| end);
    let Some(begin) = end.map(|end| &text[..end]) else {
        return text.to_owned();
    };
    let is_end = |at: usize| at > MIN_HEADLINE && text[at + 1..].starts_with(' ');
    let mut clauses = begin.rmatch_indices([':', ';', ',', '.']).map(|(at, _)| at);
    match clauses.find(|at| is_end(*at)).or(begin.rfind(' ')) {
        Some(end) => begin[..end].to_owned(),
        None => begin.to_owned(),
    }
}

/// Removes findings that are consequences of another cause whose confidence is at least as high, unless
/// they are about another pod.
pub fn leave_out_superseded(findings: &mut Vec<Finding>) {
    let supersedes = |one: &Finding, other: &Finding| {
        let mut ids = one.cause.about().supersedes.iter();
        one.confidence >= other.confidence
            && !one.culprit.is_of_another_pod(&other.culprit)
            && ids.any(|id| id == other.cause.id())
    };
    let is_left = |finding| !findings.iter().any(|other| supersedes(other, finding));
    let mut left: VecDeque<bool> = findings.iter().map(is_left).collect();
    findings.retain(|_| left.pop_front() == Some(true));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SiteCause;

    #[test]
    fn a_headline_ends_with_a_whole_clause_or_word() {
        assert_eq!(headline("the kubelet exits"), "the kubelet exits");
        let long = format!(
            "the kubelet exits at its start because of this: {}",
            "word ".repeat(20)
        );
        let clause = "the kubelet exits at its start because of this";
        assert_eq!(headline(&long), clause);
        let words = headline(&"word ".repeat(40));
        assert!(words.ends_with("word") && words.len() <= MAX_HEADLINE);
    }

    #[test]
    fn the_title_of_each_cause_is_a_headline() {
        for cause in Cause::ALL {
            let title = &cause.about().title;
            assert_eq!(headline(title), *title, "{cause}");
        }
    }

    #[test]
    fn a_consequence_is_left_out_unless_it_is_surer_or_of_another_pod() {
        let page = "---\nid: acme-array\ntitle: the array is down\nadvice: []\nsupersedes: [disk-full]\n---\n\n";
        let array = SiteCause::declare("acme-array", page.to_owned()).unwrap();
        let left = |sure, other, pods: [Option<&str>; 2]| {
            let mut findings = vec![
                Finding::new(Cause::DiskFull, other),
                Finding::new(array, sure),
            ];
            for (finding, name) in findings.iter_mut().zip(pods) {
                finding.culprit.pod = name.map(|name| PodName {
                    name: Some(name.to_owned()),
                    ..PodName::default()
                });
            }
            leave_out_superseded(&mut findings);
            findings.len()
        };
        let (medium, high) = (Confidence::Medium, Confidence::High);
        assert_eq!(left(high, high, [None, None]), 1);
        assert_eq!(left(medium, high, [None, None]), 2);
        assert_eq!(left(high, high, [Some("web"), None]), 1);
        assert_eq!(left(high, high, [Some("web"), Some("web")]), 1);
        assert_eq!(left(high, high, [Some("web"), Some("log")]), 2);
    }
}
