//! Which pods are wanted, which are being ended, and how far each one is.
//!
//! The [source](crate::source) writes what is wanted, the [workers](crate::worker) how far they are;
//! whoever shows it or waits for it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pleg::model::id::{Id, PodRef, PodUid};
use tokio::sync::watch;

use crate::decide::{Report, Termination, Why};
use crate::spec::PodSpec;

/// All pods of a run.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    /// All manifests were looked at once, and so was what an earlier run left.
    pub is_synced: bool,
    /// The files that are not used, as something is wrong with them.
    pub refused: BTreeSet<Arc<str>>,
    /// The pods that are wanted.
    pub wanted: BTreeMap<PodUid, Arc<PodSpec>>,
    /// The pods that are being ended.
    pub ending: BTreeMap<PodUid, Ending>,
    /// How far those are that a worker has looked at.
    pub reports: BTreeMap<PodUid, Report>,
    /// What an earlier run left is in these sandboxes, by pod and container; not all of it is
    /// known if containers could not be listed.
    pub adopted: BTreeMap<PodUid, Vec<(Id, Id)>>,
}

/// A pod that is being ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Which pod.
    pub pod: PodRef,
    /// Why.
    pub why: Why,
    /// How, if its manifest was not read in this run.
    pub termination: Option<Termination>,
}

/// The pods, for those who write.
pub type Writer = Arc<watch::Sender<Pods>>;

impl Pods {
    /// Whether no pod is left.
    pub fn is_empty(&self) -> bool {
        self.is_synced && self.wanted.is_empty() && self.ending.is_empty()
    }

    /// Those that are wanted or being ended.
    pub(crate) fn known(&self) -> BTreeSet<PodUid> {
        let known = self.wanted.keys().chain(self.ending.keys());
        known.cloned().collect()
    }

    /// A pod is wanted; another one of its name is not any more.
    pub(crate) fn want(&mut self, spec: Arc<PodSpec>) {
        let pod = &spec.pod;
        let is_namesake = |other: &PodRef| {
            (&other.namespace, &other.name) == (&pod.namespace, &pod.name) && other.uid != pod.uid
        };
        let old = self.wanted.values().find(|it| is_namesake(&it.pod));
        if let Some(old) = old.cloned() {
            self.end(&old.pod, Why::ManifestChanged, None);
        }
        self.ending.remove(&pod.uid);
        self.wanted.insert(pod.uid.clone(), spec);
    }

    /// A pod is to end.
    pub(crate) fn end(&mut self, pod: &PodRef, why: Why, termination: Option<Termination>) {
        let known = self.wanted.remove(&pod.uid);
        let known = known.map(|spec| Termination::from(&*spec));
        let ending = Ending {
            pod: pod.clone(),
            why,
            termination: known.or(termination),
        };
        self.ending.insert(pod.uid.clone(), ending);
    }

    /// Nothing is left of a pod.
    pub(crate) fn gone(&mut self, uid: &PodUid) {
        self.ending.remove(uid);
        self.reports.remove(uid);
        self.adopted.remove(uid);
    }
}
