//! The guard in front of the runtime, which is another process: what it does, and the way through it.
//!
//! ```text
//!   report: what the guard does now ------\
//!   follow: at once when that changes -----+--Client--> /run/pleg/cri.sock: the guard
//!   connect: may the runtime be reached? --/                |
//!                          \--calls, as an observer---------+--> runtime
//!                           \--while the guard does not respond--^
//! ```
//!
//! Each request to the guard has a deadline. A guard that does not respond is reported, and no report
//! waits for it until it responds again.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cri::{Connect, Connection, Endpoint};
use guard_api::{Client, Error, Status, StatusRequest};
use pleg::model::wall_time::Moment;
use pleg::out::health::{HealthReport, Reason};
use pleg::out::status_report::{GuardStatus, StatusReport};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use show::reason_alone;
use view::View;

mod show;
mod through;
mod view;

pub(crate) use through::Through;

/// How long a report waits for the guard, which answers from memory.
const REPORTED_WITHIN: Duration = Duration::from_millis(500);

/// How long a connection waits for the guard, which may have to connect first.
const REACHED_WITHIN: Duration = Duration::from_secs(1);

/// A guard withholds an answer for five seconds while nothing changes.
const CHANGED_WITHIN: Duration = Duration::from_secs(8);

/// The pauses between two requests: to a guard that answers, to one that does not, and to none.
const ANSWERED: Duration = Duration::from_millis(100);
const AGAIN: Duration = Duration::from_secs(1);
const ABSENT: Duration = Duration::from_secs(2);

/// A guard that was killed is started again within this time; one that is paused goes on.
const BACK_WITHIN: Duration = Duration::from_secs(2);

/// The guard in front of one runtime, if there is one. Clones share their state.
#[derive(Clone, Debug)]
pub struct Guard {
    client: Client,
    runtime: Arc<Path>,
    seen: watch::Sender<Seen>,
}

/// What is known of a guard.
#[derive(Clone, Debug, Default, PartialEq)]
enum Seen {
    /// There is none.
    #[default]
    Absent,
    /// It answers.
    Answers(Arc<View>),
    /// It does not respond, since then; and what it did before, if it ever responded.
    Unresponsive(Instant, Option<Arc<View>>),
}

impl Seen {
    /// What the guard does, while it responds.
    fn view(&self) -> Option<&View> {
        match self {
            Self::Answers(view) => Some(view),
            Self::Absent | Self::Unresponsive(..) => None,
        }
    }

    /// How calls reach the runtime now.
    fn way(&self) -> Way {
        match self {
            Self::Answers(view) => Way::Guard(view.started),
            Self::Absent | Self::Unresponsive(..) => Way::Runtime,
        }
    }

    fn last(&self) -> Option<&Arc<View>> {
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
    fn after(&self, answer: &Result<Status, Error>, runtime: &Path, now: Instant) -> Self {
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
                // What an earlier guard left there is none.
                io::ErrorKind::ConnectionRefused if *self == Self::Absent => Self::Absent,
                _ => self.unresponsive(now),
            },
            Err(Error::Silent(_) | Error::Refused { .. } | Error::Broken { .. }) => {
                self.unresponsive(now)
            }
        }
    }
}

impl Guard {
    /// The guard that listens on `socket` in front of the runtime on `runtime`.
    pub fn new(socket: impl Into<PathBuf>, runtime: &Endpoint) -> Self {
        Self {
            client: Client::new(socket),
            runtime: runtime.path().into(),
            seen: watch::Sender::default(),
        }
    }

    /// Asks the guard, and keeps its answer or its error.
    async fn ask(&self, request: StatusRequest, within: Duration) -> Result<Status, Error> {
        let answer = self.client.status(request, within).await;
        let now = Instant::now();
        self.seen.send_if_modified(|seen| {
            let after = seen.after(&answer, &self.runtime, now);
            match (&*seen, &after) {
                (Seen::Unresponsive(..), Seen::Unresponsive(..)) => {}
                (_, Seen::Unresponsive(..)) => {
                    tracing::warn!("the guard does not respond: {}", reason(&answer));
                }
                (Seen::Unresponsive(..), Seen::Answers(_)) => {
                    tracing::info!("the guard responds again");
                }
                _ => {}
            }
            let differs = *seen != after;
            *seen = after;
            differs
        });
        answer
    }

    /// Asks what the guard does now, unless it did not respond the last time: then
    /// [`follow`](Self::follow) finds out when it does again.
    async fn look(&self) -> Seen {
        if !matches!(*self.seen.borrow(), Seen::Unresponsive(..)) {
            let _remembered = self.ask(StatusRequest::default(), REPORTED_WITHIN).await;
        }
        self.seen.borrow().clone()
    }

    /// Whether there is a guard.
    pub(crate) async fn is_there(&self) -> bool {
        self.look().await != Seen::Absent
    }

