//! `pleg guard install` and `pleg guard uninstall`: the units, and what to change in the kubelet's
//! configuration, which is never edited here.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;
use pleg::kernel::replace;
use serde::Serialize;

use super::units::{Access, Installation, UNITS, can_name, endpoints_of};
use super::{Options, runtime_of, socket_of};
use crate::args::{Format, Global};
use crate::{Found, output};

/// Where an administrator's units are.
const UNIT_DIRECTORY: &str = "/etc/systemd/system";

/// The unit of an agent without a guard. It does not start where a guard is installed.
const AGENT_UNIT: &str = "pleg-agent.service";

/// The configuration of an agent on this node. A guard uses it only if it is named: a mistake in it
/// keeps an agent from starting, and would keep a kubelet from its runtime.
const AGENT_CONFIG: &str = "/etc/pleg/agent.yaml";

/// Where a kubelet's endpoint may be configured: kubeadm (with a flag before 1.34), Debian's and
/// Red Hat's packages, k3s and RKE2.
const KUBELET_FILES: [&str; 8] = [
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env",
    "/var/lib/kubelet/instance-config.yaml",
    "/etc/kubernetes/kubelet.conf",
    "/etc/default/kubelet",
    "/etc/sysconfig/kubelet",
    "/etc/rancher/k3s/config.yaml",
    "/etc/rancher/rke2/config.yaml",
];

/// Arguments of `pleg guard install`.
#[derive(Args, Debug)]
pub struct Install {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    place: Place,
}

/// Arguments of `pleg guard uninstall`.
#[derive(Args, Debug)]
pub struct Uninstall {
    #[command(flatten)]
    place: Place,
    /// Remove the guard even if a kubelet is configured to use it.
    #[arg(long)]
    force: bool,
}

/// Where the units are.
#[derive(Args, Debug)]
struct Place {
    /// The directory of the units. If it is not the default, systemd is not called.
    #[arg(long, value_name = "DIR", default_value = UNIT_DIRECTORY)]
    unit_directory: PathBuf,
}

impl Place {
    fn unit(&self, name: &str) -> PathBuf {
        self.unit_directory.join(name)
    }

    /// Whether systemd runs here, and reads these units.
    fn is_live(&self) -> bool {
        self.unit_directory == Path::new(UNIT_DIRECTORY)
            && Path::new("/run/systemd/system").exists()
    }
}

/// What was done, and what is left to do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// The files that were written or removed.
    files: Vec<PathBuf>,
    /// Whether systemd has started or stopped the units.
    called_systemd: bool,
    /// Whether the agent that the guard had replaced was started again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    agent_started: bool,
    /// The configuration of the agent on this node, if the guard that replaces it uses none.
    #[serde(skip_serializing_if = "Option::is_none")]
    unused_config: Option<PathBuf>,
    /// What the kubelet's `containerRuntimeEndpoint` is to be.
    kubelet_endpoint: String,
    /// The files in which it is configured otherwise.
    kubelet_files: Vec<PathBuf>,
}

pub async fn install(global: &Global, install: Install) -> anyhow::Result<Found> {
    let Install { options, place } = install;
    let runtime = runtime_of(global, &options).await?;
    let listen = socket_of(&options, &runtime);
    for path in [listen.as_path(), runtime.path()] {
        ensure!(
            can_name(path),
            "{} cannot be used in a systemd unit",
            path.display()
        );
    }
    let installation = Installation {
        arguments: options.command_line(&runtime, &listen),
        program: std::env::current_exe()
            .context("the path of this program could not be determined")?,
        access: access(runtime.path()),
        runtime,
        listen,
    };
    let mut files = Vec::new();
    for (name, text) in UNITS.into_iter().zip(installation.units()) {
        let path = place.unit(name);
        replace(&path, text.as_bytes(), 0o644)
            .with_context(|| format!("cannot write {}", path.display()))?;
        files.push(path);
    }
    let called_systemd = place.is_live();
    if called_systemd {
        systemctl(&["daemon-reload"])?;
        // The guard is an agent as well, and listens where that does. Where no such unit is
        // loaded, there is nothing to stop.
        let _ = systemctl(&["stop", AGENT_UNIT]);
        systemctl(&["enable", UNITS[0], UNITS[1]])?;
        systemctl(&["restart", UNITS[0], UNITS[1]])?;
    }
    let report = Report {
        files,
        called_systemd,
        agent_started: false,
        unused_config: unused_config(&options),
        kubelet_endpoint: format!("unix://{}", installation.listen.display()),
        kubelet_files: naming(installation.runtime.path()),
    };
    match global.output {
        Format::Json => output::json(&report)?,
        Format::Text => output::text(&installed(&report, &installation))?,
    }
    Ok(Found::Well)
}

