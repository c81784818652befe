//! The kubelet's kubeconfig, as far as it is read: where the API server is, and which certificates are
//! used. Its credentials are never sent or kept.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use x509_cert::Certificate;
use x509_cert::der::DecodePem;
use x509_cert::time::Time;

use super::Host;
use super::file::text;
use crate::facts::host::ClientCertificate;
use crate::facts::{Fact, Missing};
use pleg::model::wall_time::WallTime;

/// Below `/etc`: kubeadm.
const IN_ETC: [&str; 1] = ["kubernetes/kubelet.conf"];
/// Below `/var`: EKS, k3s, RKE2, k0s and MicroK8s.
const IN_VAR: [&str; 5] = [
    "lib/kubelet/kubeconfig",
    "lib/rancher/k3s/agent/kubelet.kubeconfig",
    "lib/rancher/rke2/agent/kubelet.kubeconfig",
    "lib/k0s/kubelet.conf",
    "snap/microk8s/current/credentials/kubelet.config",
];

#[derive(Deserialize)]
pub(super) struct Kubeconfig {
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: Cluster,
}

/// The API server, and who vouches for it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Cluster {
    pub(super) server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    user: User,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate: Option<PathBuf>,
}

/// Where it may be.
pub(super) fn paths(host: &Host) -> Vec<PathBuf> {
    let in_etc = IN_ETC.iter().map(|name| host.etc.join(name));
    let in_var = IN_VAR.iter().map(|name| host.var.join(name));
    in_etc.chain(in_var).collect()
}

impl Kubeconfig {
    pub(super) fn read(host: &Host) -> Result<Self, Missing> {
        let path = paths(host).into_iter().find(|path| path.exists());
        let path = path.ok_or_else(|| Missing::from("no kubeconfig of a kubelet was found"))?;
        // The parser's error may quote a token.
        let wrong = |_| Missing::from("the kubelet's kubeconfig cannot be parsed");
        serde_saphyr::from_str(&text(&path)?).map_err(wrong)
    }

    pub(super) fn cluster(self) -> Result<Cluster, Missing> {
        let first = self.clusters.into_iter().next();
        let missing = || Missing::from("the kubelet's kubeconfig names no API server");
        first.map(|named| named.cluster).ok_or_else(missing)
    }
}

impl Cluster {
    /// The certificates of the authority, in PEM.
    pub(super) fn authority(&self, host: &Host) -> Result<Vec<u8>, Missing> {
        if let Some(data) = &self.certificate_authority_data {
            let wrong = |_| Missing::from("certificate-authority-data is not in base64");
            return STANDARD.decode(data).map_err(wrong);
        }
        let path = self.certificate_authority.as_ref();
        let path = path.and_then(|path| on(host, path));
        let none = || Missing::from("the kubelet's kubeconfig names no certificate authority");
        Ok(text(&path.ok_or_else(none)?)?.into_bytes())
    }
}

/// The client certificate that its user names.
pub(super) fn client_certificate(host: &Host) -> Fact<ClientCertificate> {
    let source = "the kubelet's client certificate";
    let config = match Kubeconfig::read(host) {
        Ok(config) => config,
        Err(why) => return Fact::missing(why, source),
    };
    let mut users = config.users.into_iter();
    let path = users.find_map(|named| named.user.client_certificate);
    let Some(path) = path.and_then(|path| on(host, &path)) else {
        let why = "the kubelet's kubeconfig names no file with a client certificate";
        return Fact::missing(why, source);
    };
    let source = path.display().to_string();
    match text(&path) {
        Ok(text) => match certificate(&text) {
            Some(certificate) => Fact::known(certificate, source),
            None => Fact::missing("the file contains no certificate", source),
        },
        Err(error) => Fact::missing(error, source),
    }
}

/// This path of the machine.
fn on(host: &Host, path: &Path) -> Option<PathBuf> {
    let mut parts = [("/etc", &host.etc), ("/var", &host.var)].into_iter();
    parts.find_map(|(prefix, folder)| Some(folder.join(path.strip_prefix(prefix).ok()?)))
}

/// The first certificate of a file that may hold its key, too.
fn certificate(text: &str) -> Option<ClientCertificate> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let begin = text.find(BEGIN)?;
    let end = begin + text[begin..].find(END)? + END.len();
    let certificate = Certificate::from_pem(&text[begin..end]).ok()?;
    let validity = certificate.tbs_certificate.validity;
    let wall = |time: Time| {
        let nanos = i64::try_from(time.to_unix_duration().as_nanos()).ok()?;
        WallTime::from_unix_nanos(nanos)
    };
    Some(ClientCertificate {
        not_before: wall(validity.not_before)?,
        not_after: wall(validity.not_after)?,
    })
}
