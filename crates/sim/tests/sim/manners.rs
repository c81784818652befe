//! The runtimes as which the simulated one behaves, as a client of pleg's meets them.

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
async fn an_id_that_nobody_has_is_not_found_in_whatever_words_that_is_said() {
    for manner in ALL {
        let (sim, _served, client) = node(manner);
        let nobody = "0123456789abcdef".repeat(4);
        for [container, sandbox] in [ask(&client, &nobody).await, ask(&sim, &nobody).await] {
            assert!(is_not_found(&container), "{manner:?}: {container:?}");
            assert!(is_not_found(&sandbox), "{manner:?}: {sandbox:?}");
        }
    }
}

#[tokio::test]
async fn a_sandbox_is_no_container_and_a_container_no_sandbox() {
    for manner in ALL {
        let (_sim, _served, client) = node(manner);
        let [container, sandbox] = ask(&client, "web.0").await;
        assert!(is_not_found(&container), "{manner:?}: {container:?}");
        assert_eq!(sandbox, None, "{manner:?}");
        let [container, sandbox] = ask(&client, "web/app.0").await;
        assert_eq!(container, None, "{manner:?}");
        assert!(is_not_found(&sandbox), "{manner:?}: {sandbox:?}");
    }
}

#[tokio::test]
async fn it_says_who_it_is_on_the_socket_and_behind_the_trait() {
    for (manner, name) in [(Manner::CriO, "cri-o"), (Manner::CriDockerd, "docker")] {
        let (sim, _served, client) = node(manner);
        assert_eq!(&*client.version().await.unwrap().name, name);
        assert_eq!(&*sim.version().await.unwrap().name, name);
    }
}

#[tokio::test]
async fn a_verbose_status_tells_in_which_sandbox_a_container_is_but_not_cri_dockerds() {
    for manner in ALL {
        let (_sim, served, _client) = node(manner);
        let told = (manner != Manner::CriDockerd).then(|| r#"{"sandboxID":"web.0"}"#.to_owned());
        assert_eq!(served.container_info("web/app.0").await, told, "{manner:?}");
    }
}

fn is_not_found(error: &Option<CallError>) -> bool {
    matches!(error, Some(CallError::NotFound(_)))
}

/// Both statuses of an id: why there is none.
async fn ask(runtime: &impl Runtime, id: &str) -> [Option<CallError>; 2] {
    let id = Id::from(id);
    let container = runtime.container_status(&id).await.err();
    [container, runtime.sandbox_status(&id).await.err()]
}
