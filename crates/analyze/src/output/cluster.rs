//! `kubectl get`, `talosctl service`, and the kubelet's own health.

use causes::Cause;
use causes::finding::Confidence;

use super::{Seen, TIMED_OUT, Trouble, has_any};
use crate::proof::Proof;

/// Pods that are being deleted, of `kubectl get pods`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terminating {
    pods: u64,
    /// Of the first.
    line: u64,
}

/// One or two are usual.
const MANY: u64 = 3;

impl Terminating {
    fn pod(&mut self, line: u64) {
        if self.pods == 0 {
            self.line = line;
        }
        self.pods += 1;
    }

    pub(super) fn trouble(self) -> Option<Trouble> {
        (self.pods >= MANY).then(|| Trouble {
            says: format!("{} pods are Terminating", self.pods),
            line: self.line,
        })
    }
}

/// Whether only such output has this line.
pub(super) fn begins(text: &str, words: &[&str]) -> bool {
    text.starts_with("[+]")
        || text.starts_with("[-]")
        || words.starts_with(&["NAME", "STATUS", "ROLES"])
        || words.starts_with(&["NAME", "STATUS", "AGE"])
        || *words == ["NAME", "LABELS", "STATUS"]
        || words.starts_with(&["NAME", "READY", "STATUS", "RESTARTS"])
        || words.starts_with(&["NAMESPACE", "NAME", "READY", "STATUS"])
        || words.starts_with(&["NODE", "SERVICE", "STATE", "HEALTH"])
        || *words == ["HEALTH", "OK"]
        || *words == ["HEALTH", "Fail"]
        || is_evicted(text)
        || usage(words).is_some()
        || words.starts_with(&["NAME", "CPU(cores)"])
        || is_node_not_ready(words)
}

/// `node-1   NotReady   <none>   121d   v1.11.2`, without the header, with `-o wide` or without.
fn is_node_not_ready(words: &[&str]) -> bool {
    let [_, status, _, age, version, ..] = words else {
        return false;
    };
    let is_age =
        age.ends_with(['d', 'h', 'm', 's', 'y']) && age.starts_with(|c: char| c.is_ascii_digit());
    status.starts_with("NotReady") && is_age && version.starts_with("v1.")
}

/// A row of pods that was evicted, with the message that says why.
fn is_evicted(text: &str) -> bool {
    text.contains(" Evicted ")
        && (text.contains("The node had condition: ") || text.contains("The node was low on"))
}

/// How much of a node is in use, in percent: of its processors and of its memory. A row of
/// `kubectl top nodes`: `node-1   1961m   101%   7011Mi   99%`.
fn usage(words: &[&str]) -> Option<(u32, u32)> {
    let [_, cores, processors, bytes, memory] = words else {
        return None;
    };
    let percent = |word: &str| word.strip_suffix('%')?.parse::<u32>().ok();
    let is_row = cores.ends_with('m') && bytes.ends_with("Mi");
    percent(processors).zip(percent(memory)).filter(|_| is_row)
}

/// If so much of a node is in use, there is none for what starts.
const ALL_PERCENT: u32 = 98;

/// A check of the kubelet's `/healthz` that failed: `syncloop failed: reason withheld`.
fn health_check(failed: &str, line: u64, seen: &mut Seen) {
    let check = failed.split(' ').next().unwrap_or_default();
    let says = match check {
        "syncloop" => {
            "the kubelet's sync loop has made no progress for minutes: it skips its work or is \
             blocked in a call"
                .to_owned()
        }
        _ => format!("the kubelet's health check {check} failed"),
    };
    seen.trouble(line, says);
}

/// Reads a line.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    let words: Vec<&str> = text.split_ascii_whitespace().take(6).collect();
    if let Some((processors, memory)) = usage(&words) {
        let mut prove = |cause, confidence, says| {
            seen.proof(Proof::new(cause, confidence, line, says));
        };
        if memory >= ALL_PERCENT {
            let says = format!("{memory}% of the memory of the node is in use");
            prove(Cause::MemoryThrash, Confidence::Medium, says);
        } else if processors >= ALL_PERCENT {
            let says = format!("{processors}% of the processors of the node are in use");
            prove(Cause::CpuStarved, Confidence::Low, says);
        }
        return;
    }
    if text.starts_with("[+]") || text.starts_with("[-]") {
        // Somebody may have pasted the page as one line.
        for failed in text.split("[-]").skip(1) {
            health_check(failed, line, seen);
        }
        return;
    }
    if text.contains(":10248/healthz\": ") && has_any(text, TIMED_OUT) {
        let says = "the kubelet does not answer its health check";
        let cause = Cause::KubeletInternal;
        return seen.proof(Proof::new(cause, Confidence::Low, line, says));
    }
    // HEALTH  Fail, or NODE  SERVICE  Running  Fail
    let first: Vec<&str> = text.split_ascii_whitespace().take(4).collect();
    match first[..] {
        ["HEALTH", "Fail"] => {
            return seen.trouble(line, "Talos reports a service as unhealthy");
        }
        [_, service, _, "Fail"] => {
            let says = format!("Talos reports its service {service} as unhealthy");
            return seen.trouble(line, says);
        }
        _ => {}
    }
    if is_terminating(&first) {
        return seen.terminating.pod(line);
    }
    let mut words = text.split_ascii_whitespace();
    // Up to 1.2, behind the labels.
    let is_last = text.split_ascii_whitespace().last() == Some("NotReady");
    if let (Some(node), Some(status)) = (words.next(), words.next())
        && (status == "NotReady" || status.starts_with("NotReady,") || is_last)
    {
        seen.trouble(line, format!("node {node} is NotReady"));
    }
}

/// `web-1  1/1  Terminating  …`, perhaps behind a namespace.
fn is_terminating(words: &[&str]) -> bool {
    let is_ready = |word: &str| {
        let number = |text: &str| text.parse::<u32>().is_ok();
        word.split_once('/')
            .is_some_and(|(ready, all)| number(ready) && number(all))
    };
    let mut pairs = words.windows(2).skip(1);
    pairs.any(|pair| is_ready(pair[0]) && pair[1] == "Terminating")
}
