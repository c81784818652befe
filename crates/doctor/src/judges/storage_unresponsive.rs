//! A process is blocked in the kernel on a file system that does not respond.

use std::collections::BTreeSet;

use causes::Cause;
use causes::finding::{Confidence, Finding};

use super::Opinion;
use super::opinion::{advised, finding, of_kernel_log, of_machine};
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::phrases::MAX_EXAMPLES;
use crate::evidence::victims::with_victims;
use crate::evidence::waits::{examples, kernel_says, unseen, waits};
use crate::evidence::{culprit, known};
use crate::facts::NodeFacts;
use crate::facts::host::{FuseConnection, HostFacts, RemoteMount};

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let mut findings: Vec<Finding> = waiting(facts).into_iter().collect();
    findings.extend(fuse(facts));
    findings.extend(unresponsive_roots(host));
    if findings.is_empty() {
        findings.extend(of_kernel_log(facts, Cause::StorageUnresponsive));
    }
    Opinion::of(
        findings,
        [lack_of_processes(host), lack(&host.mounts), unseen(facts)],
    )
}

/// One finding for all blocked threads, those of processes that serve containers first.
fn waiting(facts: &NodeFacts) -> Option<Finding> {
    let mut waits = waits(facts, Cause::StorageUnresponsive);
    // On a busy disk, kernel threads and processes that write a lot also wait in functions of lower
    // confidence.
    waits.retain(|wait| wait.confidence >= Confidence::High);
    let first = waits.first()?;
    let confidence = match first.process.serves_containers() {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    let mut evidence = examples(&waits);
    let mounts = servers(&facts.host, first.function);
    let described = mounts.iter().take(MAX_EXAMPLES);
    evidence
        .extend(described.map(|it| format!("{} is a {} mount of {}", it.at, it.kind, it.source)));
    let said = kernel_says(facts, Cause::StorageUnresponsive);
    evidence.extend(said.into_iter().flat_map(|(_, lines)| lines));
    let advice = match &mounts[..] {
        [] => None,
        [mount] => Some(free(&facts.host, mount)),
        several => {
            let sources: BTreeSet<&str> = several.iter().map(|mount| &*mount.source).collect();
            let first: Vec<&str> = sources.into_iter().take(MAX_EXAMPLES).collect();
            Some(format!(
                "check which of these does not respond: {}; detach its mount with `umount -f -l`",
                first.join(", ")
            ))
        }
    };
    let culprit = culprit::of_process(first.process);
    let found = finding(Cause::StorageUnresponsive, confidence, culprit, evidence);
    Some(advised(found, advice))
}

/// How to unblock processes that wait for this mount, the least harmful way first.
fn free(host: &HostFacts, mount: &RemoteMount) -> String {
    let RemoteMount {
        kind, at, source, ..
    } = mount;
    let mut connections = known(&host.fuse).iter();
    match connections.find(|connection| device(connection) == mount.device) {
        Some(connection) => format!("{}; if not, {}", look_at_server(mount), abort(connection)),
        None => format!(
            "check whether {source} responds; if it does not come back, detach this {kind} mount \
             with `umount -f -l {at}`"
        ),
    }
}

fn look_at_server(mount: &RemoteMount) -> String {
    let RemoteMount { at, source, .. } = mount;
    format!("check whether the process that serves {source}, mounted at {at}, still works")
}

fn abort(connection: &FuseConnection) -> String {
    format!(
        "`echo 1 > /sys/fs/fuse/connections/{}/abort` aborts the connection, and waiting \
         processes get an error",
        connection.number
    )
}

/// The device of the mounts of a FUSE connection.
fn device(connection: &FuseConnection) -> String {
    format!("0:{}", connection.number)
}

/// Mounts that depend on a server or another process.
fn remote(host: &HostFacts) -> &[RemoteMount] {
    host.mounts.value().map_or(&[], |mounts| &mounts.remote)
}

/// Mounts of the kind that the function belongs to.
fn servers<'a>(host: &'a HostFacts, function: &str) -> Vec<&'a RemoteMount> {
    let kinds: &[&str] = match function {
        name if name.starts_with("nfs") || name.starts_with("rpc_") => &["nfs"],
        name if name.starts_with("ceph") => &["ceph"],
        name if name.starts_with("cifs") || name.starts_with("smb") => &["cifs", "smb3"],
        name if is_of_fuse(name) => &["fuse"],
        _ => return Vec::new(),
    };
    let is_of_kind = |mount: &&RemoteMount| kinds.iter().any(|kind| mount.kind.starts_with(kind));
    remote(host).iter().filter(is_of_kind).collect()
}

fn is_of_fuse(function: &str) -> bool {
    function.starts_with("fuse") || function == "request_wait_answer"
}

/// FUSE connections that had outstanding requests in both samples.
///
/// A server in use always has some, so a connection is reported only if a thread is blocked on it, or if a
/// component that the node needs is affected.
fn fuse(facts: &NodeFacts) -> Vec<Finding> {
    let host = &facts.host;
    let waits = waits(facts, Cause::StorageUnresponsive);
    let is_any_blocked = waits.iter().any(|wait| is_of_fuse(wait.function));
    let is_waiting = |one: &&FuseConnection| one.waiting > 0 && one.waiting_before > 0;
    let waiting = known(&host.fuse).iter().filter(is_waiting);
    let findings = waiting.filter_map(|connection| {
        let device = device(connection);
        let mount = remote(host).iter().find(|mount| mount.device == device);
        let mut evidence = vec![format!(
            "FUSE connection {} has {} unanswered requests, and had some in the sample before",
            connection.number, connection.waiting
        )];
        evidence.extend(mount.map(|mount| {
            format!(
                "it is a {} mount of {} at {}",
                mount.kind, mount.source, mount.at
            )
        }));
        // Aborting the connection of a working server would break its users.
        let advice = match mount {
            Some(mount) if is_any_blocked => Some(free(host, mount)),
            Some(mount) => Some(look_at_server(mount)),
            None => is_any_blocked.then(|| abort(connection)),
        };
        let confidence = match connection.waiting >= connection.waiting_before {
            true => Confidence::Medium,
            false => Confidence::Low,
        };
        let found = of_machine(Cause::StorageUnresponsive, confidence, evidence);
        let found = advised(found, advice);
        match is_any_blocked {
            true => Some(found),
            false => with_victims(facts, found),
        }
    });
    findings.collect()
}

/// Local file systems whose free space could not be read because the read did not return.
fn unresponsive_roots(host: &HostFacts) -> impl Iterator<Item = Finding> {
    host.filesystems.iter().filter_map(|root| {
        let why = root.why().filter(|why| why.is_blocked())?;
        let path = root.source();
        let evidence = vec![format!("reading the free space of {path}: {why}")];
        let found = of_machine(Cause::StorageUnresponsive, Confidence::High, evidence);
        Some(found.advising(format!(
            "find in `/proc/1/mountinfo` what is mounted at {path}, and check `dmesg` for errors of \
             its device; do not use `df` or `ls` on it, which would hang too"
        )))
    })
}
