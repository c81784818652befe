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
use pleg::model::id::PodUid;
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

    /// Removes the cgroup of a pod whose sandboxes are all removed. `mount` is `/sys/fs/cgroup`.
    ///
    /// With it go those of its containers that a runtime has left behind, as containerd does when it
    /// is killed while it starts one. Only empty ones go: the kernel refuses while anything lives
    /// below, which is an error then.
    pub fn remove(self, mount: &Path, uid: &PodUid) -> io::Result<()> {
        let is_plain = !uid.is_empty() && !uid.as_str().contains('/');
        if self.driver == CgroupDriver::Systemd || !is_plain {
            return Ok(());
        }
        for tree in self.trees(mount)? {
            match remove_with_children(&tree.join("pleg").join(format!("pod{uid}"))) {
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
