//! What happened, in one sentence.

use std::time::Duration;

use episodes::{Episode, What};
use times::{GoDuration, WallTime};

/// What these episodes say at most, as far as they were seen: who hung longest, and what the node
/// suffered from it. None if nothing hung or suffered.
pub fn summary(episodes: &[Episode]) -> Option<String> {
    let lasted = |episode: &Episode| episode.until().since(episode.from);
    let total = |is: fn(&What) -> bool| {
        let its = episodes.iter().filter(|episode| is(&episode.what));
        together(its.map(|episode| (episode.from, episode.until())).collect())
    };
    let hung = |episode: &&Episode| matches!(episode.what, What::HungCall { .. });
    // A call for somebody says more than a list, which hangs because of somebody.
    let longest = episodes
        .iter()
        .filter(hung)
        .max_by_key(|episode| (!episode.whom().is_empty(), lasted(episode)));
    let mut parts = Vec::new();
    if let Some(episode) = longest
        && let What::HungCall { call } = &episode.what
    {
        let whom = episode.whom();
        let whom = match whom.is_empty() {
            true => String::new(),
            false => format!(" for {whom}"),
        };
        let time = shown(lasted(episode));
        parts.push(format!("{call}{whom} did not return for {time}"));
    }
    let suffered = [
        (
            "the node was NotReady",
            total(|what| matches!(what, What::NotReady)),
        ),
        (
            "a kubelet would have been NotReady",
            total(|what| matches!(what, What::WouldBeNotReady)),
        ),
        (
            "the kubelet skipped all pods",
            total(|what| matches!(what, What::PodsSkipped)),
        ),
        (
            "the runtime could not be reached",
            total(|what| matches!(what, What::RuntimeUnreachable)),
        ),
    ];
    for (what, time) in suffered {
        if !time.is_zero() {
            parts.push(format!("{what} for {}", shown(time)));
        }
    }
    if parts.is_empty() {
        return None;
    }
    let sentence = parts.join("; ");
    let mut characters = sentence.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    Some(first.into_iter().chain(characters).chain(['.']).collect())
}

/// How long these times are together. Two sources may show the same time.
fn together(mut times: Vec<(WallTime, WallTime)>) -> Duration {
    times.sort_unstable();
    let mut counted: Option<WallTime> = None;
    let each = times.into_iter().map(|(from, to)| {
        let from = counted.map_or(from, |counted| counted.max(from));
        counted = Some(counted.map_or(to, |counted| counted.max(to)));
        to.since(from)
    });
    each.sum()
}

fn shown(time: Duration) -> GoDuration {
    match time.as_secs() {
        0 => GoDuration(Duration::from_millis(time.as_millis() as u64)),
        seconds => GoDuration(Duration::from_secs(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use causes::finding::Culprit;

    use super::*;

    #[test]
    fn the_sentence_names_who_hung_and_what_the_node_suffered() {
        let second = |second: i64| WallTime::from_unix_nanos(second * 1_000_000_000).unwrap();
        let hung = |call: &str| What::HungCall { call: call.into() };
        let who = Culprit {
            id: Some("61ac".into()),
            ..Culprit::default()
        };
        let list = Episode::new(second(1), Some(second(301)), hung("ListContainers"), "");
        let status = Episode::new(second(3), Some(second(300)), hung("ContainerStatus"), "");
        let skipped = Episode::new(second(200), None, What::PodsSkipped, "");
        // Another source shows a part of the same.
        let again = skipped.clone().seen_until(Some(second(250)));
        let skipped = skipped.seen_until(Some(second(302)));
        let all = [list, status.about(who), again, skipped];
        assert_eq!(
            summary(&all).unwrap(),
            "ContainerStatus for 61ac did not return for 4m57s; the kubelet skipped all pods for \
             1m42s."
        );
        assert_eq!(summary(&[]), None);
    }
}
