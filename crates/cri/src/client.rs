//! One connection to a runtime, and calls on it by method.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::HeaderMap;
use http::uri::PathAndQuery;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;
use tonic::codec::Streaming;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tower::Service;

use crate::connection::Connection;
use crate::fields::Malformed;
use crate::frame::framed;
use crate::items::Items;
use crate::{ApiVersion, Endpoint, Rpc};

/// How many bytes of one answer the runtime may send before they are read. The list of a typical node
/// (173 KB for 100 pods) fits, so no window update is needed while it arrives.
const STREAM_WINDOW: u32 = 256 << 10;

/// How many bytes of all answers on one connection the runtime may send before they are read.
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Connection>> + Send>>;

/// Makes a connection to a runtime.
pub type Connect = Arc<dyn Fn() -> Connecting + Send + Sync>;

/// A client that connects when first used, and again after the connection is lost.
///
/// Clones share the connection. A call has no deadline; dropping its future cancels it on the
/// server.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    connections: Arc<AtomicUsize>,
    max_message_size: usize,
    /// The name and the value of the metadata that is sent with each call.
    metadata: Option<(&'static str, &'static str)>,
    /// Whether this client may also make calls that do more than read.
    may_act: bool,
}

impl Client {
    /// A client for `endpoint` that refuses answers above `max_message_size` bytes. It makes only calls
    /// that [read](Rpc::is_read); any other call fails with `PermissionDenied` and is not sent.
    ///
    /// Must be called within a tokio runtime.
    pub fn new(endpoint: &Endpoint, max_message_size: usize) -> Self {
        let path = endpoint.path().to_owned();
        Self::with(move || Connection::open(path.clone()), max_message_size)
    }

    /// Like [`Client::new`], but the client may make all calls.
    #[cfg(feature = "act")]
    pub fn acting(endpoint: &Endpoint, max_message_size: usize) -> Self {
        Self {
            may_act: true,
            ..Self::new(endpoint, max_message_size)
        }
    }

    /// Like [`Client::new`], but the client uses connections that `connect` makes, and sends this metadata
    /// (a name and a value) with each call.
    pub fn via(
        connect: Connect,
        max_message_size: usize,
        metadata: (&'static str, &'static str),
    ) -> Self {
        Self {
            metadata: Some(metadata),
            ..Self::with(move || connect(), max_message_size)
        }
    }

    fn with<A, S>(connect: impl Fn() -> A + Send + Sync + 'static, max_message_size: usize) -> Self
    where
        A: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let connections = Arc::new(AtomicUsize::new(0));
        let made = connections.clone();
        // grpc-go servers log the authority; "localhost" is what grpc-go clients send.
        let channel = tonic::transport::Endpoint::from_static("http://localhost")
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .connect_with_connector_lazy(tower::service_fn(move |_| {
                let (connecting, made) = (connect(), made.clone());
                async move {
                    let connection = connecting.await.map(TokioIo::new)?;
                    made.fetch_add(1, Ordering::Relaxed);
                    io::Result::Ok(connection)
                }
            }));
        Self {
            channel,
            connections,
            max_message_size,
            metadata: None,
            may_act: false,
        }
    }

    /// The number of connections made so far. It grows after a restart of the runtime, even if no
    /// call was outstanding in between.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Calls `rpc` and decodes the answer.
    pub async fn unary<Q, A>(&self, api: ApiVersion, rpc: Rpc, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let path = self.path(api, rpc)?;
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(self.request(request), path, codec).await?;
        Ok(answer.into_inner())
    }

    /// Calls a list `rpc` and passes the bytes of each item to `each` as soon as the item has
    /// arrived. Returns the size of the answer in bytes.
    ///
    /// tonic would first collect the whole answer in one buffer. On an idle node, growing and
    /// trimming the heap for this every second costs more than all other work.
    ///
    /// ```no_run
    /// # use cri::{ApiVersion, Client, Rpc, lean, v1};
    /// # async fn list(client: &Client) -> Result<(), tonic::Status> {
    /// let request = v1::ListContainersRequest::default();
    /// let bytes = client
    ///     .list(ApiVersion::V1, Rpc::ListContainers, request, |item| {
    ///         let container = lean::container(item)?;
    ///         println!("{} {}", container.id, container.name);
    ///         Ok(())
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list<Q: Message>(
        &self,
        api: ApiVersion,
        rpc: Rpc,
        request: Q,
        each: impl FnMut(&[u8]) -> Result<(), Malformed>,
    ) -> Result<usize, Status> {
        let items = Items::new(self.max_message_size, each);
        self.read_items(api, rpc, request, items).await
    }

