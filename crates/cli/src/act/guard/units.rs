//! The systemd units that run a guard, as text.
//!
//! ```text
//!   pleg-guard.socket    holds the socket, so that calls wait while the guard restarts
//!   pleg-guard.service   the guard, after the runtime and before the kubelet
//! ```

use std::path::{Path, PathBuf};

use cri::Endpoint;

/// The names of the units, in the order in which they are started.
pub const UNITS: [&str; 2] = ["pleg-guard.socket", "pleg-guard.service"];

/// The service contains the endpoints in lines that begin with these keys, for [`endpoints_of`].
const RUNTIME: &str = "X-PlegRuntime=";
const LISTEN: &str = "X-PlegListen=";

/// A guard to be installed.
#[derive(Debug)]
pub struct Installation {
    /// The runtime behind the guard.
    pub runtime: Endpoint,
    /// The path of the guard's own socket.
    pub listen: PathBuf,
    /// The path of the guard's program.
    pub program: PathBuf,
    /// The arguments of the guard's program.
    pub arguments: Vec<String>,
    /// Owner, group and mode of the runtime's socket.
    pub access: Option<Access>,
}

/// The owner, group and mode of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub user: u32,
    pub group: u32,
    pub mode: u32,
}

impl Installation {
    /// The text of each of [`UNITS`].
    pub fn units(&self) -> [String; 2] {
        [self.socket(), self.service()]
    }

    fn socket(&self) -> String {
        let listen = self.listen.display();
        let Access { user, group, mode } = self.access.unwrap_or(Access {
            user: 0,
            group: 0,
            mode: 0o600,
        });
        format!(
            "\
# Written by `pleg guard install`; `pleg guard uninstall` removes it.
[Unit]
Description=CRI socket of the pleg guard
Before=kubelet.service

[Socket]
ListenStream={listen}
SocketUser={user}
SocketGroup={group}
SocketMode={mode:04o}
DirectoryMode=0755
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"
        )
    }

    fn service(&self) -> String {
        let mut command = quoted(&self.program.to_string_lossy());
        for argument in &self.arguments {
            command += &format!(" {}", quoted(argument));
        }
        let (runtime, listen) = (&self.runtime, self.listen.display());
        format!(
            "\
# Written by `pleg guard install`; `pleg guard uninstall` removes it.
[Unit]
Description=pleg guard: keeps the node Ready while one container is stuck
Requires=pleg-guard.socket
After=pleg-guard.socket containerd.service crio.service cri-docker.service
Before=kubelet.service
# It is restarted after any number of failures, because the kubelet needs it.
StartLimitIntervalSec=0
{RUNTIME}{runtime}
{LISTEN}unix://{listen}

[Service]
Type=notify
ExecStart={command}
Restart=always
RestartSec=100ms
WatchdogSec=30s
# The guard's records survive its restart.
RuntimeDirectory=pleg
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes
LimitNOFILE=1048576
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
"
        )
    }
}

/// The endpoints of the runtime and of the guard in the text of a service.
pub fn endpoints_of(service: &str) -> Option<[String; 2]> {
    let of = |key: &str| {
        let mut lines = service.lines();
        lines.find_map(|line| Some(line.strip_prefix(key)?.to_owned()))
    };
    Some([of(RUNTIME)?, of(LISTEN)?])
}

/// A word of a command line as systemd.service(5) reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._:=@+,-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' | '$' => quoted.extend([c, c]),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether a unit can contain this path unquoted.
pub fn can_name(path: &Path) -> bool {
    let needs_quotes = |c: char| c.is_control() || c.is_whitespace() || c == '%';
    path.to_str()
        .is_some_and(|path| !path.contains(needs_quotes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoints_can_be_read_from_the_service() {
        let installation = Installation {
            runtime: Endpoint::new("/run/containerd/containerd.sock"),
            listen: "/run/pleg/cri.sock".into(),
            program: "/opt/my tools/pleg-guard".into(),
            arguments: vec!["--limit".into(), "30m".into()],
            access: None,
        };
        let [socket, service] = installation.units();
        assert!(socket.contains("\nListenStream=/run/pleg/cri.sock\nSocketUser=0\n"));
        assert!(service.contains("\nExecStart=\"/opt/my tools/pleg-guard\" --limit 30m\n"));
        let endpoints = [
            "unix:///run/containerd/containerd.sock",
            "unix:///run/pleg/cri.sock",
        ];
        assert_eq!(endpoints_of(&service), Some(endpoints.map(str::to_owned)));
    }

    #[test]
    fn words_are_quoted_as_systemd_reads_them() {
        assert_eq!(quoted("/usr/bin/pleg"), "/usr/bin/pleg");
        assert_eq!(quoted("100%"), "\"100%%\"");
        assert_eq!(quoted("a \"b\" $c"), "\"a \\\"b\\\" $$c\"");
    }
}
