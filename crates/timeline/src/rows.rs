//! Decides which episodes share a row, and the order of the rows: the culprit, the node, causes, pods
//! that were not observed, events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use episodes::{Episode, Level, What};
use pleg_text::GoDuration;

use crate::Picture;

/// A row of the picture.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The text in front of the row.
    pub label: String,
    /// The part of the picture that the row belongs to.
    pub section: Section,
    /// The indices of the episodes that are drawn in this row, in order of time.
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

/// The maximum number of rows in a section: more would not be readable. The other
/// rows are merged into one.
const MAX_ROWS: usize = 30;
/// The maximum number of rows in the section of pods.
const MAX_PODS: usize = 20;

/// The rows of a picture.
pub(crate) fn rows(picture: &Picture) -> Vec<Row> {
    let mut rows: BTreeMap<(Section, u8, String), Vec<usize>> = BTreeMap::new();
    for (index, episode) in picture.episodes.iter().enumerate() {
        let subject = episode.subject_name();
        let (section, order) = match layout(&episode.what) {
            // A list hangs because of a container, so the call for that container precedes it.
            (Section::Calls, ..) => (Section::Calls, u8::from(subject.is_empty())),
            (section, order, _) => (section, order),
        };
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
    let durations = |episodes: &[usize]| {
        let each = episodes.iter().map(|index| &picture.episodes[*index]);
        each.map(Episode::shown_for).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = rows.into_iter().collect();
    // The row with the longest call or wait is the first one.
    rows.sort_by_cached_key(|((section, order, _), episodes)| {
        let total: Duration = match section {
            Section::Calls | Section::Tasks | Section::Pods => durations(episodes).iter().sum(),
            Section::Node | Section::Causes | Section::Events => Duration::ZERO,
        };
        (*section, *order, Reverse(total))
    });
    let rows = rows.into_iter().map(|((section, _, label), episodes)| Row {
        label: match section {
            Section::Pods => format!("{label} ({})", wait_summary(&durations(&episodes))),
            _ => label,
        },
        section,
        episodes,
    });
    limited(&rows.collect::<Vec<_>>())
}

/// The section of a kind of episodes, its place in that section, and the text in a bar that has room
/// for it. The text is empty for what lasts only a moment.
fn layout(what: &What) -> (Section, u8, &str) {
    match what {
        What::HungCall { .. } => (Section::Calls, 0, "no answer"),
        What::TaskBlocked => (Section::Tasks, 0, "blocked"),
        What::NotReady => (Section::Node, 0, "NotReady"),
        What::WouldBeNotReady => (Section::Node, 1, "would be NotReady"),
        What::PodsSkipped => (Section::Node, 2, "pods not synced"),
        What::NoRelist => (Section::Node, 3, "no relist"),
        What::RuntimeUnreachable => (Section::Node, 4, "unreachable"),
        What::RuntimeSilent => (Section::Node, 4, "unresponsive"),
        What::Health { state } => (Section::Node, 5, state),
        What::Guarding => (Section::Node, 6, "guarding"),
        What::HintsMissing => (Section::Node, 7, "no hints"),
        What::NotRecorded => (Section::Node, 8, "not recorded"),
        What::KubeletStarted => (Section::Node, 9, ""),
        What::RuntimeStarted => (Section::Node, 10, ""),
        What::PodWaited => (Section::Pods, 0, "not observed"),
        What::Finding { confidence, .. } => (Section::Causes, 0, confidence),
        What::Sign { .. } => (Section::Causes, 1, ""),
        What::Event { .. } => (Section::Events, 0, ""),
    }
}

/// How long a pod waited. If it waited several times, how often, and the longest time.
fn wait_summary(waits: &[Duration]) -> String {
    let longest = waits.iter().max().map_or(0, Duration::as_secs);
    let longest = GoDuration(Duration::from_secs(longest));
    match waits.len() {
        1 => longest.to_string(),
        times => format!("{times} times, up to {longest}"),
    }
}

/// Merges the rows beyond the limit of their section into one.
fn limited(rows: &[Row]) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::new();
    for (section, rows) in sections(rows) {
        let limit = match section {
            Section::Pods => MAX_PODS,
            _ => MAX_ROWS,
        };
        let (shown, more) = rows.split_at(limit.min(rows.len()));
        kept.extend_from_slice(shown);
        if !more.is_empty() {
            let episodes = more.iter().flat_map(|row| &row.episodes);
            let mut episodes: Vec<usize> = episodes.copied().collect();
            episodes.sort_unstable();
            kept.push(Row {
                label: format!("{} more", more.len()),
                section,
                episodes,
            });
        }
    }
    kept
}

/// The sections that have rows, each with its rows.
pub(crate) fn sections(rows: &[Row]) -> impl Iterator<Item = (Section, &[Row])> {
    let sections = rows.chunk_by(|row, next| row.section == next.section);
    sections.map(|rows| (rows[0].section, rows))
}

/// The text in a bar that has room for it; empty for what lasts only a moment.
pub(crate) fn state(what: &What) -> &str {
    layout(what).2
}

/// The colours that a picture uses, as the class of each and its meaning.
pub(crate) fn legend(picture: &Picture) -> Vec<(&'static str, &'static str)> {
    let episodes = || picture.episodes.iter();
    let used: BTreeSet<&str> = episodes().map(|episode| class(&episode.what)).collect();
    let has_open = episodes().any(|episode| episode.to.is_none());
    let colours = [
        ("hung", "call not answered, or task blocked"),
        ("error", "node affected"),
        ("warning", "pod affected, or a cause"),
        ("wait", "no relist, or not observed"),
        ("guard", "guard answers"),
        ("info", "event"),
        ("none", "not recorded"),
    ];
    let colours = colours.into_iter().filter(|(name, _)| used.contains(name));
    let open = has_open.then_some(("page open", "end not known"));
    colours.chain(open).collect()
}

/// The CSS class of an episode, which sets its colour.
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
