//! Determines the program that a stack belongs to, by the packages in it.

use std::fmt;

use super::Call;
use crate::line::has;

/// A program between the kubelet and the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Program {
    Kubelet,
    Dockerd,
    Containerd,
    Shim,
    CriO,
    Runc,
    CniPlugin,
    CniAgent,
}

const KUBERNETES: &str = "k8s.io/kubernetes/";

/// The most specific packages come first, because programs contain packages of each other.
const PACKAGES: [(&str, Program); 32] = [
    ("containernetworking/cni/pkg/skel.", Program::CniPlugin),
    ("AliyunContainerService/terway/daemon", Program::CniAgent),
    ("projectcalico/felix", Program::CniAgent),
    ("projectcalico/calico/felix", Program::CniAgent),
    ("cilium/cilium/daemon", Program::CniAgent),
    ("amazon-vpc-cni-k8s/pkg/ipamd", Program::CniAgent),
    ("amazon-vpc-cni-k8s/ipamd", Program::CniAgent),
    ("antrea.io/antrea/pkg/agent", Program::CniAgent),
    ("flannel-io/flannel", Program::CniAgent),
    ("coreos/flannel", Program::CniAgent),
    ("k8s.io/kubernetes/pkg/kubelet", Program::Kubelet),
    ("k8s.io/kubernetes/cmd/kubelet", Program::Kubelet),
    ("k8s.io/kubernetes/cmd/hyperkube", Program::Kubelet),
    (KUBERNETES, Program::Kubelet),
    ("github.com/docker/docker/", Program::Dockerd),
    ("github.com/moby/moby/", Program::Dockerd),
    ("cri-o/cri-o/", Program::CriO),
    // Where it was until 2018.
    ("kubernetes-incubator/cri-o/", Program::CriO),
    ("containerd/runtime/v2/shim", Program::Shim),
    ("containerd/runtime/v2/runc", Program::Shim),
    ("containerd/runtime/v1/shim", Program::Shim),
    ("containerd/cmd/containerd-shim", Program::Shim),
    // The shim of containerd 1.0 and 1.1; its clients in containerd are in packages below this one.
    ("containerd/linux/shim.(*Service)", Program::Shim),
    ("containerd/linux/proc.", Program::Shim),
    ("containerd/containerd/v2/pkg/shim", Program::Shim),
    // containerd 0.2; dockerd uses its client, but is recognised by its own packages above.
    ("docker/containerd/containerd-shim", Program::Shim),
    ("docker/containerd/", Program::Containerd),
    ("containerd/containerd/", Program::Containerd),
    ("containerd/cri/", Program::Containerd),
    ("opencontainers/runc/vendor/", Program::Runc),
    ("opencontainers/runc/", Program::Runc),
    ("AliyunContainerService/terway", Program::CniPlugin),
];

impl Program {
    /// The program whose stack has these calls.
    pub fn of(calls: &[Call], created_by: Option<&str>) -> Option<Self> {
        let names = || calls.iter().map(|call| &*call.function).chain(created_by);
        let found = PACKAGES
            .iter()
            .find(|(package, _)| names().any(|name| name.contains(package)));
        found.map(|(_, program)| *program)
    }

    /// The program with this source file, which may be one of a library in its `vendor` folder.
    pub fn of_source(path: &[u8]) -> Option<Self> {
        let mut packages = PACKAGES.iter();
        // That is all of Kubernetes' programs.
        let found = packages.find(|(package, _)| *package != KUBERNETES && has(path, package));
        found.map(|(_, program)| *program)
    }

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::Dockerd => "dockerd",
            Self::Containerd => "containerd",
            Self::Shim => "containerd-shim",
            Self::CriO => "crio",
            Self::Runc => "runc",
            Self::CniPlugin => "cni-plugin",
            Self::CniAgent => "cni-agent",
        }
    }

    /// The program of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "dockerd" | "docker" | "dockerd-current" => Self::Dockerd,
            "containerd" | "docker-containerd" => Self::Containerd,
            "crio" => Self::CriO,
            "runc" => Self::Runc,
            "kubelet" => Self::Kubelet,
            "terwayd" | "calico-felix" | "calico-node" | "cilium-agent" | "aws-k8s-agent"
            | "flanneld" | "antrea-agent" => Self::CniAgent,
            _ if name.starts_with("containerd-shim") => Self::Shim,
            _ => return None,
        })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kubelet => "the kubelet",
            Self::Dockerd => "dockerd",
            Self::Containerd => "containerd",
            Self::Shim => "the shim",
            Self::CriO => "CRI-O",
            Self::Runc => "runc",
            Self::CniPlugin => "the CNI plugin",
            Self::CniAgent => "the CNI agent",
        })
    }
}
