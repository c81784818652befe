//! Images: what the runtime has, and whom they run as.

use std::fmt;

use cri::v1;

use crate::spec::ContainerSecurity;

/// An image that the runtime has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// What the runtime calls it: its id. Containers are made of this, so that an image that is
    /// pulled meanwhile under the same name is not taken for it.
    pub reference: String,
    /// Whom it runs as, unless the container says.
    pub user: ImageUser,
}

/// Whom an image runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageUser {
    /// The user of this number; root if the image does not say.
    Id(i64),
    /// The user of this name, in the image's own `/etc/passwd`.
    Name(String),
}

/// A container that must not be root would be, or may be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootRefused {
    /// `runAsUser` is 0.
    #[error("container's runAsUser breaks non-root policy")]
    Asked,
    /// The image says nobody else.
    #[error("container has runAsNonRoot and image will run as root")]
    ByImage,
    /// The image's user has a name, which may be another one of root's.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({0}), cannot verify user is non-root"
    )]
    Unknown(String),
}

impl Image {
    /// Whether a container of it with this security may run: one that must not be root is looked
    /// at before it is made.
    pub fn check_user(&self, security: &ContainerSecurity) -> Result<(), RootRefused> {
        if !security.must_not_be_root {
            return Ok(());
        }
        match (security.user, &self.user) {
            (Some(0), _) => Err(RootRefused::Asked),
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

/// An image's name with the tag that is meant where it has neither a tag nor a digest: `latest`.
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
    fn a_name_without_tag_or_digest_means_the_latest() {
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
    fn what_must_not_be_root_is_refused_where_it_would_or_may_be() {
        let image = |user: ImageUser| Image {
            reference: "sha256:0".to_owned(),
            user,
        };
        let name = || ImageUser::Name("app".to_owned());
        let cases = [
            (None, ImageUser::Id(0), Err(RootRefused::ByImage)),
            (None, ImageUser::Id(65532), Ok(())),
            (None, name(), Err(RootRefused::Unknown("app".to_owned()))),
            (Some(0), ImageUser::Id(65532), Err(RootRefused::Asked)),
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
    fn an_image_that_names_no_user_runs_as_root() {
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
