//! The runtime's endpoint: the one that is given, or the first of the usual sockets that answers.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use agent::{keep_trying, kernel, known_ids, state_directory};
use anyhow::Context;
use cri::{Endpoint, USUAL_PLACES};
use pleg::model::wall_time::system_clock;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use pleg::runtime::{CallError, Runtime, RuntimeVersion};
use pleg::{Environment, NoObserver};
use tokio::time::timeout;

use crate::act;
use crate::args::KernelHints;
use crate::text::sentence;

/// How long to wait for the answer to `Version`.
const VERSION_LIMIT: Duration = Duration::from_secs(2);

/// The given endpoint, or the first of the usual sockets at which a runtime answers, or accepts the
/// connection and hangs.
pub async fn find(named: Option<Endpoint>) -> anyhow::Result<Endpoint> {
    if let Some(endpoint) = named {
        return Ok(endpoint);
    }
    let mut tried = String::new();
    for place in USUAL_PLACES {
        let endpoint = Endpoint::new(place);
        match version(&GrpcRuntime::new(&endpoint, MAX_MESSAGE_SIZE)).await {
            // A runtime that accepts the connection and does not answer is the one to observe.
            Ok(_) => return Ok(endpoint),
            Err(error) => {
                let error = error.to_string();
                write!(tried, "\n  {endpoint}: {}", sentence(&error))?;
            }
        }
    }
    Err(NoRuntime(tried).into())
}

/// Like [`find`], but waits until there is a runtime.
pub async fn wait_for(named: Option<Endpoint>) -> Endpoint {
    let first = match find(named).await {
        Ok(endpoint) => return endpoint,
        Err(error) => error,
    };
    tracing::debug!("{first:#}");
    tracing::warn!(
        "no container runtime found yet: waiting for one of {}",
        USUAL_PLACES.join(", ")
    );
    keep_trying("waiting for a container runtime", async || find(None).await).await
}

/// No runtime answers at any of the usual sockets. Contains a line for each.
#[derive(Debug, thiserror::Error)]
#[error("no container runtime found; {advice}. Tried:{0}", advice = act::ADVICE_WITHOUT_RUNTIME)]
pub struct NoRuntime(pub String);

/// The log message if none of the usual sockets exists, on one line.
pub fn no_socket() -> String {
    let tried = USUAL_PLACES.join(", ");
    format!("no container runtime found; set one with --runtime-endpoint. Tried: {tried}")
}

/// The given endpoint, or the first of the existing usual sockets at which a runtime answers. If none
/// answers, the one that most likely belongs to the node's runtime.
pub async fn present(named: Option<Endpoint>) -> Option<Endpoint> {
    if named.is_some() {
        return named;
    }
    let usual = USUAL_PLACES.into_iter().map(Endpoint::new);
    let present = usual.filter(|endpoint| endpoint.path().exists());
    likeliest(present.collect()).await
}

/// Like [`present`], but not finding an endpoint is an error.
///
/// # Errors
///
/// No endpoint is given, and none of the usual sockets exists.
#[cfg(feature = "act")]
pub async fn required(named: Option<Endpoint>) -> anyhow::Result<Endpoint> {
    let endpoint = present(named).await;
    endpoint.context("no container runtime found; set its socket with --runtime-endpoint")
}

async fn likeliest(mut present: Vec<Endpoint>) -> Option<Endpoint> {
    if present.len() <= 1 {
        return present.pop();
    }
    let mut best: Option<(u8, Endpoint)> = None;
    for endpoint in present {
        let trouble = match version(&GrpcRuntime::new(&endpoint, MAX_MESSAGE_SIZE)).await {
            Ok(Some(_)) => return Some(endpoint),
            Ok(None) => 0,
            Err(CallError::Unavailable(_)) => 1,
            // Docker's containerd listens on the usual socket and does not serve CRI.
            Err(_) => 2,
        };
        if best.as_ref().is_none_or(|(least, _)| trouble < *least) {
            best = Some((trouble, endpoint));
        }
    }
    best.map(|(_, endpoint)| endpoint)
}

/// Connects to the runtime at `endpoint`. Returns no version if `Version` hangs.
///
/// # Errors
///
/// There is no connection, or the other side is not a CRI runtime.
pub async fn connect(endpoint: &Endpoint) -> anyhow::Result<(GrpcRuntime, Option<RuntimeVersion>)> {
    let runtime = GrpcRuntime::new(endpoint, MAX_MESSAGE_SIZE);
    let answer = version(&runtime).await;
    let step = match &answer {
        Err(CallError::Unavailable(_)) if !endpoint.path().exists() => "no container runtime at",
        Err(CallError::Unavailable(_)) => "cannot connect to",
        _ => "no CRI runtime responds at",
    };
    let version = answer.with_context(|| format!("{step} {endpoint}"))?;
    Ok((runtime, version))
}

/// The environment of an engine in this process, without metrics.
pub fn environment(endpoint: &Endpoint, hints: KernelHints) -> Environment {
    Environment {
        endpoint: endpoint.to_string().into(),
        clock: system_clock(),
        observer: Arc::new(NoObserver),
        ids: known_ids(endpoint, &state_directory()),
        kernel: (hints == KernelHints::Auto).then(|| kernel(endpoint)),
    }
}

/// The runtime's version; `None` if the runtime accepts the connection and does not answer.
async fn version(runtime: &GrpcRuntime) -> Result<Option<RuntimeVersion>, CallError> {
    match timeout(VERSION_LIMIT, runtime.version()).await {
        Ok(answer) => answer.map(Some),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn of_several_sockets_without_an_answer_the_one_that_hangs_is_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let endpoint = |name: &str| Endpoint::new(path(name));
        drop(UnixListener::bind(path("stale")).unwrap());
        let _hanging = UnixListener::bind(path("hanging")).unwrap();
        let one = likeliest(vec![endpoint("stale")]).await;
        assert_eq!(one, Some(endpoint("stale")));
        let both = likeliest(vec![endpoint("stale"), endpoint("hanging")]).await;
        assert_eq!(both, Some(endpoint("hanging")));
        assert_eq!(likeliest(Vec::new()).await, None);
    }
}
