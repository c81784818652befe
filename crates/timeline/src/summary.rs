//! Summarises a picture in one sentence.

use std::time::Duration;

use episodes::{Episode, What};
use pleg_text::{GoDuration, WallTime};

/// A call that hangs is recorded within this time. If nothing was recorded shortly before, the call
/// may have hung for longer.
const CALL_RECORDED_WITHIN: Duration = Duration::from_secs(15);

/// A kubelet becomes NotReady this long after its last complete list. An agent that was started in
/// between begins to count later than the kubelet.
const KUBELET_COUNTDOWN: Duration = Duration::from_secs(190);

/// An episode that seems shorter was shown by a single line, so its duration is not known.
const MIN_KNOWN_DURATION: Duration = Duration::from_millis(1);

/// An unresponsive runtime is reported within this time.
const UNRESPONSIVE_REPORTED_WITHIN: Duration = Duration::from_secs(30);

/// A sentence about the longest call that hung, and how the node was affected, without claiming
/// more than the sources show. `None` if nothing hung and the node was not affected.
pub fn summary(episodes: &[Episode]) -> Option<String> {
    let all = |what: What| episodes.iter().filter(move |it| it.what == what);
    let outages: Vec<_> = all(What::RuntimeSilent).collect();
    let gaps: Vec<_> = all(What::NotRecorded).collect();
    // No call to an unresponsive runtime is answered, so the container of such a call is not a culprit.
    let is_in_outage = |episode: &Episode| {
        let begun = |outage: &Episode| outage.from.before(UNRESPONSIVE_REPORTED_WITHIN);
        let mut outages = outages.iter();
        outages.any(|outage| (begun(outage)..=outage.until()).contains(&episode.from))
    };
    let hung = |episode: &&Episode| {
        matches!(episode.what, What::HungCall { .. }) && !is_in_outage(episode)
    };
    // A call for a container is stronger evidence than a list, which hangs because of a container.
    let longest = episodes
        .iter()
        .filter(hung)
        .max_by_key(|episode| (!episode.subject_name().is_empty(), episode.shown_for()));
    let at_least = |matching: &[&Episode]| {
        let is_open = |it: &&Episode| {
            it.to.is_none() || gaps.iter().any(|gap| is_next_to_unrecorded(it, gap))
        };
        match matching.iter().any(is_open) {
            true => "at least ",
            false => "",
        }
    };
    let mut parts = Vec::new();
    if let Some(episode) = longest
        && let What::HungCall { call } = &episode.what
    {
        let subject = episode.subject_name();
        let subject = match subject.is_empty() {
            true => String::new(),
            false => format!(" for {subject}"),
        };
        parts.push(match episode.shown_for() {
            // The log shows that the call timed out, but not its duration.
            Duration::ZERO => format!("{call}{subject} timed out"),
            time => format!(
                "{call}{subject} did not return for {}{}",
                at_least(&[episode]),
                duration_text(time)
            ),
        });
    }
    if let Some(episode) = all(What::TaskBlocked).max_by_key(|it| it.shown_for()) {
        // The kernel reports that a task is blocked, but never that it continues.
        parts.push(format!(
            "the task {} was blocked in the kernel for at least {}",
            episode.subject_name(),
            duration_text(episode.shown_for())
        ));
    }
    let suffered = [
        ("the node was NotReady", What::NotReady),
        ("a kubelet would have been NotReady", What::WouldBeNotReady),
        ("the kubelet skipped all pods", What::PodsSkipped),
        ("no relist completed", What::NoRelist),
        ("the runtime could not be reached", What::RuntimeUnreachable),
        ("the runtime answered no call", What::RuntimeSilent),
    ];
    for (phrase, what) in suffered {
        let matching: Vec<_> = all(what).collect();
        if matching.is_empty() {
            continue;
        }
        let (times, time) = merged(matching.iter().map(|it| (it.from, it.until())).collect());
        let lasted = format!("{}{}", at_least(&matching), duration_text(time));
        parts.push(match times {
            // A single line shows the state, so its duration is not known.
            _ if time < MIN_KNOWN_DURATION => phrase.to_owned(),
            1 => format!("{phrase} for {lasted}"),
            _ => format!("{phrase} {times} times, for {lasted} in all"),
        });
    }
    if parts.is_empty() {
        return None;
    }
    let sentence = parts.join("; ");
    let mut characters = sentence.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    Some(first.into_iter().chain(characters).chain(['.']).collect())
}

/// Whether the episode may also have lasted during a gap in the recording.
fn is_next_to_unrecorded(episode: &Episode, gap: &Episode) -> bool {
    let before = match episode.what {
        What::WouldBeNotReady => KUBELET_COUNTDOWN,
        What::HungCall { .. } => CALL_RECORDED_WITHIN,
        _ => Duration::ZERO,
    };
    gap.until() >= episode.from.before(before) && gap.from <= episode.until()
}

/// The number of separate intervals, and their total duration. Overlapping intervals count as one,
/// because two sources may show the same one.
fn merged(mut times: Vec<(WallTime, WallTime)>) -> (usize, Duration) {
    times.sort_unstable();
    let mut counted: Option<WallTime> = None;
    let mut apart = 0;
    let mut whole = Duration::ZERO;
    for (from, to) in times {
        apart += usize::from(counted.is_none_or(|counted| from > counted));
        // `None` is less than any time.
        whole += to.since(counted.max(Some(from)).unwrap_or(from));
        counted = counted.max(Some(to));
    }
    (apart, whole)
}

