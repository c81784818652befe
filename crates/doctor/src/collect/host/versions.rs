//! Versions, from files and from rpm.

use std::collections::BTreeMap;
use std::path::Path;

use super::Host;
use super::file::{fact, line, printable, rest_of_line};
use crate::facts::Fact;
use crate::facts::host::VersionFacts;

/// Packages whose versions judges use.
pub(super) const PACKAGES: [&str; 13] = [
    "containerd",
    "containerd.io",
    "cri-o",
    "crun",
    "dbus",
    "docker",
    "docker-ce",
    "docker.io",
    "kubelet",
    "moby-engine",
    "runc",
    "systemd",
    "systemd-sysv",
];

/// All versions except those that a helper reads: of runc, of process 1, and of rpm's packages.
pub(super) fn read(host: &Host) -> VersionFacts {
    let release = host.proc.join("sys/kernel/osrelease");
    VersionFacts {
        kernel: Fact::of(line(&release), release.display().to_string()),
        os: fact(&host.etc.join("os-release"), |text| {
            let name = rest_of_line(text, "PRETTY_NAME=")?;
            Some(printable(name.trim_matches('"')))
        }),
        packages: of_dpkg(&host.var.join("lib/dpkg/status")),
        ..VersionFacts::default()
    }
}

fn of_dpkg(status: &Path) -> Fact<BTreeMap<String, String>> {
    match status.exists() {
        true => fact(status, |text| Some(installed(text))),
        false => Fact::missing(
            "no list of packages was found",
            status.display().to_string(),
        ),
    }
}

fn installed(status: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for package in status.split("\n\n") {
        let field = |name| rest_of_line(package, name);
        if let (Some(name), Some(version)) = (field("Package: "), field("Version: "))
            && PACKAGES.contains(&name)
            && field("Status: ") == Some("install ok installed")
        {
            found.insert(name.to_owned(), printable(version));
        }
    }
    found
}

/// The packages in the output of rpm or, if there are none, what rpm printed instead.
pub(super) fn of_rpm(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut found = BTreeMap::new();
    for (name, version) in text.lines().filter_map(|line| line.split_once('\t')) {
        let is_version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_graphic());
        if is_version && PACKAGES.contains(&name) {
            // If a package is installed twice, the last row counts.
            found.insert(name.to_owned(), printable(version));
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let is_message = |line: &&str| !line.ends_with("is not installed") && !line.trim().is_empty();
    Err(match text.lines().find(is_message) {
        Some(line) => format!(
            "rpm printed no version of a runtime, kubelet or systemd: {}",
            printable(line)
        ),
        None => "according to rpm, no runtime, kubelet or systemd is installed".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_rpm_with_a_valid_version_is_a_package() {
        let text = "systemd\t219-62.el7_6.7\npackage runc is not installed\n\
                    docker-ce\t3:19.03.9-3.el7\nbash\t5.1-1\nkubelet\t\ncrun\t1 2\n";
        let found = of_rpm(text).expect("packages");
        let rows: Vec<_> = found.iter().map(|(name, at)| (&**name, &**at)).collect();
        let expected = [
            ("docker-ce", "3:19.03.9-3.el7"),
            ("systemd", "219-62.el7_6.7"),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn if_rpm_lists_no_package_its_message_is_the_reason() {
        let broken = "package runc is not installed\nerror: cannot open Packages\u{1b}[2J\n";
        let why = "rpm printed no version of a runtime, kubelet or systemd: error: cannot open Packages?[2J";
        assert_eq!(of_rpm(broken), Err(why.to_owned()));
        for text in ["", "package runc is not installed\n"] {
            assert_eq!(
                of_rpm(text),
                Err("according to rpm, no runtime, kubelet or systemd is installed".to_owned())
            );
        }
    }
}
