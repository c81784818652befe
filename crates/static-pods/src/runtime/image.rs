//! Images of the runtime, and their users.

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

impl Image {
    /// Returns an error, with the kubelet's message, if a container of this image has `runAsNonRoot`
    /// and would or may run as root.
    pub fn check_user(&self, security: &ContainerSecurity) -> Result<(), String> {
        Err(match (security.user, &self.user) {
            _ if !security.must_not_be_root => return Ok(()),
            (Some(0), _) => "container's runAsUser breaks non-root policy".to_owned(),
            (None, ImageUser::Id(0)) => {
                "container has runAsNonRoot and image will run as root".to_owned()
            }
            (Some(_), _) | (None, ImageUser::Id(_)) => return Ok(()),
            // The user with this name may have the id 0.
            (None, ImageUser::Name(name)) => format!(
                "container has runAsNonRoot and image has non-numeric user ({name}), cannot \
                 verify user is non-root"
            ),
        })
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
            (None, ImageUser::Id(0), Some("image will run as root")),
            (None, ImageUser::Id(65532), None),
            (None, name(), Some("non-numeric user (app)")),
            (Some(0), ImageUser::Id(65532), Some("runAsUser breaks")),
            (Some(1), ImageUser::Id(0), None),
            (Some(1), name(), None),
        ];
        for (user, of_image, expected) in cases {
            let security = |must_not_be_root| ContainerSecurity {
                user,
                must_not_be_root,
                ..Default::default()
            };
            let image = image(of_image);
            let refused = image.check_user(&security(true)).err();
            assert_eq!(refused.is_some(), expected.is_some(), "{image:?}");
            let refused = refused.unwrap_or_default();
            assert!(refused.contains(expected.unwrap_or_default()), "{refused}");
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
