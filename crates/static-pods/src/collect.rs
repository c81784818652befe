//! Which dead containers are not needed any more, by the defaults of a kubelet.
//!
//! ```text
//!   of each container of a pod that exists:  the newest dead one stays (MaxPerPodContainer 1,
//!                                            MinAge 0), for its logs and its attempt
//!   of its sandboxes:                        the newest stays, and those that hold a container
//!   of a pod that is removed:                nothing (its end removes all)
//! ```
//!
//! Only what is ours is ever passed in: what was not created by us is in nobody's ledger.

use std::collections::BTreeMap;

use pleg::model::id::Id;

/// So many dead containers of each name are kept while the pod exists.
pub const MAX_PER_POD_CONTAINER: usize = 1;

/// A container that has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dead<'a> {
    /// Its id.
    pub id: &'a Id,
    /// Its name in the pod.
    pub name: &'a str,
    /// Which container of its name it is.
    pub attempt: u32,
}

/// The containers of one pod that are to be removed.
pub fn containers<'a>(dead: impl IntoIterator<Item = Dead<'a>>) -> Vec<&'a Id> {
    let mut by_name: BTreeMap<&str, Vec<Dead>> = BTreeMap::new();
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
    fn the_newest_dead_container_of_each_name_stays() {
        let ids = ["a0", "a1", "a2", "b5"].map(Id::from);
        let dead = [("a", 0), ("a", 1), ("a", 2), ("b", 5)];
        let dead = ids
            .iter()
            .zip(dead)
            .map(|(id, (name, attempt))| Dead { id, name, attempt });
        let garbage = containers(dead);
        assert_eq!(garbage, [&ids[1], &ids[0]]);
    }

    #[test]
    fn nothing_is_removed_where_nothing_is_dead_twice() {
        assert!(containers([]).is_empty());
    }
}
