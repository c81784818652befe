//! A finding: a cause, how sure we are, the culprit, what shows it, and what to do.
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

use pleg_text::WallTime;
use serde::{Deserialize, Serialize};

use crate::Cause;

/// How much a finding says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It may be this.
    Suspect,
    /// It is this.
    Problem,
}

/// How sure we are.
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
    /// All of them, the least first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Certain];

    /// From which confidence on a cause is called the problem.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Certain | Self::High => Verdict::Problem,
            Self::Medium | Self::Low => Verdict::Suspect,
        }
    }

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Certain => "certain",
        }
    }
}

/// A pod, of which some may be unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the words say it")]
pub struct PodName {
    pub uid: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
}

/// What is known of the culprit.
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
    /// Whether they name two pods, containers or processes.
    pub fn contradicts(&self, other: &Self) -> bool {
        fn differ<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
            one.is_some() && other.is_some() && one != other
        }
        let pods = self.pod.as_ref().zip(other.pod.as_ref());
        let pods = pods.is_some_and(|(one, other)| {
            differ(&one.uid, &other.uid)
                || differ(&one.namespace, &other.namespace)
                || differ(&one.name, &other.name)
        });
        pods || differ(&self.container, &other.container)
            || differ(&self.id, &other.id)
            || differ(&self.pid, &other.pid)
    }

    /// Takes over what was not known yet, unless it is about another one.
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

    /// A process, of which some may be unknown.
    pub fn of_process(process: Option<String>, pid: Option<u32>) -> Self {
        Self {
            process,
            pid,
            ..Self::default()
        }
    }

    /// Removes the pod and the container.
    pub fn of_node(self) -> Self {
        Self {
            pod: None,
            container: None,
            id: None,
            ..self
        }
    }

    /// Names what is known of it: `pod shop/web-0, id 61ac7eca54e9, containerd-shim (20596)`.
    /// What `said` names already is left out. None if nothing is left.
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

    /// Whether nothing is known of the culprit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The signals that free what waits for a culprit, and to which processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "action", content = "pids")]
pub enum Remedy {
    /// SIGCONT: these processes are stopped.
    Continue(Vec<u32>),
    /// SIGKILL: this `runc` does not return. What it was started for fails.
    EndRunc([u32; 1]),
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Its stable id.
    pub cause: Cause,
    /// What is known of the cause, in a short sentence.
    pub title: &'static str,
    /// What is known of this node, with names; empty if the title contains all of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sentence: String,
    /// Whether it is this or may be.
    pub verdict: Verdict,
    /// How sure we are.
    pub confidence: Confidence,
    /// Whether it is over: an earlier diagnosis found it, and it was not found again.
    pub past: bool,
    /// When the earlier diagnosis found it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_at: Option<WallTime>,
    /// The culprit.
    pub culprit: Culprit,
    /// What shows it: sentences, and lines with file and number in front.
    pub evidence: Vec<String>,
    /// What to do, the first thing first; with ids where they are known.
    pub advice: Vec<Cow<'static, str>>,
    /// The first advice, if it is to send signals and safe without a look at the node.
    #[serde(skip)]
    pub remedy: Option<Remedy>,
    /// Where it is fixed.
    pub fixed_in: Vec<&'static str>,
    /// Where it is discussed.
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

    /// What it says in one sentence.
    pub fn said(&self) -> &str {
        match self.sentence.is_empty() {
            true => self.title,
            false => &self.sentence,
        }
    }

    /// Whether both are about one fault: the same cause, and no two different culprits.
    pub fn is_same_fault(&self, other: &Self) -> bool {
        self.cause == other.cause && !self.culprit.contradicts(&other.culprit)
    }

    /// When it was found, as a note behind a name: `past, found at 2026-11-23 18:21:42 UTC`; empty
    /// for a finding that is current.
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

    /// Replaces credentials, which lines of logs and names of mounts may contain. Whatever makes
    /// findings does this last.
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

    /// Puts what to do with this node in front of what to do in general.
    pub fn advise_first(&mut self, advice: impl Into<String>) {
        self.advice.insert(0, Cow::Owned(advice.into()));
        self.remedy = None;
    }
}

/// A headline has this many characters at most: with a full stop fewer than 100.
pub const MAX_HEADLINE: usize = 98;

/// A clause that ends sooner says too little.
const MIN_HEADLINE: usize = 40;

/// As many whole clauses as fit a headline.
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

/// Leaves out what is only a consequence of something that is found at least as surely, and not of
/// another pod.
pub fn leave_out_superseded(findings: &mut Vec<Finding>) {
    let of_pod = |culprit: &Culprit| Culprit {
        pod: culprit.pod.clone(),
        ..Culprit::default()
    };
    let superseded = findings.iter().flat_map(|finding| {
        let ids = finding.cause.about().supersedes.iter();
        ids.map(|id| (id.as_str(), finding.confidence, of_pod(&finding.culprit)))
    });
    let superseded: Vec<(&str, Confidence, Culprit)> = superseded.collect();
    findings.retain(|finding| {
        let is_it = |(id, sure, pod): &(&str, Confidence, Culprit)| {
            *id == finding.cause.id()
                && *sure >= finding.confidence
                && !pod.contradicts(&finding.culprit)
        };
        !superseded.iter().any(is_it)
    });
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
    fn a_consequence_is_left_out_unless_it_is_surer() {
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
