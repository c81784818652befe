//! One connection to a runtime, and calls on it by name.

use std::fmt;

use bytes::Bytes;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tonic::codec::Streaming;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::Endpoint;
use crate::codec::RawAnswer;

/// The generation of the interface that a runtime speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiVersion {
    /// Kubernetes 1.23 and later; containerd 1.6 and later.
    V1,
    /// Before that: the same messages under another service name.
    V1Alpha2,
}

impl ApiVersion {
    /// The version as CRI spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Alpha2 => "v1alpha2",
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A method of the RuntimeService, by its name.
pub type Method = &'static str;

/// HTTP/2 windows that take a whole list answer of a common node (173 KB for 100 pods)
/// without a round trip for window updates in the middle of it.
const WINDOW: u32 = 1 << 20;

/// A client that connects when first used, and again when the connection is gone.
///
/// Clones share the connection. A call has no deadline of its own; dropping its
/// future cancels it on the server.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    max_message_size: usize,
}

impl Client {
    /// A client for `endpoint` that refuses answers above `max_message_size` bytes.
    ///
    /// Must be called within a tokio runtime.
    pub fn new(endpoint: &Endpoint, max_message_size: usize) -> Self {
        let path = endpoint.path().to_owned();
        // grpc-go servers log the authority; "localhost" is what grpc-go clients send.
        let channel = tonic::transport::Endpoint::from_static("http://localhost")
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .connect_with_connector_lazy(tower::service_fn(move |_| {
                let path = path.clone();
                async move { UnixStream::connect(path).await.map(TokioIo::new) }
            }));
        Self {
            channel,
            max_message_size,
        }
    }

    /// Calls `method` and decodes the answer.
    pub async fn unary<Q, A>(
        &self,
        api: ApiVersion,
        method: Method,
        request: Q,
    ) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc
            .unary(Request::new(request), path(api, method), codec)
            .await?;
        Ok(answer.into_inner())
    }

    /// Calls `method` and gives the answer's bytes, for [`crate::lean`].
    pub async fn raw<Q>(&self, api: ApiVersion, method: Method, request: Q) -> Result<Bytes, Status>
    where
        Q: Message + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = RawAnswer::<Q>::default();
        let answer = grpc
            .unary(Request::new(request), path(api, method), codec)
            .await?;
        Ok(answer.into_inner())
    }

    /// Opens a stream of answers.
    pub async fn streaming<Q, A>(
        &self,
        api: ApiVersion,
        method: Method,
        request: Q,
    ) -> Result<Streaming<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc
            .server_streaming(Request::new(request), path(api, method), codec)
            .await?;
        Ok(answer.into_inner())
    }

    async fn ready(&self) -> Result<tonic::client::Grpc<Channel>, Status> {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone())
            .max_decoding_message_size(self.max_message_size);
        grpc.ready()
            .await
            .map_err(|error| Status::from_error(Box::new(error)))?;
        Ok(grpc)
    }
}

fn path(api: ApiVersion, method: Method) -> PathAndQuery {
    PathAndQuery::from_maybe_shared(Bytes::from(format!(
        "/runtime.{api}.RuntimeService/{method}"
    )))
    .expect("a method name is a valid path")
}
