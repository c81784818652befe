//! `kubectl get`, `talosctl service`, and the kubelet's own health.

use causes::Cause;
use causes::finding::Confidence;

use super::{Seen, Trouble};
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
        || is_out_of_memory(words)
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

/// A row of `kubectl top nodes`: `node-1   1961m   101%   7011Mi   99%`. All but the last memory of a
/// node is in use.
fn is_out_of_memory(words: &[&str]) -> bool {
    let [_, cores, processor, bytes, memory] = words else {
        return false;
    };
    let share = memory
        .strip_suffix('%')
        .and_then(|it| it.parse::<u32>().ok());
    cores.ends_with('m')
        && processor.ends_with('%')
        && bytes.ends_with("Mi")
        && share.is_some_and(|share| share >= NO_MEMORY_PERCENT)
}

/// So much memory of a node is in use that there is none for what starts.
const NO_MEMORY_PERCENT: u32 = 98;

/// Reads a line.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    let words: Vec<&str> = text.split_ascii_whitespace().take(6).collect();
    if is_out_of_memory(&words) {
        let says = format!("{} of the memory of the node is in use", words[4]);
        let cause = Cause::MemoryThrash;
        return seen.proof(Proof::new(cause, Confidence::Medium, line, says));
    }
    if let Some(check) = text.strip_prefix("[-]") {
        let check = check.split(' ').next().unwrap_or_default();
        return match check {
            "syncloop" => seen.trouble(
                line,
                "the kubelet's sync loop has made no progress for minutes: it skips its work or \
                 is blocked in a call",
            ),
            _ => seen.trouble(line, format!("the kubelet's health check {check} failed")),
        };
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
