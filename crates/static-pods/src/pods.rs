//! Which pods are wanted, which are ending, and the report of each one.
//!
//! The [source](crate::source) writes which pods are wanted, and the [workers](crate::worker) write
//! the reports. Commands and the HTTP API read both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pleg::model::id::{Id, PodRef, PodUid};
use tokio::sync::watch;

use crate::decide::{Report, Termination, Why};
use crate::spec::PodSpec;

/// All pods of a run.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    /// Whether all manifests, and all pods of earlier runs, were read at least once.
    pub is_synced: bool,
    /// The files that are not used because of a problem.
    pub refused: BTreeSet<Arc<str>>,
    /// The pods that are wanted.
    pub wanted: BTreeMap<PodUid, Arc<PodSpec>>,
    /// The pods that are ending.
    pub ending: BTreeMap<PodUid, Ending>,
    /// The last report of each pod that a worker has synced.
    pub reports: BTreeMap<PodUid, Report>,
    /// The containers that an earlier run left, each with its sandbox. Incomplete if containers
    /// could not be listed.
    pub adopted: BTreeMap<PodUid, Vec<(Id, Id)>>,
}

/// A pod that is ending.
#[derive(Clone, Debug)]
pub struct Ending {
    /// The pod.
    pub pod: PodRef,
    /// Why it ends.
    pub why: Why,
    /// How to end it, if its manifest or an earlier run has defined this.
    pub termination: Option<Termination>,
}

/// The handle of the modules that change the pods.
pub type PodsSender = Arc<watch::Sender<Pods>>;

impl Pods {
    /// Whether everything was read, and no pod is wanted or ending.
    pub fn is_empty(&self) -> bool {
        self.is_synced && self.wanted.is_empty() && self.ending.is_empty()
    }

    /// The UIDs of the pods that are wanted or ending.
    pub(crate) fn uids(&self) -> BTreeSet<PodUid> {
        let uids = self.wanted.keys().chain(self.ending.keys());
        uids.cloned().collect()
    }

    /// Notes that a pod is wanted. If another pod with its name was wanted, that one must end.
    pub(crate) fn want(&mut self, spec: Arc<PodSpec>) {
        let pod = &spec.pod;
        let old = self.wanted.values().find(|it| is_namesake(&it.pod, pod));
        if let Some(old) = old.cloned() {
            self.end(&old.pod, Why::ManifestChanged, None);
        }
        self.ending.remove(&pod.uid);
        self.wanted.insert(pod.uid.clone(), spec);
    }

    /// Notes that a pod must end.
    pub(crate) fn end(&mut self, pod: &PodRef, why: Why, termination: Option<Termination>) {
        let wanted = self.wanted.remove(&pod.uid);
        let from_spec = wanted.map(|spec| Termination::from(&*spec));
        let ending = Ending {
            pod: pod.clone(),
            why,
            termination: from_spec.or(termination),
        };
        self.ending.insert(pod.uid.clone(), ending);
    }

    /// Removes a pod that has ended.
    pub(crate) fn forget(&mut self, uid: &PodUid) {
        self.ending.remove(uid);
        self.reports.remove(uid);
        self.adopted.remove(uid);
    }
}

/// Whether these are two different pods with the same namespace and name.
pub(crate) fn is_namesake(one: &PodRef, other: &PodRef) -> bool {
    (&one.namespace, &one.name) == (&other.namespace, &other.name) && one.uid != other.uid
}
