//! The `/etc/hosts` of a pod. The runtime's default is the host's file, which does not contain the
//! pod.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::empty_dir::make_parents;

/// The content for a pod with a network of its own.
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

/// The content for a pod on the host's network: a copy of the host's file, because the pod may
/// change its file.
pub(super) fn of_host(text: &str) -> String {
    format!("# Copied by pleg from the host.\n{text}")
}

/// Writes the file in place, because it is mounted in running containers.
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
