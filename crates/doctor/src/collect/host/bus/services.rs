//! How often systemd has restarted the services of the kubelet and the runtime.

use std::time::{Duration, Instant};

use ipc::{Call, Connection, Failure, Message};

use super::{MANAGER, addressed, property};
use crate::collect::host::file::printable;
use crate::facts::host::bus::{KUBELET_UNITS, RUNTIME_UNITS};
use crate::facts::host::{Process, Service};

const UNIT: &str = "org.freedesktop.systemd1.Unit";
const SERVICE: &str = "org.freedesktop.systemd1.Service";
/// The maximum time of all these calls together. A healthy systemd answers within milliseconds.
const LIMIT: Duration = Duration::from_secs(2);
/// No node has more daemons that serve its containers.
const MAX_SERVICES: usize = 24;

/// The services whose state is requested: those of the running kubelet and runtime. If either does not run, as
/// between two starts, those in which it usually runs.
pub(in super::super) fn wanted(processes: &[Process]) -> Vec<String> {
    let kubelets = units(processes.iter().filter(|process| process.is_kubelet()));
    let runtimes = units(processes.iter().filter(|process| process.is_runtime()));
    let mut wanted = Vec::new();
    for (running, usual) in [
        (kubelets, &KUBELET_UNITS[..]),
        (runtimes, &RUNTIME_UNITS[..]),
    ] {
        match running.is_empty() {
            true => wanted.extend(usual.iter().map(|unit| unit.to_string())),
            false => wanted.extend(running),
        }
    }
    wanted.sort();
    wanted.dedup();
    wanted.truncate(MAX_SERVICES);
    wanted
}

fn units<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<String> {
    let units = processes.filter_map(Process::service);
    units.map(str::to_owned).collect()
}

/// The state of those of these units that systemd has loaded.
pub(super) fn ask(
    connection: &mut Connection,
    to: Option<&str>,
    units: &[String],
) -> Result<Vec<Service>, Failure> {
    let mut calls = Calls {
        connection,
        to,
        start: Instant::now(),
    };
    let services = units.iter().map(|unit| calls.service(unit));
    services.filter_map(Result::transpose).collect()
}

/// The calls to systemd, all within `LIMIT`.
struct Calls<'a> {
    connection: &'a mut Connection,
    to: Option<&'a str>,
    start: Instant,
}

impl Calls<'_> {
    fn ask(&mut self, call: Call<'_>) -> Result<Message, Failure> {
        let left = LIMIT.saturating_sub(self.start.elapsed());
        let answer = self.connection.ask(addressed(call, self.to), left);
        answer.map_err(|failure| match failure {
            Failure::Silent(_) => Failure::Silent(LIMIT),
            other => other,
        })
    }

    /// The state of a service; `None` if systemd has not loaded it.
    fn service(&mut self, unit: &str) -> Result<Option<Service>, Failure> {
        // The object path could be derived from the name, but requesting a property of that path would make
        // systemd load the unit.
        let call = Call::new("/org/freedesktop/systemd1", MANAGER, "GetUnit").with(unit);
        let answer = self.ask(call)?;
        let (None, Some(path)) = (answer.error, answer.text) else {
            return Ok(None);
        };
        let state = self.ask(property(&path, UNIT, "SubState"))?;
        let main_pid = self.ask(property(&path, SERVICE, "MainPID"))?;
        let restarts = self.ask(property(&path, SERVICE, "NRestarts"))?;
        Ok(Some(Service {
            unit: printable(unit),
            state: printable(&state.text.unwrap_or_default()),
            main_pid: main_pid.number.filter(|pid| *pid != 0),
            restarts: restarts.number,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::host::CgroupPath;

    fn process(comm: &str, path: &str) -> Process {
        Process {
            comm: comm.to_owned(),
            cgroups: vec![CgroupPath {
                controllers: "name=systemd".to_owned(),
                path: path.to_owned(),
            }],
            ..Process::default()
        }
    }

    #[test]
    fn the_services_are_those_that_run_or_else_the_usual_ones() {
        let k3s = [
            process("k3s-server", "/system.slice/k3s.service"),
            process("containerd", "/system.slice/k3s.service"),
            process("cron", "/system.slice/cron.service"),
        ];
        assert_eq!(wanted(&k3s), ["k3s.service"]);
        let between = [process("crio", "/system.slice/crio.service")];
        let between = wanted(&between);
        assert!(
            between.contains(&"kubelet.service".to_owned()),
            "{between:?}"
        );
        assert!(between.contains(&"crio.service".to_owned()));
        assert!(!between.contains(&"docker.service".to_owned()));
        assert_eq!(wanted(&[]).len(), KUBELET_UNITS.len() + RUNTIME_UNITS.len());
    }
}
