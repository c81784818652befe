//! Decides which episodes share a row, and the order of the rows: the culprit, the node, causes, pods
//! that were not observed, events.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use episodes::{Level, What};
use pleg_text::GoDuration;

use crate::Picture;

/// A row of the picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The text in front of the row.
    pub label: String,
    /// The part of the picture that it belongs to.
    pub section: Section,
    /// The episodes that are drawn in it, in order of time.
    pub episodes: Vec<usize>,
}

/// The parts of a picture, from top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    /// Calls that were not answered in time.
    Calls,
    /// Tasks that were blocked in the kernel.
    Tasks,
    /// The node as a whole.
    Node,
    /// Lines and diagnoses that point to a cause.
    Causes,
    /// Pods that were not observed.
    Pods,
    /// Events of containers, and when they were reported.
    Events,
}

impl Section {
    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Calls => "Calls not answered",
            Self::Tasks => "Blocked in the kernel",
            Self::Node => "Node",
            Self::Causes => "Causes",
            Self::Pods => "Pods not observed",
            Self::Events => "Events",
        }
    }
}

/// A section with more rows is not readable; the other rows are merged into one.
const MAX_ROWS: usize = 30;
const MAX_PODS: usize = 20;

/// The rows of a picture.
pub(crate) fn rows(picture: &Picture) -> Vec<Row> {
    let mut rows: BTreeMap<(Section, u8, String), Vec<usize>> = BTreeMap::new();
    for (index, episode) in picture.episodes.iter().enumerate() {
        let subject = episode.subject_name();
        let (section, order) = place(&episode.what, subject.is_empty());
        let label = match &episode.what {
            What::HungCall { call } if subject.is_empty() => call.clone(),
            What::HungCall { call } => format!("{subject} ({call})"),
            What::PodWaited | What::TaskBlocked => subject,
            What::Event { event, source, .. } => format!("{event} ({source})"),
            What::Health { .. } => "health, reported by pleg".to_owned(),
            what => what.title(),
        };
        let episodes = rows.entry((section, order, label)).or_default();
        episodes.push(index);
    }
    let rows = rows.into_iter().map(|((section, order, label), episodes)| {
        let label = match section {
            Section::Pods => format!("{label} ({})", wait_summary(picture, &episodes)),
            _ => label,
        };
        let row = Row {
            label,
            section,
            episodes,
        };
        (order, row)
    });
    let mut rows: Vec<(u8, Row)> = rows.collect();
    // The row with the longest call or wait is the first one.
    rows.sort_by_key(|(order, row)| (row.section, *order, Reverse(total_duration(picture, row))));
    limited(rows.into_iter().map(|(_, row)| row).collect())
}

/// The section, and the order of kinds within it. A list hangs because of a container, so the call
/// for that container precedes it.
fn place(what: &What, has_no_subject: bool) -> (Section, u8) {
    match what {
        What::HungCall { .. } => (Section::Calls, u8::from(has_no_subject)),
        What::TaskBlocked => (Section::Tasks, 0),
        What::NotReady => (Section::Node, 0),
        What::WouldBeNotReady => (Section::Node, 1),
        What::PodsSkipped => (Section::Node, 2),
        What::NoRelist => (Section::Node, 3),
        What::RuntimeUnreachable | What::RuntimeSilent => (Section::Node, 4),
        What::Health { .. } => (Section::Node, 5),
        What::Guarding => (Section::Node, 6),
        What::HintsMissing => (Section::Node, 7),
        What::NotRecorded => (Section::Node, 8),
        What::KubeletStarted => (Section::Node, 9),
        What::RuntimeStarted => (Section::Node, 10),
        What::PodWaited => (Section::Pods, 0),
        What::Finding { .. } => (Section::Causes, 0),
        What::Sign { .. } => (Section::Causes, 1),
        What::Event { .. } => (Section::Events, 0),
    }
}

fn total_duration(picture: &Picture, row: &Row) -> Duration {
    if !matches!(row.section, Section::Calls | Section::Tasks | Section::Pods) {
        return Duration::ZERO;
    }
    let episodes = row.episodes.iter().map(|index| &picture.episodes[*index]);
    let each = episodes.map(|episode| episode.until().since(episode.from));
    each.sum()
}

/// How long a pod waited; of several times the longest.
fn wait_summary(picture: &Picture, episodes: &[usize]) -> String {
    let each = episodes.iter().map(|index| &picture.episodes[*index]);
    let longest = each
        .map(|episode| episode.until().since(episode.from))
        .max();
    let longest = GoDuration(Duration::from_secs(longest.unwrap_or_default().as_secs()));
    match episodes.len() {
        1 => longest.to_string(),
        times => format!("{times} times, up to {longest}"),
    }
}

/// Merges the rows beyond the limit of their section into one.
fn limited(rows: Vec<Row>) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::new();
    let mut more: BTreeMap<Section, Vec<Row>> = BTreeMap::new();
    for row in rows {
        let in_section = kept.iter().filter(|kept| kept.section == row.section);
        let limit = match row.section {
            Section::Pods => MAX_PODS,
            _ => MAX_ROWS,
        };
        match in_section.count() < limit {
            true => kept.push(row),
            false => more.entry(row.section).or_default().push(row),
        }
    }
    for (section, rows) in more {
        let label = format!("{} more", rows.len());
        let mut episodes: Vec<usize> = rows.into_iter().flat_map(|row| row.episodes).collect();
        episodes.sort_unstable();
        let after = kept.iter().rposition(|row| row.section == section);
        let row = Row {
            label,
            section,
            episodes,
        };
        kept.insert(after.map_or(0, |last| last + 1), row);
    }
    kept
}