pub fn uninstall(global: &Global, uninstall: &Uninstall) -> anyhow::Result<Found> {
    let Uninstall { place, force } = uninstall;
    let [socket, service] = UNITS.map(|name| place.unit(name));
    let text = match fs::read_to_string(&service) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !socket.exists() => {
            bail!(
                "no guard is installed: {} does not exist",
                service.display()
            );
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", service.display()));
        }
    };
    let Some([runtime, listen]) = endpoints_of(&text) else {
        bail!(
            "{} was not written by `pleg guard install`",
            service.display()
        );
    };
    let listen_path = listen.trim_start_matches("unix://");
    let kubelet_files = naming(Path::new(listen_path));
    if let Some(file) = kubelet_files.first().filter(|_| !force) {
        bail!(
            "{} still contains {listen_path}: set containerRuntimeEndpoint to {runtime}, restart \
             the kubelet, and try again (--force removes the guard anyway)",
            file.display()
        );
    }
    let called_systemd = place.is_live();
    if called_systemd {
        systemctl(&["disable", "--now", UNITS[0], UNITS[1]])?;
    }
    let mut files = Vec::new();
    for path in [socket, service] {
        match fs::remove_file(&path) {
            Ok(()) => files.push(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
        }
    }
    let mut agent_started = false;
    if called_systemd {
        systemctl(&["daemon-reload"])?;
        // It does not start beside a guard: without it nobody would watch until the next boot.
        agent_started = systemctl(&["is-enabled", AGENT_UNIT]).is_ok();
        if agent_started {
            systemctl(&["start", AGENT_UNIT])?;
        }
    }
    let report = Report {
        files,
        called_systemd,
        agent_started,
        unused_config: None,
        kubelet_endpoint: runtime,
        kubelet_files,
    };
    match global.output {
        Format::Json => output::json(&report)?,
        Format::Text => output::text(&uninstalled(&report))?,
    }
    Ok(Found::Well)
}

fn installed(report: &Report, installation: &Installation) -> String {
    let mut text = String::new();
    for file in &report.files {
        text += &format!("Wrote {}\n", file.display());
    }
    text += match report.called_systemd {
        true => "Started both units; they also start at boot\n",
        false => {
            "systemd was not called: run `systemctl daemon-reload`, and \
                  `systemctl enable --now pleg-guard.socket pleg-guard.service`\n"
        }
    };
    text += "\nNow change this kubelet setting and restart the kubelet:\n\n";
    text += &format!(
        "  containerRuntimeEndpoint: {}\n\n",
        report.kubelet_endpoint
    );
    text += &match report.kubelet_files.as_slice() {
        [] => "Set it in the file of the kubelet's --config, or with its flag \
               --container-runtime-endpoint.\n"
            .to_owned(),
        files => {
            let files = files.iter().map(|file| file.display().to_string());
            let files = files.collect::<Vec<_>>().join(", ");
            format!("{} is currently set in {files}.\n", installation.runtime)
        }
    };
    text += "`pleg guard uninstall` removes the units.\n";
    if let Some(config) = &report.unused_config {
        let config = config.display();
        text += &format!(
            "\nThe guard replaces the agent of this node and does not use {config}.\n\
             To use it, run this again with --config {config}.\n"
        );
    }
    text
}

fn uninstalled(report: &Report) -> String {
    let mut text = String::new();
    for file in &report.files {
        text += &format!("Removed {}\n", file.display());
    }
    if !report.called_systemd {
        text += "systemd was not called: run `systemctl disable --now pleg-guard.socket \
                 pleg-guard.service`\n";
    }
    if report.agent_started {
        text += &format!("Started {AGENT_UNIT} again\n");
    }
    let endpoint = &report.kubelet_endpoint;
    text += &format!("Set the kubelet's containerRuntimeEndpoint back to {endpoint}.\n");
    for file in &report.kubelet_files {
        text += &format!("{} still contains the guard's socket.\n", file.display());
    }
    text
}

fn unused_config(options: &Options) -> Option<PathBuf> {
    let config = Path::new(AGENT_CONFIG);
    (options.config.is_none() && config.exists()).then(|| config.to_owned())
}

/// The files of a kubelet in which this socket is named.
fn naming(socket: &Path) -> Vec<PathBuf> {
    let socket = socket.to_string_lossy();
    let names = |path: &&str| {
        let text = fs::read_to_string(path);
        text.is_ok_and(|text| text.contains(socket.as_ref()))
    };
    let files = KUBELET_FILES.iter().copied().filter(|path| names(path));
    files.map(PathBuf::from).collect()
}

fn access(runtime: &Path) -> Option<Access> {
    let file = fs::metadata(runtime).ok()?;
    Some(Access {
        user: file.uid(),
        group: file.gid(),
        mode: file.mode() & 0o777,
    })
}

fn systemctl(arguments: &[&str]) -> anyhow::Result<()> {
    let command = format!("systemctl {}", arguments.join(" "));
    let output = Command::new("systemctl").args(arguments).output();
    let output = output.with_context(|| format!("cannot run {command}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command} failed: {}", said.trim());
    Ok(())
}
