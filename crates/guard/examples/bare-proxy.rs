//! A proxy that decides nothing: HTTP/2 in, HTTP/2 out, on one thread. Its cost is a lower bound for
//! that of a guard. `bare-proxy RUNTIME_SOCKET LISTEN_SOCKET`

use std::error::Error;
use std::path::PathBuf;

use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{LocalSet, spawn_local};

type Failure = Box<dyn Error>;

#[derive(Clone, Copy)]
struct Local;

impl<F: Future + 'static> Executor<F> for Local {
    fn execute(&self, future: F) {
        spawn_local(async move {
            future.await;
        });
    }
}

fn main() -> Result<(), Failure> {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let runtime = paths.next().ok_or("the runtime's socket is missing")?;
    let listen = paths.next().ok_or("the socket to listen on is missing")?;
    let tokio = tokio::runtime::Builder::new_current_thread();
    let tokio = { tokio }.enable_all().build()?;
    LocalSet::new().block_on(&tokio, serve(runtime, listen))
}

async fn serve(runtime: PathBuf, listen: PathBuf) -> Result<(), Failure> {
    let listener = UnixListener::bind(listen)?;
    loop {
        let (client, _) = listener.accept().await?;
        let stream = TokioIo::new(UnixStream::connect(&runtime).await?);
        let (sender, connection) = handshake(Local, stream).await?;
        spawn_local(async move { connection.await.ok() });
        let service = service_fn(move |request| pass(sender.clone(), request));
        let connection = http2::Builder::new(Local).serve_connection(TokioIo::new(client), service);
        spawn_local(async move { connection.await.ok() });
    }
}

async fn pass(
    mut sender: SendRequest<Incoming>,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, hyper::Error> {
    *request.version_mut() = Version::HTTP_2;
    sender.send_request(request).await
}