/// What a bar says, if it has room for it; `None` for a moment.
pub(crate) fn state(what: &What) -> Option<&str> {
    Some(match what {
        What::HungCall { .. } => "no answer",
        What::TaskBlocked => "blocked",
        What::NotReady => "NotReady",
        What::WouldBeNotReady => "would be NotReady",
        What::PodsSkipped => "pods not synced",
        What::Health { state } => state,
        What::NoRelist => "no relist",
        What::PodWaited => "not observed",
        What::RuntimeUnreachable => "unreachable",
        What::RuntimeSilent => "unresponsive",
        What::Guarding => "guarding",
        What::HintsMissing => "no hints",
        What::NotRecorded => "not recorded",
        What::Finding { confidence, .. } => confidence,
        What::RuntimeStarted | What::KubeletStarted | What::Event { .. } | What::Sign { .. } => {
            return None;
        }
    })
}

/// The colours that a picture uses, as the class of each and its meaning.
pub(crate) fn legend(picture: &Picture) -> Vec<(&'static str, &'static str)> {
    let used = |name: &str| {
        let mut episodes = picture.episodes.iter();
        episodes.any(|episode| class(&episode.what) == name)
    };
    let has_open = picture.episodes.iter().any(|episode| episode.to.is_none());
    let colours = [
        ("hung", "call not answered, or task blocked"),
        ("error", "node affected"),
        ("warning", "pod affected, or a cause"),
        ("wait", "no relist, or not observed"),
        ("guard", "guard answers"),
        ("info", "event"),
        ("none", "not recorded"),
    ];
    let colours = colours.into_iter().filter(|(name, _)| used(name));
    let open = has_open.then_some(("page open", "end not known"));
    colours.chain(open).collect()
}

/// The class of an episode in styles, which sets its colour.
pub(crate) fn class(what: &What) -> &'static str {
    match what {
        What::HungCall { .. } | What::TaskBlocked => "hung",
        What::Guarding => "guard",
        What::PodWaited | What::NoRelist => "wait",
        What::NotRecorded => "none",
        what => match what.level() {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
        },
    }
}

#[cfg(test)]
mod tests {
    use causes::finding::{Culprit, PodName};
    use episodes::Episode;
    use pleg_text::WallTime;

    use super::*;

    fn second(second: i64) -> WallTime {
        WallTime::from_unix_nanos((1_700_000_000 + second) * 1_000_000_000).unwrap()
    }

    fn pod(name: &str) -> Culprit {
        Culprit {
            pod: Some(PodName {
                uid: None,
                namespace: Some("default".into()),
                name: Some(name.into()),
            }),
            ..Culprit::default()
        }
    }

    fn hangs(from: i64, to: i64, who: Culprit) -> Episode {
        let call = What::HungCall {
            call: "ContainerStatus".into(),
        };
        Episode::new(second(from), Some(second(to)), call, "").about(who)
    }

    fn labels(episodes: Vec<Episode>) -> Vec<String> {
        let picture = Picture::new("", episodes).unwrap();
        rows(&picture).into_iter().map(|row| row.label).collect()
    }

    #[test]
    fn the_call_that_hung_longest_is_first_and_the_node_after_all_calls() {
        let episodes = vec![
            Episode::new(second(0), Some(second(900)), What::NotReady, ""),
            hangs(0, 10, pod("short")),
            hangs(5, 500, pod("long")),
            hangs(600, 700, pod("short")),
        ];
        assert_eq!(
            labels(episodes),
            [
                "default/long (ContainerStatus)",
                "default/short (ContainerStatus)",
                "NotReady"
            ]
        );
    }

    #[test]
    fn the_pods_that_waited_longest_have_a_row_each_with_their_delay() {
        let waited = |number: i64| {
            let (from, to) = (second(0), Some(second(1000 - number)));
            Episode::new(from, to, What::PodWaited, "").about(pod(&format!("p{number}")))
        };
        let later = Episode::new(second(2000), Some(second(2010)), What::PodWaited, "");
        let again = labels(vec![waited(5), later.about(pod("p5"))]);
        assert_eq!(again, ["default/p5 (2 times, up to 16m35s)"]);
        let labels = labels((0..50).map(waited).collect());
        assert_eq!(labels.len(), MAX_PODS + 1);
        assert_eq!(labels[..2], ["default/p0 (16m40s)", "default/p1 (16m39s)"]);
        assert_eq!(labels[MAX_PODS], "30 more");
    }

    #[test]
    fn a_thousand_pods_that_hang_are_not_a_thousand_rows() {
        let hang = |number: i64| hangs(0, 1000 - number, pod(&format!("p{number}")));
        let mut episodes: Vec<Episode> = (0..1000).map(hang).collect();
        episodes.push(Episode::new(second(0), None, What::NotReady, ""));
        let labels = labels(episodes);
        assert_eq!(labels.len(), MAX_ROWS + 2);
        assert_eq!(labels[0], "default/p0 (ContainerStatus)");
        assert_eq!(labels[MAX_ROWS..], ["970 more", "NotReady"]);
    }
}
