//! Which pods the files define. Pure: the results of scans and the time are arguments.

use std::collections::BTreeMap;
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pleg::model::id::PodRef;

use super::scan::{Content, Entry, Listed, Listing};
use super::{ALL_MISSING_FOR, Change, ProblemKind, Subject};
use crate::manifest;
use crate::spec::PodSpec;

/// The number of scans after which the wanted pods count as complete even if files keep changing.
const MAX_SCANS_BEFORE_SYNCED: u64 = 50;

/// A pod's namespace and name.
type PodName = (Arc<str>, Arc<str>);

/// The wanted pods, each with its file.
type Wanted = BTreeMap<PodName, (Arc<PodSpec>, Arc<str>)>;

/// The problem of each subject, and the pod that is kept in spite of it.
type Problems = BTreeMap<Subject, (ProblemKind, Option<PodRef>)>;

/// The state of the folder as of the last scan.
#[derive(Debug)]
pub(super) struct State {
    node: String,
    files: BTreeMap<Arc<str>, File>,
    /// The problem of the folder itself in the last scan.
    folder: Option<ProblemKind>,
    /// Device and inode of the folder that was used last.
    identity: Option<(u64, u64)>,
    /// When all known files were first missing, if they still are.
    missing_since: Option<Instant>,
    /// The number of scans that succeeded.
    scans: u64,
    /// The wanted pods that were reported.
    wanted: Wanted,
    /// The problems that were reported.
    problems: Problems,
    is_synced: bool,
}

/// A file of the folder.
#[derive(Debug)]
struct File {
    observed: Observed,
    /// The entry whose content was processed.
    processed: Option<Entry>,
    /// The pod of the last content that was not refused.
    pod: Option<DefinedPod>,
    /// The problem of the last content.
    problem: Option<ProblemKind>,
}

/// What the last scans showed of a file.
#[derive(Debug)]
enum Observed {
    /// The last scan showed this entry, and the one before it another entry or none.
    New(Entry),
    /// At least the last two scans showed this entry.
    Stable(Entry),
    /// The last scan showed no entry.
    Missing,
}

