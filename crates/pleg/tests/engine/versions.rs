//! Which version of CRI is used if a proxy in front of the runtime answers some calls: it knows some
//! methods, and refuses the others with its own errors.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use pleg::runtime::{CallError, Runtime};
use tokio::net::UnixListener;
use tokio::time::timeout;

const HANGS: u32 = u32::MAX;
const RESETS: u32 = u32::MAX - 1;
const NOT_FOUND: u32 = 5;
const PERMISSION_DENIED: u32 = 7;
const UNIMPLEMENTED: u32 = 12;
const UNKNOWN: u32 = 2;

/// A runtime that answers each call with the gRPC code that is set for its path.
struct Coded {
    runtime: GrpcRuntime,
    requested: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

fn coded(code: fn(&str) -> u32) -> Coded {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runtime.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let requested: Arc<Mutex<Vec<String>>> = Arc::default();
    let answers = {
        let requested = requested.clone();
        move |request: Request<Incoming>| {
            let path = request.uri().path().to_owned();
            let code = code(&path);
            requested.lock().unwrap().push(path);
            async move {
                if code == HANGS {
                    std::future::pending::<()>().await;
                }
                if code == RESETS {
                    return Err(io::Error::other("reset"));
                }
                let answer = Response::builder()
                    .header("content-type", "application/grpc")
                    .header("grpc-status", code)
                    .body(Empty::<Bytes>::new());
                Ok(answer.unwrap())
            }
        }
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(answers.clone());
            let connection = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    let endpoint = format!("unix://{}", path.display()).parse().unwrap();
    Coded {
        runtime: GrpcRuntime::new(&endpoint, MAX_MESSAGE_SIZE),
        requested,
        _folder: folder,
    }
}

impl Coded {
    /// The version of CRI in which a status is requested.
    async fn spoken(&self) -> String {
        let id = "c0".into();
        self.runtime.container_status(&id).await.unwrap_err();
        let requested = self.requested.lock().unwrap();
        let path = requested.last().unwrap().strip_prefix("/runtime.").unwrap();
        let (version, method) = path.split_once(".RuntimeService/").unwrap();
        assert_eq!(method, "ContainerStatus");
        version.to_owned()
    }
}

#[tokio::test]
async fn a_list_that_is_refused_in_the_other_version_too_is_not_served_in_it() {
    for refuses in [
        |path: &str| match path {
            "/runtime.v1.RuntimeService/ListContainers" => UNIMPLEMENTED,
            path if path.starts_with("/runtime.v1alpha2.") => PERMISSION_DENIED,
            _ => NOT_FOUND,
        },
        |path: &str| match path {
            "/runtime.v1.RuntimeService/ListContainers" => UNIMPLEMENTED,
            path if path.starts_with("/runtime.v1alpha2.") => UNKNOWN,
            _ => NOT_FOUND,
        },
    ] {
        let coded = coded(refuses);
        coded.runtime.list_containers().await.unwrap_err();
        assert_eq!(coded.spoken().await, "v1");
    }
}

#[tokio::test]
async fn a_version_that_is_refused_or_stuck_in_v1alpha2_does_not_select_it() {
    for refuses in [
        |path: &str| match path {
            "/runtime.v1.RuntimeService/Version" => UNIMPLEMENTED,
            path if path.starts_with("/runtime.v1alpha2.") => PERMISSION_DENIED,
            _ => NOT_FOUND,
        },
        |path: &str| match path {
            "/runtime.v1.RuntimeService/Version" => UNIMPLEMENTED,
            path if path.starts_with("/runtime.v1alpha2.") => HANGS,
            _ => NOT_FOUND,
        },
    ] {
        let coded = coded(refuses);
        let version = timeout(Duration::from_millis(200), coded.runtime.version());
        assert!(!matches!(version.await, Ok(Ok(_))));
        assert_eq!(coded.spoken().await, "v1");
    }
}

#[tokio::test]
async fn a_call_that_is_reset_has_failed_and_its_connection_is_not_lost() {
    let coded = coded(|path| match path.ends_with("/ContainerStatus") {
        true => RESETS,
        false => NOT_FOUND,
    });
    for _ in 0..3 {
        let error = coded
            .runtime
            .container_status(&"c0".into())
            .await
            .unwrap_err();
        assert!(matches!(error, CallError::Refused(_)), "{error:?}");
        coded
            .runtime
            .sandbox_status(&"s0".into())
            .await
            .unwrap_err();
    }
    assert_eq!(coded.runtime.connections(), 1);
}
