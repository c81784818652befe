//! What is wanted by the files that were seen: pure, without IO and clocks.

use std::collections::BTreeMap;
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pleg::model::id::PodRef;

use super::scan::{Content, Entry, Listed, Listing};
use super::{ALL_GONE_FOR, Change, Subject, Trouble};
use crate::manifest;
use crate::spec::PodSpec;

/// After so many looks, what is wanted counts as complete although files change all the time.
const MAX_LOOKS_BEFORE_SYNCED: u64 = 50;

/// Namespace and name.
type PodName = (Arc<str>, Arc<str>);

/// A pod and its file.
type Wanted = BTreeMap<PodName, (Arc<PodSpec>, Arc<str>)>;

/// What is wrong, with what, and the pod that is wanted nevertheless.
type Troubles = BTreeMap<Subject, (Trouble, Option<PodRef>)>;

/// All that is known of the folder.
#[derive(Debug)]
pub(super) struct State {
    node: String,
    files: BTreeMap<Arc<str>, File>,
    /// What was wrong with the folder at the last look.
    folder: Option<Trouble>,
    /// Device and inode of the folder that was used last.
    identity: Option<(u64, u64)>,
    /// Since when all files that were known are gone.
    gone_since: Option<Instant>,
    /// How many looks there were that did not fail.
    looks: u64,
    /// What was reported as wanted.
    wanted: Wanted,
    /// What was reported as wrong.
    troubles: Troubles,
    is_synced: bool,
}

/// What is known of a file.
#[derive(Debug)]
struct File {
    seen: Seen,
    /// The entry whose content was taken, or that has none.
    taken: Option<Entry>,
    /// Of the last content that was a pod.
    pod: Option<Held>,
    /// What is wrong with the last content.
    trouble: Option<Trouble>,
}

/// What the last looks showed of a file.
#[derive(Debug)]
enum Seen {
    /// This, for the first time.
    Once(Entry),
    /// This, at least twice.
    Twice(Entry),
    /// Nothing, for the first time.
    Missing,
}

/// A pod, and since which look its file has defined one of its name.
#[derive(Debug)]
struct Held {
    spec: Arc<PodSpec>,
    since: u64,
}

