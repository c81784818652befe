//! `kubectl get`, `talosctl service`, and the kubelet's own health.

use causes::facts::facts;

use super::{Seen, event_rows};
use crate::table::TableRow;

pub(super) fn begins(text: &str, words: &[&str]) -> bool {
    facts().begins("cluster", words.join(" ").as_bytes())
        || is_evicted(text)
        || usage(words).is_some()
        || is_node_not_ready(words)
}

/// `node-1   NotReady   <none>   121d   v1.11.2`, without the header, with `-o wide` or without.
fn is_node_not_ready(words: &[&str]) -> bool {
    let [_, status, _, age, version, ..] = words else {
        return false;
    };
    status.starts_with("NotReady") && event_rows::is_age(age) && version.starts_with("v1.")
}

/// Whether the row shows an evicted pod, with a message that contains the reason.
fn is_evicted(text: &str) -> bool {
    text.contains(" Evicted ")
        && (text.contains("The node had condition: ") || text.contains("The node was low on"))
}

/// How much of a node is in use, in percent: of its processors and of its memory. A row of
/// `kubectl top nodes`: `node-1   1961m   101%   7011Mi   99%`.
fn usage(words: &[&str]) -> Option<(f64, f64)> {
    let [_, cores, processors, bytes, memory] = words else {
        return None;
    };
    let percent = |word: &str| word.strip_suffix('%')?.parse::<f64>().ok();
    let is_row = cores.ends_with('m') && bytes.ends_with("Mi");
    percent(processors).zip(percent(memory)).filter(|_| is_row)
}

pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    let words: Vec<&str> = text.split_ascii_whitespace().take(6).collect();
    if let Some((processors, memory)) = usage(&words) {
        let row = TableRow::new("node-usage", line).number("memory", memory);
        seen.row(row.number("processors", processors));
        return;
    }
    if text.starts_with("[+]") || text.starts_with("[-]") {
        // The page may have been pasted as one line.
        for failed in text.split("[-]").skip(1) {
            let check = failed.split(' ').next();
            let row = TableRow::new("command-lines", line).text("tool", "healthz");
            seen.row(row.text("text", check));
        }
        return;
    }
    if seen.command_line("cluster", text, line) {
        return;
    }
    // HEALTH  Fail, or NODE  SERVICE  Running  Fail
    match words[..] {
        ["HEALTH", "Fail"] => seen.trouble(line, "Talos reports a service as unhealthy"),
        [_, service, _, "Fail", ..] => {
            let says = format!("Talos reports its service {service} as unhealthy");
            seen.trouble(line, says);
        }
        _ if is_terminating(&words) => seen.terminating_pods.add(1, line),
        [node, status, ..] if status == "NotReady" || status.starts_with("NotReady,") => {
            seen.trouble(line, format!("node {node} is NotReady"));
        }
        _ => {}
    }
}

/// `web-1  1/1  Terminating  …`, perhaps after a namespace.
fn is_terminating(words: &[&str]) -> bool {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let is_ready = |word: &str| word.split('/').count() == 2 && word.split('/').all(is_number);
    let mut pairs = words.windows(2).skip(1).take(2);
    pairs.any(|pair| is_ready(pair[0]) && pair[1] == "Terminating")
}
