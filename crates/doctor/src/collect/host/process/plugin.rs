//! The pod for which a CNI plugin was started, which the runtime passes in an environment variable.

use std::path::Path;

use causes::finding::PodName;

use crate::collect::bounded::bounded;
use crate::collect::helper::Reads;
use crate::collect::host::file::printable_path;

/// The pod for which a process was started, if it is a CNI plugin. Nothing else of its environment is kept.
pub(super) fn pod(reads: &Reads, folder: &Path) -> Option<PodName> {
    parse(&reads.text(&folder.join("environ")).ok()?)
}

/// The pod in a variable such as
/// `CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=…`.
fn parse(environment: &str) -> Option<PodName> {
    let mut variables = environment.split('\0');
    let arguments = variables.find_map(|variable| variable.strip_prefix("CNI_ARGS="))?;
    let value = |wanted: &str| {
        let mut arguments = arguments.split(';').filter_map(|one| one.split_once('='));
        let (_, value) = arguments.find(|(name, _)| *name == wanted)?;
        Some(bounded(&printable_path(value)))
    };
    Some(PodName {
        uid: value("K8S_POD_UID"),
        namespace: Some(value("K8S_POD_NAMESPACE")?),
        name: Some(value("K8S_POD_NAME")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pod_is_read() {
        let plugin = "PASSWORD=x\0CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;\
                      K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=c\0CNI_IFNAME=eth0\0";
        let pod = parse(plugin).unwrap();
        assert_eq!(pod.namespace.as_deref(), Some("shop"));
        assert_eq!((pod.name.as_deref(), pod.uid), (Some("web"), None));
        for other in ["", "PATH=/bin\0", "CNI_ARGS=IgnoreUnknown=1\0"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
