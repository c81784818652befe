//! Where a runtime listens: `unix:///path` or a bare path, as crictl accepts them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where runtimes listen, in the order in which they are tried.
pub const USUAL_PLACES: [&str; 6] = [
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/k0s/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
];

/// The unix socket of a runtime.
///
/// ```
/// use cri::{Endpoint, EndpointError};
///
/// let endpoint: Endpoint = "/run/crio/crio.sock".parse()?;
/// assert_eq!(endpoint.to_string(), "unix:///run/crio/crio.sock");
/// # Ok::<(), EndpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint(PathBuf);

/// Why a text is not an endpoint.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EndpointError {
    /// Neither a path nor a `unix://` URL.
    #[error("endpoint {0:?} is not a unix socket: write unix:///path/to.sock or an absolute path")]
    NotUnix(String),
}

impl Endpoint {
    /// The socket at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let path = text.strip_prefix("unix://").unwrap_or(text);
        if path.starts_with('/') && path.len() > 1 {
            Ok(Self(path.into()))
        } else {
            Err(EndpointError::NotUnix(text.to_owned()))
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_and_a_bare_path_name_the_same_socket() {
        let url: Endpoint = "unix:///run/x.sock".parse().unwrap();
        assert_eq!(url, "/run/x.sock".parse().unwrap());
        assert_eq!(url.to_string(), "unix:///run/x.sock");
    }

    #[test]
    fn an_error_quotes_the_refused_text() {
        for text in [
            "",
            "unix://",
            "tcp://1.2.3.4:5",
            "run/x.sock",
            "unix://run/x",
        ] {
            let error = text.parse::<Endpoint>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }
}
