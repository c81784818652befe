//! Interned texts: names, namespaces, images and UIDs repeat in every row and status, and are kept in
//! memory once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// At least this many texts are kept before unused ones are removed.
const MIN_KEPT: usize = 1024;

/// The interned texts.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    texts: HashSet<Arc<str>>,
    /// How many texts were left when unused ones were last removed.
    used: usize,
}

impl Names {
    /// The shared copy of the text.
    pub(super) fn intern(&self, text: &str) -> Arc<str> {
        let mut known = self.0.lock().expect("no panic while it is held");
        if let Some(interned) = known.texts.get(text) {
            return interned.clone();
        }
        if known.texts.len() >= MIN_KEPT.max(known.used * 2) {
            known.texts.retain(|text| Arc::strong_count(text) > 1);
            known.used = known.texts.len();
        }
        let interned: Arc<str> = text.into();
        known.texts.insert(interned.clone());
        interned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_for_as_long_as_it_is_used() {
        let names = Names::default();
        let held = names.intern("held");
        for number in 0..MIN_KEPT * 10 {
            names.intern(&number.to_string());
        }
        assert!(Arc::ptr_eq(&held, &names.intern("held")));
        assert!(names.0.lock().unwrap().texts.len() <= MIN_KEPT + 1);
    }
}
