//! The server and the user: kubectl's own flags, files and defaults.

use std::io;
use std::path::PathBuf;

use http::Uri;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::api::{Failure, unusable};

/// kubectl's flags. For an absent flag, the value in the kubeconfig is used, which is the file that
/// `KUBECONFIG` names or `~/.kube/config`. Without a kubeconfig, the files that are mounted into a
/// pod are used.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The kubeconfig file.
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig.
    pub context: Option<String>,
    /// The cluster in the kubeconfig.
    pub cluster: Option<String>,
    /// The user in the kubeconfig.
    pub user: Option<String>,
    /// The server's address.
    pub server: Option<String>,
    /// A bearer token.
    pub token: Option<String>,
    /// The user to impersonate.
    pub impersonate: Option<String>,
    /// The groups to impersonate.
    pub impersonate_groups: Vec<String>,
    /// The CA of the server's certificate.
    pub certificate_authority: Option<PathBuf>,
    /// The name in the server's certificate.
    pub tls_server_name: Option<String>,
    /// Whether to skip the verification of the server's certificate.
    pub insecure: bool,
}

impl Access {
    pub(super) async fn config(&self) -> Result<Config, Failure> {
        let mut config = self.read().await?;
        if let Some(server) = self.server()? {
            config.cluster_url = server;
        }
        if let Some(token) = &self.token {
            config.auth_info.token = Some(token.clone().into());
        }
        if let Some(user) = &self.impersonate {
            config.auth_info.impersonate = Some(user.clone());
        }
        if !self.impersonate_groups.is_empty() {
            config.auth_info.impersonate_groups = Some(self.impersonate_groups.clone());
        }
        if let Some(authority) = &self.certificate_authority {
            config.root_cert = None;
            config.root_cert_file = Some(authority.clone());
        }
        if let Some(name) = &self.tls_server_name {
            config.tls_server_name = Some(name.clone());
        }
        config.accept_invalid_certs |= self.insecure;
        Ok(config)
    }

    /// Reads the kubeconfig. If none is named and none exists, uses the credentials of a pod, or
    /// the address alone, as kubectl does.
    async fn read(&self) -> Result<Config, Failure> {
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let read = match read {
            Ok(read) => read,
            Err(error) if !is_missing(&error) || self.has_selection() => {
                return Err(unusable(&error));
            }
            Err(error) => {
                if let Some(server) = self.server()? {
                    return Ok(Config::new(server));
                }
                return Config::incluster().map_err(|_| unusable(&error));
            }
        };
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let config = Config::from_custom_kubeconfig(read, &options).await;
        config.map_err(|error| unusable(&error))
    }

    fn server(&self) -> Result<Option<Uri>, Failure> {
        let Some(server) = &self.server else {
            return Ok(None);
        };
        let url = server.parse::<Uri>().ok();
        let url = url.filter(|url| url.scheme().is_some() && url.host().is_some());
        let wrong = || Failure::Credentials(format!("{server} is not the address of a server"));
        url.ok_or_else(wrong).map(Some)
    }

    fn has_selection(&self) -> bool {
        let names = [&self.context, &self.cluster, &self.user];
        self.kubeconfig.is_some() || names.into_iter().any(Option::is_some)
    }
}

/// Whether there is no kubeconfig at all.
fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::ReadConfig(error, _) => error.kind() == io::ErrorKind::NotFound,
        KubeconfigError::FindPath => true,
        _ => false,
    }
}
