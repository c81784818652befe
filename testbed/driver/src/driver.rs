//! A client of one instance of the testbed, with a deadline for each call.

use std::time::Duration;

use cri::{ApiVersion, Client, Endpoint, Rpc};
use prost::Message;
use tonic::Status;

use crate::error::{Error, Result};

/// The default deadline of a call. It is longer than any call takes without a fault, even for a pod
/// with its own network.
const DEADLINE: Duration = Duration::from_secs(30);

/// The largest answer in bytes. A list of thousands of exited containers fits.
const MAX_ANSWER: usize = 64 << 20;

/// Makes the calls of a kubelet for pods on the testbed. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Driver {
    pub(crate) client: Client,
    /// The name of the instance, which is a part of the cgroup paths of its pods.
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
            client: Client::acting(endpoint, MAX_ANSWER),
            endpoint: endpoint.clone(),
            deadline: DEADLINE,
        })
    }

    /// A driver for the same instance through another socket, that of a guard.
    #[must_use]
    pub fn through(&self, endpoint: &Endpoint) -> Self {
        Self {
            client: Client::acting(endpoint, MAX_ANSWER),
            endpoint: endpoint.clone(),
            ..self.clone()
        }
    }

    /// Sets the deadline of each call. The default is 30 s.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The absolute cgroup of a pod. It is below that of the instance, which `testbed down` searches.
    pub(crate) fn cgroup(&self, uid: &str) -> String {
        format!("/pleg-testbed/{}/{uid}", self.instance)
    }

    /// Calls `rpc`. Errors name its object, `about`.
    pub(crate) async fn call<Q, A>(&self, rpc: Rpc, about: &str, request: Q) -> Result<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let call_name = || match about {
            "" => rpc.to_string(),
            _ => format!("{rpc} of {about}"),
        };
        let call = self.client.unary(ApiVersion::V1, rpc, request);
        match tokio::time::timeout(self.deadline, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(self.refused(call_name(), status)),
            Err(_) => Err(Error::NoAnswer {
                what: call_name(),
                after: self.deadline,
            }),
        }
    }

    /// The error for a call that failed. A status of the transport has a source; an answer of the
    /// runtime has none.
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
    fn a_runtime_outside_the_testbed_is_refused() {
        for path in [
            "/run/containerd/containerd.sock",
            "/run/pleg-testbed/a/b/containerd.sock",
        ] {
            let error = instance(&Endpoint::new(path)).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("unix://{path} is not an endpoint")),
                "{error}"
            );
        }
    }
}
