//! Connections that a restart of the runtime cuts.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch::Receiver;
use tonic::transport::server::{Connected, UdsConnectInfo};

/// The connections that arrive before the next restart, which closes the listener.
pub(super) fn until_restart(
    listener: UnixListener,
    restarts: Receiver<()>,
) -> impl Stream<Item = io::Result<Connection>> {
    futures_util::stream::unfold((listener, restarts), async |(listener, mut restarts)| {
        let connection = tokio::select! {
            biased;
            _ = restarts.changed() => return None,
            accepted = listener.accept() => accepted.map(|(stream, _)| Connection {
                stream,
                cut: Box::pin(restarted(restarts.clone())),
            }),
        };
        Some((connection, (listener, restarts)))
    })
}

async fn restarted(mut restarts: Receiver<()>) {
    // An error means that the node has ended, which ends its connections too.
    let _ = restarts.changed().await;
}

/// A connection whose reads fail once it is cut.
pub(super) struct Connection {
    stream: UnixStream,
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Connected for Connection {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.stream.connect_info()
    }
}

/// HTTP/2 always waits for a read, so it is enough to check for the cut here.
impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
