//! What is known of a guard, by its last answers.

use std::io;
use std::path::Path;
use std::sync::Arc;

use guard_api::{Error, Status};
use tokio::time::Instant;

use super::route::Route;
use super::view::View;

/// What is known of a guard.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Liveness {
    /// There is no guard.
    #[default]
    Absent,
    /// The guard answers, last with this view.
    Answers(Arc<View>),
    /// The guard has not responded since this time. The view is what it did before, if it ever
    /// responded.
    Unresponsive(Instant, Option<Arc<View>>),
}

impl Liveness {
    /// What the guard does, while it responds.
    pub(super) fn view(&self) -> Option<&View> {
        match self {
            Self::Answers(view) => Some(view),
            Self::Absent | Self::Unresponsive(..) => None,
        }
    }

    /// How calls reach the runtime now.
    pub(super) fn route(&self) -> Route {
        match self {
            Self::Answers(view) => Route::Guard(view.started),
            Self::Absent | Self::Unresponsive(..) => Route::Runtime,
        }
    }

    pub(super) fn last(&self) -> Option<&Arc<View>> {
        match self {
            Self::Answers(view) => Some(view),
            Self::Unresponsive(_, last) => last.as_ref(),
            Self::Absent => None,
        }
    }

    /// The state after a request that was not answered at `now`.
    fn unresponsive(&self, now: Instant) -> Self {
        match self {
            Self::Unresponsive(..) => self.clone(),
            _ => Self::Unresponsive(now, self.last().cloned()),
        }
    }

    /// The state after `answer`, which arrived at `now`, for an agent that observes this `runtime`.
    pub(super) fn after(
        &self,
        answer: &Result<Status, Error>,
        runtime: &Path,
        now: Instant,
    ) -> Self {
        match answer {
            Ok(status) => match View::of(status.clone(), now) {
                Some(view) if !view.guards(runtime) => Self::Absent,
                Some(view) if self.view().is_none_or(|known| view.is_newer_than(known)) => {
                    Self::Answers(Arc::new(view))
                }
                Some(_) => self.clone(),
                None => self.unresponsive(now),
            },
            Err(Error::NotAGuard(_) | Error::Untrusted { .. }) => Self::Absent,
            Err(Error::Unreachable { error, .. }) => match error.kind() {
                io::ErrorKind::NotFound => Self::Absent,
                // A socket that an earlier guard left behind is not a guard.
                io::ErrorKind::ConnectionRefused if *self == Self::Absent => Self::Absent,
                _ => self.unresponsive(now),
            },
            Err(Error::Silent(_) | Error::Refused { .. } | Error::Broken { .. }) => {
                self.unresponsive(now)
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::PathBuf;

    use super::super::view::Phase;
    use super::*;

    pub(crate) const RUNTIME: &str = "/run/runtime.sock";

    fn status(started: u64, revision: u64) -> Status {
        Status {
            started,
            revision,
            mode: guard_api::Mode::Guard.into(),
            runtime: RUNTIME.to_owned(),
            ..Status::default()
        }
    }

    /// A guard that answers, in this phase.
    pub(crate) fn in_phase(phase: Phase) -> Liveness {
        let view = View::of(status(1, 1), Instant::now()).unwrap();
        Liveness::Answers(Arc::new(View { phase, ..view }))
    }

    fn unreachable(kind: io::ErrorKind) -> Result<Status, Error> {
        Err(Error::Unreachable {
            socket: "/run/guard.sock".into(),
            error: kind.into(),
        })
    }

    fn after(liveness: &Liveness, answer: &Result<Status, Error>) -> Liveness {
        liveness.after(answer, Path::new(RUNTIME), Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_answer_of_the_same_guard_does_not_replace_a_later_one() {
        let later = after(&Liveness::Absent, &Ok(status(1, 6)));
        assert_eq!(later.view().unwrap().revision, 6);
        assert_eq!(after(&later, &Ok(status(1, 5))).view().unwrap().revision, 6);
        let another = after(&later, &Ok(status(2, 1)));
        assert_eq!(another.view().unwrap().revision, 1, "it started anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_guard_that_responded_before_and_does_not_now_is_reported_as_unresponsive() {
        let answers = after(&Liveness::Absent, &Ok(status(1, 1)));
        let overdue = Err(Error::Silent("/run/guard.sock".into()));
        for liveness in [&Liveness::Absent, &answers] {
            assert!(matches!(
                after(liveness, &overdue),
                Liveness::Unresponsive(..)
            ));
            let gone = after(liveness, &unreachable(io::ErrorKind::NotFound));
            assert_eq!(gone, Liveness::Absent, "it was removed");
        }
        let refused = unreachable(io::ErrorKind::ConnectionRefused);
        let killed = after(&answers, &refused);
        assert!(matches!(killed, Liveness::Unresponsive(_, Some(_))));
        assert_eq!(
            after(&Liveness::Absent, &refused),
            Liveness::Absent,
            "a stale file"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_guard_of_another_runtime_counts_as_none() {
        let other = Status {
            runtime: "/run/other.sock".to_owned(),
            ..status(1, 1)
        };
        assert_eq!(after(&Liveness::Absent, &Ok(other)), Liveness::Absent);
    }

    #[tokio::test]
    async fn a_runtime_whose_socket_is_named_by_another_path_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (run, var_run) = (folder.path().join("run"), folder.path().join("var-run"));
        std::fs::create_dir(&run).unwrap();
        std::os::unix::fs::symlink(&run, &var_run).unwrap();
        let _runtime = std::os::unix::net::UnixListener::bind(run.join("r.sock")).unwrap();
        let of = |runtime: PathBuf| Status {
            runtime: runtime.display().to_string(),
            ..status(1, 1)
        };
        for (path, is_same) in [(var_run.join("r.sock"), true), (run.join("s.sock"), false)] {
            let answer = Ok(of(path));
            let liveness = Liveness::Absent.after(&answer, &run.join("r.sock"), Instant::now());
            assert_eq!(liveness != Liveness::Absent, is_same);
        }
    }
}
