//! The conditions of a node, as `kubectl describe node` prints them.

use std::time::Duration;

use causes::facts::facts;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use pleg_text::WallTime;

use super::{NotReady, Seen};
use crate::table::TableRow;

/// Messages that a kubelet reports for some seconds after its start.
const STARTING: &[&str] = &["yet to be successful", "may not have completed yet"];

/// The maximum duration of a start.
const START: Duration = Duration::from_secs(5 * 60);

pub(super) fn begins(text: &str, words: &[&str]) -> bool {
    let named = |rest: &str| {
        (rest.starts_with("  ") || rest.starts_with("\t\t")) && !rest.trim().is_empty()
    };
    let fields = ["Name:", "Message:"].map(|field| text.strip_prefix(field));
    fields.into_iter().flatten().any(named)
        || matches!(text, "Conditions:" | "Events:")
        || text.starts_with("Events:  ")
        || words.starts_with(&["Type", "Status", "LastHeartbeatTime"])
        || text.starts_with("KubeletNotReady ")
        || matches!(
            words,
            ["State:" | "Last", .., "Terminated" | "Waiting" | "Running"] if words.len() <= 3
        )
        || is_row(words)
}

/// `Ready   False   Tue, 18 Dec 2018 21:20:18 +0000   …   KubeletNotReady   PLEG is …`, or without
/// times: `Ready   False   KubeletNotReady`.
fn is_row(words: &[&str]) -> bool {
    let [kind, status, third, more @ ..] = words else {
        return false;
    };
    let is_long = more.len() >= 2 || third.starts_with("Kubelet");
    is_long
        && matches!(*status, "True" | "False" | "Unknown")
        && facts().node_conditions.iter().any(|known| known == kind)
}

/// Reads a row; returns whether it is one.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) -> bool {
    let words: Vec<&str> = text.split_ascii_whitespace().take(8).collect();
    // A pod: `Status:   Terminating (lasts 14m)`. After a minute, nearly every grace period is over.
    if let ["Status:", "Terminating", "(lasts", span] = words[..]
        && !span.ends_with("s)")
    {
        let span = span.trim_end_matches(')');
        seen.trouble(line, format!("the pod has not ended for {span}"));
        return true;
    }
    let mut taints = words.iter();
    let taint = taints.find_map(|word| word.strip_prefix("node.kubernetes.io/"));
    if let Some(taint) = taint.and_then(|taint| taint.strip_suffix(":NoSchedule")) {
        return seen.row(TableRow::new("taints", line).text("taint", taint));
    }
    if !is_row(&words) {
        return false;
    }
    condition(words[0], words[1], text, since(text, line), line, seen);
    true
}

/// Reads a condition. `text` contains its reason and message; `since` shows when the condition changed,
/// if that is known.
pub(super) fn condition(
    kind: &str,
    status: &str,
    text: &str,
    since: Option<NotReady>,
    line: u64,
    seen: &mut Seen,
) {
    let is_not_ready = kind == "Ready" && status != "True";
    let is_long = |it: &NotReady| it.reported.since(it.since) > START;
    let starts = is_not_ready
        && !since.as_ref().is_some_and(is_long)
        && STARTING.iter().any(|words| text.contains(words));
    if !starts {
        let row = TableRow::new("conditions", line).text("type", kind);
        seen.row(row.text("status", status).text("text", text));
    }
    if let Some(episode) = since.filter(|_| is_not_ready) {
        seen.not_ready(episode);
    }
}

pub(super) fn wall_time(time: Timestamp) -> Option<WallTime> {
    WallTime::from_unix_nanos(i64::try_from(time.as_nanosecond()).ok()?)
}

/// How many words a time has: `Tue, 18 Dec 2018 21:20:18 +0000`.
const TIME_WORDS: usize = 6;

fn since(text: &str, line: u64) -> Option<NotReady> {
    let mut words = text.split_ascii_whitespace().skip(2);
    let mut time = || {
        let words: Vec<&str> = words.by_ref().take(TIME_WORDS).collect();
        // A weekday that was retyped wrongly is no reason to lose the time.
        let parser = DateTimeParser::new().relaxed_weekday(true);
        wall_time(parser.parse_timestamp(words.join(" ")).ok()?)
    };
    let (reported, since) = (time()?, time()?);
    let reason = words.next().unwrap_or("NotReady");
    let message: Vec<&str> = words.collect();
    Some(NotReady {
        since,
        reported,
        says: format!("{reason}: {}", message.join(" ")),
        line,
        text: text.to_owned(),
    })
}
