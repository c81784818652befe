//! Whether all pods that can finish have, however manifests change meanwhile.
//!
//! A pod that is always restarted cannot finish. Whoever waits for the others is told how they ended,
//! or why that will never be known.

use std::collections::BTreeMap;

use pleg::model::id::{PodRef, PodUid};

use crate::decide::Phase;
use crate::pods::Pods;
use crate::spec::RestartPolicy;

/// How all pods that can finish have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// All succeeded.
    Succeeded,
    /// At least one failed.
    Failed,
}

/// Why it will not be known how all pods ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfinished {
    /// A manifest is not used.
    #[error("{0} was refused, so not all pods can be run")]
    Refused(std::sync::Arc<str>),
    /// There is none that can.
    #[error("no pod can finish: the restartPolicy of each is Always")]
    NoneCan,
    /// A pod is ended before it has finished.
    #[error("the manifest of pod {0} was changed or removed before the pod had finished")]
    Ended(PodRef),
}

/// The pods that are waited for, and how those ended that have.
#[derive(Debug, Default)]
pub struct Once(BTreeMap<PodUid, (PodRef, Option<Finished>)>);

impl Once {
    /// Looks at how far the pods are; gives how all of them have finished, once they have.
    pub fn look(&mut self, pods: &Pods) -> Result<Option<Finished>, Unfinished> {
        if !pods.is_synced {
            return Ok(None);
        }
        if let Some(file) = pods.refused.first() {
            return Err(Unfinished::Refused(file.clone()));
        }
        for (uid, spec) in &pods.wanted {
            if spec.restart_policy != RestartPolicy::Always {
                let of_pod = || (spec.pod.clone(), None);
                self.0.entry(uid.clone()).or_insert_with(of_pod);
            }
        }
        if self.0.is_empty() {
            return Err(Unfinished::NoneCan);
        }
        for (uid, (pod, finished)) in &mut self.0 {
            let report = pods
                .reports
                .get(uid)
                .filter(|_| pods.wanted.contains_key(uid));
            match report.map(|report| report.phase) {
                Some(Phase::Succeeded) => *finished = Some(Finished::Succeeded),
                Some(Phase::Failed) => *finished = Some(Finished::Failed),
                _ if finished.is_none() && !pods.wanted.contains_key(uid) => {
                    return Err(Unfinished::Ended(pod.clone()));
                }
                _ => {}
            }
        }
        let mut all = self.0.values().map(|(_, finished)| *finished);
        if all.clone().any(|finished| finished.is_none()) {
            return Ok(None);
        }
        let has_failed = all.any(|finished| finished == Some(Finished::Failed));
        Ok(Some(match has_failed {
            true => Finished::Failed,
            false => Finished::Succeeded,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::decide::Report;
    use crate::spec::PodSpec;
    use crate::spec::sample::pod;

    fn spec(name: &str, policy: RestartPolicy) -> Arc<PodSpec> {
        let spec = pod(policy, &["app"]);
        let pod = PodRef {
            uid: name.into(),
            name: name.into(),
            ..spec.pod.clone()
        };
        Arc::new(PodSpec { pod, ..spec })
    }

    fn wanted(specs: &[Arc<PodSpec>]) -> Pods {
        let wanted = specs
            .iter()
            .map(|spec| (spec.pod.uid.clone(), spec.clone()));
        Pods {
            is_synced: true,
            wanted: wanted.collect(),
            ..Pods::default()
        }
    }

    fn reach(pods: &mut Pods, name: &str, phase: Phase) {
        let report = Report {
            phase,
            ..Report::pending()
        };
        pods.reports.insert(name.into(), report);
    }

    #[test]
    fn all_that_can_finish_are_waited_for_and_one_that_failed_is_remembered() {
        let job = spec("job", RestartPolicy::Never);
        let other = spec("other", RestartPolicy::OnFailure);
        let server = spec("server", RestartPolicy::Always);
        let mut pods = wanted(&[job.clone(), server.clone()]);
        let mut once = Once::default();
        assert_eq!(once.look(&Pods::default()), Ok(None));
        assert_eq!(once.look(&pods), Ok(None));
        reach(&mut pods, "job", Phase::Failed);
        // One that comes meanwhile is waited for, too.
        pods.wanted.insert(other.pod.uid.clone(), other);
        assert_eq!(once.look(&pods), Ok(None));
        // What has finished may go.
        pods.wanted.remove(&job.pod.uid);
        pods.reports.remove(&job.pod.uid);
        assert_eq!(once.look(&pods), Ok(None));
        reach(&mut pods, "other", Phase::Succeeded);
        assert_eq!(once.look(&pods), Ok(Some(Finished::Failed)));
    }

    #[test]
    fn a_pod_that_is_ended_or_refused_before_it_has_finished_is_no_success() {
        let job = spec("job", RestartPolicy::Never);
        let mut pods = wanted(std::slice::from_ref(&job));
        let mut once = Once::default();
        assert_eq!(once.look(&pods), Ok(None));
        pods.wanted.clear();
        assert_eq!(once.look(&pods), Err(Unfinished::Ended(job.pod.clone())));
        let mut pods = wanted(std::slice::from_ref(&job));
        pods.refused.insert("job.yaml".into());
        let refused = Err(Unfinished::Refused("job.yaml".into()));
        assert_eq!(once.look(&pods), refused);
        let server = wanted(&[spec("server", RestartPolicy::Always)]);
        assert_eq!(Once::default().look(&server), Err(Unfinished::NoneCan));
    }
}
