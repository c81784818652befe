//! The version of the kubelet on this node.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use tokio::process::Command;
use tokio::time::timeout;

/// The first minor version whose kubelets send `localhost` as the authority of their calls. Earlier
/// ones send the path of the socket, which the guard's HTTP/2 server refuses as an authority.
pub const FIRST_MINOR: u32 = 31;

/// How long a kubelet may take to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// The version of the kubelet that runs on this node, or else of the one in `PATH`. `None` if there is
/// no kubelet, or if it prints no version in time.
pub async fn version() -> Option<Version> {
    let mut command = Command::new(running().or_else(installed)?);
    command.arg("--version").kill_on_drop(true);
    let output = timeout(VERSION_LIMIT, command.output()).await;
    parse(&String::from_utf8_lossy(&output.ok()?.ok()?.stdout))
}

/// A version of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The version as the kubelet prints it: `v1.36.2`.
    pub text: String,
    pub major: u32,
    pub minor: u32,
}

impl Version {
    /// Whether a kubelet of this version can use a guard.
    pub fn can_use_a_guard(&self) -> bool {
        (self.major, self.minor) >= (1, FIRST_MINOR)
    }
}

fn running() -> Option<PathBuf> {
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let mut kubelets = processes.filter_map(|process| {
        let place = process.path();
        let name = fs::read_to_string(place.join("comm")).ok()?;
        // The link `exe` can be opened even if the process has another root directory.
        (name.trim_end() == "kubelet").then(|| place.join("exe"))
    });
    kubelets.find(|program| program.exists())
}

fn installed() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut places = env::split_paths(&path).map(|directory| directory.join("kubelet"));
    places.find(|place| Path::is_file(place))
}

/// Parses the output of `kubelet --version`, such as `Kubernetes v1.36.2`.
fn parse(text: &str) -> Option<Version> {
    let text = text.lines().next()?.trim().strip_prefix("Kubernetes ")?;
    let mut numbers = text.strip_prefix('v')?.split('.');
    Some(Version {
        text: text.to_owned(),
        major: numbers.next()?.parse().ok()?,
        minor: numbers.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_before_1_31_cannot_use_a_guard() {
        for (text, can) in [
            ("Kubernetes v1.36.2\n", true),
            ("Kubernetes v1.31.0-rc.1\n", true),
            ("Kubernetes v1.30.14\n", false),
            ("Kubernetes v1.29.4+k3s1\n", false),
        ] {
            assert_eq!(parse(text).unwrap().can_use_a_guard(), can, "{text}");
        }
        assert_eq!(parse("flag provided but not defined\n"), None);
    }
}
