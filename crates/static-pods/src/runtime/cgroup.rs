//! The cgroups of pods: one parent for all our pods, which contains one cgroup for each pod.
//!
//! ```text
//!   cgroupfs  /pleg/pod<uid>/<container>
//!   systemd   /pleg.slice/pleg-pod<uid>.slice/<container's scope>
//! ```
//!
//! The runtime creates the pod's cgroup together with the container's. Limits apply to each
//! container but not to the pod as a whole, because only systemd may set them if it owns the tree.
//! systemd removes empty slices. With cgroupfs, [`Cgroups::remove`] removes the pod's cgroup.

use std::io;
use std::path::Path;

use cri::v1;
use pleg::model::id::{Id, PodUid};
use serde_json::Value;

use crate::files::{folders, if_exists, is_plain_name};

/// The component that creates the runtime's cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupDriver {
    /// systemd.
    Systemd,
    /// The runtime itself.
    Cgroupfs,
}

/// The version of the kernel's cgroup interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// Each controller has its own tree.
    V1,
    /// All controllers share one tree.
    V2,
}

/// The cgroups of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroups {
    /// The driver.
    pub driver: CgroupDriver,
    /// The version of the interface.
    pub version: CgroupVersion,
}

impl CgroupVersion {
    /// The version of the tree that is mounted at `mount`, which is `/sys/fs/cgroup`.
    pub fn of(mount: &Path) -> Self {
        match mount.join("cgroup.controllers").exists() {
            true => Self::V2,
            false => Self::V1,
        }
    }
}

impl Cgroups {
    /// The `cgroup_parent` of a pod, in the form that the driver requires.
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

    /// Returns an error if a process of the pod is still running. The runtime may have lost the
    /// process: if a shim is killed and `runc delete` takes too long, containerd 1.7 reports a
    /// container as exited although it still runs. `mount` is `/sys/fs/cgroup`.
    pub fn check_empty(self, mount: &Path, uid: &PodUid) -> io::Result<()> {
        self.each(mount, uid, check_empty)
    }

    /// Like [`Self::check_empty`], for one container, whose cgroup has its id in its name.
    pub fn check_ended(self, mount: &Path, uid: &PodUid, container: &Id) -> io::Result<()> {
        self.each(mount, uid, |pod| {
            for cgroup in folders(pod)? {
                let name = cgroup.file_name().unwrap_or_default();
                if name.to_string_lossy().contains(container.as_str()) {
                    check_empty(&cgroup)?;
                }
            }
            Ok(())
        })
    }

    /// Removes the cgroup of a pod whose sandboxes are all removed. `mount` is `/sys/fs/cgroup`.
    ///
    /// This includes cgroups of the pod's containers that the runtime left behind, as containerd
    /// does if it is killed while it starts a container. A cgroup with a process is an error.
    /// systemd removes its slices itself.
    pub fn remove(self, mount: &Path, uid: &PodUid) -> io::Result<()> {
        match self.driver {
            CgroupDriver::Systemd => Ok(()),
            CgroupDriver::Cgroupfs => self.each(mount, uid, remove_with_children),
        }
    }

