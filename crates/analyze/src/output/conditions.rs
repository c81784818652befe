//! The conditions of a node, as `kubectl describe node` prints them.

use std::time::Duration;

use causes::Cause;
use causes::finding::Confidence;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use pleg_text::WallTime;

use super::{NotReady, Seen};
use crate::proof::Proof;

/// Types of conditions that are set by the kubelet, cloud providers or node-problem-detector.
const TYPES: [&str; 24] = [
    "Ready",
    "OutOfDisk",
    "DiskPressure",
    "MemoryPressure",
    "PIDPressure",
    "NetworkUnavailable",
    "KernelDeadlock",
    "ReadonlyFilesystem",
    "XfsShutdown",
    "CorruptDockerOverlay2",
    "FrequentKubeletRestart",
    "FrequentDockerRestart",
    "FrequentContainerdRestart",
    "FrequentUnregisterNetDevice",
    "ContainerRuntimeUnhealthy",
    "ContainerRuntimeProblem",
    "KubeletUnhealthy",
    "KubeletProblem",
    "FilesystemCorruptionProblem",
    "VMEventScheduled",
    "PLEGUnhealthy",
    "ContainerRuntimeReady",
    "KernelReady",
    "StorageReady",
];

/// Messages of a start, for some seconds.
const STARTING: &[&str] = &["yet to be successful", "may not have completed yet"];

/// No start takes longer.
const START: Duration = Duration::from_secs(5 * 60);

/// Whether only such a page has this line.
pub(super) fn begins(text: &str, words: &[&str]) -> bool {
    let named = |rest: &str| {
        (rest.starts_with("  ") || rest.starts_with("\t\t")) && !rest.trim().is_empty()
    };
    ["Name:", "Message:"]
        .iter()
        .any(|field| text.strip_prefix(field).is_some_and(named))
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
    is_long && matches!(*status, "True" | "False" | "Unknown") && TYPES.contains(kind)
}

/// Reads a row; says whether it is one.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) -> bool {
    let words: Vec<&str> = text.split_ascii_whitespace().take(8).collect();
    // Of a pod: `Status:   Terminating (lasts 14m)`; all but a long grace is over by then.
    if let ["Status:", "Terminating", "(lasts", span] = words[..]
        && !span.ends_with("s)")
    {
        let span = span.trim_end_matches(')');
        seen.trouble(line, format!("the pod has not ended for {span}"));
        return true;
    }
    let taint = words
        .iter()
        .find_map(|word| word.strip_prefix("node.kubernetes.io/"));
    if let Some(kind) = taint.and_then(|taint| taint.strip_suffix(":NoSchedule"))
        && let Some((_, cause)) = PRESSURES.iter().find(|(pressure, _)| *pressure == kind)
    {
        let says = format!("the node has the taint {kind}");
        seen.proof(Proof::new(*cause, Confidence::Medium, line, says));
        return true;
    }
    if !is_row(&words) {
        return false;
    }
    condition(words[0], words[1], text, since(text, line), line, seen);
    true
}

/// What the kubelet taints a node with while a condition of that name is met.
const PRESSURES: [(&str, Cause); 3] = [
    ("disk-pressure", Cause::DiskFull),
    ("memory-pressure", Cause::MemoryThrash),
    ("pid-pressure", Cause::PidsExhausted),
];

/// Takes a condition, whose text has its reason and message, and the time since when it is what it
/// is, where that is known.
pub(super) fn condition(
    kind: &str,
    status: &str,
    text: &str,
    since: Option<NotReady>,
    line: u64,
    seen: &mut Seen,
) {
    match (kind, status) {
        ("Ready", "False" | "Unknown") => {
            let is_long = since
                .as_ref()
                .is_some_and(|it| it.reported.since(it.since) > START);
            if is_long || !STARTING.iter().any(|words| text.contains(words)) {
                not_ready(text, line, seen);
            }
            if let Some(episode) = since {
                seen.not_ready(episode);
            }
        }
        (kind, "True") => problem(kind, text, line, seen),
        ("ContainerRuntimeReady" | "KernelReady" | "StorageReady", "False") => {
            seen.trouble(line, format!("the condition {kind} is False"));
        }
        _ => {}
    }
}

pub(super) fn wall_time(time: Timestamp) -> Option<WallTime> {
    WallTime::from_unix_nanos(i64::try_from(time.as_nanosecond()).ok()?)
}

/// How many words a time has: `Tue, 18 Dec 2018 21:20:18 +0000`.
const TIME_WORDS: usize = 6;

/// Since when the node is not Ready.
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

fn not_ready(text: &str, line: u64, seen: &mut Seen) {
    let runtime = [
        "container runtime is down",
        "container runtime not ready",
        "RuntimeReady=false",
        "Container runtime not ready",
    ];
    if let Some(words) = runtime.iter().find(|words| text.contains(**words)) {
        let says = format!("the node is NotReady: {words}");
        seen.proof(Proof::new(
            Cause::RuntimeUnresponsive,
            Confidence::High,
            line,
            says,
        ));
    } else if text.contains("stopped posting node status") {
        seen.trouble(
            line,
            "the kubelet stopped posting node status: the kubelet, the node or its connection to \
             the API server failed",
        );
    } else if text.contains("NetworkReady=false") || text.contains("network plugin is not ready") {
        let says = "the node is NotReady: the network plugin is not ready";
        seen.proof(Proof::new(Cause::CniNotReady, Confidence::High, line, says));
    } else if !text.contains("PLEG is not healthy") {
        seen.trouble(line, "the node is NotReady");
    }
}

/// Conditions that are bad where they are True.
fn problem(kind: &str, text: &str, line: u64, seen: &mut Seen) {
    use Confidence::{High, Low, Medium};
    let (cause, confidence) = match kind {
        "OutOfDisk" => (Cause::DiskFull, High),
        // An eviction threshold was reached: of inodes, or of a share of a file system.
        "DiskPressure" => (Cause::DiskFull, Medium),
        "MemoryPressure" => (Cause::MemoryThrash, Medium),
        "PIDPressure" => (Cause::PidsExhausted, High),
        "ReadonlyFilesystem" | "XfsShutdown" | "FilesystemCorruptionProblem" => {
            (Cause::DiskErrors, High)
        }
        "KernelDeadlock" if text.contains("unregister_netdevice") => (Cause::RtnlStuck, High),
        "KernelDeadlock" => (Cause::StorageUnresponsive, Low),
        "FrequentUnregisterNetDevice" => (Cause::RtnlStuck, Medium),
        "FrequentKubeletRestart" => (Cause::RepairLoop, Medium),
        "FrequentDockerRestart" | "FrequentContainerdRestart" => {
            (Cause::RuntimeRestartLoop, Medium)
        }
        "ContainerRuntimeUnhealthy" | "ContainerRuntimeProblem" => {
            (Cause::RuntimeUnresponsive, Medium)
        }
        "NetworkUnavailable"
        | "KubeletUnhealthy"
        | "KubeletProblem"
        | "CorruptDockerOverlay2"
        | "PLEGUnhealthy" => {
            return seen.trouble(line, format!("the condition {kind} is True"));
        }
        _ => return,
    };
    let says = format!("the condition {kind} is True");
    let proof = Proof::new(cause, confidence, line, says);
    seen.proof(match kind {
        "DiskPressure" => proof
            .headed("the kubelet reports disk pressure: a threshold of its eviction is reached"),
        _ => proof,
    });
}
