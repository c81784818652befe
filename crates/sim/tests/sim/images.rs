//! Images, which are only names.

use cri::{ApiVersion, Rpc, v1};
use prost::Message;
use sim::Sim;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;

use crate::served::Served;

/// Calls the image service of the socket.
async fn call<Q, A>(served: &Served, rpc: Rpc, request: Q) -> Result<A, tonic::Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let channel = Endpoint::from_shared(served.endpoint.to_string()).unwrap();
    let mut grpc = tonic::client::Grpc::new(channel.connect().await.unwrap());
    grpc.ready().await.unwrap();
    let path: PathAndQuery = rpc.path(ApiVersion::V1).parse().unwrap();
    let codec = tonic_prost::ProstCodec::<Q, A>::default();
    let answer = grpc.unary(tonic::Request::new(request), path, codec).await;
    answer.map(tonic::Response::into_inner)
}

fn spec(name: &str) -> Option<v1::ImageSpec> {
    Some(v1::ImageSpec {
        image: name.to_owned(),
        ..Default::default()
    })
}

#[tokio::test]
async fn an_image_exists_once_it_was_pulled() {
    let served = Served::new(&Sim::new());
    let status = async || {
        let image = spec("registry/app:1");
        let verbose = false;
        let request = v1::ImageStatusRequest { image, verbose };
        let answer: v1::ImageStatusResponse =
            call(&served, Rpc::ImageStatus, request).await.unwrap();
        answer.image
    };
    assert_eq!(status().await, None);
    let request = v1::PullImageRequest {
        image: spec("registry/app:1"),
        ..Default::default()
    };
    let pulled: v1::PullImageResponse = call(&served, Rpc::PullImage, request).await.unwrap();
    let image = status().await.unwrap();
    assert_eq!(image.id, pulled.image_ref);
    assert!(image.size > 0, "the kubelet's client refuses size 0");
    let request = v1::ListImagesRequest::default();
    let all: v1::ListImagesResponse = call(&served, Rpc::ListImages, request).await.unwrap();
    let names: Vec<_> = all.images.iter().map(|image| image.id.as_str()).collect();
    assert_eq!(names, ["pleg.test/busybox:latest", "registry/app:1"]);
    let request = v1::ImageFsInfoRequest {};
    let _: v1::ImageFsInfoResponse = call(&served, Rpc::ImageFsInfo, request).await.unwrap();
}
