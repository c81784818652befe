//! `pleg guard install` and `pleg guard uninstall`: they write and remove the units, and print what to
//! change in the kubelet's configuration, which they never edit.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use base::host::replace;
use clap::Args;
use serde::Serialize;

use super::units::{Access, Installation, UNITS, can_name, endpoints_of};
use super::{Options, kubelet, program, runtime_of, socket_of};
use crate::args::Global;
use crate::{Outcome, output};

/// The directory of an administrator's units.
const UNIT_DIRECTORY: &str = "/etc/systemd/system";

/// Files in which a kubelet's endpoint may be configured: those of kubeadm (before 1.34 as a flag), of
/// Debian's and Red Hat's packages, of k3s and of RKE2.
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
    /// Print what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

impl Place {
    fn unit(&self, name: &str) -> PathBuf {
        self.unit_directory.join(name)
    }

    /// Whether systemd is to be called: it runs on this machine and reads these units,
    /// and this is not a dry run.
    fn is_live(&self) -> bool {
        !self.dry_run
            && self.unit_directory == Path::new(UNIT_DIRECTORY)
            && Path::new("/run/systemd/system").exists()
    }
}

/// What was done, and what remains to be done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// The files that were written or removed, or would be.
    files: Vec<PathBuf>,
    /// The texts of files that would be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    texts: Vec<String>,
    /// Whether this was a dry run, so that nothing was done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    /// Whether systemd has started or stopped the units.
    called_systemd: bool,
    /// The version of the kubelet, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    kubelet_version: Option<String>,
    /// The value for the kubelet's `containerRuntimeEndpoint`.
    kubelet_endpoint: String,
    /// The kubelet's configuration files that contain the endpoint to be replaced.
    kubelet_files: Vec<PathBuf>,
}

pub async fn install(global: &Global, install: Install) -> anyhow::Result<Outcome> {
    let Install { options, place } = install;
    let runtime = runtime_of(global).await?;
    let listen = socket_of(&options, &runtime);
    let program = program::find()?;
    for path in [&listen, runtime.path(), &place.unit_directory] {
        let shown = path.display();
        ensure!(can_name(path), "{shown} cannot be used in a systemd unit");
    }
    program::check_safe(&program)?;
    check_socket(runtime.path())?;
    let kubelet_version = kubelet::version().await;
    if let Some(version) = &kubelet_version {
        ensure!(
            version.can_use_a_guard(),
            "the kubelet on this node is {}: kubelets before 1.{} cannot use a guard, because they \
             send the path of the socket as the authority of their calls",
            version.text,
            kubelet::FIRST_MINOR
        );
    }
    let installation = Installation {
        arguments: options.command_line(&runtime, &listen),
        program,
        access: access(runtime.path()),
        runtime,
        listen,
    };
    let units = installation.units();
    let files = UNITS.map(|name| place.unit(name));
    if !place.dry_run {
        for (path, text) in files.iter().zip(&units) {
            replace(path, text.as_bytes(), 0o644)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let called_systemd = place.is_live();
    if called_systemd {
        systemctl(&["daemon-reload"])?;
        systemctl(&["enable", UNITS[0], UNITS[1]])?;
        systemctl(&["restart", UNITS[0], UNITS[1]])?;
    }
    let report = Report {
        files: files.into(),
        texts: match place.dry_run {
            true => units.into(),
            false => Vec::new(),
        },
        dry_run: place.dry_run,
        called_systemd,
        kubelet_version: kubelet_version.map(|version| version.text),
        kubelet_endpoint: format!("unix://{}", installation.listen.display()),
        kubelet_files: kubelet_files_with(installation.runtime.path()),
    };
    output::show(global.format(), &report, || {
        installed(&report, &installation)
    })?;
    Ok(Outcome::Done)
}

/// Refuses a path that is not a socket: with a wrong path, the kubelet would lose its runtime.
fn check_socket(runtime: &Path) -> anyhow::Result<()> {
    let (about, shown) = (fs::metadata(runtime), runtime.display());
    let about = about.with_context(|| format!("no container runtime at {shown}"))?;
    ensure!(about.file_type().is_socket(), "{shown} is not a socket");
    Ok(())
}

pub fn uninstall(global: &Global, uninstall: &Uninstall) -> anyhow::Result<Outcome> {
    let Uninstall { place, force } = uninstall;
    let [socket, service] = UNITS.map(|name| place.unit(name));
    let shown = service.display();
    let text = match fs::read_to_string(&service) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !socket.exists() => {
            bail!("no guard is installed: {shown} does not exist");
        }
        text => text.with_context(|| format!("cannot read {shown}"))?,
    };
    let endpoints = endpoints_of(&text);
    let [runtime, listen] =
        endpoints.with_context(|| format!("{shown} was not written by `pleg guard install`"))?;
    let listen_path = listen.trim_start_matches("unix://");
    let kubelet_files = kubelet_files_with(Path::new(listen_path));
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
        let removed = match place.dry_run {
            true => fs::metadata(&path).map(drop),
            false => fs::remove_file(&path),
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            removed => removed.with_context(|| format!("cannot remove {}", path.display()))?,
        }
        files.push(path);
    }
    if called_systemd {
        systemctl(&["daemon-reload"])?;
    }
    let report = Report {
        files,
        texts: Vec::new(),
        dry_run: place.dry_run,
        called_systemd,
        kubelet_version: None,
        kubelet_endpoint: runtime,
        kubelet_files,
    };
    output::show(global.format(), &report, || uninstalled(&report))?;
    Ok(Outcome::Done)
}

