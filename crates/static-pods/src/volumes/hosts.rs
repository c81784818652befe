//! The `/etc/hosts` of a pod: a runtime would give it the host's, in which the pod is not.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::empty_dir::make_parents;

/// Of a pod with a network of its own.
pub(super) fn of_pod(hostname: &str, ip: IpAddr) -> String {
    format!(
        "# Written by pleg for this pod.\n\
         127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\n\
         fe00::0\tip6-mcastprefix\n\
         fe00::1\tip6-allnodes\n\
         fe00::2\tip6-allrouters\n\
         {ip}\t{hostname}\n"
    )
}

/// Of a pod on the host's network: the host's. A copy, as the pod may write to its own.
pub(super) fn of_host(text: &str) -> String {
    format!("# Copied by pleg from the host.\n{text}")
}

/// Writes the file where it is, and not anew: containers that run see this very file.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|known| known == text.as_bytes()) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_parents(parent)?;
    }
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}
