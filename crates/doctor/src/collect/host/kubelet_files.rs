//! The files that kubelets are configured by, in various distributions. Only whether they exist is
//! looked up: some contain credentials.

use std::path::PathBuf;

use super::Host;
use crate::facts::Fact;
use crate::facts::host::KubeletFiles;

/// Below `/etc`: kubeadm, and units of packages and of administrators.
const IN_ETC: [&str; 2] = ["kubernetes/kubelet.conf", "systemd/system/kubelet.service"];

/// Below `/usr`.
const IN_USR: [&str; 1] = ["lib/systemd/system/kubelet.service"];

/// Below `/var`: kubeadm and EKS, k3s, RKE2, k0s and MicroK8s.
const IN_VAR: [&str; 6] = [
    "lib/kubelet/config.yaml",
    "lib/kubelet/kubeconfig",
    "lib/rancher/k3s/agent/kubelet.kubeconfig",
    "lib/rancher/rke2/agent/kubelet.kubeconfig",
    "lib/k0s/kubelet.conf",
    "snap/microk8s/current/credentials/kubelet.config",
];

pub(super) fn read(host: &Host) -> Fact<KubeletFiles> {
    let below = |folder: &PathBuf, names: &[&str]| -> Vec<PathBuf> {
        names.iter().map(|name| folder.join(name)).collect()
    };
    let all = [
        below(&host.etc, &IN_ETC),
        below(&host.usr, &IN_USR),
        below(&host.var, &IN_VAR),
    ];
    let existing = all.concat().into_iter().filter(|path| path.exists());
    let paths = existing.map(|path| path.display().to_string()).collect();
    Fact::known(KubeletFiles { paths }, "the kubelet's files")
}