    /// Asks the guard until this future is dropped, so that each change is known at once.
    pub(crate) async fn follow(&self) -> Infallible {
        loop {
            let seen = self.seen.borrow().view().map(|view| view.revision);
            let request = StatusRequest {
                seen: seen.unwrap_or_default(),
                reach: false,
            };
            let within = match seen {
                Some(_) => CHANGED_WITHIN,
                None => REACHED_WITHIN,
            };
            let _remembered = self.ask(request, within).await;
            let pause = match *self.seen.borrow() {
                Seen::Answers(_) => ANSWERED,
                Seen::Unresponsive(..) => AGAIN,
                Seen::Absent => ABSENT,
            };
            sleep(pause).await;
        }
    }

    /// What the guard does now.
    pub(crate) async fn report(&self) -> Shown {
        Shown(self.look().await)
    }

    /// Puts what the guard does into a change of our health.
    pub(crate) fn show_change(&self, health: &mut HealthReport) {
        if let Some(view) = self.seen.borrow().view() {
            view.show_change(health);
        }
    }

    /// The changes of the reason for which the guard makes the node Degraded.
    pub(crate) fn turns(&self) -> Turns {
        let mut seen = self.seen.subscribe();
        let reason = reason_of(&seen.borrow_and_update());
        Turns { seen, reason }
    }

    /// How calls reach the runtime, as far as this is known.
    fn way(&self) -> Way {
        self.seen.borrow().way()
    }

    /// Whether calls reach the runtime on another way now: the guard was replaced, does not respond, or
    /// responds again.
    async fn has_changed_since(&self, way: Way) -> bool {
        self.look().await.way() != way
    }

    /// Connections to the runtime: through the guard, which shares calls with a kubelet's; without one,
    /// and while it does not respond, to the runtime itself.
    pub(crate) fn connect(&self) -> Connect {
        let guard = self.clone();
        Arc::new(move || {
            let guard = guard.clone();
            Box::pin(async move {
                let way = guard.reach().await?;
                let (socket, is_through) = match way {
                    Way::Guard(_) => (guard.client.socket().to_owned(), true),
                    Way::Runtime => (guard.runtime.to_path_buf(), false),
                };
                let connection = Connection::open(socket).await?;
                Ok(connection.until(guard.changes_way(is_through)))
            })
        })
    }

    /// Which way leads to the runtime now; an error if the guard cannot reach it.
    async fn reach(&self) -> io::Result<Way> {
        let request = StatusRequest {
            seen: 0,
            reach: true,
        };
        let began = Instant::now();
        loop {
            let answer = self.ask(request.clone(), REACHED_WITHIN).await;
            let seen = self.seen.borrow().clone();
            match (answer, seen) {
                (Ok(status), Seen::Answers(_)) => {
                    return match status.unreachable {
                        None => Ok(Way::Guard(status.started)),
                        Some(why) if why.errno != 0 => Err(io::Error::from_raw_os_error(why.errno)),
                        Some(why) => Err(io::Error::other(why.message)),
                    };
                }
                (Err(Error::Unreachable { .. }), Seen::Unresponsive(..))
                    if began.elapsed() < BACK_WITHIN =>
                {
                    sleep(ANSWERED).await;
                }
                _ => return Ok(Way::Runtime),
            }
        }
    }

    /// Ends with the reason for which another way is right now.
    fn changes_way(&self, is_through: bool) -> impl Future<Output = io::Error> + Send + use<> {
        let mut seen = self.seen.subscribe();
        async move {
            let ended = |_| io::Error::other("this process ends");
            loop {
                let is_other = |seen: &Seen| match is_through {
                    true => matches!(seen, Seen::Unresponsive(..)),
                    false => matches!(seen, Seen::Answers(_)),
                };
                if let Err(error) = seen.wait_for(is_other).await.map(drop).map_err(ended) {
                    return error;
                }
                if is_through {
                    sleep(BACK_WITHIN).await;
                    if !is_other(&seen.borrow_and_update()) {
                        continue;
                    }
                }
                let why = match is_through {
                    true => "the guard does not respond",
                    false => "there is a guard now",
                };
                return io::Error::new(io::ErrorKind::ConnectionReset, why);
            }
        }
    }
}

/// How calls reach the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Through the guard that started at this time, in nanoseconds since 1970.
    Guard(u64),
    /// On the runtime's own socket.
    Runtime,
}

/// What a guard does, for a report.
pub(crate) struct Shown(Seen);

impl Shown {
    /// Puts it into the report.
    pub(crate) fn show(&self, report: &mut StatusReport, now: Moment) {
        match &self.0 {
            Seen::Absent => {}
            Seen::Answers(view) => view.show(report, now),
            Seen::Unresponsive(since, last) => {
                if let Some(last) = last {
                    last.show_unresponsive(report, *since, now);
                }
                let known = std::mem::take(&mut report.guard);
                report.guard = GuardStatus {
                    unresponsive: true,
                    ..known
                };
            }
        }
    }

    /// What the guard added to the calls that it passed, if there is one.
    pub(crate) fn added(&self) -> Option<&guard_api::Added> {
        self.0.last().map(|view| &view.added)
    }
}