    /// Like [`Client::list`], for an `rpc` that answers with many messages (KEP-5825).
    pub async fn streamed_list<Q: Message>(
        &self,
        api: ApiVersion,
        rpc: Rpc,
        request: Q,
        each: impl FnMut(&[u8]) -> Result<(), Malformed>,
    ) -> Result<usize, Status> {
        let items = Items::streamed(self.max_message_size, each);
        self.read_items(api, rpc, request, items).await
    }

    async fn read_items<Q: Message, F: FnMut(&[u8]) -> Result<(), Malformed>>(
        &self,
        api: ApiVersion,
        rpc: Rpc,
        request: Q,
        mut items: Items<F>,
    ) -> Result<usize, Status> {
        let mut call = http::Request::post(self.path(api, rpc)?)
            .header(http::header::CONTENT_TYPE, "application/grpc")
            .header(http::header::TE, "trailers");
        if let Some((name, value)) = self.metadata {
            call = call.header(name, value);
        }
        let call = call
            .body(Body::new(Full::new(framed(&request.encode_to_vec()))))
            .map_err(|error| Status::internal(error.to_string()))?;
        let mut channel = self.channel.clone();
        let transport = |error: tonic::transport::Error| Status::from_error(Box::new(error));
        poll_fn(|context| channel.poll_ready(context))
            .await
            .map_err(transport)?;
        let answer = channel.call(call).await.map_err(transport)?;
        if answer.status() != http::StatusCode::OK {
            let status = answer.status();
            return Err(Status::unknown(format!(
                "HTTP status {status}, which gRPC never uses"
            )));
        }
        // An answer without a body has its status in the headers.
        ok_or_status(answer.headers())?;

        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            match frame?.into_data() {
                Ok(data) => items.feed(data)?,
                Err(frame) => {
                    if let Some(trailers) = frame.trailers_ref() {
                        ok_or_status(trailers)?;
                    }
                }
            }
        }
        items.end()
    }

    /// Opens a stream of answers.
    pub async fn streaming<Q, A>(
        &self,
        api: ApiVersion,
        rpc: Rpc,
        request: Q,
    ) -> Result<Streaming<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let path = self.path(api, rpc)?;
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc
            .server_streaming(self.request(request), path, codec)
            .await?;
        Ok(answer.into_inner())
    }

    /// The path of a method. Fails if this client may not call the method. Every call needs a path,
    /// so no such call is sent.
    fn path(&self, api: ApiVersion, rpc: Rpc) -> Result<PathAndQuery, Status> {
        if !self.may_act && !rpc.is_read() {
            return Err(Status::permission_denied(format!(
                "{rpc} was not sent: this client only reads"
            )));
        }
        Ok(PathAndQuery::from_maybe_shared(Bytes::from(rpc.path(api)))
            .expect("a method name is a valid path"))
    }

    fn request<Q>(&self, message: Q) -> Request<Q> {
        let mut request = Request::new(message);
        if let Some((name, value)) = self.metadata {
            let value = MetadataValue::from_static(value);
            request.metadata_mut().insert(name, value);
        }
        request
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

/// Fails if headers or trailers contain a status other than `Ok`.
fn ok_or_status(headers: &HeaderMap) -> Result<(), Status> {
    match Status::from_header_map(headers) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enforces O8.
    #[tokio::test]
    async fn an_observing_client_refuses_every_call_that_does_more_than_read() {
        let (client, api) = (Client::new(&Endpoint::new("/nowhere"), 1), ApiVersion::V1);
        for rpc in Rpc::ALL {
            let unary = client.unary::<(), ()>(api, *rpc, ()).await;
            let stream = client.streaming::<(), ()>(api, *rpc, ()).await;
            let list = client.list(api, *rpc, (), |_| Ok(())).await;
            for failed in [unary.err(), stream.err(), list.err()] {
                // A call that is not refused finds no runtime.
                let code = failed.unwrap().code();
                assert_eq!(code == Code::PermissionDenied, !rpc.is_read(), "{rpc}");
                assert_eq!(code == Code::Unavailable, rpc.is_read(), "{rpc}");
            }
        }
    }
}
