//! A client of one instance of the test bed, with a deadline on each call.

use std::time::Duration;

use cri::{ApiVersion, Client, Endpoint, Rpc};
use prost::Message;
use tonic::Status;

use crate::error::{Error, Result};

/// Longer than any call takes when nothing is broken, a pod's network included.
const DEADLINE: Duration = Duration::from_secs(30);

/// Thousands of dead containers fit.
const MAX_ANSWER: usize = 64 << 20;

/// Does to pods on the test bed what a kubelet would do. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Driver {
    pub(crate) client: Client,
    /// The name of the instance, a part of its pods' cgroups.
    pub(crate) instance: String,
    endpoint: Endpoint,
    deadline: Duration,
}

impl Driver {
    /// A driver for the instance behind `endpoint`; connects when first used.
    ///
    /// Must be called within a tokio runtime.
    pub fn new(endpoint: &Endpoint) -> Result<Self> {
        Ok(Self {
            instance: instance(endpoint)?,
            client: Client::new(endpoint, MAX_ANSWER),
            endpoint: endpoint.clone(),
            deadline: DEADLINE,
        })
    }

    /// The same through another socket: a guard's.
    #[must_use]
    pub fn through(&self, endpoint: &Endpoint) -> Self {
        Self {
            client: Client::new(endpoint, MAX_ANSWER),
            endpoint: endpoint.clone(),
            ..self.clone()
        }
    }

    /// The same with another deadline for each call (30 s unless said).
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The absolute cgroup of a pod: below the instance's, where `testbed down` looks.
    pub(crate) fn cgroup(&self, uid: &str) -> String {
        format!("/pleg-testbed/{}/{uid}", self.instance)
    }

    /// Calls `rpc`; `about` says for what in an error.
    pub(crate) async fn call<Q, A>(&self, rpc: Rpc, about: &str, request: Q) -> Result<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let what = || match about {
            "" => rpc.to_string(),
            _ => format!("{rpc} of {about}"),
        };
        let call = self.client.unary(ApiVersion::V1, rpc, request);
        match tokio::time::timeout(self.deadline, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(self.refused(what(), status)),
            Err(_) => Err(Error::NoAnswer {
                what: what(),
                after: self.deadline,
            }),
        }
    }

    /// Only what came from the transport has a source; the runtime's own answers have none.
    pub(crate) fn refused(&self, what: String, status: Status) -> Error {
        let endpoint = self.endpoint.clone();
        let no_connection = std::error::Error::source(&status).is_some();
        let status = Box::new(status);
        match no_connection {
            true => Error::NoConnection {
                what,
                endpoint,
                status,
            },
            false => Error::Call { what, status },
        }
    }
}

fn instance(endpoint: &Endpoint) -> Result<String> {
    endpoint
        .path()
        .strip_prefix("/run/pleg-testbed")
        .ok()
        .and_then(|rest| rest.to_str()?.strip_suffix("/containerd.sock"))
        .filter(|name| !name.contains('/'))
        .map(str::to_owned)
        .ok_or_else(|| Error::NotATestbed(endpoint.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instance_is_named_by_the_endpoint() {
        let endpoint = Endpoint::new("/run/pleg-testbed/e2e/containerd.sock");
        assert_eq!(instance(&endpoint).unwrap(), "e2e");
    }

    #[test]
    fn a_runtime_that_is_not_the_test_beds_is_refused() {
        for path in [
            "/run/containerd/containerd.sock",
            "/run/pleg-testbed/a/b/containerd.sock",
        ] {
            let error = instance(&Endpoint::new(path)).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("unix://{path} is no endpoint")),
                "{error}"
            );
        }
    }
}
