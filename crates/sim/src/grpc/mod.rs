//! The simulated node on a unix socket, for CRI clients.
//!
//! ```text
//!   listener --> Connection (cut by a restart) --> service, images --> Sim::pass_faults --> world
//!                                                      |                  |
//!                    mangle: oversize, garbage <-- messages, events <-----+
//! ```
//!
//! The calls of a PLEG, of crictl and of a sync loop are answered from the world and change it, after their
//! faults were applied. Other methods fail with `Unimplemented`, as in a real runtime that lacks a feature.
//!
//! ```
//! use pleg::runtime::Runtime;
//! use pleg::runtime::grpc::{Endpoint, GrpcRuntime, MAX_MESSAGE_SIZE};
//! use sim::{Sim, grpc};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("sim.sock");
//! let sim = Sim::new();
//! sim.run("web-0", &["app"]);
//! let listener = grpc::socket::listen(&path).await?;
//! tokio::spawn(grpc::serve(sim, listener));
//!
//! let runtime = GrpcRuntime::new(&Endpoint::new(path), MAX_MESSAGE_SIZE);
//! assert_eq!(runtime.list_containers().await?.rows.len(), 1);
//! # Ok(())
//! # }
//! ```

use std::io;
use std::path::PathBuf;

use cri::ApiVersion;
use cri::v1::image_service_server::ImageServiceServer;
use cri::v1::runtime_service_server::RuntimeServiceServer;
use http::{Request, Uri};
use tokio::net::UnixListener;
use tokio::time::sleep_until;
use tonic::body::Body;
use tonic::transport::Server;
use tower::util::{MapRequestLayer, MapResponseLayer};

use crate::Sim;

mod connection;
mod events;
mod ids;
mod images;
mod kinds;
mod lifecycle;
mod mangle;
mod messages;
mod runtime_service;
mod service;
pub mod socket;
mod statistics;

use service::Service;

/// Serves `sim` in CRI v1 until the task is dropped.
pub async fn serve(sim: Sim, listener: UnixListener) -> io::Result<()> {
    serve_as(sim, listener, ApiVersion::V1).await
}

/// Serves `sim` in one version of CRI only, as containerd before 1.6 served only v1alpha2. The
/// messages are the same, only the path of a call differs.
///
/// When the simulated runtime restarts, connections are dropped. While it is down, there is no
/// listener. After that, it listens on the same path again.
pub async fn serve_as(sim: Sim, mut listener: UnixListener, api: ApiVersion) -> io::Result<()> {
    let path = path_of(&listener)?;
    loop {
        let to_v1 = move |request: Request<Body>| to_v1(request, api);
        let service = Service {
            sim: sim.clone(),
            api,
        };
        let server = Server::builder()
            .layer(MapRequestLayer::new(to_v1))
            .layer(MapResponseLayer::new(mangle::apply))
            .add_service(ImageServiceServer::new(service.clone()))
            .add_service(RuntimeServiceServer::new(service));
        let restarts = sim.faults().restarts();
        let connections = connection::until_restart(listener, restarts);
        let served = server.serve_with_incoming(connections).await;
        served.map_err(io::Error::other)?;
        let down = sim.faults().down();
        if let Some(until) = down {
            sleep_until(until).await;
        }
        listener = socket::listen(&path).await?;
    }
}

fn path_of(listener: &UnixListener) -> io::Result<PathBuf> {
    let address = listener.local_addr()?;
    let path = address.as_pathname();
    path.map(Into::into)
        .ok_or_else(|| io::Error::other("the socket has no path"))
}

/// Turns a call of the version `api` into one of v1, which the stubs serve. If `api` is not v1, a call of
/// v1 becomes a call of an unknown method.
fn to_v1(mut request: Request<Body>, api: ApiVersion) -> Request<Body> {
    if api == ApiVersion::V1Alpha2 {
        let method = request.uri().path();
        let path = match method.strip_prefix("/runtime.v1alpha2.") {
            Some(method) => format!("/runtime.v1.{method}"),
            None => "/not.served/".to_owned(),
        };
        // A part of a valid path is a valid path.
        *request.uri_mut() = path.parse::<Uri>().unwrap_or_default();
    }
    request
}
