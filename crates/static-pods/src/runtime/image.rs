//! Images of the runtime, and their users.

use std::fmt;

use cri::v1;

use crate::spec::ContainerSecurity;

/// An image that the runtime has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its id in the runtime. Containers are created by id, so that a concurrent pull of the name
    /// does not change the image.
    pub reference: String,
    /// Its user, unless the container sets one.
    pub user: ImageUser,
}

/// The user of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageUser {
    /// The user with this id; root if the image has no user.
    Id(i64),
    /// The user with this name in the image's `/etc/passwd`.
    Name(String),
}

/// A container with `runAsNonRoot` would or may run as root.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootRefused {
    /// `runAsUser` is 0.
    #[error("container's runAsUser breaks non-root policy")]
    ByManifest,
    /// The image's user is root.
    #[error("container has runAsNonRoot and image will run as root")]
    ByImage,
    /// The image's user is a name, which may have the id 0.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({0}), cannot verify user is non-root"
    )]
    Unknown(String),
}

impl Image {
    /// Checks `runAsNonRoot` of a container of this image.
    pub fn check_user(&self, security: &ContainerSecurity) -> Result<(), RootRefused> {
        if !security.must_not_be_root {
            return Ok(());
        }
        match (security.user, &self.user) {
            (Some(0), _) => Err(RootRefused::ByManifest),
            (Some(_), _) => Ok(()),
            (None, ImageUser::Id(0)) => Err(RootRefused::ByImage),
            (None, ImageUser::Id(_)) => Ok(()),
            (None, ImageUser::Name(name)) => Err(RootRefused::Unknown(name.clone())),
        }
    }
}

impl From<v1::Image> for Image {
    fn from(image: v1::Image) -> Self {
        let user = match (image.uid, image.username) {
            (Some(uid), _) => ImageUser::Id(uid.value),
            (None, name) if !name.is_empty() => ImageUser::Name(name),
            (None, _) => ImageUser::Id(0),
        };
        let reference = image.id;
        Self { reference, user }
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reference.fmt(f)
    }
}

/// An image's name, with the tag `latest` if it has neither a tag nor a digest.
pub fn with_tag(name: &str) -> String {
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    match last.contains([':', '@']) {
        true => name.to_owned(),
        false => format!("{name}:latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_tag_and_digest_has_the_tag_latest() {
        let cases = [
            ("busybox", "busybox:latest"),
            ("localhost:5000/busybox", "localhost:5000/busybox:latest"),
            ("busybox:1", "busybox:1"),
            ("registry/a/b@sha256:0", "registry/a/b@sha256:0"),
        ];
        for (name, expected) in cases {
            assert_eq!(with_tag(name), expected);
        }
    }

    #[test]
    fn a_container_that_must_not_be_root_is_refused_if_it_would_or_may_be() {
        let image = |user: ImageUser| Image {
            reference: "sha256:0".to_owned(),
            user,
        };
        let name = || ImageUser::Name("app".to_owned());
        let cases = [
            (None, ImageUser::Id(0), Err(RootRefused::ByImage)),
            (None, ImageUser::Id(65532), Ok(())),
            (None, name(), Err(RootRefused::Unknown("app".to_owned()))),
            (Some(0), ImageUser::Id(65532), Err(RootRefused::ByManifest)),
            (Some(1), ImageUser::Id(0), Ok(())),
            (Some(1), name(), Ok(())),
        ];
        for (user, of_image, expected) in cases {
            let security = |must_not_be_root| ContainerSecurity {
                user,
                must_not_be_root,
                ..Default::default()
            };
            let image = image(of_image);
            assert_eq!(image.check_user(&security(true)), expected, "{image:?}");
            assert_eq!(image.check_user(&security(false)), Ok(()));
        }
    }

    #[test]
    fn an_image_without_a_user_runs_as_root() {
        let image = v1::Image::default();
        assert_eq!(Image::from(image).user, ImageUser::Id(0));
        let image = v1::Image {
            uid: Some(v1::Int64Value { value: 7 }),
            ..Default::default()
        };
        assert_eq!(Image::from(image).user, ImageUser::Id(7));
        let image = v1::Image {
            username: "app".to_owned(),
            ..Default::default()
        };
        assert_eq!(Image::from(image).user, ImageUser::Name("app".to_owned()));
    }
}
