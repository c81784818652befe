//! When the files of the credentials were last written.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use kube::config::Kubeconfig;

/// The directory of a pod's service account.
const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The location of the credentials, and when they were written.
pub(super) struct Credentials {
    pub kubeconfig: Option<PathBuf>,
    written: Option<SystemTime>,
}

impl Credentials {
    /// Credentials that have not been read yet: those of this kubeconfig, or of the pod's service account.
    pub fn new(kubeconfig: Option<PathBuf>) -> Self {
        Self {
            kubeconfig,
            written: None,
        }
    }

    /// Whether the credentials have changed since the last check. A kubeconfig may name other
    /// files, which a kubelet replaces; the library itself reads a mounted token again.
    pub fn have_changed(&mut self) -> bool {
        let file = match &self.kubeconfig {
            Some(path) => path.clone(),
            None => PathBuf::from(SERVICE_ACCOUNT_DIR).join("ca.crt"),
        };
        let written = newest_of(&file).or(Some(SystemTime::UNIX_EPOCH));
        let changed = self.written != written;
        self.written = written;
        changed
    }

    /// Makes the next check read the credentials again, because these cannot be used.
    pub fn forget(&mut self) {
        self.written = None;
    }
}

/// When a kubeconfig, or a file that it names, was last written.
fn newest_of(file: &Path) -> Option<SystemTime> {
    let written = |path: &Path| std::fs::metadata(path).ok()?.modified().ok();
    let Kubeconfig {
        auth_infos,
        clusters,
        ..
    } = Kubeconfig::read_from(file).unwrap_or_default();
    let users = auth_infos.into_iter().filter_map(|user| user.auth_info);
    let users = users.flat_map(|it| [it.client_certificate, it.client_key, it.token_file]);
    let clusters = clusters.into_iter().filter_map(|it| it.cluster);
    let named = users.chain(clusters.map(|it| it.certificate_authority));
    let times = named.flatten().filter_map(|path| written(Path::new(&path)));
    times.chain(written(file)).max()
}