fn duration_text(time: Duration) -> String {
    match (time.as_secs(), time.as_millis()) {
        (0, 0) => "less than 1ms".to_owned(),
        (0, millis) => GoDuration(Duration::from_millis(millis as u64)).to_string(),
        (seconds, _) => GoDuration(Duration::from_secs(seconds)).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use causes::finding::Culprit;

    use super::*;

    #[test]
    fn the_sentence_names_the_culprit_and_the_effect_on_the_node() {
        let second = |second: i64| WallTime::from_unix_nanos(second * 1_000_000_000).unwrap();
        let hung = |call: &str| What::HungCall { call: call.into() };
        let who = Culprit {
            id: Some("61ac".into()),
            ..Culprit::default()
        };
        let list = Episode::new(second(1), Some(second(301)), hung("ListContainers"), "");
        let status = Episode::new(second(3), Some(second(300)), hung("ContainerStatus"), "");
        let skipped = Episode::new(second(200), None, What::PodsSkipped, "");
        // Another source shows a part of the same episode.
        let again = skipped.clone().seen_until(Some(second(250)));
        let skipped = skipped.seen_until(Some(second(302)));
        let all = [list, status.about(who), again, skipped];
        assert_eq!(
            summary(&all).unwrap(),
            "ContainerStatus for 61ac did not return for 4m57s; the kubelet skipped all pods for \
             at least 1m42s."
        );
        assert_eq!(summary(&[]), None);
    }

    #[test]
    fn repeated_episodes_are_counted_and_their_durations_added() {
        let second = |second: i64| WallTime::from_unix_nanos(second * 1_000_000_000).unwrap();
        let relist = |from, to| Episode::new(second(from), Some(second(to)), What::NoRelist, "");
        assert_eq!(
            summary(&[relist(10, 200), relist(150, 210), relist(1000, 1060)]).unwrap(),
            "No relist completed 2 times, for 4m20s in all."
        );
    }

    #[test]
    fn a_duration_next_to_an_unrecorded_time_is_a_minimum() {
        let second = |second: i64| WallTime::from_unix_nanos(second * 1_000_000_000).unwrap();
        let gap = Episode::new(second(100), Some(second(130)), What::NotRecorded, "");
        let would = |from, to| {
            let whole = Episode::new(second(from), Some(second(to)), What::WouldBeNotReady, "");
            summary(&[gap.clone(), whole]).unwrap()
        };
        assert_eq!(
            would(310, 370),
            "A kubelet would have been NotReady for at least 1m0s."
        );
        assert_eq!(
            would(900, 960),
            "A kubelet would have been NotReady for 1m0s."
        );
    }

    #[test]
    fn a_state_that_a_single_line_shows_has_no_duration() {
        let second = |second: i64| WallTime::from_unix_nanos(second * 1_000_000_000).unwrap();
        let not_ready = Episode::new(second(300), None, What::NotReady, "");
        let relist = Episode::new(second(94), None, What::NoRelist, "");
        assert_eq!(
            summary(&[not_ready, relist.seen_until(Some(second(300)))]).unwrap(),
            "The node was NotReady; no relist completed for at least 3m26s."
        );
    }

    #[test]
    fn a_call_without_a_known_duration_timed_out_and_short_durations_are_in_milliseconds() {
        let milli = |milli: i64| WallTime::from_unix_nanos((1 + milli) * 1_000_000).unwrap();
        let what = || What::HungCall {
            call: "RunPodSandbox".into(),
        };
        let phrase = |episode| summary(&[episode]).unwrap();
        assert_eq!(
            phrase(Episode::at(milli(0), what(), "")),
            "RunPodSandbox timed out."
        );
        let short = Episode::new(milli(0), Some(milli(400)), what(), "");
        assert_eq!(phrase(short), "RunPodSandbox did not return for 400ms.");
        let nanos = WallTime::from_unix_nanos(1_001_000);
        let shortest = Episode::new(milli(0), nanos, what(), "");
        assert_eq!(
            phrase(shortest),
            "RunPodSandbox did not return for less than 1ms."
        );
    }

    #[test]
    fn no_culprit_is_named_for_a_call_that_hangs_because_the_runtime_is_unresponsive() {
        let second = |second: i64| WallTime::from_unix_nanos(second * 1_000_000_000).unwrap();
        let what = || What::HungCall {
            call: "PodSandboxStatus".into(),
        };
        let who = |id: &str| Culprit {
            id: Some(id.into()),
            ..Culprit::default()
        };
        let other = Episode::new(second(100), Some(second(160)), what(), "").about(who("db.0"));
        let outage = Episode::new(second(105), Some(second(160)), What::RuntimeSilent, "");
        let all = [other.clone(), outage.clone()];
        assert_eq!(
            summary(&all).unwrap(),
            "The runtime answered no call for 55s."
        );
        let before = Episode::new(second(10), Some(second(40)), what(), "").about(who("db.1"));
        assert_eq!(
            summary(&[before, other, outage]).unwrap(),
            "PodSandboxStatus for db.1 did not return for 30s; the runtime answered no call for 55s."
        );
    }

    #[test]
    fn the_sentence_names_the_task_that_was_blocked_longest() {
        let second = |second: i64| WallTime::from_unix_nanos((1 + second) * 1_000_000_000).unwrap();
        let blocked = |until, process: &str| {
            let who = Culprit {
                pid: Some(7),
                process: Some(process.into()),
                ..Culprit::default()
            };
            Episode::new(second(0), Some(second(until)), What::TaskBlocked, "").about(who)
        };
        let phrase = summary(&[blocked(240, "dockerd"), blocked(120, "runc")]).unwrap();
        assert_eq!(
            phrase,
            "The task dockerd (7) was blocked in the kernel for at least 4m0s."
        );
    }
}