/// A pod that a file defines. `since` is the number of the scan since which the file has defined a pod
/// with this name.
#[derive(Debug)]
struct DefinedPod {
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
            missing_since: None,
            scans: 0,
            wanted: Wanted::new(),
            problems: Problems::new(),
            is_synced: false,
        }
    }

    /// Applies a scan, and returns the files to read now.
    pub(super) fn scanned(&mut self, listing: Listing, now: Instant) -> Vec<Arc<str>> {
        let listed = listing.map_err(ProblemKind::Unreadable);
        let mut listed = match listed.and_then(|listed| self.confirm(listed, now)) {
            Ok(listed) => listed,
            Err(problem) => {
                self.folder = Some(problem);
                return Vec::new();
            }
        };
        self.folder = None;
        self.scans += 1;
        self.files.retain(|name, file| {
            let entry = listed.remove(name);
            let is_missing = entry.is_none() && matches!(file.observed, Observed::Missing);
            file.observed = match (entry, &file.observed) {
                (None, _) => Observed::Missing,
                (Some(entry), Observed::New(before) | Observed::Stable(before))
                    if *before == entry =>
                {
                    Observed::Stable(entry)
                }
                (Some(entry), _) => Observed::New(entry),
            };
            !is_missing
        });
        for (name, entry) in listed {
            self.files.insert(name, File::new(entry));
        }
        let files = self.files.iter_mut();
        let to_read = files.filter_map(|(name, file)| file.needs_read().then(|| name.clone()));
        to_read.collect()
    }

    /// The files, or the problem of the folder if all known files are missing at once.
    fn confirm(
        &mut self,
        listed: Listed,
        now: Instant,
    ) -> Result<BTreeMap<Arc<str>, Entry>, ProblemKind> {
        let Listed { folder, files } = listed;
        let is_another = self.identity.is_some_and(|it| it != folder);
        let are_gone = !self.files.keys().any(|name| files.contains_key(name));
        // A single file that is missing from the same folder counts as removed.
        let is_doubtful = are_gone && self.files.len() > usize::from(!is_another);
        if is_doubtful {
            if is_another && files.is_empty() {
                return Err(ProblemKind::Replaced);
            }
            let since = *self.missing_since.get_or_insert(now);
            if now < since + ALL_MISSING_FOR {
                return Err(ProblemKind::AllMissing);
            }
        } else {
            self.missing_since = None;
        }
        self.identity = Some(folder);
        Ok(files)
    }

    /// Applies the content of a file.
    pub(super) fn read(&mut self, name: &Arc<str>, content: Content) {
        let Some(file) = self.files.get_mut(name) else {
            return;
        };
        let Observed::Stable(entry) = &file.observed else {
            return;
        };
        let entry = entry.clone();
        let problem = match content {
            // The file has changed since the scan, and the next scan shows that.
            Ok((stamp, _)) if entry != Ok(stamp) => return,
            Ok((_, content)) => match manifest::parse(&content, name, &self.node) {
                Ok(spec) => {
                    file.define(spec, self.scans);
                    None
                }
                Err(refused) => Some(ProblemKind::Refused(refused)),
            },
            Err(problem) => Some(problem),
        };
        // A file that cannot be read is read again, because new permissions of a parent folder do
        // not change its stamp.
        file.processed = match &problem {
            Some(ProblemKind::Unreadable(_)) => None,
            _ => Some(entry),
        };
        file.problem = problem;
    }

    /// Whether there is no change that another scan must confirm.
    pub(super) fn is_settled(&self) -> bool {
        let is_settled = |it: &File| matches!(it.observed, Observed::Stable(_));
        self.folder.is_some() || self.files.values().all(is_settled)
    }

    /// The changes since the last call.
    pub(super) fn changes(&mut self, folder: &Path) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.scans >= MAX_SCANS_BEFORE_SYNCED {
            // Such a file may define a pod that an earlier run left. The problem keeps that pod.
            let unread = |file: &&mut File| file.processed.is_none() && file.problem.is_none();
            for file in self.files.values_mut().filter(unread) {
                file.problem = Some(ProblemKind::KeepsChanging);
            }
        }
        let (wanted, mut problems) = self.evaluate();
        if let Some(problem) = &self.folder {
            let subject = Subject::Folder(folder.to_owned());
            problems.insert(subject, (problem.clone(), None));
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
        let before = mem::replace(&mut self.problems, problems);
        for subject in before.keys() {
            if !self.problems.contains_key(subject) {
                let subject = subject.clone();
                changes.push(Change::Solved { subject });
            }
        }
        for (subject, (problem, kept)) in &self.problems {
            if before.get(subject).is_none_or(|(it, _)| it != problem) {
                changes.push(Change::Problem {
                    subject: subject.clone(),
                    problem: problem.clone(),
                    kept: kept.clone(),
                });
            }
        }
        let is_complete = self.is_settled() || self.scans >= MAX_SCANS_BEFORE_SYNCED;
        if !self.is_synced && self.folder.is_none() && is_complete {
            self.is_synced = true;
            changes.push(Change::Synced);
        }
        changes
    }

    /// Returns which file defines each pod, and the problems.
    fn evaluate(&self) -> (Wanted, Problems) {
        let mut first: BTreeMap<PodName, (&Arc<str>, &DefinedPod)> = BTreeMap::new();
        for (name, file) in &self.files {
            if let Some(pod) = &file.pod {
                let taken = first.entry(pod.name()).or_insert((name, pod));
                if (pod.since, name) < (taken.1.since, taken.0) {
                    *taken = (name, pod);
                }
            }
        }
        let mut problems = Problems::new();
        for (name, file) in &self.files {
            let winner = file.pod.as_ref().and_then(|it| first.get(&it.name()));
            let is_wanted = winner.is_some_and(|(file, _)| *file == name);
            let pod = file.pod.as_ref().map(|it| it.spec.pod.clone());
            let problem = match (&file.problem, winner, &pod) {
                (Some(problem), _, _) => problem.clone(),
                (None, Some((by, _)), Some(pod)) if !is_wanted => ProblemKind::Taken {
                    pod: pod.clone(),
                    by: Arc::clone(by),
                },
                _ => continue,
            };
            let kept = pod.filter(|_| is_wanted);
            problems.insert(Subject::File(name.clone()), (problem, kept));
        }
        let wanted = first.into_iter();
        let wanted = wanted.map(|(name, (file, pod))| (name, (pod.spec.clone(), file.clone())));
        (wanted.collect(), problems)
    }
}

impl File {
    fn new(entry: Entry) -> Self {
        Self {
            observed: Observed::New(entry),
            processed: None,
            pod: None,
            problem: None,
        }
    }

    /// Whether the content must be read now. If the entry says why it cannot be, this notes the
    /// problem.
    fn needs_read(&mut self) -> bool {
        let Observed::Stable(entry) = &self.observed else {
            return false;
        };
        if self.processed.as_ref() == Some(entry) {
            return false;
        }
        let Err(problem) = entry else {
            return true;
        };
        self.problem = Some(problem.clone());
        self.processed = Some(entry.clone());
        false
    }

    fn define(&mut self, spec: PodSpec, scan: u64) {
        let mut pod = DefinedPod {
            spec: Arc::new(spec),
            since: scan,
        };
        let before = self.pod.as_ref().filter(|it| it.name() == pod.name());
        pod.since = before.map_or(scan, |before| before.since);
        self.pod = Some(pod);
    }
}

impl DefinedPod {
    fn name(&self) -> PodName {
        let pod = &self.spec.pod;
        (pod.namespace.clone(), pod.name.clone())
    }
}

#[cfg(test)]
mod tests;
