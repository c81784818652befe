//! Releases and versions, from files: nothing is executed.

use std::collections::BTreeMap;
use std::path::Path;

use super::Host;
use super::file::{fact, line, printable};
use crate::facts::Fact;
use crate::facts::host::VersionFacts;

/// Packages whose version tells something.
const PACKAGES: [&str; 11] = [
    "containerd",
    "containerd.io",
    "cri-o",
    "crun",
    "dbus",
    "docker-ce",
    "docker.io",
    "kubelet",
    "runc",
    "systemd",
    "systemd-sysv",
];

/// Versions but for what a helper must read: the program of runc, and that of process 1.
pub(super) fn read(host: &Host) -> VersionFacts {
    let release = host.proc.join("sys/kernel/osrelease");
    VersionFacts {
        kernel: match line(&release) {
            Ok(release_text) => Fact::known(release_text, release.display().to_string()),
            Err(error) => Fact::missing(error, release.display().to_string()),
        },
        os: fact(&host.etc.join("os-release"), |text| {
            let name = text
                .lines()
                .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
            Some(printable(name.trim_matches('"')))
        }),
        packages: packages(host),
        ..VersionFacts::default()
    }
}

fn packages(host: &Host) -> Fact<BTreeMap<String, String>> {
    let status = host.var.join("lib/dpkg/status");
    if status.exists() {
        return fact(&status, |text| Some(installed(text)));
    }
    let rpm = [host.var.join("lib/rpm"), host.usr.join("lib/sysimage/rpm")];
    let source = status.display().to_string();
    if rpm
        .iter()
        .any(|folder: &std::path::PathBuf| Path::exists(folder))
    {
        let why = "packages are kept by rpm: ask `rpm -q systemd runc containerd`";
        return Fact::missing(why, source);
    }
    Fact::missing("no list of packages was found", source)
}

fn installed(status: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for package in status.split("\n\n") {
        let field = |name: &str| {
            package
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        let (Some(name), Some(version)) = (field("Package"), field("Version")) else {
            continue;
        };
        if PACKAGES.contains(&name) && field("Status") == Some("install ok installed") {
            found.insert(name.to_owned(), printable(version));
        }
    }
    found
}
