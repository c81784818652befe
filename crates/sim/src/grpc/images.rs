//! Images: those that were pulled and those that containers use. An image is only a name.

use std::collections::BTreeSet;

use cri::Rpc;
use cri::v1;
use cri::v1::image_service_server::ImageService;
use tonic::{Request, async_trait};

use super::service::{Answer, Service};
use crate::World;
use crate::world::{Container, IMAGE};

#[async_trait]
impl ImageService for Service {
    async fn list_images(
        &self,
        request: Request<v1::ListImagesRequest>,
    ) -> Answer<v1::ListImagesResponse> {
        self.answer(Rpc::ListImages, None, |sim| {
            let filter = request.into_inner().filter.and_then(|filter| filter.image);
            let wanted = filter.map(|image| image.image).unwrap_or_default();
            let images = names(&sim.world());
            let images = images.into_iter();
            let images = images.filter(|name| wanted.is_empty() || *name == wanted);
            Ok(v1::ListImagesResponse {
                images: images.map(image).collect(),
            })
        })
        .await
    }

    async fn image_status(
        &self,
        request: Request<v1::ImageStatusRequest>,
    ) -> Answer<v1::ImageStatusResponse> {
        self.answer(Rpc::ImageStatus, None, |sim| {
            let wanted = request.into_inner().image.unwrap_or_default().image;
            let mut images = names(&sim.world()).into_iter();
            // An unknown image is not an error, but an answer without an image.
            Ok(v1::ImageStatusResponse {
                image: images.find(|name| *name == wanted).map(image),
            })
        })
        .await
    }

    async fn pull_image(
        &self,
        request: Request<v1::PullImageRequest>,
    ) -> Answer<v1::PullImageResponse> {
        self.answer(Rpc::PullImage, None, |sim| {
            let name = request.into_inner().image.unwrap_or_default().image;
            sim.world().images.insert(name.clone());
            Ok(v1::PullImageResponse { image_ref: name })
        })
        .await
    }

    async fn image_fs_info(
        &self,
        _: Request<v1::ImageFsInfoRequest>,
    ) -> Answer<v1::ImageFsInfoResponse> {
        let nothing = v1::ImageFsInfoResponse {};
        self.answer(Rpc::ImageFsInfo, None, |_| Ok(nothing)).await
    }
}

fn names(world: &World) -> BTreeSet<String> {
    let used = world.containers().map(|(_, it)| Container::image(it));
    let pulled = world.images.iter().map(String::as_str);
    let all = used.chain(pulled).chain([IMAGE]);
    all.map(str::to_owned).collect()
}

/// An image whose id is its name. The kubelet's client refuses an image without a size, so its size is
/// the length of the name.
fn image(name: String) -> v1::Image {
    v1::Image {
        id: name.clone(),
        size: name.len() as u64,
        repo_tags: vec![name],
        ..Default::default()
    }
}
