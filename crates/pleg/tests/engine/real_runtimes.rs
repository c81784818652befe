//! The lifecycles and faults of a node on each runtime: however the runtime reports them, each change is
//! reported once, and the culprit is never an unrelated container.

use crate::node::{Node, named, seconds};
use pleg::model::listed::ContainerState;
use pleg::out::health::HealthState;
use pleg::runtime::{CallError, Rpc};
use pleg::{Config, Mode};
use sim::{Fault, Manner, Serving, Sim};

const ALL: [Manner; 3] = [Manner::Sim, Manner::CriO, Manner::CriDockerd];

fn pods(sim: &Sim) {
    sim.run("web", &["app", "side"]);
    sim.run("db", &["main"]);
}

/// A node that is observed by all that the runtime offers, with or without the kernel's hints.
async fn watched(manner: Manner, kernel: bool) -> Node {
    let prepare = move |sim: &Sim| {
        sim.behave_as(manner);
        pods(sim);
    };
    let config = Config {
        mode: Mode::Auto,
        ..Config::default()
    };
    match kernel {
        true => Node::watch_with_kernel(config, prepare).await,
        false => Node::watch_with(config, prepare).await,
    }
}

#[tokio::test(start_paused = true)]
async fn lifecycles_are_reported_once_on_every_runtime() {
    for manner in ALL {
        for kernel in [true, false] {
            let case = format!("{manner:?}, kernel {kernel}");
            let node = watched(manner, kernel).await;
            node.at(3.3).await;
            node.sim.kill("web", "app");
            node.sim.exit("web", "app", 143);
            node.at(6.0).await;
            let now = node.sim.now();
            node.sim.world().pod("web").restart("app", 143, now);
            node.at(9.0).await;
            node.sim.world().remove_container("web/app.0");
            node.sim.world().remove("db");
            node.at(20.0).await;
            assert_eq!(node.deaths("web/app.0").len(), 1, "{case}");
            assert_eq!(node.deaths("web/app.1").len(), 0, "{case}");
            assert_eq!(node.deaths("db/main.0").len(), 1, "{case}");
            let status = node.status().await;
            assert_eq!(status.health.state, HealthState::Healthy, "{case}");
            assert_eq!(status.failing, [], "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_removed_while_a_list_is_stuck_is_removed_whatever_error_reports_it() {
    for manner in ALL {
        let node = watched(manner, false).await;
        node.at(3.3).await;
        node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
        node.at(12.0).await;
        node.sim.world().remove_container("web/side.0");
        node.sim.world().remove("db");
        node.at(40.0).await;
        let status = node.status().await;
        assert_eq!(status.failing, [], "{manner:?}");
        assert_eq!(named(&status.stuck), [], "{manner:?}");
        let entry = node.pleg.cache().get(&"uid-web".into());
        let names = entry.status.containers.iter().map(|one| &*one.name);
        assert_eq!(names.collect::<Vec<_>>(), ["app"], "{manner:?}");
        assert_eq!(node.deaths("db/main.0").len(), 1, "{manner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pod_events_that_are_switched_on_in_cri_o_are_used_from_then_on() {
    let node = watched(Manner::CriO, false).await;
    node.at(25.0).await;
    assert_eq!(node.status().await.stream.state.as_str(), "unsupported");
    node.sim.fill_sandboxes();
    node.sim.restart(seconds(1.0));
    node.sim.serve_stream(Serving::Broadcast);
    node.at(200.0).await;
    assert_eq!(node.status().await.stream.state.as_str(), "live");
    node.at(200.5).await;
    node.sim.kill("web", "app");
    node.sim.exit("web", "app", 1);
    node.at(230.0).await;
    assert_eq!(node.deaths("web/app.0").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn while_dockerd_is_dead_no_container_is_blamed_and_exits_are_reported_once() {
    let dead = "Unknown: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is \
                the docker daemon running?";
    for kernel in [true, false] {
        let node = watched(Manner::CriDockerd, kernel).await;
        node.at(5.3).await;
        let calls = [
            Rpc::ListPodSandbox,
            Rpc::ListContainers,
            Rpc::PodSandboxStatus,
            Rpc::ContainerStatus,
        ];
        for call in calls {
            let refused = CallError::Refused(dead.into());
            node.sim.fault(call, None, Fault::Fail(refused));
        }
        node.at(8.3).await;
        node.sim.kill("web", "app");
        node.sim.exit("web", "app", 137);
        node.at(30.0).await;
        let status = node.status().await;
        assert_ne!(status.health.state, HealthState::Healthy, "kernel {kernel}");
        assert_eq!(named(&status.stuck), [], "kernel {kernel}");
        node.sim.lift_all();
        node.at(60.0).await;
        assert_eq!(node.deaths("web/app.0").len(), 1, "kernel {kernel}");
        let status = node.status().await;
        assert_eq!(status.health.state, HealthState::Healthy, "kernel {kernel}");
    }
}

#[tokio::test(start_paused = true)]
async fn on_cri_o_a_dead_container_whose_conmon_is_stopped_delays_no_other_pod() {
    let node = watched(Manner::CriO, true).await;
    node.at(5.3).await;
    node.sim.kill("web", "app");
    let waits_for_exit_file = Fault::Slow(seconds(3.76));
    let slow = |call, id| node.sim.fault(call, Some(id), waits_for_exit_file.clone());
    slow(Rpc::ContainerStatus, "web/app.0");
    slow(Rpc::PodSandboxStatus, "web.0");
    node.at(30.0).await;
    let status = node.status().await;
    assert_eq!(status.health.state, HealthState::Degraded);
    let pods = status.failing.iter().filter_map(|call| call.pod.as_ref());
    assert!(
        pods.into_iter().all(|pod| &*pod.name == "web"),
        "{:?}",
        status.failing
    );
    node.sim.kill("db", "main");
    node.sim.exit("db", "main", 1);
    node.at(31.0).await;
    assert_eq!(node.deaths("db/main.0").len(), 1);
    // The conmon continues, and writes the exit file.
    node.sim.exit("web", "app", 137);
    node.sim.lift_all();
    node.at(60.0).await;
    assert_eq!(node.deaths("web/app.0").len(), 1);
    let entry = node.pleg.cache().get(&"uid-web".into());
    let ended = entry.status.container(&"web/app.0".into());
    assert_eq!(ended.map(|it| it.state), Some(ContainerState::Exited));
    assert_eq!(node.status().await.health.state, HealthState::Healthy);
}
