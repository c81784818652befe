//! The content of a picture.

use std::cmp::Reverse;
use std::time::Duration;

use episodes::{Episode, What};
use pleg_text::{GoDuration, WallTime};
use serde::Serialize;

/// The content of a picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// What happened, in one sentence.
    pub summary: String,
    /// The node, if it is known.
    pub node: Option<String>,
    /// The probable causes, the most probable one first.
    pub advice: Vec<Advice>,
    /// What was read.
    pub sources: Vec<String>,
    /// What a reader must know about the limits of the picture, one sentence each.
    pub notes: Vec<String>,
    /// All episodes, in order of time.
    pub episodes: Vec<Episode>,
    /// The beginning of the picture.
    pub from: WallTime,
    /// The end of the picture: the last time for which a source was read.
    pub to: WallTime,
}

/// A probable cause, and its remedy.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Advice {
    /// The id of the cause.
    pub cause: String,
    /// `low`, `medium`, `high` or `certain`.
    pub confidence: String,
    /// When the cause was found, if it is over; empty for a current cause and for one from a log.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub past: String,
    /// The finding as a sentence with names.
    pub sentence: String,
    /// The culprit, if it is known.
    pub culprit: Option<String>,
    /// The strongest evidence.
    pub evidence: Option<String>,
    /// What to do, the first thing first.
    pub steps: Vec<String>,
}

impl Advice {
    /// The confidence of the cause, and whether it is over.
    pub(crate) fn confidence_note(&self) -> String {
        match self.past.is_empty() {
            true => format!("{} confidence", self.confidence),
            false => format!("{} confidence; {}", self.confidence, self.past),
        }
    }
}

/// The minimum duration of a picture, for example of a single event.
const MIN_DURATION: Duration = Duration::from_secs(1);

impl Picture {
    /// A picture of all these episodes; `None` if there are none. An episode that two sources show,
    /// such as a recording and a snapshot of it, is drawn once.
    pub fn new(summary: impl Into<String>, episodes: Vec<Episode>) -> Option<Self> {
        let episodes = deduplicated(episodes);
        let from = episodes.first()?.from;
        let to = episodes.iter().map(Episode::until).max()?;
        Some(Self {
            summary: summary.into(),
            node: None,
            advice: Vec::new(),
            sources: Vec::new(),
            notes: Vec::new(),
            episodes,
            from,
            to: to.max(from.after(MIN_DURATION)),
        })
    }

    /// Extends this picture to the time until which its sources were read.
    pub fn read_until(mut self, time: Option<WallTime>) -> Self {
        self.to = time.map_or(self.to, |time| self.to.max(time));
        self
    }

    /// Returns the part of this picture from `from` on. Episodes that are not known to have lasted
    /// until then are left out.
    pub fn since(mut self, from: WallTime) -> Self {
        self.episodes.retain(|episode| episode.until() >= from);
        self.from = self.from.max(from).min(self.to.before(MIN_DURATION));
        self
    }

    /// The duration that the picture shows.
    pub fn spans(&self) -> Duration {
        self.to.since(self.from)
    }

    /// The beginning and the end of an episode, as fractions of the width of this picture. An episode
    /// may begin before the picture.
    pub(crate) fn place(&self, episode: &Episode) -> (f64, f64) {
        let whole = self.spans().as_secs_f64();
        let part = |time: WallTime| (time.since(self.from).as_secs_f64() / whole).clamp(0.0, 1.0);
        let from = part(episode.from);
        (from, part(drawn_until(episode)).max(from))
    }
}

/// Sorts episodes by time and removes duplicates.
fn deduplicated(mut episodes: Vec<Episode>) -> Vec<Episode> {
    episodes.sort_by_cached_key(|it| {
        let (title, subject) = (it.what.title(), it.subject_name());
        (it.from, title, subject, Reverse(it.until()))
    });
    episodes.dedup_by(|again, first| {
        again.from == first.from && again.what == first.what && again.subject == first.subject
    });
    episodes
}

/// The end of a bar. An event is drawn until it was reported.
pub(crate) fn drawn_until(episode: &Episode) -> WallTime {
    match delay(episode) {
        Some(delay) => episode.from.after(delay),
        None => episode.until(),
    }
}

/// The duration of an episode in Go's form; empty if the episode is a moment or its end is not known.
pub(crate) fn duration_text(episode: &Episode) -> String {
    match episode.lasted() {
        None | Some(Duration::ZERO) => String::new(),
        Some(lasted) if lasted < Duration::from_secs(1) => "< 1s".to_owned(),
        Some(lasted) => GoDuration(Duration::from_secs(lasted.as_secs())).to_string(),
    }
}

/// The time from an event to its report, if known.
fn delay(episode: &Episode) -> Option<Duration> {
    match episode.what {
        What::Event {
            delay_seconds: Some(delay),
            ..
        } => Duration::try_from_secs_f64(delay).ok(),
        _ => None,
    }
}

/// The reason, and for an event how it was reported.
pub(crate) fn reason_text(episode: &Episode) -> String {
    let reason = &episode.reason;
    let What::Event { source, .. } = &episode.what else {
        return reason.clone();
    };
    match delay(episode) {
        Some(delay) => {
            let delay = GoDuration(Duration::from_millis(delay.as_millis() as u64));
            format!("{reason}; reported after {delay} by {source}")
        }
        None => format!("{reason}; reported by {source}"),
    }
}
