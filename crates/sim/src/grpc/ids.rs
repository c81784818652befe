//! Completes ids: as with containerd, a unique prefix of an id is enough.

use pleg::model::id::Id;
use tonic::Status;

use crate::World;

/// The id of the sandbox with this id or unique prefix; the text itself if there is none.
pub(super) fn sandbox(world: &World, text: String) -> Result<Id, Status> {
    if world.sandbox_by_id(&text).is_some() {
        return Ok(text.into());
    }
    let ids = world.sandboxes().map(|(_, sandbox)| &sandbox.id);
    unique(ids, text)
}

/// The id of the container with this id or unique prefix; the text itself if there is none.
pub(super) fn container(world: &World, text: String) -> Result<Id, Status> {
    if world.container_by_id(&text).is_some() {
        return Ok(text.into());
    }
    let ids = world.containers().map(|(_, container)| &container.id);
    unique(ids, text)
}

fn unique<'a>(ids: impl Iterator<Item = &'a Id>, text: String) -> Result<Id, Status> {
    let begins = |id: &&Id| !text.is_empty() && id.as_str().starts_with(&text);
    let mut matching = ids.filter(begins);
    match (matching.next(), matching.next()) {
        (None, _) => Ok(text.into()),
        (Some(id), None) => Ok(id.clone()),
        (Some(_), Some(_)) => {
            let why = format!("multiple IDs found with provided prefix: {text}");
            Err(Status::unknown(why))
        }
    }
}
