//! The guard's own gRPC service on its socket: `pleg.guard.v1.Guard`.
//!
//! Its calls are answered from memory, except that `reach` tries to connect to the runtime. Calls of other
//! services are not handled here.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use base::OutstandingCall;
use cri::Rpc;
use cri::frame::message_of;
use guard_api::{
    Difference, Pod, SERVICE, SetModeRequest, SetModeResponse, Status, StatusRequest, StuckCall,
    Unreachable, method,
};
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use prost::Message;
use tokio::time::{Instant, timeout};

use super::Body;
use super::answer::{Answer, INVALID_ARGUMENT, UNIMPLEMENTED};
use super::driver::Driver;
use super::upstream::NoAnswer;
use crate::core::{Mode, Phase, Reply};

/// The longest request.
const MAX_REQUEST_BYTES: usize = 1 << 16;

/// How long a `Status` request waits for a new revision, if its client has already seen the current one.
const STATUS_WAIT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection attempt may take to fail. If it has not failed by then, the runtime counts as
/// reachable.
const FAILS_WITHIN: Duration = Duration::from_millis(300);

/// The method in this path, if the path belongs to the guard's service.
pub(super) fn method_in(path: &str) -> Option<&str> {
    let path = path.strip_prefix('/')?.strip_prefix(SERVICE)?;
    path.strip_prefix('/')
}

/// Answers a call of the guard's own service.
pub(super) async fn answer(driver: Rc<Driver>, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await;
    let message = body.ok().and_then(|body| message_of(&body.to_bytes()));
    let invalid = || Answer::failed(INVALID_ARGUMENT, "pleg guard: the request is not valid");
    let answer = match (method_in(head.uri.path()).unwrap_or_default(), message) {
        (_, None) => invalid(),
        (method::STATUS, Some(message)) => match StatusRequest::decode(message) {
            Ok(request) => success(&status(&driver, &request).await),
            Err(_) => invalid(),
        },
        (method::SET_MODE, Some(message)) => {
            let request = SetModeRequest::decode(message).ok();
            match request.and_then(|request| mode_of(request.mode())) {
                Some(mode) => {
                    driver.switch(mode);
                    success(&SetModeResponse {})
                }
                None => invalid(),
            }
        }
        _ => Answer::failed(UNIMPLEMENTED, "pleg guard: there is no such method"),
    };
    answer.into_response()
}

fn success(message: &impl Message) -> Answer {
    Answer::ours(Reply::Message(message.encode_to_vec().into()))
}

async fn status(driver: &Rc<Driver>, request: &StatusRequest) -> Status {
    if request.seen != 0 {
        let mut reports = driver.reports.subscribe();
        let differs = reports.wait_for(|report| report.revision != request.seen);
        // After the timeout, the revision is the same.
        let _ = timeout(STATUS_WAIT_TIMEOUT, differs).await.map(drop);
    }
    let unreachable = match request.reach {
        true => unreachable(driver).await,
        false => None,
    };
    let now = Instant::now();
    let ago = |time: Instant| now.saturating_duration_since(time).as_secs_f64();
    let report = driver.reports.current();
    let figures = &report.figures;
    let (phase, since) = shown_phase(report.phase);
    let stuck = report.stuck.iter();
    let guard = driver.guard();
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: driver.started,
        revision: report.revision,
        mode: shown_mode(report.mode).into(),
        runtime: driver.proxy.runtime.display().to_string(),
        socket: driver.proxy.socket.display().to_string(),
        phase: phase.into(),
        phase_seconds: since.map_or(0.0, ago),
        listed_seconds: guard.listed().map(ago),
        asked_seconds: guard.last_requested().map(ago),
        running_seconds: ago(driver.began),
        stuck: stuck.map(|call| shown_call(call, now)).collect(),
        answered: counts(&figures.answered),
        given_up: counts(&figures.given_up),
        completed: counts(&figures.completed),
        refused: counts(&figures.refused),
        differences: figures.differences.count,
        compared: figures.differences.compared,
        last_differences: figures.differences.newest.iter().map(shown).collect(),
        added: Some(driver.added.shown()),
        unreachable,
    }
}

/// Why no connection to the runtime can be made; `None` if one is open, or if connecting does not fail
/// within `FAILS_WITHIN`.
async fn unreachable(driver: &Driver) -> Option<Unreachable> {
    let connecting = driver.streams.connect();
    let connected = timeout(FAILS_WITHIN, connecting).await.ok()?;
    let (errno, message) = match connected.err()? {
        NoAnswer::Unreachable(error) => (error.raw_os_error(), error.to_string()),
        why => (None, why.to_string()),
    };
    Some(Unreachable {
        errno: errno.unwrap_or_default(),
        message,
    })
}

fn mode_of(mode: guard_api::Mode) -> Option<Mode> {
    match mode {
        guard_api::Mode::Guard => Some(Mode::Guard),
        guard_api::Mode::Shadow => Some(Mode::Shadow),
        guard_api::Mode::Pass => Some(Mode::Pass),
        guard_api::Mode::Unspecified => None,
    }
}

fn shown_mode(mode: Mode) -> guard_api::Mode {
    match mode {
        Mode::Guard => guard_api::Mode::Guard,
        Mode::Shadow => guard_api::Mode::Shadow,
        Mode::Pass => guard_api::Mode::Pass,
    }
}

fn shown_phase(phase: Phase) -> (guard_api::Phase, Option<Instant>) {
    use guard_api::Phase as Shown;
    match phase {
        Phase::Passing => (Shown::Passing, None),
        Phase::Waiting(since) => (Shown::Waiting, Some(since)),
        Phase::Guarding(since) => (Shown::Guarding, Some(since)),
        Phase::Unresponsive(since) => (Shown::Silent, Some(since)),
        Phase::Refusing(since) => (Shown::Refusing, Some(since)),
        Phase::LimitReached => (Shown::LimitReached, None),
    }
}

fn shown_call(call: &OutstandingCall, now: Instant) -> StuckCall {
    let about = &call.about;
    let text = |text: &dyn ToString| text.to_string();
    StuckCall {
        method: text(&about.call),
        id: about.id.as_ref().map(|id| text(id)).unwrap_or_default(),
        container: about.container.as_ref().map(|name| text(name)),
        pod: about.pod.as_ref().map(|pod| Pod {
            uid: text(&pod.uid),
            namespace: text(&pod.namespace),
            name: text(&pod.name),
        }),
        seconds: now.saturating_duration_since(call.since).as_secs_f64(),
    }
}

fn counts(of: &BTreeMap<Rpc, u64>) -> BTreeMap<String, u64> {
    of.iter()
        .map(|(rpc, count)| (rpc.to_string(), *count))
        .collect()
}

fn shown(of: &crate::core::Difference) -> Difference {
    let name = |state: Option<i32>| state.map(|state| of.kind.state_name(state).to_owned());
    let [before, after] = of.theirs.map(name);
    Difference {
        method: of.kind.list().to_string(),
        id: of.id.to_string(),
        shown: name(of.ours),
        before,
        after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_guards_service_have_its_methods() {
        assert_eq!(method_in("/pleg.guard.v1.Guard/Status"), Some("Status"));
        for other in [
            "/pleg.guard.v1.GuardX/Status",
            "/pleg.guard.v2.Guard/Status",
            "/runtime.v1.RuntimeService/Status",
            "/",
        ] {
            assert_eq!(method_in(other), None, "{other}");
        }
    }
}
