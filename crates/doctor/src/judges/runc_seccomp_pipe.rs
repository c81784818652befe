//! runc 1.0.0-rc93 writes its filter to a pipe before it reads from it; when the user's pipes
//! have used up their pages, a new pipe is too small for the filter.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};
use causes::versions::{RuncFault, runc_has};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack_of_processes;
use crate::evidence::owner::culprit;
use crate::evidence::remedy::raise_sysctl;
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Process};

/// A write to a pipe takes this long only if nothing reads from the pipe.
const STUCK_SECONDS: f64 = 10.0;
/// The number of pages of a new pipe, which has two ends.
const PAGES_PER_PIPE: u64 = 16;
/// From this share of the limit on, a possible future problem is reported.
const NEAR_SHARE: f64 = 0.8;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let affected = host
        .versions
        .runc()
        .and_then(|version| runc_has(RuncFault::SeccompPipe, version));
    // Other versions do not have the fault, whatever they wait for.
    if affected == Some(false) {
        return Opinion::Clear;
    }
    let stuck = host
        .all_processes()
        .iter()
        .filter(|process| process.is_runc_init() && process.age_seconds > STUCK_SECONDS)
        .filter_map(|process| stuck(host, process, affected));
    let mut findings: Vec<Finding> = stuck.collect();
    if findings.is_empty() && affected == Some(true) {
        findings.extend(soon(host));
    }
    Opinion::of(findings, [lack_of_processes(host)])
}

fn stuck(host: &HostFacts, process: &Process, affected: Option<bool>) -> Option<Finding> {
    let waits = process.wchan.iter().map(String::as_str);
    let mut waits = waits.chain(process.threads.iter().flat_map(|thread| thread.functions()));
    let function = waits
        .find(|function| matches!(*function, "pipe_write" | "pipe_wait" | "anon_pipe_write"))?;
    let confidence = match affected {
        Some(true) => Confidence::Certain,
        _ => Confidence::Medium,
    };
    let version = host.versions.runc().unwrap_or("unknown");
    let evidence = vec![
        format!(
            "{} waits in {function}, {:.0} s after its start",
            process.label(),
            process.age_seconds
        ),
        format!("version of runc: {version}"),
    ];
    let found = finding(
        Cause::RuncSeccompPipe,
        confidence,
        culprit(process),
        evidence,
    );
    let pid = process.pid;
    Some(found.advising(format!(
        "run `kill -KILL {pid}` to end the blocked process; its container does not start. Other \
         containers start once root's processes use fewer pipes"
    )))
}

fn soon(host: &HostFacts) -> Option<Finding> {
    let limit = *host.limits.pipe_pages_soft.value()?;
    let ends: u64 = host
        .all_processes()
        .iter()
        .filter(|process| process.uid == 0)
        .filter_map(|process| process.fds.value())
        .fold(0, |sum, fds| sum.saturating_add(fds.pipes));
    let pages = (ends / 2).saturating_mul(PAGES_PER_PIPE);
    if limit == 0 || (pages as f64) < limit as f64 * NEAR_SHARE {
        return None;
    }
    let version = host.versions.runc()?;
    let evidence = vec![
        format!("version of runc: {version}"),
        format!("root's pipes use about {pages} of {limit} pages (fs.pipe-user-pages-soft)"),
    ];
    let found = finding(
        Cause::RuncSeccompPipe,
        Confidence::Medium,
        Culprit::default(),
        evidence,
    );
    let more = limit.saturating_mul(4);
    Some(found.advising(raise_sysctl("fs.pipe-user-pages-soft", limit, more)))
}
