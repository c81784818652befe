//! Converts `volumes` and `volumeMounts`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::names;
use super::problem::At;
use super::quantity::Unit;
use super::resources::amount;
use crate::spec::{HostPathType, Medium, Mount, Volume};

pub(super) fn read(volumes: Vec<v1::Volume>, at: &At<'_>) -> BTreeMap<String, Volume> {
    let mut names = BTreeSet::new();
    let mut all = BTreeMap::new();
    for (i, volume) in volumes.into_iter().enumerate() {
        let at = at.index(i);
        let (name, volume) = read_one(volume, &at);
        let at = at.field("name");
        at.check_text(&name, names::dns_label);
        names::check_unique(&mut names, &name, "volume", &at);
        all.insert(name, volume);
    }
    all
}

fn read_one(volume: v1::Volume, at: &At<'_>) -> (String, Volume) {
    let v1::Volume {
        aws_elastic_block_store,
        azure_disk,
        azure_file,
        cephfs,
        cinder,
        config_map,
        csi,
        downward_api,
        empty_dir,
        ephemeral,
        fc,
        flex_volume,
        flocker,
        gce_persistent_disk,
        git_repo,
        glusterfs,
        host_path,
        image,
        iscsi,
        name,
        nfs,
        persistent_volume_claim,
        photon_persistent_disk,
        portworx_volume,
        projected,
        quobyte,
        rbd,
        scale_io,
        secret,
        storageos,
        vsphere_volume,
    } = volume;
    let mut sources = usize::from(empty_dir.is_some()) + usize::from(host_path.is_some());
    for (field, is_set) in [
        ("awsElasticBlockStore", aws_elastic_block_store.is_some()),
        ("azureDisk", azure_disk.is_some()),
        ("azureFile", azure_file.is_some()),
        ("cephfs", cephfs.is_some()),
        ("cinder", cinder.is_some()),
        ("configMap", config_map.is_some()),
        ("csi", csi.is_some()),
        ("downwardAPI", downward_api.is_some()),
        ("ephemeral", ephemeral.is_some()),
        ("fc", fc.is_some()),
        ("flexVolume", flex_volume.is_some()),
        ("flocker", flocker.is_some()),
        ("gcePersistentDisk", gce_persistent_disk.is_some()),
        ("gitRepo", git_repo.is_some()),
        ("glusterfs", glusterfs.is_some()),
        ("image", image.is_some()),
        ("iscsi", iscsi.is_some()),
        ("nfs", nfs.is_some()),
        ("persistentVolumeClaim", persistent_volume_claim.is_some()),
        ("photonPersistentDisk", photon_persistent_disk.is_some()),
        ("portworxVolume", portworx_volume.is_some()),
        ("projected", projected.is_some()),
        ("quobyte", quobyte.is_some()),
        ("rbd", rbd.is_some()),
        ("scaleIO", scale_io.is_some()),
        ("secret", secret.is_some()),
        ("storageos", storageos.is_some()),
        ("vsphereVolume", vsphere_volume.is_some()),
    ] {
        at.refuse(field, is_set, "only emptyDir and hostPath are");
        sources += usize::from(is_set);
    }
    if sources > 1 {
        at.invalid("has more than one source");
    }
    let volume = match host_path {
        Some(it) => read_host_path(it, &at.field("hostPath")),
        // A volume without a source is an emptyDir.
        None => read_empty_dir(empty_dir.unwrap_or_default(), &at.field("emptyDir")),
    };
    (name, volume)
}

fn read_empty_dir(source: v1::EmptyDirVolumeSource, at: &At<'_>) -> Volume {
    let v1::EmptyDirVolumeSource { medium, size_limit } = source;
    let (at_medium, at_limit) = (at.field("medium"), at.field("sizeLimit"));
    let size_limit = size_limit.map(|Quantity(it)| amount(&it, Unit::Ones, &at_limit));
    let size_limit = size_limit.filter(|it| *it > 0);
    let memory = Medium::Memory { size_limit };
    let medium = match medium.as_deref() {
        Some(it) if it.starts_with("HugePages") => {
            at_medium.unsupported("only Memory is");
            memory
        }
        it => at_medium.one_of(it, Medium::Disk, &[("Memory", memory)]),
    };
    if medium == Medium::Disk && size_limit.is_some() {
        // A kubelet measures such volumes periodically, and evicts a pod that exceeds the limit.
        at_limit.unsupported("only with medium: Memory");
    }
    Volume::EmptyDir { medium }
}

fn read_host_path(source: v1::HostPathVolumeSource, at: &At<'_>) -> Volume {
    let v1::HostPathVolumeSource { path, type_ } = source;
    let at_path = at.field("path");
    at_path.check_text(&path, names::absolute_path);
    at_path.check(check_downwards(&path));
    let kind = at.field("type").one_of(
        type_.as_deref(),
        HostPathType::Any,
        &[
            ("DirectoryOrCreate", HostPathType::DirectoryOrCreate),
            ("Directory", HostPathType::Directory),
            ("FileOrCreate", HostPathType::FileOrCreate),
            ("File", HostPathType::File),
            ("Socket", HostPathType::Socket),
            ("CharDevice", HostPathType::CharDevice),
            ("BlockDevice", HostPathType::BlockDevice),
        ],
    );
    Volume::HostPath {
        path: path.into(),
        kind,
    }
}

/// The mounts of a container.
pub(super) fn mounts(
    mounts: Vec<v1::VolumeMount>,
    volumes: &BTreeMap<String, Volume>,
    at: &At<'_>,
) -> Vec<Mount> {
    let mut paths = BTreeSet::new();
    let mut all = Vec::new();
    for (i, mount) in mounts.into_iter().enumerate() {
        let at = at.index(i);
        let mount = read_mount(mount, volumes, &at);
        names::check_unique(&mut paths, &mount.path, "mount", &at.field("mountPath"));
        all.push(mount);
    }
    all
}

fn read_mount(mount: v1::VolumeMount, volumes: &BTreeMap<String, Volume>, at: &At<'_>) -> Mount {
    let v1::VolumeMount {
        mount_path,
        mount_propagation,
        name,
        read_only,
        recursive_read_only,
        sub_path,
        sub_path_expr,
    } = mount;
    let is_other =
        |it: Option<String>, default: &str| it.is_some_and(|it| !it.is_empty() && it != default);
    let propagates = is_other(mount_propagation, "None");
    at.refuse("mountPropagation", propagates, "only None is");
    let is_recursive = is_other(recursive_read_only, "Disabled");
    at.refuse("recursiveReadOnly", is_recursive, "only Disabled is");
    at.refuse("subPathExpr", is_other(sub_path_expr, ""), "");
    if name.is_empty() {
        at.field("name").required();
    } else if !volumes.contains_key(&name) {
        at.field("name")
            .invalid(format!("the pod has no volume {name:?}"));
    }
    let at_path = at.field("mountPath");
    at_path.check_text(&mount_path, names::absolute_path);
    let sub_path = sub_path.filter(|it| !it.is_empty());
    if let Some(path) = &sub_path {
        let at = at.field("subPath");
        if path.starts_with('/') {
            at.invalid(format!(
                "{path:?} is absolute: a path in the volume is expected"
            ));
        }
        at.check(check_downwards(path));
    }
    Mount {
        volume: name,
        path: mount_path,
        sub_path,
        read_only: read_only == Some(true),
    }
}

/// Checks that a path does not contain `..`.
fn check_downwards(path: &str) -> Result<(), String> {
    match path.split('/').any(|it| it == "..") {
        true => Err(format!("{path:?} contains ..")),
        false => Ok(()),
    }
}
