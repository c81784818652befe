//! Which configuration files of a kubelet exist, in various distributions. Their contents are not read.

use super::{Host, kubeconfig};
use crate::facts::Fact;
use crate::facts::host::KubeletFiles;

pub(super) fn read(host: &Host) -> Fact<KubeletFiles> {
    let mut all = kubeconfig::paths(host);
    // The configuration in kubeadm and EKS; the unit of an administrator and of a package.
    all.extend([
        host.var.join("lib/kubelet/config.yaml"),
        host.etc.join("systemd/system/kubelet.service"),
        host.usr.join("lib/systemd/system/kubelet.service"),
    ]);
    let existing = all.into_iter().filter(|path| path.exists());
    let paths = existing.map(|path| path.display().to_string()).collect();
    Fact::known(KubeletFiles { paths }, "the kubelet's files")
}
