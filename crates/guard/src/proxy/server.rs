//! Accepts the connections of clients, and dispatches their calls.

use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cri::{ApiVersion, Rpc};
use guard_api::OBSERVER;
use http::{HeaderMap, Request, Response, Version};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::io::InspectReader;

use super::added::Passage;
use super::answer::{Answer, whole};
use super::driver::{Driver, ReceivedCall};
use super::refused::{Calls, Refusals};
use super::tasks::{LocalExecutor, spawn};
use super::upstream::Upstream;
use super::{Body, MAX_HEADER_BYTES, MAX_REQUEST_BYTES, MAX_RESETS, Proxy, WINDOW, service};
use crate::core::{Caller, Mode, is_intercepted};
use cri::frame::message_of;

/// How long to wait after a failed `accept`, for instance because no file descriptor is free.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Serves until `stopped` ends, and then saves the state once more.
pub(super) async fn serve(
    listener: UnixListener,
    proxy: Proxy,
    mode: Mode,
    mut stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let driver = Driver::new(proxy, mode).await;
    spawn(driver.clone().tick());
    spawn(driver.clone().save_records());
    let refusals = Rc::new(Refusals::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => {
                if let Err(why) = driver.save_now().await {
                    tracing::warn!("{why}");
                }
                return Ok(());
            }
        };
        match accepted {
            Ok((stream, _)) => {
                spawn(serve_connection(driver.clone(), refusals.clone(), stream));
            }
            Err(error) => {
                tracing::warn!("a connection could not be accepted: {error}");
                sleep(ACCEPT_AGAIN_AFTER).await;
            }
        }
    }
}

/// Serves one client. The connection of an observer is closed when a connection to the runtime ends, as it
/// would be without the guard.
async fn serve_connection(driver: Rc<Driver>, refusals: Rc<Refusals>, stream: UnixStream) {
    let upstream = driver.upstream_for_one();
    let observes = Rc::new(Cell::new(false));
    let calls = Rc::new(Calls::default());
    let stream = InspectReader::new(stream, calls.counted());
    let mut losses = driver.losses();
    let is_observer = observes.clone();
    let lost = async move {
        // The driver outlives this connection.
        while losses.changed().await.is_ok() {
            if is_observer.get() {
                return;
            }
        }
    };
    let (of_connection, arrived) = (driver.clone(), calls.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        arrived.arrived();
        let from = caller_of(request.headers());
        if from == Caller::Observer {
            observes.set(true);
        }
        serve_call(of_connection.clone(), upstream.clone(), request, from)
    });
    let connection = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .auto_date_header(false)
        .max_concurrent_streams(None)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(None)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!("a client's connection ended: {error}");
                let why = error.source().and_then(|why| why.downcast_ref::<h2::Error>());
                if let Some(why) = why.filter(|why| why.is_go_away() && why.is_library()) {
                    refusals.log_bytes(why);
                }
            }
        }
        () = lost => {}
    }
    if calls.are_refused() {
        refusals.log_calls();
    }
}

/// The kind of the caller, by the metadata of its call.
fn caller_of(headers: &HeaderMap) -> Caller {
    let (name, value) = OBSERVER;
    match headers.get(name).is_some_and(|given| given == value) {
        true => Caller::Observer,
        false => Caller::Client,
    }
}

async fn serve_call(
    driver: Rc<Driver>,
    upstream: Upstream,
    request: Request<Incoming>,
    from: Caller,
) -> Result<Response<Body>, Infallible> {
    if service::method_in(request.uri().path()).is_some() {
        return Ok(service::answer(driver, request).await);
    }
    let upstream = match from {
        Caller::Client => upstream,
        Caller::Observer => driver.streams.clone(),
    };
    let rpc = method_of(request.uri().path());
    if rpc == Some(Rpc::GetContainerEvents) {
        if !driver.passes_all() {
            match driver.events.clone().read().await {
                Ok(response) => return Ok(response),
                // The mode was switched to pass: that is no evidence about the runtime.
                Err(_) if driver.passes_all() => {}
                Err(why) => return Ok(driver.no_answer(&why, from).await),
            }
        }
        if from == Caller::Observer {
            // containerd 1.7 would send every second event to the observer instead of the kubelet.
            let why = "events are not shared in mode pass";
            return Ok(Answer::lost(why).into_response());
        }
        let request = request.map(BodyExt::boxed_unsync);
        let response = pass(&driver, &upstream, request, from).await;
        return Ok(response.map(|body| driver.events.passing(body)));
    }
    let Some(rpc) = rpc.filter(|rpc| is_intercepted(*rpc)) else {
        let request = request.map(BodyExt::boxed_unsync);
        return Ok(pass(&driver, &upstream, request, from).await);
    };
    let (parts, body) = request.into_parts();
    let body = match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Ok(Answer::too_large().into_response());
        }
        // The caller was disconnected before its request was complete.
        Err(_) => return Ok(Answer::lost("the request was not complete").into_response()),
    };
    let passage = Passage::begin();
    let timeout = parts.headers.get("grpc-timeout");
    let timeout = timeout.and_then(|text| timeout_of(text.to_str().ok()?));
    let Some(message) = message_of(&body) else {
        let request = Request::from_parts(parts, whole(body));
        return Ok(pass(&driver, &upstream, request, from).await);
    };
    let call = ReceivedCall {
        rpc,
        request: Request::from_parts(parts, body),
        message,
        timeout,
        passage,
        from,
    };
    Ok(driver.call(call).await)
}

/// Passes a call on unchanged, and streams its answer.
async fn pass(
    driver: &Driver,
    upstream: &Upstream,
    mut request: Request<Body>,
    from: Caller,
) -> Response<Body> {
    let mut passage = Passage::begin();
    *request.version_mut() = Version::HTTP_2;
    match upstream.send(request, || passage.sent()).await {
        Ok(response) => {
            passage.ended(Instant::now(), &driver.added);
            response.map(BodyExt::boxed_unsync)
        }
        Err(why) => driver.no_answer(&why, from).await,
    }
}

/// The method in a path of CRI v1; `None` for any other path. Calls with other paths are passed on unread.
fn method_of(path: &str) -> Option<Rpc> {
    let (service, method) = path.strip_prefix("/runtime.")?.split_once('/')?;
    let rpc: Rpc = method.parse().ok()?;
    let (version, name) = service.split_once('.')?;
    let is_ours = version == ApiVersion::V1.as_str() && name == rpc.service();
    is_ours.then_some(rpc)
}

/// Parses a `grpc-timeout`: at most eight digits and a unit.
fn timeout_of(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_known_by_its_whole_path() {
        let listed = method_of("/runtime.v1.RuntimeService/ListContainers");
        assert_eq!(listed, Some(Rpc::ListContainers));
        for other in [
            "/runtime.v1alpha2.RuntimeService/ListContainers",
            "/runtime.v1.ImageService/ListContainers",
            "/runtime.v1.RuntimeService/ListEverything",
            "/other.v1.RuntimeService/Version",
            "/",
        ] {
            assert_eq!(method_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_timeout_is_read_in_each_of_its_units() {
        assert_eq!(timeout_of("2M"), Some(Duration::from_secs(120)));
        assert_eq!(timeout_of("150m"), Some(Duration::from_millis(150)));
        for other in ["", "S", "5", "999999999S", "1.5S", "5é"] {
            assert_eq!(timeout_of(other), None, "{other}");
        }
    }
}
