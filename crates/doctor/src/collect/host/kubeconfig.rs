//! What is read from the kubelet's kubeconfig: the address of the API server, its certificate authority,
//! and the client certificate. No credentials are kept, and none are sent to another server.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use x509_cert::Certificate;
use x509_cert::der::DecodePem;
use x509_cert::time::Time;

use super::Host;
use super::file::text;
use crate::facts::Missing;
use crate::facts::host::ClientCertificate;
use pleg::model::wall_time::WallTime;

/// Where kubeadm puts it, below `/etc`.
const IN_ETC: &str = "kubernetes/kubelet.conf";
/// Where EKS, k3s, RKE2, k0s and MicroK8s put it, below `/var`.
const IN_VAR: [&str; 5] = [
    "lib/kubelet/kubeconfig",
    "lib/rancher/k3s/agent/kubelet.kubeconfig",
    "lib/rancher/rke2/agent/kubelet.kubeconfig",
    "lib/k0s/kubelet.conf",
    "snap/microk8s/current/credentials/kubelet.config",
];

/// Where, below `/var`, a kubelet with certificate rotation keeps the certificate that it uses in place of
/// the one in its kubeconfig.
const ROTATED: &str = "lib/kubelet/pki/kubelet-client-current.pem";

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

/// The API server, and the authority that signs its certificate.
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

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
}

/// A client certificate and its key, in PEM.
pub(super) struct Credentials {
    pub(super) certificates: String,
    pub(super) key: String,
    /// Where the certificate was read.
    pub(super) source: String,
}

/// The usual paths of a kubelet's kubeconfig.
pub(super) fn paths(host: &Host) -> Vec<PathBuf> {
    let mut paths = vec![host.etc.join(IN_ETC)];
    paths.extend(IN_VAR.iter().map(|name| host.var.join(name)));
    paths
}

impl Kubeconfig {
    pub(super) fn read(host: &Host) -> Result<Self, Missing> {
        let path = paths(host).into_iter().find(|path| path.exists());
        let path = path.ok_or_else(|| Missing::from("no kubeconfig of a kubelet was found"))?;
        // The parser's error may quote a token.
        let wrong = |_| Missing::from("the kubelet's kubeconfig cannot be parsed");
        serde_saphyr::from_str(&text(&path)?).map_err(wrong)
    }

    pub(super) fn cluster(&self) -> Result<&Cluster, Missing> {
        let missing = || Missing::from("the kubelet's kubeconfig names no API server");
        let first = self.clusters.first().ok_or_else(missing)?;
        Ok(&first.cluster)
    }

    /// The client certificate that the kubelet uses, and its key.
    pub(super) fn credentials(&self, host: &Host) -> Result<Credentials, Missing> {
        let none = User::default();
        let user = self.users.first().map_or(&none, |named| &named.user);
        let data = (&user.client_certificate_data, &user.client_key_data);
        let rotated = host.var.join(ROTATED);
        let (certificate, key) = match (&user.client_certificate, data) {
            (Some(certificate), _) => {
                let certificate = on(host, certificate);
                let key = user.client_key.as_ref().and_then(|key| on(host, key));
                (certificate.clone(), key.or(certificate))
            }
            (None, (Some(_), Some(_))) if rotated.exists() => {
                (Some(rotated.clone()), Some(rotated))
            }
            (None, (Some(data), Some(key))) => {
                return Ok(Credentials {
                    certificates: decoded(data, "client-certificate-data")?,
                    key: decoded(key, "client-key-data")?,
                    source: "client-certificate-data of the kubelet's kubeconfig".to_owned(),
                });
            }
            _ => (None, None),
        };
        let (Some(certificate), Some(key)) = (certificate, key) else {
            let why = "the kubelet's kubeconfig names no client certificate";
            return Err(Missing::from(why));
        };
        Ok(Credentials {
            certificates: text(&certificate)?,
            key: text(&key)?,
            source: certificate.display().to_string(),
        })
    }
}

impl Cluster {
    /// The certificates of the authority, in PEM.
    pub(super) fn authority(&self, host: &Host) -> Result<String, Missing> {
        if let Some(data) = &self.certificate_authority_data {
            return decoded(data, "certificate-authority-data");
        }
        let path = self.certificate_authority.as_ref();
        let path = path.and_then(|path| on(host, path));
        let none = || Missing::from("the kubelet's kubeconfig names no certificate authority");
        Ok(text(&path.ok_or_else(none)?)?)
    }
}

fn decoded(data: &str, field: &str) -> Result<String, Missing> {
    let bytes = STANDARD.decode(data).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| Missing::from(format!("{field} is no PEM in base64")))
}

/// A path in the kubeconfig, on this host; `None` if it is not below `/etc` or `/var`.
fn on(host: &Host, path: &Path) -> Option<PathBuf> {
    let mut parts = [("/etc", &host.etc), ("/var", &host.var)].into_iter();
    parts.find_map(|(prefix, folder)| Some(folder.join(path.strip_prefix(prefix).ok()?)))
}

impl Credentials {
    /// The validity of the first certificate, and the node that it names.
    pub(super) fn certificate(&self) -> Option<ClientCertificate> {
        const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
        const END: &str = "-----END CERTIFICATE-----";
        // The file may contain the key as well.
        let text = &self.certificates;
        let begin = text.find(BEGIN)?;
        let end = begin + text[begin..].find(END)? + END.len();
        let certificate = Certificate::from_pem(&text[begin..end])
            .ok()?
            .tbs_certificate;
        let wall = |time: Time| {
            let nanos = i64::try_from(time.to_unix_duration().as_nanos()).ok()?;
            WallTime::from_unix_nanos(nanos)
        };
        let subject = certificate.subject.0;
        let mut names = subject.iter().flat_map(|names| names.0.iter());
        let node = names.find_map(|name| {
            let name = std::str::from_utf8(name.value.value()).ok()?;
            let node = name.strip_prefix("system:node:")?;
            node.bytes().all(may_be_in_name).then(|| node.to_owned())
        });
        Some(ClientCertificate {
            not_before: wall(certificate.validity.not_before)?,
            not_after: wall(certificate.validity.not_after)?,
            node,
        })
    }
}

/// Whether the name of a node may contain this character.
fn may_be_in_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
}