/// The changes of the reason for which a guard makes the node Degraded.
#[derive(Debug)]
pub(crate) struct Turns {
    seen: watch::Receiver<Seen>,
    reason: Option<Reason>,
}

impl Turns {
    /// Ends when the reason differs from the last one.
    pub(crate) async fn next(&mut self) {
        let last = self.reason;
        let turned = self.seen.wait_for(|seen| reason_of(seen) != last);
        match turned.await.map(|seen| reason_of(&seen)) {
            Ok(reason) => self.reason = reason,
            Err(_) => pending().await,
        }
    }
}

fn reason_of(seen: &Seen) -> Option<Reason> {
    seen.view().and_then(reason_alone)
}

/// Why there was no answer, in words.
fn reason(answer: &Result<Status, Error>) -> String {
    match answer {
        Ok(_) => "its answer is not known here".to_owned(),
        Err(error) => {
            let source = std::error::Error::source(error);
            let source = source.map(|why| format!(": {why}"));
            format!("{error}{}", source.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::view::Phase;
    use super::*;

    const RUNTIME: &str = "/run/runtime.sock";

    fn guard() -> Guard {
        Guard::new("/run/guard.sock", &Endpoint::new(RUNTIME))
    }

    fn status(started: u64, revision: u64) -> Status {
        Status {
            started,
            revision,
            mode: guard_api::Mode::Guard.into(),
            runtime: RUNTIME.to_owned(),
            ..Status::default()
        }
    }

    fn in_phase(phase: Phase) -> Seen {
        let view = View::of(status(1, 1), Instant::now()).unwrap();
        Seen::Answers(Arc::new(View { phase, ..view }))
    }

    fn unreachable(kind: io::ErrorKind) -> Result<Status, Error> {
        Err(Error::Unreachable {
            socket: "/run/guard.sock".into(),
            error: kind.into(),
        })
    }

    fn after(seen: &Seen, answer: &Result<Status, Error>) -> Seen {
        seen.after(answer, Path::new(RUNTIME), Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn that_a_list_becomes_overdue_at_the_guard_is_a_change_and_so_is_its_end() {
        let since = Instant::now();
        let guard = guard();
        let mut turns = guard.turns();
        for (phase, is_change) in [
            (Phase::Waiting { since }, true),
            (Phase::Refusing { since }, false),
            (Phase::Guarding { since }, true),
            (Phase::Passing, true),
        ] {
            guard.seen.send_replace(in_phase(phase));
            let turned = tokio::time::timeout(Duration::from_secs(1), turns.next()).await;
            assert_eq!(turned.is_ok(), is_change, "{phase:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_answer_of_the_same_guard_does_not_replace_a_later_one() {
        let later = after(&Seen::Absent, &Ok(status(1, 6)));
        assert_eq!(later.view().unwrap().revision, 6);
        assert_eq!(after(&later, &Ok(status(1, 5))).view().unwrap().revision, 6);
        let another = after(&later, &Ok(status(2, 1)));
        assert_eq!(another.view().unwrap().revision, 1, "it started anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_guard_that_was_there_and_does_not_respond_is_reported_as_such() {
        let answers = after(&Seen::Absent, &Ok(status(1, 1)));
        let overdue = Err(Error::Silent("/run/guard.sock".into()));
        for seen in [&Seen::Absent, &answers] {
            assert!(matches!(after(seen, &overdue), Seen::Unresponsive(..)));
            let gone = after(seen, &unreachable(io::ErrorKind::NotFound));
            assert_eq!(gone, Seen::Absent, "it was removed");
        }
        let refused = unreachable(io::ErrorKind::ConnectionRefused);
        let killed = after(&answers, &refused);
        assert!(matches!(killed, Seen::Unresponsive(_, Some(_))));
        assert_eq!(after(&Seen::Absent, &refused), Seen::Absent, "a stale file");
    }

    #[tokio::test(start_paused = true)]
    async fn the_guard_of_another_runtime_is_none() {
        let other = Status {
            runtime: "/run/other.sock".to_owned(),
            ..status(1, 1)
        };
        assert_eq!(after(&Seen::Absent, &Ok(other)), Seen::Absent);
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
            let seen = Seen::Absent.after(&answer, &run.join("r.sock"), Instant::now());
            assert_eq!(seen != Seen::Absent, is_same);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_changes_its_way_with_the_guard() {
        let guard = guard();
        let within = Duration::from_secs(5);
        let changes = async |is_through, seen: Seen| {
            guard.seen.send_replace(seen);
            let changed = tokio::time::timeout(within, guard.changes_way(is_through));
            changed.await.is_ok()
        };
        let unresponsive = || Seen::Unresponsive(Instant::now(), None);
        assert!(changes(true, unresponsive()).await);
        assert!(!changes(true, in_phase(Phase::Passing)).await);
        assert!(changes(false, in_phase(Phase::Passing)).await);
        assert!(!changes(false, Seen::Absent).await);
        assert!(!changes(false, unresponsive()).await);
    }
}
