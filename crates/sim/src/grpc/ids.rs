//! The id that is meant: as with containerd, the beginning of one is enough where it is
//! the beginning of no other.

use pleg::model::id::Id;
use tonic::Status;

use crate::World;

/// The sandbox that is meant; the text itself where there is none.
pub(super) fn sandbox(world: &World, text: String) -> Result<Id, Status> {
    if world.sandbox_by_id(&text).is_some() {
        return Ok(text.into());
    }
    let ids = world.sandboxes().map(|(_, sandbox)| &sandbox.id);
    the_one(ids, text)
}

/// The same for a container.
pub(super) fn container(world: &World, text: String) -> Result<Id, Status> {
    if world.container_by_id(&text).is_some() {
        return Ok(text.into());
    }
    let ids = world.containers().map(|(_, container)| &container.id);
    the_one(ids, text)
}

fn the_one<'a>(ids: impl Iterator<Item = &'a Id>, text: String) -> Result<Id, Status> {
    let begins = |id: &&Id| !text.is_empty() && id.as_str().starts_with(&text);
    let mut begun = ids.filter(begins);
    match (begun.next(), begun.next()) {
        (None, _) => Ok(text.into()),
        (Some(id), None) => Ok(id.clone()),
        (Some(_), Some(_)) => {
            let why = format!("multiple IDs found with provided prefix: {text}");
            Err(Status::unknown(why))
        }
    }
}