    /// Calls `action` with the pod's cgroup in each tree that has it.
    fn each(
        self,
        mount: &Path,
        uid: &PodUid,
        action: impl Fn(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        if !is_plain_name(uid.as_str()) {
            return Ok(());
        }
        let parent = self.parent_of(uid);
        let below = parent.trim_start_matches('/');
        let trees = match self.version {
            CgroupVersion::V2 => vec![mount.to_owned()],
            // Links are skipped: `cpu` is a link to `cpu,cpuacct`.
            CgroupVersion::V1 => folders(mount)?,
        };
        for tree in trees {
            if_exists(action(&tree.join(below)))?;
        }
        Ok(())
    }
}

/// Returns an error if a cgroup or one below it has a process.
fn check_empty(cgroup: &Path) -> io::Result<()> {
    // The cgroup may have just been removed.
    let processes = match if_exists(std::fs::read_to_string(cgroup.join("cgroup.procs"))) {
        // A threaded cgroup has no list of processes.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => String::new(),
        processes => processes?,
    };
    if let Some(pid) = processes.lines().next() {
        let cgroup = cgroup.display();
        let message = format!("process {pid} of the pod still runs, in the control group {cgroup}");
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
    }
    let below = if_exists(folders(cgroup))?;
    below.iter().try_for_each(|it| check_empty(it))
}

/// Removes a cgroup and those below it. The kernel removes its files.
fn remove_with_children(cgroup: &Path) -> io::Result<()> {
    for child in folders(cgroup)? {
        remove_with_children(&child)?;
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

/// The driver of a runtime without `RuntimeConfig`. The verbose status of containerd before 2.0
/// contains its configuration. For other runtimes, such as CRI-O before 1.28, this is their default:
/// systemd, if it runs.
pub(super) fn guess_driver(status: &v1::StatusResponse, systemd_runs: bool) -> CgroupDriver {
    let config = status.info.get("config");
    let config = config.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let configured = config.and_then(|config| uses_systemd(config.get("containerd")?));
    match configured.unwrap_or(systemd_runs) {
        true => CgroupDriver::Systemd,
        false => CgroupDriver::Cgroupfs,
    }
}

/// Whether containerd is configured to use systemd for its default runtime; `None` if that is not
/// known.
fn uses_systemd(containerd: &Value) -> Option<bool> {
    let name = containerd.get("defaultRuntimeName")?.as_str()?;
    let runtime = containerd.get("runtimes")?.get(name)?;
    let option = runtime.pointer("/options/SystemdCgroup");
    Some(option.and_then(Value::as_bool).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroups(driver: CgroupDriver, version: CgroupVersion) -> Cgroups {
        Cgroups { driver, version }
    }

    #[test]
    fn the_cgroup_parent_has_the_form_of_its_driver() {
        let uid = PodUid::from("0b2c-11ef");
        let of = |driver| cgroups(driver, CgroupVersion::V2).parent_of(&uid);
        assert_eq!(of(CgroupDriver::Cgroupfs), "/pleg/pod0b2c-11ef");
        assert_eq!(
            of(CgroupDriver::Systemd),
            "/pleg.slice/pleg-pod0b2c_11ef.slice"
        );
    }

    #[test]
    fn the_driver_of_a_runtime_without_runtime_config_is_in_its_configuration() {
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
            assert_eq!(guess_driver(&answer, systemd_runs), expected, "{answer:?}");
        }
    }

    #[test]
    fn a_process_that_the_runtime_has_lost_is_reported_with_its_cgroup() {
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
            let message = error.to_string();
            assert!(
                message.contains("process 4711") && message.ends_with("/container"),
                "{message}"
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
    fn the_cgroup_of_the_pod_is_removed_in_every_tree_if_it_has_no_process() {
        let mount = tempfile::tempdir().unwrap();
        let ours = mount.path().join("memory/pleg/pod1");
        let busy = mount.path().join("memory/pleg/pod2/container");
        let left = mount.path().join("cpu,cpuacct/pleg/pod1/left-behind");
        for folder in [&ours, &left, &busy] {
            std::fs::create_dir_all(folder).unwrap();
        }
        // A file prevents the removal of a folder, just as a process prevents that of a cgroup.
        std::fs::write(busy.join("process"), "").unwrap();
        std::os::unix::fs::symlink("cpu,cpuacct", mount.path().join("cpu")).unwrap();
        let cgroups = cgroups(CgroupDriver::Cgroupfs, CgroupVersion::of(mount.path()));
        assert_eq!(cgroups.version, CgroupVersion::V1);

        cgroups.remove(mount.path(), &"1".into()).unwrap();
        assert!(!ours.exists());
        assert!(!mount.path().join("cpu,cpuacct/pleg/pod1").exists());
        cgroups.remove(mount.path(), &"2".into()).unwrap_err();
        assert!(busy.exists());
        cgroups.remove(mount.path(), &"never".into()).unwrap();
    }

    #[test]
    fn a_uid_that_is_a_path_names_no_cgroup() {
        let mount = tempfile::tempdir().unwrap();
        let parent = mount.path().join("memory/pleg");
        let other = parent.join("pod2");
        for folder in ["pod1", "pod2"] {
            std::fs::create_dir_all(parent.join(folder)).unwrap();
        }
        let cgroups = cgroups(CgroupDriver::Cgroupfs, CgroupVersion::V1);
        cgroups.remove(mount.path(), &"1/../pod2".into()).unwrap();
        assert!(other.exists());
    }
}
