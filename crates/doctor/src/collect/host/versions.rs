//! Versions, from files and from rpm.

use std::collections::BTreeMap;

use super::Host;
use super::file::{fact, line, printable};
use crate::facts::Fact;
use crate::facts::host::VersionFacts;

/// Packages whose version is relevant.
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

/// Versions but for what a helper must read: the program of runc, that of process 1, and
/// what rpm says.
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
        packages: of_dpkg(host),
        ..VersionFacts::default()
    }
}

fn of_dpkg(host: &Host) -> Fact<BTreeMap<String, String>> {
    let status = host.var.join("lib/dpkg/status");
    if status.exists() {
        return fact(&status, |text| Some(installed(text)));
    }
    Fact::missing(
        "no list of packages was found",
        status.display().to_string(),
    )
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

/// The packages of which rpm has a row, or its words.
pub(super) fn of_rpm(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut found = BTreeMap::new();
    for (name, version) in text.lines().filter_map(|line| line.split_once('\t')) {
        let plain = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_graphic());
        if plain && PACKAGES.contains(&name) {
            // Of one that is installed twice, the later row is the later version.
            found.insert(name.to_owned(), printable(version));
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let mut other = text
        .lines()
        .filter(|line| !line.ends_with("is not installed"));
    Err(match other.find(|line| !line.trim().is_empty()) {
        Some(line) => format!("rpm names none of the packages: {}", printable(line)),
        None => "rpm knows none of the packages".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rpm_says_is_taken_row_by_row() {
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
    fn where_it_names_nothing_its_own_words_are_the_reason() {
        let broken = "package runc is not installed\nerror: cannot open Packages\u{1b}[2J\n";
        let why = "rpm names none of the packages: error: cannot open Packages?[2J";
        assert_eq!(of_rpm(broken), Err(why.to_owned()));
        for text in ["", "package runc is not installed\n"] {
            assert_eq!(
                of_rpm(text),
                Err("rpm knows none of the packages".to_owned())
            );
        }
    }
}
