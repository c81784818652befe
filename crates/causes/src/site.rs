//! Causes that a site has added to the catalogue, in a folder of its own.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::RwLock;

use crate::Cause;
use crate::pages::{About, PageError};

/// A cause of a site. It is declared once and lives as long as the process, so it is as easy to copy
/// as a built-in one.
#[derive(Clone, Copy)]
pub struct SiteCause(&'static About);

/// Those that were declared, the newest last.
static DECLARED: RwLock<Vec<SiteCause>> = RwLock::new(Vec::new());

/// Those that another process reported, without a page. They cannot be parsed.
static REPORTED: RwLock<Vec<SiteCause>> = RwLock::new(Vec::new());

/// A longer id does not fit a label of Kubernetes.
const MAX_ID: usize = 63;

/// No site has more causes. Each is kept for as long as the process lives.
const MAX_REPORTED: usize = 256;

impl SiteCause {
    /// Declares a cause by its page. From then on its id can be parsed.
    ///
    /// # Errors
    ///
    /// The id has other letters than `a-z`, `0-9` and `-`, or the page is malformed.
    pub fn declare(id: &str, page: String) -> Result<Cause, PageError> {
        let cause = Self::new(id, page)?;
        let mut declared = DECLARED.write().unwrap_or_else(|it| it.into_inner());
        declared.push(cause);
        Ok(Cause::Site(cause))
    }

    fn new(id: &str, page: String) -> Result<Self, PageError> {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if id.is_empty() || id.len() > MAX_ID || !id.bytes().all(is_allowed) {
            return Err(PageError::Id(id.to_owned()));
        }
        let about = About::read(id, page.leak())?;
        Ok(Self(Box::leak(Box::new(about))))
    }

    /// The cause of this id as another process reported it, which has the rules of the site where this
    /// one may not. `None` if the text is no id, or if there are too many.
    pub fn reported(id: &str) -> Option<Cause> {
        if let Ok(known) = id.parse() {
            return Some(known);
        }
        let mut reported = REPORTED.write().unwrap_or_else(|it| it.into_inner());
        let cause = match reported.iter().find(|cause| cause.id() == id) {
            Some(cause) => *cause,
            None if reported.len() < MAX_REPORTED => {
                let cause = Self::new(
                    id,
                    format!("---\nid: {id}\ntitle: a cause of this site\nadvice: []\n---\n\n"),
                );
                let cause = cause.ok()?;
                reported.push(cause);
                cause
            }
            None => return None,
        };
        Some(Cause::Site(cause))
    }

    /// The cause of this id.
    pub(crate) fn named(id: &str) -> Option<Cause> {
        let declared = DECLARED.read().unwrap_or_else(|it| it.into_inner());
        let found = declared.iter().rfind(|cause| cause.id() == id);
        found.map(|cause| Cause::Site(*cause))
    }

    /// Its id.
    pub fn id(self) -> &'static str {
        self.0.id()
    }

    /// What its page declares.
    pub fn about(self) -> &'static About {
        self.0
    }
}

impl PartialEq for SiteCause {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for SiteCause {}

impl PartialOrd for SiteCause {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SiteCause {
    fn cmp(&self, other: &Self) -> Ordering {
        self.id().cmp(other.id())
    }
}

impl Hash for SiteCause {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for SiteCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Only;

    const PAGE: &str = "---\nid: acme-disk\ntitle: the Acme driver hangs\nadvice:\n  - restart it\n  - only: containerd\n    text: update it\n---\n\n\
                        ## What happens\n\nIt hangs.\n";

    #[test]
    fn a_declared_cause_is_a_cause_as_any_other() {
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
