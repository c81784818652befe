//! The cgroups of pods: one parent for all of ours, and in it one for each pod.
//!
//! ```text
//!   cgroupfs  /pleg/pod<uid>/<container>
//!   systemd   /pleg.slice/pleg-pod<uid>.slice/<container's scope>
//! ```
//!
//! The runtime makes the pod's cgroup on its way to the container's, and each container's limits
//! hold in its own. Nothing is limited for the pod as a whole: where systemd owns the tree, that
//! is only its to do. systemd removes an empty slice by itself; a cgroup of the other kind stays,
//! so [`Cgroups::remove`] removes it.

use std::io;
use std::path::{Path, PathBuf};

use cri::v1;
use pleg::model::id::{Id, PodUid};
use serde::Deserialize;

/// Who makes the runtime's cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupDriver {
    /// systemd, asked by the runtime.
    Systemd,
    /// The runtime itself.
    Cgroupfs,
}

/// Which interface the kernel's cgroups have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// A tree for each controller.
    V1,
    /// One tree.
    V2,
}

/// The cgroups of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroups {
    /// Who makes them.
    pub driver: CgroupDriver,
    /// Which interface they have.
    pub version: CgroupVersion,
}

impl CgroupVersion {
    /// That of the tree that is mounted at `/sys/fs/cgroup`.
    pub fn of(mount: &Path) -> Self {
        match mount.join("cgroup.controllers").exists() {
            true => Self::V2,
            false => Self::V1,
        }
    }
}

impl Cgroups {
    /// The `cgroup_parent` of a pod, as the runtime wants it spelled.
    pub fn parent_of(self, uid: &PodUid) -> String {
        match self.driver {
            CgroupDriver::Cgroupfs => format!("/pleg/pod{uid}"),
            // A dash in the name of a slice separates it from its parent.
            CgroupDriver::Systemd => {
                let uid = uid.as_str().replace('-', "_");
                format!("/pleg.slice/pleg-pod{uid}.slice")
            }
        }
    }

    /// An error while a process of the pod lives, which the runtime may have lost: a shim that is
    /// killed, and a `runc delete` that takes too long, make it say that a container has exited
    /// which runs (seen with containerd 1.7). `mount` is `/sys/fs/cgroup`.
    pub fn check_empty(self, mount: &Path, uid: &PodUid) -> io::Result<()> {
        self.each(mount, uid, check_empty)
    }

    /// The same for one container, whose control group has its id in its name.
    pub fn check_ended(self, mount: &Path, uid: &PodUid, container: &Id) -> io::Result<()> {
        self.each(mount, uid, |pod| {
            for entry in pod.read_dir()? {
                let entry = entry?;
                let name = entry.file_name();
                let is_its = name.to_string_lossy().contains(container.as_str());
                if is_its && entry.file_type()?.is_dir() {
                    check_empty(&entry.path())?;
                }
            }
            Ok(())
        })
    }

    /// Removes the cgroup of a pod whose sandboxes are all removed. `mount` is `/sys/fs/cgroup`.
    ///
    /// With it go those of its containers that a runtime has left behind, as containerd does when it
    /// is killed while it starts one. Only empty ones go: the kernel refuses while anything lives
    /// below, which is an error then. systemd removes its slices itself.
    pub fn remove(self, mount: &Path, uid: &PodUid) -> io::Result<()> {
        match self.driver {
            CgroupDriver::Systemd => Ok(()),
            CgroupDriver::Cgroupfs => self.each(mount, uid, remove_with_children),
        }
    }

