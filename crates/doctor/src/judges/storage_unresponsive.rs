//! A process is blocked in the kernel on a file system that does not respond.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::owner::culprit;
use crate::evidence::victims::if_felt;
use crate::evidence::waits::{Wait, examples, kernel_says, unseen, waits};
use crate::evidence::who::MAX_EXAMPLES;
use crate::facts::NodeFacts;
use crate::facts::host::{FuseConnection, HostFacts, RemoteMount};

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(waiting(facts));
    findings.extend(fuse(facts));
    findings.extend(unresponsive_root(host));
    if findings.is_empty()
        && let Some((confidence, lines)) = kernel_says(facts, Cause::StorageUnresponsive)
    {
        let cause = Cause::StorageUnresponsive;
        findings.push(finding(cause, confidence, Culprit::default(), lines));
    }
    Opinion::of(
        findings,
        [lack_of_processes(host), lack(&host.mounts), unseen(facts)],
    )
}

/// One finding for all blocked threads, those of processes that serve containers first.
fn waiting(facts: &NodeFacts) -> Option<Finding> {
    let waits = waits(facts, Cause::StorageUnresponsive);
    // On a busy disk, kernel threads and processes that write a lot also wait in the others.
    let sure = |wait: &&Wait| wait.confidence >= Confidence::High;
    let first = waits.iter().find(sure)?;
    let confidence = match first.process.serves_containers() {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    let mut evidence = examples(&waits.iter().filter(sure).collect::<Vec<_>>());
    let mounts = servers(&facts.host, first.function);
    evidence.extend(mounts.iter().take(MAX_EXAMPLES).map(|mount| {
        let RemoteMount {
            kind, at, source, ..
        } = mount;
        format!("{at} is a {kind} mount of {source}")
    }));
    let said = kernel_says(facts, Cause::StorageUnresponsive);
    evidence.extend(said.into_iter().flat_map(|(_, lines)| lines));
    let found = finding(
        Cause::StorageUnresponsive,
        confidence,
        culprit(first.process),
        evidence,
    );
    Some(match &mounts[..] {
        [] => found,
        [mount] => found.advising(free(&facts.host, mount)),
        several => {
            let mut sources: Vec<&str> = several.iter().map(|mount| &*mount.source).collect();
            sources.sort_unstable();
            sources.dedup();
            sources.truncate(MAX_EXAMPLES);
            found.advising(format!(
                "check which of these does not respond: {}; detach its mount with `umount -f -l`",
                sources.join(", ")
            ))
        }
    })
}

/// How to unblock processes that wait for this mount, the least harmful way first.
fn free(host: &HostFacts, mount: &RemoteMount) -> String {
    let RemoteMount {
        kind, at, source, ..
    } = mount;
    let number = mount.device.strip_prefix("0:").unwrap_or_default();
    let connections = host.fuse.value().map_or(&[][..], Vec::as_slice);
    let connection = connections
        .iter()
        .find(|one| one.number.to_string() == number);
    match connection {
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

/// Mounts of the kind that the function belongs to.
fn servers<'a>(host: &'a HostFacts, function: &str) -> Vec<&'a RemoteMount> {
    let kinds: &[&str] = match function {
        name if name.starts_with("nfs") || name.starts_with("rpc_") => &["nfs"],
        name if name.starts_with("ceph") => &["ceph"],
        name if name.starts_with("cifs") || name.starts_with("smb") => &["cifs", "smb3"],
        name if is_of_fuse(name) => &["fuse"],
        _ => return Vec::new(),
    };
    let mounts = host.mounts.value().map_or(&[][..], |mounts| &mounts.remote);
    let of_kind = |mount: &&RemoteMount| kinds.iter().any(|kind| mount.kind.starts_with(kind));
    mounts.iter().filter(of_kind).collect()
}

fn is_of_fuse(function: &str) -> bool {
    function.starts_with("fuse") || function == "request_wait_answer"
}

/// FUSE connections that had outstanding requests in both samples.
///
/// A server in use always has some: it is reported only if a thread is blocked on it, or if a
/// component that the node needs is affected.
fn fuse(facts: &NodeFacts) -> Vec<Finding> {
    let host = &facts.host;
    let waits = waits(facts, Cause::StorageUnresponsive);
    let stands_still = waits.iter().any(|wait| is_of_fuse(wait.function));
    let stuck = |one: &&FuseConnection| one.waiting > 0 && one.waiting_before > 0;
    let connections = host.fuse.value().map_or(&[][..], Vec::as_slice);
    let findings = connections.iter().filter(stuck).filter_map(|connection| {
        let device = format!("0:{}", connection.number);
        let mounts = host.mounts.value().map_or(&[][..], |mounts| &mounts.remote);
        let mount = mounts.iter().find(|mount| mount.device == device);
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
            Some(mount) if stands_still => Some(free(host, mount)),
            Some(mount) => Some(look_at_server(mount)),
            None => stands_still.then(|| abort(connection)),
        };
        let cause = Cause::StorageUnresponsive;
        let confidence = match connection.waiting >= connection.waiting_before {
            true => Confidence::Medium,
            false => Confidence::Low,
        };
        let found = finding(cause, confidence, Culprit::default(), evidence);
        let found = match advice {
            Some(advice) => found.advising(advice),
            None => found,
        };
        match stands_still {
            true => Some(found),
            false => if_felt(facts, Some(found)),
        }
    });
    findings.collect()
}

/// A local file system whose free space could not be read because the read did not return.
fn unresponsive_root(host: &HostFacts) -> Vec<Finding> {
    let roots = host.filesystems.iter();
    let blocked = roots.filter_map(|root| {
        let why = root.why().filter(|why| why.is_blocked())?;
        Some((root, why))
    });
    let findings = blocked.map(|(root, why)| {
        let evidence = vec![format!(
            "reading the free space of {}: {why}",
            root.source()
        )];
        let found = finding(
            Cause::StorageUnresponsive,
            Confidence::High,
            Culprit::default(),
            evidence,
        );
        found.advising(format!(
            "find in `/proc/1/mountinfo` what is mounted at {}, and check `dmesg` for errors of \
             its device; do not use `df` or `ls` on it, which would hang too",
            root.source()
        ))
    });
    findings.collect()
}
