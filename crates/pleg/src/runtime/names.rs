//! Interned texts: names, namespaces, images and UIDs repeat in every row and status. Each is kept once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// Below this number of texts unused ones are not removed.
const FEW: usize = 1024;

/// The interned texts.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    texts: HashSet<Arc<str>>,
    /// How many there were after unused ones were last removed.
    held: usize,
}

impl Names {
    /// The shared copy of the text.
    pub(super) fn one(&self, text: &str) -> Arc<str> {
        let mut known = self.0.lock().expect("no panic while it is held");
        if let Some(one) = known.texts.get(text) {
            return one.clone();
        }
        if known.texts.len() >= FEW.max(known.held * 2) {
            known.texts.retain(|text| Arc::strong_count(text) > 1);
            known.held = known.texts.len();
        }
        let one: Arc<str> = text.into();
        known.texts.insert(one.clone());
        one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_kept_once_and_for_as_long_as_it_is_used() {
        let names = Names::default();
        let held = names.one("held");
        for number in 0..FEW * 10 {
            names.one(&number.to_string());
        }
        assert!(Arc::ptr_eq(&held, &names.one("held")));
        assert!(names.0.lock().unwrap().texts.len() <= FEW + 1);
    }
}