    /// Does this to the pod's cgroup in each tree that has it.
    fn each(
        self,
        mount: &Path,
        uid: &PodUid,
        does: impl Fn(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        if uid.is_empty() || uid.as_str().contains('/') {
            return Ok(());
        }
        let parent = self.parent_of(uid);
        let below = parent.trim_start_matches('/');
        for tree in self.trees(mount)? {
            match does(&tree.join(below)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn trees(self, mount: &Path) -> io::Result<Vec<PathBuf>> {
        if self.version == CgroupVersion::V2 {
            return Ok(vec![mount.to_owned()]);
        }
        let mut trees = Vec::new();
        for entry in mount.read_dir()? {
            let entry = entry?;
            // `cpu` is a link to `cpu,cpuacct`, which is there itself.
            if entry.file_type()?.is_dir() {
                trees.push(entry.path());
            }
        }
        Ok(trees)
    }
}

/// What lives in a cgroup or below it is an error.
fn check_empty(cgroup: &Path) -> io::Result<()> {
    let processes = match std::fs::read_to_string(cgroup.join("cgroup.procs")) {
        Ok(processes) => processes,
        // A threaded cgroup does not say.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => String::new(),
        // It has just been removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if let Some(pid) = processes.lines().next() {
        let cgroup = cgroup.display();
        let says = format!("process {pid} of the pod still runs, in the control group {cgroup}");
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, says));
    }
    for entry in cgroup.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            check_empty(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a cgroup after those in it. Its files are the kernel's, and go with it.
fn remove_with_children(cgroup: &Path) -> io::Result<()> {
    for entry in cgroup.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_with_children(&entry.path())?;
        }
    }
    std::fs::remove_dir(cgroup)
}

impl From<v1::RuntimeConfigResponse> for CgroupDriver {
    fn from(answer: v1::RuntimeConfigResponse) -> Self {
        match answer.linux.unwrap_or_default().cgroup_driver() {
            v1::CgroupDriver::Systemd => Self::Systemd,
            v1::CgroupDriver::Cgroupfs => Self::Cgroupfs,
        }
    }
}

/// What a runtime that does not know `RuntimeConfig` uses. containerd before 2.0 tells it in its
/// configuration, with the verbose status; of any other, such as CRI-O before 1.28, systemd is
/// assumed where it runs, which is what they are set to by default.
pub(super) fn guessed(status: &v1::StatusResponse, systemd_runs: bool) -> CgroupDriver {
    let config = status.info.get("config");
    let config = config.and_then(|text| serde_json::from_str::<Config>(text).ok());
    let told = config.and_then(|config| config.containerd?.uses_systemd());
    match told.unwrap_or(systemd_runs) {
        true => CgroupDriver::Systemd,
        false => CgroupDriver::Cgroupfs,
    }
}

#[derive(Deserialize)]
struct Config {
    containerd: Option<Containerd>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Containerd {
    default_runtime_name: String,
    runtimes: std::collections::BTreeMap<String, RuntimeHandler>,
}

#[derive(Deserialize)]
struct RuntimeHandler {
    options: Option<RuntimeOptions>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RuntimeOptions {
    systemd_cgroup: Option<bool>,
}

impl Containerd {
    /// A runtime without the option does not use systemd.
    fn uses_systemd(&self) -> Option<bool> {
        let runtime = self.runtimes.get(&self.default_runtime_name)?;
        let options = runtime.options.as_ref();
        Some(options.and_then(|it| it.systemd_cgroup).unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroups(driver: CgroupDriver, version: CgroupVersion) -> Cgroups {
        Cgroups { driver, version }
    }

    #[test]
    fn the_parent_is_spelled_as_its_driver_wants_it() {
        let uid = PodUid::from("0b2c-11ef");
        let of = |driver| cgroups(driver, CgroupVersion::V2).parent_of(&uid);
        assert_eq!(of(CgroupDriver::Cgroupfs), "/pleg/pod0b2c-11ef");
        assert_eq!(
            of(CgroupDriver::Systemd),
            "/pleg.slice/pleg-pod0b2c_11ef.slice"
        );
    }

    #[test]
    fn a_runtime_without_runtime_config_is_known_by_its_configuration() {
        let status = |config: &str| v1::StatusResponse {
            info: [("config".to_owned(), config.to_owned())].into(),
            ..Default::default()
        };
        let containerd = |option: &str| {
            status(&format!(
                r#"{{"containerd":{{"defaultRuntimeName":"runc","runtimes":
                    {{"runc":{{"runtimeType":"io.containerd.runc.v2","options":{option}}}}}}}}}"#
            ))
        };
        let cases = [
            (
                containerd(r#"{"SystemdCgroup":true}"#),
                false,
                CgroupDriver::Systemd,
            ),
            (
                containerd(r#"{"SystemdCgroup":false}"#),
                true,
                CgroupDriver::Cgroupfs,
            ),
            (containerd("{}"), true, CgroupDriver::Cgroupfs),
            (containerd("null"), true, CgroupDriver::Cgroupfs),
            (status("[crio]"), true, CgroupDriver::Systemd),
            (status("{}"), false, CgroupDriver::Cgroupfs),
            (v1::StatusResponse::default(), true, CgroupDriver::Systemd),
        ];
        for (answer, systemd_runs, expected) in cases {
            assert_eq!(guessed(&answer, systemd_runs), expected, "{answer:?}");
        }
    }

    #[test]
    fn a_process_that_the_runtime_has_lost_is_told_with_its_place() {
        let mount = tempfile::tempdir().unwrap();
        std::fs::write(mount.path().join("cgroup.controllers"), "").unwrap();
        let version = CgroupVersion::of(mount.path());
        for (driver, pod) in [
            (CgroupDriver::Cgroupfs, "pleg/pod1"),
            (CgroupDriver::Systemd, "pleg.slice/pleg-pod1.slice"),
        ] {
            let cgroups = cgroups(driver, version);
            let pod = mount.path().join(pod);
            let container = pod.join("container");
            std::fs::create_dir_all(&container).unwrap();
            std::fs::write(pod.join("cgroup.procs"), "").unwrap();
            std::fs::write(container.join("cgroup.procs"), "4711\n4712\n").unwrap();
            let error = cgroups.check_empty(mount.path(), &"1".into()).unwrap_err();
            let says = error.to_string();
            assert!(
                says.contains("process 4711") && says.ends_with("/container"),
                "{says}"
            );
            std::fs::write(container.join("cgroup.procs"), "").unwrap();
            cgroups.check_empty(mount.path(), &"1".into()).unwrap();
            cgroups.check_empty(mount.path(), &"never".into()).unwrap();

            let scope = pod.join("cri-containerd-a1b2.scope");
            std::fs::create_dir_all(&scope).unwrap();
            std::fs::write(scope.join("cgroup.procs"), "4713\n").unwrap();
            let ended = |id: &str| cgroups.check_ended(mount.path(), &"1".into(), &id.into());
            ended("a1b2").unwrap_err();
            ended("c3d4").unwrap();
        }
    }

    #[test]
    fn the_cgroup_of_the_pod_is_removed_in_every_tree_if_nothing_lives_in_it() {
        let mount = tempfile::tempdir().unwrap();
        let ours = mount.path().join("memory/pleg/pod1");
        let busy = mount.path().join("memory/pleg/pod2/container");
        let left = mount.path().join("cpu,cpuacct/pleg/pod1/left-behind");
        for folder in [&ours, &left, &busy] {
            std::fs::create_dir_all(folder).unwrap();
        }
        // Here a file keeps a folder from being removed, as a process does a cgroup.
        std::fs::write(busy.join("process"), "").unwrap();
        std::os::unix::fs::symlink("cpu,cpuacct", mount.path().join("cpu")).unwrap();
        let cgroups = cgroups(CgroupDriver::Cgroupfs, CgroupVersion::of(mount.path()));
        assert_eq!(cgroups.version, CgroupVersion::V1);

        cgroups.remove(mount.path(), &"1".into()).unwrap();
        assert!(!ours.exists());
        assert!(!mount.path().join("cpu,cpuacct/pleg/pod1").exists());
        cgroups.remove(mount.path(), &"2".into()).unwrap_err();
        assert!(busy.exists());
        cgroups
            .remove(mount.path(), &"../pleg/pod2".into())
            .unwrap();
        cgroups.remove(mount.path(), &"never".into()).unwrap();
    }
}
