//! Which dead containers can be removed, by the kubelet's defaults.
//!
//! | of a wanted pod | kept |
//! |---|---|
//! | dead containers of each name | the newest one, for its logs and its attempt (`MaxPerPodContainer` 1, `MinAge` 0) |
//! | sandboxes | the newest one, and those with a container that is kept |
//!
//! The end of a pod removes everything of it.

use std::collections::BTreeMap;

use pleg::model::id::Id;

/// How many dead containers of each name are kept while the pod exists.
pub const MAX_PER_POD_CONTAINER: usize = 1;

/// A container that has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadContainer<'a> {
    /// Its id.
    pub id: &'a Id,
    /// Its name in the pod.
    pub name: &'a str,
    /// Its attempt.
    pub attempt: u32,
}

/// The containers of one pod that can be removed.
pub fn select_containers<'a>(dead: impl IntoIterator<Item = DeadContainer<'a>>) -> Vec<&'a Id> {
    let mut by_name: BTreeMap<&str, Vec<DeadContainer>> = BTreeMap::new();
    for dead in dead {
        by_name.entry(dead.name).or_default().push(dead);
    }
    let garbage = by_name.into_values().flat_map(|mut dead| {
        dead.sort_by_key(|dead| std::cmp::Reverse(dead.attempt));
        dead.into_iter().skip(MAX_PER_POD_CONTAINER)
    });
    garbage.map(|dead| dead.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_dead_container_of_each_name_is_kept() {
        let ids = ["a0", "a1", "a2", "b5"].map(Id::from);
        let dead = [("a", 0), ("a", 1), ("a", 2), ("b", 5)];
        let dead = ids
            .iter()
            .zip(dead)
            .map(|(id, (name, attempt))| DeadContainer { id, name, attempt });
        let garbage = select_containers(dead);
        assert_eq!(garbage, [&ids[1], &ids[0]]);
    }

    #[test]
    fn without_dead_containers_nothing_is_removed() {
        assert!(select_containers([]).is_empty());
    }
}
