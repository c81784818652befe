//! Episodes in the form in which OpenShift's end-to-end tests save theirs, so that OpenShift's
//! viewers can open them: `openshift/origin`, `pkg/monitor/monitorapi` (read in November 2026).
//!
//! ```text
//!   {"items": [{"level", "display", "source", "locator": {"type", "keys"},
//!               "message": {"reason", "cause", "humanMessage", "annotations"}, "from", "to"}]}
//! ```

use std::collections::BTreeMap;

use causes::finding::{Culprit, PodName};
use pleg_text::WallTime;
use serde::Serialize;

use crate::{Episode, Level, What};

/// A list of intervals.
#[derive(Debug, Serialize)]
pub struct Intervals<'a> {
    items: Vec<Interval<'a>>,
}

#[derive(Debug, Serialize)]
struct Interval<'a> {
    level: Level,
    display: bool,
    source: &'static str,
    locator: Locator<'a>,
    message: Message<'a>,
    from: WallTime,
    to: Option<WallTime>,
}

#[derive(Debug, Serialize)]
struct Locator<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    keys: BTreeMap<&'static str, &'a str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    reason: String,
    cause: &'a str,
    human_message: &'a str,
    annotations: BTreeMap<&'static str, String>,
}

/// The episodes of `node` as intervals.
pub fn intervals<'a>(episodes: &'a [Episode], node: &'a str) -> Intervals<'a> {
    let items = episodes.iter().map(|episode| interval(episode, node));
    Intervals {
        items: items.collect(),
    }
}

fn interval<'a>(episode: &'a Episode, node: &'a str) -> Interval<'a> {
    let cause = match &episode.what {
        What::Finding { cause, .. } | What::Sign { cause } => cause.id(),
        _ => "",
    };
    let reason = camel_case(&episode.what.title());
    let annotations = [
        ("reason", reason.clone()),
        ("constructed", "pleg".to_owned()),
        ("count", episode.count.to_string()),
        ("cause", cause.to_owned()),
    ];
    let annotations = annotations.into_iter().filter(|(_, text)| !text.is_empty());
    Interval {
        level: episode.what.level(),
        display: true,
        source: "Pleg",
        locator: locator(&episode.subject, node),
        message: Message {
            reason,
            cause,
            human_message: &episode.reason,
            annotations: annotations.collect(),
        },
        from: episode.from,
        to: episode.to,
    }
}

fn locator<'a>(subject: &'a Culprit, node: &'a str) -> Locator<'a> {
    let mut keys = BTreeMap::from([("node", node)]);
    let mut add = |key, value: &'a Option<String>| {
        if let Some(value) = value {
            keys.insert(key, value);
        }
    };
    if let Some(PodName {
        uid,
        namespace,
        name,
    }) = &subject.pod
    {
        add("uid", uid);
        add("namespace", namespace);
        add("pod", name);
    }
    add("container", &subject.container);
    let kind = match (&subject.container, &subject.pod) {
        (Some(_), _) => "Container",
        (None, Some(_)) => "Pod",
        (None, None) => "Node",
    };
    Locator { kind, keys }
}

/// `would be NotReady` becomes `WouldBeNotReady`.
fn camel_case(words: &str) -> String {
    let parts = words.split([' ', '-']);
    let capitalised = parts.flat_map(|word| {
        let mut characters = word.chars();
        let first = characters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(characters)
    });
    capitalised.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_the_fields_that_its_viewers_read() {
        let from = WallTime::from_unix_nanos(1_700_000_000_000_000_000).unwrap();
        let subject = Culprit {
            pod: Some(PodName {
                uid: Some("u".into()),
                namespace: Some("default".into()),
                name: Some("web-0".into()),
            }),
            container: Some("app".into()),
            ..Culprit::default()
        };
        let call = What::HungCall {
            call: "ContainerStatus".into(),
        };
        let episodes = [
            Episode::new(from, None, call, "it hangs").about(subject),
            Episode::at(from, What::NotReady, "the PLEG is not healthy"),
        ];
        let json = serde_json::to_value(intervals(&episodes, "node-1")).unwrap();
        let first = &json["items"][0];
        assert_eq!(first["level"], "Warning");
        assert_eq!(first["locator"]["type"], "Container");
        assert_eq!(first["locator"]["keys"]["pod"], "web-0");
        assert_eq!(first["locator"]["keys"]["node"], "node-1");
        assert_eq!(first["message"]["reason"], "ContainerStatusHangs");
        assert_eq!(first["message"]["humanMessage"], "it hangs");
        assert_eq!(first["to"], serde_json::Value::Null);
        let second = &json["items"][1];
        assert_eq!(second["level"], "Error");
        assert_eq!(second["locator"]["type"], "Node");
    }
}
