//! Whether all pods that can finish have finished, for `--once`.
//!
//! A pod that is always restarted cannot finish. For the other pods, this module reports how they
//! finished, or why that will never be known.

use std::collections::BTreeMap;

use pleg::model::id::{PodRef, PodUid};

use crate::decide::Phase;
use crate::pods::Pods;
use crate::spec::RestartPolicy;

/// How the pods have finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// All succeeded.
    Succeeded,
    /// At least one failed.
    Failed,
}

/// Why it will never be known how all pods finish.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotComplete {
    /// A manifest was refused.
    #[error("{0} was refused, so not all pods can be run")]
    Refused(std::sync::Arc<str>),
    /// No pod can finish.
    #[error("no pod can finish: the restartPolicy of each is Always")]
    NoneCan,
    /// A pod was ended before it had finished.
    #[error("the manifest of pod {0} was changed or removed before the pod had finished")]
    Ended(PodRef),
}

/// The pods that can finish, each with its result, once it has finished.
#[derive(Debug, Default)]
pub struct Completion(BTreeMap<PodUid, (PodRef, Option<Completed>)>);

impl Completion {
    /// Applies the current state of the pods. Returns how they finished, once all of them have.
    pub fn update(&mut self, pods: &Pods) -> Result<Option<Completed>, CannotComplete> {
        if !pods.is_synced {
            return Ok(None);
        }
        if let Some(file) = pods.refused.first() {
            return Err(CannotComplete::Refused(file.clone()));
        }
        for (uid, spec) in &pods.wanted {
            if spec.restart_policy != RestartPolicy::Always {
                let unfinished = || (spec.pod.clone(), None);
                self.0.entry(uid.clone()).or_insert_with(unfinished);
            }
        }
        if self.0.is_empty() {
            return Err(CannotComplete::NoneCan);
        }
        for (uid, (pod, finished)) in &mut self.0 {
            let is_wanted = pods.wanted.contains_key(uid);
            let report = pods.reports.get(uid).filter(|_| is_wanted);
            match report.map(|report| report.phase) {
                Some(Phase::Succeeded) => *finished = Some(Completed::Succeeded),
                Some(Phase::Failed) => *finished = Some(Completed::Failed),
                _ if finished.is_none() && !is_wanted => {
                    return Err(CannotComplete::Ended(pod.clone()));
                }
                _ => {}
            }
        }
        let all: Option<Vec<_>> = self.0.values().map(|(_, finished)| *finished).collect();
        Ok(all.map(|all| match all.contains(&Completed::Failed) {
            true => Completed::Failed,
            false => Completed::Succeeded,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::decide::Report;
    use crate::spec::PodSpec;
    use crate::testing::pod_of as pod;

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

    fn set_phase(pods: &mut Pods, name: &str, phase: Phase) {
        let report = Report {
            phase,
            ..Report::pending()
        };
        pods.reports.insert(name.into(), report);
    }

    #[test]
    fn all_pods_that_can_finish_must_finish_and_one_failure_fails_all() {
        let job = spec("job", RestartPolicy::Never);
        let other = spec("other", RestartPolicy::OnFailure);
        let server = spec("server", RestartPolicy::Always);
        let mut pods = wanted(&[job.clone(), server.clone()]);
        let mut completion = Completion::default();
        assert_eq!(completion.update(&Pods::default()), Ok(None));
        assert_eq!(completion.update(&pods), Ok(None));
        set_phase(&mut pods, "job", Phase::Failed);
        // A pod that is added later must finish, too.
        pods.wanted.insert(other.pod.uid.clone(), other);
        assert_eq!(completion.update(&pods), Ok(None));
        // A pod that has finished may be removed.
        pods.wanted.remove(&job.pod.uid);
        pods.reports.remove(&job.pod.uid);
        assert_eq!(completion.update(&pods), Ok(None));
        set_phase(&mut pods, "other", Phase::Succeeded);
        assert_eq!(completion.update(&pods), Ok(Some(Completed::Failed)));
    }

    #[test]
    fn a_pod_that_is_removed_or_refused_before_it_has_finished_is_an_error() {
        let job = spec("job", RestartPolicy::Never);
        let mut pods = wanted(std::slice::from_ref(&job));
        let mut completion = Completion::default();
        assert_eq!(completion.update(&pods), Ok(None));
        pods.wanted.clear();
        assert_eq!(
            completion.update(&pods),
            Err(CannotComplete::Ended(job.pod.clone()))
        );
        let mut pods = wanted(std::slice::from_ref(&job));
        pods.refused.insert("job.yaml".into());
        let refused = Err(CannotComplete::Refused("job.yaml".into()));
        assert_eq!(completion.update(&pods), refused);
        let server = wanted(&[spec("server", RestartPolicy::Always)]);
        assert_eq!(
            Completion::default().update(&server),
            Err(CannotComplete::NoneCan)
        );
    }
}
