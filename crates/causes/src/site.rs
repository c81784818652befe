//! Causes that a site adds to the catalogue, in its own folder.

use std::collections::BTreeMap;
use std::sync::RwLock;

use crate::Cause;
use crate::pages::{About, PageError};

/// A cause of a site, by its id. What is known about the cause is kept for as long as the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteCause(&'static str);

/// What is known about a cause of a site.
struct Known {
    about: &'static About,
    /// Whether this process read the cause's page. Otherwise another process reported the cause, and its id
    /// cannot be parsed.
    is_declared: bool,
}

static KNOWN: RwLock<BTreeMap<&'static str, Known>> = RwLock::new(BTreeMap::new());

/// The maximum length of an id, which is that of a label's value in Kubernetes.
const MAX_ID: usize = 63;

/// The maximum number of causes that other processes report. They are never freed, and no site has more.
const MAX_REPORTED: usize = 256;

impl SiteCause {
    /// Declares a cause with its page. From then on, its id can be parsed.
    ///
    /// # Errors
    ///
    /// The id has characters other than `a-z`, `0-9` and `-`, or the page is malformed.
    pub fn declare(id: &str, page: String) -> Result<Cause, PageError> {
        Self::add(id, page, true)
    }

    fn add(id: &str, page: String, is_declared: bool) -> Result<Cause, PageError> {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if id.is_empty() || id.len() > MAX_ID || !id.bytes().all(is_allowed) {
            return Err(PageError::Id(id.to_owned()));
        }
        let about: &'static About = Box::leak(Box::new(About::read(id, page.leak())?));
        let mut known = KNOWN.write().unwrap_or_else(|it| it.into_inner());
        known.insert(about.id(), Known { about, is_declared });
        Ok(Cause::Site(Self(about.id())))
    }

    /// The cause with this id, which another process reported. That process may have rules of a site that
    /// this process lacks. `None` if the text is not an id, or if there are too many.
    pub fn reported(id: &str) -> Option<Cause> {
        if let Ok(known) = id.parse() {
            return Some(known);
        }
        let known = KNOWN.read().unwrap_or_else(|it| it.into_inner());
        if let Some((id, _)) = known.get_key_value(id) {
            return Some(Cause::Site(Self(id)));
        }
        if known.values().filter(|it| !it.is_declared).count() >= MAX_REPORTED {
            return None;
        }
        drop(known);
        let page = format!("---\nid: {id}\ntitle: a cause of this site\nadvice: []\n---\n\n");
        Self::add(id, page, false).ok()
    }

    /// The cause with this id, if it was declared.
    pub(crate) fn named(id: &str) -> Option<Cause> {
        let known = KNOWN.read().unwrap_or_else(|it| it.into_inner());
        let declared = known.get_key_value(id).filter(|(_, it)| it.is_declared);
        declared.map(|(id, _)| Cause::Site(Self(id)))
    }

    /// The id of the cause.
    pub fn id(self) -> &'static str {
        self.0
    }

    /// What the page of the cause declares.
    pub fn about(self) -> &'static About {
        KNOWN.read().unwrap_or_else(|it| it.into_inner())[self.0].about
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Only;

    const PAGE: &str = "---\nid: acme-disk\ntitle: the Acme driver hangs\nadvice:\n  - restart it\n  - only: containerd\n    text: update it\n---\n\n\
                        ## What happens\n\nIt hangs.\n";

    #[test]
    fn a_declared_cause_is_used_like_a_built_in_one() {
        let cause = SiteCause::declare("acme-disk", PAGE.to_owned()).unwrap();
        assert_eq!("acme-disk".parse(), Ok(cause));
        assert_eq!(cause.to_string(), "acme-disk");
        let advice = &cause.about().advice;
        let advice: Vec<_> = advice.iter().map(|it| (&*it.text, it.only)).collect();
        assert_eq!(
            advice,
            [("restart it", None), ("update it", Some(Only::Containerd))]
        );
        assert!(cause.page().starts_with("# acme-disk\n\n## What happens\n"));
        assert!(cause > Cause::RepairLoop);
    }

    #[test]
    fn a_cause_that_another_process_reports_needs_no_page() {
        let cause = SiteCause::reported("acme-net").unwrap();
        assert_eq!(cause.id(), "acme-net");
        assert!("acme-net".parse::<Cause>().is_err(), "it has no page here");
        assert_eq!(SiteCause::reported("disk-full"), Some(Cause::DiskFull));
        assert_eq!(SiteCause::reported("Not an id"), None);
    }

    #[test]
    fn what_is_wrong_with_a_page_is_reported() {
        for (id, page, says) in [
            ("Acme", PAGE, "lower-case letters"),
            ("acme-net", PAGE, "acme-disk"),
            ("acme-disk", "# Acme\n", "front matter"),
            ("acme-disk", "---\nid: acme-disk\n---\n\nText\n", "title"),
        ] {
            let error = SiteCause::declare(id, page.to_owned()).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