impl State {
    pub(super) fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            files: BTreeMap::new(),
            folder: None,
            identity: None,
            gone_since: None,
            looks: 0,
            wanted: Wanted::new(),
            troubles: Troubles::new(),
            is_synced: false,
        }
    }

    /// Learns what a look shows; gives the files to read now.
    pub(super) fn look(&mut self, listing: Listing, now: Instant) -> Vec<Arc<str>> {
        let listed = match listing {
            Ok(listed) => self.confirm(listed, now),
            Err(why) => Err(Trouble::Unreadable(why)),
        };
        let mut listed = match listed {
            Ok(listed) => listed,
            Err(trouble) => {
                self.folder = Some(trouble);
                return Vec::new();
            }
        };
        self.folder = None;
        self.looks += 1;
        self.files.retain(|name, file| {
            let entry = listed.remove(name);
            let is_gone = entry.is_none() && matches!(file.seen, Seen::Missing);
            file.seen = match (entry, &file.seen) {
                (None, _) => Seen::Missing,
                (Some(entry), Seen::Once(before) | Seen::Twice(before)) if *before == entry => {
                    Seen::Twice(entry)
                }
                (Some(entry), _) => Seen::Once(entry),
            };
            !is_gone
        });
        for (name, entry) in listed {
            self.files.insert(name, File::new(entry));
        }
        let mut to_read = Vec::new();
        for (name, file) in &mut self.files {
            if file.is_to_be_read() {
                to_read.push(name.clone());
            }
        }
        to_read
    }

    /// The files, unless all that were known are gone at once: then rather the folder is.
    fn confirm(
        &mut self,
        listed: Listed,
        now: Instant,
    ) -> Result<BTreeMap<Arc<str>, Entry>, Trouble> {
        let Listed { folder, files } = listed;
        let is_another = self.identity.is_some_and(|it| it != folder);
        let are_gone = !self.files.keys().any(|name| files.contains_key(name));
        // One file that goes from the same folder was removed.
        let is_doubtful = are_gone && self.files.len() > usize::from(!is_another);
        if is_doubtful {
            if is_another && files.is_empty() {
                return Err(Trouble::Replaced);
            }
            let since = *self.gone_since.get_or_insert(now);
            if now < since + ALL_GONE_FOR {
                return Err(Trouble::AllGone);
            }
        } else {
            self.gone_since = None;
        }
        self.identity = Some(folder);
        Ok(files)
    }

    /// Learns a file's content.
    pub(super) fn take(&mut self, name: &Arc<str>, content: Content) {
        let Some(file) = self.files.get_mut(name) else {
            return;
        };
        let Seen::Twice(entry) = &file.seen else {
            return;
        };
        let entry = entry.clone();
        let trouble = match content {
            // Written to since: the next look will show it.
            Content::Whole(stamp, _) if entry != Entry::File(stamp) => return,
            Content::Whole(_, content) => match manifest::parse(&content, name, &self.node) {
                Ok(spec) => {
                    file.hold(spec, self.looks);
                    None
                }
                Err(refused) => Some(Trouble::Refused(refused)),
            },
            Content::TooLarge => Some(Trouble::TooLarge),
            Content::Other => Some(Trouble::NotAFile),
            Content::Unreadable(why) => Some(Trouble::Unreadable(why)),
        };
        // What cannot be read is tried again: permissions of a folder above leave no trace here.
        file.taken = match &trouble {
            Some(Trouble::Unreadable(_)) => None,
            _ => Some(entry),
        };
        file.trouble = trouble;
    }

    /// Whether no look is needed soon.
    pub(super) fn is_settled(&self) -> bool {
        let is_settled = |it: &File| matches!(it.seen, Seen::Twice(_));
        self.folder.is_some() || self.files.values().all(is_settled)
    }

    /// What has changed since this was asked last.
    pub(super) fn changes(&mut self, folder: &Path) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.looks >= MAX_LOOKS_BEFORE_SYNCED {
            // What it defines is not known, and may be there.
            let unread = |file: &&mut File| file.taken.is_none() && file.trouble.is_none();
            for file in self.files.values_mut().filter(unread) {
                file.trouble = Some(Trouble::NeverTheSame);
            }
        }
        let (wanted, mut troubles) = self.evaluate();
        if let Some(trouble) = &self.folder {
            let subject = Subject::Folder(folder.to_owned());
            troubles.insert(subject, (trouble.clone(), None));
        }
        let before = mem::replace(&mut self.wanted, wanted);
        for (name, (spec, file)) in &before {
            if !self.wanted.contains_key(name) {
                changes.push(Change::Removed {
                    pod: spec.pod.clone(),
                    file: file.clone(),
                });
            }
        }
        for (name, (spec, file)) in &self.wanted {
            let is_same = |(before, from): &(Arc<PodSpec>, Arc<str>)| {
                before.pod.uid == spec.pod.uid && from == file
            };
            if !before.get(name).is_some_and(is_same) {
                changes.push(Change::Set {
                    spec: spec.clone(),
                    file: file.clone(),
                });
            }
        }
        let before = mem::replace(&mut self.troubles, troubles);
        for subject in before.keys() {
            if !self.troubles.contains_key(subject) {
                let subject = subject.clone();
                changes.push(Change::Solved { subject });
            }
        }
        for (subject, (trouble, kept)) in &self.troubles {
            if before.get(subject).is_none_or(|(it, _)| it != trouble) {
                changes.push(Change::Problem {
                    subject: subject.clone(),
                    trouble: trouble.clone(),
                    kept: kept.clone(),
                });
            }
        }
        let is_complete = self.is_settled() || self.looks >= MAX_LOOKS_BEFORE_SYNCED;
        if !self.is_synced && self.folder.is_none() && is_complete {
            self.is_synced = true;
            changes.push(Change::Synced);
        }
        changes
    }

    /// Who defines which pod, and what is wrong.
    fn evaluate(&self) -> (Wanted, Troubles) {
        let mut first: BTreeMap<PodName, (u64, &Arc<str>, &Held)> = BTreeMap::new();
        for (name, held) in self.held() {
            let candidate = (held.since, name, held);
            let taken = first.entry(held.name()).or_insert(candidate);
            if (held.since, name) < (taken.0, taken.1) {
                *taken = candidate;
            }
        }
        let mut troubles = Troubles::new();
        for (name, file) in &self.files {
            let winner = file.pod.as_ref().and_then(|it| first.get(&it.name()));
            let is_wanted = winner.is_some_and(|it| it.1 == name);
            let pod = file.pod.as_ref().map(|it| it.spec.pod.clone());
            let trouble = match (&file.trouble, winner, &pod) {
                (Some(trouble), _, _) => trouble.clone(),
                (None, Some((_, by, _)), Some(pod)) if !is_wanted => Trouble::Taken {
                    pod: pod.clone(),
                    by: Arc::clone(by),
                },
                _ => continue,
            };
            let kept = pod.filter(|_| is_wanted);
            troubles.insert(Subject::File(name.clone()), (trouble, kept));
        }
        let wanted = first.into_iter();
        let wanted = wanted.map(|(name, (_, file, it))| (name, (it.spec.clone(), file.clone())));
        (wanted.collect(), troubles)
    }

    fn held(&self) -> impl Iterator<Item = (&Arc<str>, &Held)> {
        let files = self.files.iter();
        files.filter_map(|(name, file)| Some((name, file.pod.as_ref()?)))
    }
}

impl File {
    fn new(entry: Entry) -> Self {
        Self {
            seen: Seen::Once(entry),
            taken: None,
            pod: None,
            trouble: None,
        }
    }

    /// Whether its content is to be taken now. What has none is taken as it is.
    fn is_to_be_read(&mut self) -> bool {
        let Seen::Twice(entry) = &self.seen else {
            return false;
        };
        if self.taken.as_ref() == Some(entry) {
            return false;
        }
        self.trouble = match entry {
            Entry::File(_) => return true,
            Entry::Other => Some(Trouble::NotAFile),
            Entry::Unreadable(why) => Some(Trouble::Unreadable(why.clone())),
        };
        self.taken = Some(entry.clone());
        false
    }

    fn hold(&mut self, spec: PodSpec, look: u64) {
        let held = Held {
            spec: Arc::new(spec),
            since: look,
        };
        let since = match &self.pod {
            Some(before) if before.name() == held.name() => before.since,
            _ => look,
        };
        self.pod = Some(Held { since, ..held });
    }
}

impl Held {
    fn name(&self) -> PodName {
        let pod = &self.spec.pod;
        (pod.namespace.clone(), pod.name.clone())
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
