//! A process waits in the kernel for a file system that does not answer.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::owner::culprit;
use crate::evidence::victims::if_felt;
use crate::evidence::waits::{Wait, kernel_says, unseen, waits};
use crate::evidence::who::EXAMPLES;
use crate::facts::NodeFacts;
use crate::facts::host::{FuseConnection, HostFacts, RemoteMount};

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(waiting(facts));
    findings.extend(fuse(facts));
    findings.extend(silent_root(host));
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

/// One finding for all that wait: who serves containers is named first.
fn waiting(facts: &NodeFacts) -> Option<Finding> {
    let waits = waits(facts, Cause::StorageUnresponsive);
    // A disk at work makes its own threads, and whoever writes much, wait in these.
    let sure = |wait: &&Wait| wait.confidence >= Confidence::High;
    let first = waits.iter().find(sure)?;
    let confidence = match first.process.serves_containers() {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    let mut evidence: Vec<String> = waits
        .iter()
        .filter(sure)
        .take(EXAMPLES)
        .map(Wait::says)
        .collect();
    let count = waits.iter().filter(sure).count();
    if count > EXAMPLES {
        evidence.push(format!("{count} threads wait so in all"));
    }
    let mounts = servers(&facts.host, first.function);
    evidence.extend(mounts.iter().take(EXAMPLES).map(|mount| {
        let RemoteMount {
            kind, at, source, ..
        } = mount;
        format!("{kind} at {at} is of {source}")
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
            sources.truncate(EXAMPLES);
            found.advising(format!(
                "see which of these does not answer: {}; `umount -f -l` of its mount gives it up",
                sources.join(", ")
            ))
        }
    })
}

/// How whoever waits for this mount goes on, the harmless first.
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
        Some(connection) => format!("{}; {}", look_at_server(mount), abort(connection)),
        None => format!(
            "see whether {source} answers; if it does not come back, `umount -f -l {at}` gives \
             up this {kind} mount"
        ),
    }
}

fn look_at_server(mount: &RemoteMount) -> String {
    let RemoteMount { at, source, .. } = mount;
    format!("see whether the process behind {source}, mounted at {at}, still works")
}

fn abort(connection: &FuseConnection) -> String {
    format!(
        "`echo 1 > /sys/fs/fuse/connections/{}/abort` gives it up, and whoever waits gets an \
         error",
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

/// Requests without an answer at both looks.
///
/// A server with readers has some on the way at any time: it is found only if a thread stands
/// still for it, or if somebody whom the node needs is not served.
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
            "connection {} of FUSE has {} requests without an answer, as before",
            connection.number, connection.waiting
        )];
        evidence.extend(mount.map(|mount| {
            format!(
                "it is {} of {}, mounted at {}",
                mount.kind, mount.source, mount.at
            )
        }));
        // To cut off a server that works would break what it serves.
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

/// A local root whose own kernel did not return when it was asked how full it is.
fn silent_root(host: &HostFacts) -> Vec<Finding> {
    let roots = host.filesystems.iter();
    let silent = roots.filter_map(|root| {
        let why = root.why().filter(|why| why.is_blocked())?;
        Some((root, why))
    });
    let findings = silent.map(|(root, why)| {
        let evidence = vec![format!("asked how full {} is: {why}", root.source())];
        let found = finding(
            Cause::StorageUnresponsive,
            Confidence::High,
            Culprit::default(),
            evidence,
        );
        found.advising(format!(
            "see in `/proc/1/mountinfo` what is mounted at {}, and in `dmesg` what its device \
             says; do not touch it with `df` or `ls`, which would wait too",
            root.source()
        ))
    });
    findings.collect()
}