fn installed(report: &Report, installation: &Installation) -> String {
    let mut text = String::new();
    for (file, unit) in report.files.iter().zip(&report.texts) {
        text += &format!("Would write {}:\n\n{unit}\n", file.display());
    }
    if report.dry_run {
        text += "Nothing was written, and systemd was not called.\n";
    } else {
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
    }
    if report.kubelet_version.is_none() {
        text += &format!(
            "The version of the kubelet is not known here: the guard needs 1.{} or later.\n",
            kubelet::FIRST_MINOR
        );
    }
    text += "\nNow change this kubelet setting and restart the kubelet:\n\n";
    let endpoint = &report.kubelet_endpoint;
    text += &format!("  containerRuntimeEndpoint: {endpoint}\n\n");
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
    text +=
        "`pleg guard uninstall` removes the units. An agent on this node finds the guard itself.\n";
    text
}

fn uninstalled(report: &Report) -> String {
    let mut text = String::new();
    let removed = match report.dry_run {
        true => "Would remove",
        false => "Removed",
    };
    for file in &report.files {
        text += &format!("{removed} {}\n", file.display());
    }
    if report.dry_run {
        text += "Nothing was removed, and systemd was not called.\n";
    } else if !report.called_systemd {
        text += "systemd was not called: run `systemctl disable --now pleg-guard.socket \
                 pleg-guard.service`\n";
    }
    let endpoint = &report.kubelet_endpoint;
    text += &format!("Set the kubelet's containerRuntimeEndpoint back to {endpoint}.\n");
    for file in &report.kubelet_files {
        text += &format!("{} still contains the guard's socket.\n", file.display());
    }
    text
}

/// The kubelet's configuration files that contain the path of this socket.
fn kubelet_files_with(socket: &Path) -> Vec<PathBuf> {
    let socket = socket.to_string_lossy();
    let contains = |path: &&str| {
        let text = fs::read_to_string(path);
        text.is_ok_and(|text| text.contains(socket.as_ref()))
    };
    let files = KUBELET_FILES.into_iter().filter(contains);
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
    let errors = String::from_utf8_lossy(&output.stderr);
    let errors = errors.trim();
    ensure!(output.status.success(), "{command} failed: {errors}");
    Ok(())
}
