//! The runtimes that the simulated one imitates, as a client of pleg observes them.

use pleg::model::id::Id;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use pleg::runtime::{CallError, Runtime};
use sim::{Manner, Sim};

use crate::served::Served;

fn node(manner: Manner) -> (Sim, Served, GrpcRuntime) {
    let sim = Sim::new();
    sim.run("web", &["app"]);
    sim.behave_as(manner);
    let served = Served::new(&sim);
    let client = GrpcRuntime::new(&served.endpoint, MAX_MESSAGE_SIZE);
    (sim, served, client)
}

const ALL: [Manner; 3] = [Manner::Sim, Manner::CriO, Manner::CriDockerd];

#[tokio::test]
async fn an_unknown_id_is_not_found_with_the_error_of_every_runtime() {
    for manner in ALL {
        let (sim, _served, client) = node(manner);
        let unknown = "0123456789abcdef".repeat(4);
        for [container, sandbox] in [
            status_errors(&client, &unknown).await,
            status_errors(&sim, &unknown).await,
        ] {
            assert!(is_not_found(&container), "{manner:?}: {container:?}");
            assert!(is_not_found(&sandbox), "{manner:?}: {sandbox:?}");
        }
    }
}

#[tokio::test]
async fn a_sandbox_is_not_a_container_and_vice_versa() {
    for manner in ALL {
        let (_sim, _served, client) = node(manner);
        let [container, sandbox] = status_errors(&client, "web.0").await;
        assert!(is_not_found(&container), "{manner:?}: {container:?}");
        assert_eq!(sandbox, None, "{manner:?}");
        let [container, sandbox] = status_errors(&client, "web/app.0").await;
        assert_eq!(container, None, "{manner:?}");
        assert!(is_not_found(&sandbox), "{manner:?}: {sandbox:?}");
    }
}

#[tokio::test]
async fn the_version_names_the_runtime_on_the_socket_and_behind_the_trait() {
    for (manner, name) in [(Manner::CriO, "cri-o"), (Manner::CriDockerd, "docker")] {
        let (sim, _served, client) = node(manner);
        assert_eq!(&*client.version().await.unwrap().name, name);
        assert_eq!(&*sim.version().await.unwrap().name, name);
    }
}

#[tokio::test]
async fn a_verbose_status_reports_the_sandbox_except_with_cri_dockerd() {
    for manner in ALL {
        let (_sim, served, _client) = node(manner);
        let expected =
            (manner != Manner::CriDockerd).then(|| r#"{"sandboxID":"web.0"}"#.to_owned());
        let info = served.container_info("web/app.0").await;
        assert_eq!(info, expected, "{manner:?}");
    }
}

fn is_not_found(error: &Option<CallError>) -> bool {
    matches!(error, Some(CallError::NotFound(_)))
}

/// The errors of both status calls of an id.
async fn status_errors(runtime: &impl Runtime, id: &str) -> [Option<CallError>; 2] {
    let id = Id::from(id);
    let container = runtime.container_status(&id).await.err();
    [container, runtime.sandbox_status(&id).await.err()]
}
