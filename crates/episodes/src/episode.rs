//! One event, or one state that lasted.

use std::time::Duration;

use causes::finding::Culprit;
use pleg_text::WallTime;
use serde::{Deserialize, Serialize};

use crate::What;

/// An event at one time, or a state that lasted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Episode {
    /// When it began.
    pub from: WallTime,
    /// When it ended: equal to `from` for an event; `None` if its source does not show the end.
    pub to: Option<WallTime>,
    /// For an episode without an end: the last time at which its source shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_until: Option<WallTime>,
    /// What it is.
    #[serde(flatten)]
    pub what: What,
    /// The object that it is about, if known.
    #[serde(default, rename = "who")]
    pub subject: Culprit,
    /// One sentence with names, without credentials.
    pub reason: String,
    /// The number of lines or records that were merged.
    pub count: u64,
    /// The first line or record that shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
}

/// The first line or record that shows an episode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file, or another source that was read.
    pub file: String,
    /// The line's number, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The line itself, cut if it is long; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// The number of characters of an id that crictl shows.
const MAX_ID_CHARACTERS: usize = 13;

impl Episode {
    /// Creates an episode without an object and without a source.
    pub fn new(
        from: WallTime,
        to: Option<WallTime>,
        what: What,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            from,
            to: to.map(|to| to.max(from)),
            seen_until: None,
            what,
            subject: Culprit::default(),
            reason: pleg_text::redacted(reason.into()),
            count: 1,
            source: None,
        }
    }

    /// Creates an event at one time.
    pub fn at(time: WallTime, what: What, reason: impl Into<String>) -> Self {
        Self::new(time, Some(time), what, reason)
    }

    /// Returns this episode with the object that it is about.
    pub fn about(mut self, subject: Culprit) -> Self {
        self.subject = subject;
        self
    }

    /// Returns this episode with the line or record that shows it.
    pub fn written(mut self, source: Source) -> Self {
        let text = pleg_text::redacted(source.text);
        self.source = Some(Source { text, ..source });
        self
    }

    /// Returns this episode with the last time at which its source shows it, if it has no end.
    pub fn seen_until(mut self, time: Option<WallTime>) -> Self {
        self.seen_until = time.filter(|time| self.to.is_none() && *time > self.from);
        self
    }

    /// The time until which its source shows it.
    pub fn until(&self) -> WallTime {
        self.to.or(self.seen_until).unwrap_or(self.from)
    }

    /// Its duration; `None` if its end is not known.
    pub fn lasted(&self) -> Option<Duration> {
        self.to.map(|to| to.since(self.from))
    }

    /// How long its source shows it: its duration, or the least that it lasted.
    pub fn shown_for(&self) -> Duration {
        self.until().since(self.from)
    }

    /// Whether it is an event at one time.
    pub fn is_moment(&self) -> bool {
        self.to == Some(self.from)
    }

    /// The object in a few words: `namespace/pod/container`, or the beginning of an id, as crictl
    /// shows it; empty if it has none.
    pub fn subject_name(&self) -> String {
        let Culprit {
            pod,
            container,
            id,
            pid,
            process,
            unit,
        } = &self.subject;
        let [namespace, name, uid] = match pod {
            Some(pod) => [&pod.namespace, &pod.name, &pod.uid].map(Option::as_deref),
            None => [None; 3],
        };
        let parts = [namespace, name, container.as_deref()];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            return parts.join("/");
        }
        match (id.as_deref().or(uid), unit, process, pid) {
            (Some(id), ..) => id.get(..MAX_ID_CHARACTERS).unwrap_or(id).to_owned(),
            (_, Some(unit), ..) => unit.clone(),
            (_, _, Some(process), Some(pid)) => format!("{process} ({pid})"),
            (_, _, Some(process), None) => process.clone(),
            (_, _, None, Some(pid)) => format!("process {pid}"),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use causes::finding::PodName;

    use super::*;

    fn second(second: i64) -> WallTime {
        WallTime::from_unix_nanos((1_700_000_000 + second) * 1_000_000_000).unwrap()
    }

    #[test]
    fn an_episode_in_json_is_flat_and_reads_back() {
        let call = What::HungCall {
            call: "ListContainers".into(),
        };
        let subject = Culprit {
            id: Some("61ac".into()),
            ..Culprit::default()
        };
        let source = Source {
            file: "kubelet.log".into(),
            line: Some(7),
            text: String::new(),
        };
        let episode = Episode::new(second(0), None, call, "it hangs")
            .about(subject)
            .written(source);
        let json = serde_json::to_value(&episode).unwrap();
        assert_eq!(json["what"], "hungCall");
        assert_eq!(json["call"], "ListContainers");
        assert_eq!(json["to"], serde_json::Value::Null);
        assert_eq!(json["source"]["line"], 7);
        assert_eq!(serde_json::from_value::<Episode>(json).unwrap(), episode);
    }

    #[test]
    fn neither_the_reason_nor_the_line_of_an_episode_holds_a_credential() {
        let source = Source {
            file: "kubelet.log".into(),
            line: Some(7),
            text: "mount -o password=hunter2".into(),
        };
        let reason = "it failed with token=hunter2";
        let episode = Episode::new(second(0), None, What::NotReady, reason).written(source);
        let json = serde_json::to_string(&episode).unwrap();
        assert!(!json.contains("hunter2"), "{json}");
        assert!(json.contains("mount -o password=[redacted]"), "{json}");
    }

    #[test]
    fn an_end_before_the_beginning_is_moved_to_the_beginning() {
        let episode = Episode::new(second(5), Some(second(3)), What::NotReady, "");
        assert!(episode.is_moment());
        assert_eq!(episode.lasted(), Some(Duration::ZERO));
    }

    #[test]
    fn a_subject_is_named_by_pod_and_container_or_by_another_known_name() {
        let name = |subject: Culprit| {
            Episode::at(second(0), What::NotReady, "")
                .about(subject)
                .subject_name()
        };
        let pod = PodName {
            uid: Some("u".into()),
            namespace: Some("default".into()),
            name: Some("web-0".into()),
        };
        let empty = Culprit::default;
        let cases = [
            (empty(), ""),
            (
                Culprit {
                    pod: Some(pod.clone()),
                    container: Some("app".into()),
                    id: Some("61ac".into()),
                    ..empty()
                },
                "default/web-0/app",
            ),
            (
                Culprit {
                    pod: Some(PodName {
                        name: None,
                        namespace: None,
                        ..pod
                    }),
                    ..empty()
                },
                "u",
            ),
            (
                Culprit {
                    pid: Some(7),
                    process: Some("runc".into()),
                    ..empty()
                },
                "runc (7)",
            ),
        ];
        for (subject, expected) in cases {
            assert_eq!(name(subject), expected);
        }
    }
}
