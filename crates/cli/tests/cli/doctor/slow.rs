//! Slow runtimes: nothing is reported as stuck, and the effect on a kubelet is reported.

use std::io::{Read, Write};
use std::time::Duration;

use pleg::runtime::{CallError, Rpc};
use pleg_text::GoDuration;
use sim::Fault;

use super::{LISTS, causes, doctor, make_lists_slow, once_made, three_pods};
use crate::support::{Agent, FakeRuntime, Pleg};

#[test]
fn a_stalled_kubelet_beside_a_fast_runtime_is_the_culprit() {
    let runtime = three_pods();
    let kubelet = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = kubelet.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in kubelet.incoming() {
            let answer = "HTTP/1.0 500 Internal Server Error\r\n\r\n[+]ping ok\n\
                          [-]syncloop failed: reason withheld\nhealthz check failed\n";
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request);
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let path = runtime.path();
    let args = [
        "doctor",
        "-r",
        &path,
        "--agent",
        "off",
        "--kubelet-healthz",
        &address,
    ];
    let report = Pleg::new(&[&args[..], &["-o", "json"]].concat()).run();
    let report = report.assert_code(1).value();
    assert_eq!(causes(&report), ["kubelet-internal"]);
}

#[test]
fn a_node_with_too_many_containers_for_a_kubelet_is_reported_with_their_number() {
    let runtime = FakeRuntime::with_pods(&[]);
    for pod in 0..250 {
        runtime.sim.run(&format!("pod-{pod}"), &["x", "y"]);
    }
    let slow = Fault::Slow(Duration::from_millis(300));
    for call in [Rpc::ContainerStatus, Rpc::PodSandboxStatus] {
        runtime.sim.fault(call, None, slow.clone());
    }
    // Three calls of 0.3 s for each of 250 pods: 225 s.
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_eq!(causes(&report), ["too-many-containers"]);
    let summary = report["summary"].as_str().unwrap();
    assert!(summary.contains("all 250 pods"), "{summary}");
    let evidence = report["findings"][0]["evidence"].to_string();
    assert!(evidence.contains("p90 3"), "{evidence}");
}

#[test]
fn intermittent_slowness_is_judged_by_the_relist_of_a_kubelet() {
    let runtime = FakeRuntime::with_pods(&[]);
    for pod in 0..700 {
        let name = format!("pod-{pod:03}");
        runtime.sim.run(&name, &["x"]);
        if pod % 3 == 0 {
            let slow = Fault::Slow(Duration::from_millis(400));
            let id = format!("{name}/x.0");
            runtime.sim.fault(Rpc::ContainerStatus, Some(&id), slow);
        }
    }
    // On average 0.13 s for each of 700 containers: 93 s. Most of the calls take no time.
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_eq!(causes(&report), ["too-many-containers"]);
    let evidence = report["findings"][0]["evidence"].to_string();
    let (_, each) = evidence.split_once("ContainerStatus ").unwrap();
    let each: GoDuration = each.split(' ').next().unwrap().parse().unwrap();
    assert!(each.0 > Duration::from_millis(50), "{evidence}");
}

#[test]
fn if_every_call_is_slow_a_slower_one_is_not_stuck() {
    let runtime = three_pods();
    let slow = |seconds| Fault::Slow(Duration::from_secs(seconds));
    runtime.sim.fault(Rpc::PodSandboxStatus, None, slow(1));
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some("b/x.0"), slow(3));
    let report = doctor(&runtime, &["-o", "json"]).value();
    let probes = report["probes"].as_array().unwrap().iter();
    let hung = probes.filter(|probe| probe["outcome"] == "hung");
    assert_eq!(hung.count(), 0, "{report:#}");
    assert_eq!(causes(&report), Vec::<&str>::new(), "{report:#}");
}

#[test]
fn a_slow_container_is_not_stuck_and_not_blamed() {
    for (call, id) in [
        (Rpc::ContainerStatus, Some("b/x.0")),
        (Rpc::PodSandboxStatus, Some("b.0")),
        (Rpc::ListContainers, None),
    ] {
        let runtime = three_pods();
        let slow = Fault::Slow(Duration::from_secs(3));
        runtime.sim.fault(call, id, slow);
        let report = doctor(&runtime, &["-o", "json"]).value();
        let probes = report["probes"].as_array().unwrap().iter();
        let hung = probes.filter(|probe| probe["outcome"] == "hung");
        assert_eq!(hung.count(), 0, "{report:#}");
        assert_eq!(causes(&report), Vec::<&str>::new(), "{report:#}");
        let summary = report["summary"].as_str().unwrap();
        assert!(!summary.contains("responds normally"), "{summary}");
    }
}

#[test]
fn a_late_list_shows_further_ids() {
    for lists in [
        &[Rpc::ListContainers][..],
        &[Rpc::ListContainers, Rpc::ListPodSandbox],
    ] {
        let runtime = three_pods();
        for list in lists {
            let slow = Fault::Slow(Duration::from_millis(2500));
            runtime.sim.fault(*list, None, slow);
        }
        let hang = Fault::Hang;
        runtime.sim.fault(Rpc::ContainerStatus, Some("b/x.0"), hang);
        let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
        let mut probes = report["probes"].as_array().unwrap().iter();
        let hung = probes.find(|probe| probe["outcome"] == "hung");
        let hung = hung.unwrap_or_else(|| panic!("{report:#}"));
        assert_eq!(hung["pod"]["name"], "b", "{report:#}");
        assert!(causes(&report).len() == 1, "{report:#}");
    }
}

#[test]
fn if_the_first_call_is_slow_the_limit_of_a_list_is_longer() {
    let runtime = three_pods();
    let slow = |seconds| Fault::Slow(Duration::from_secs(seconds));
    runtime.sim.fault(Rpc::Version, None, slow(1));
    runtime.sim.fault(Rpc::ListContainers, None, slow(3));
    let report = doctor(&runtime, &["-o", "json"]).value();
    let mut probes = report["probes"].as_array().unwrap().iter();
    let list = probes.find(|probe| probe["call"] == "ListContainers");
    assert_eq!(list.unwrap()["outcome"], "ok", "{report:#}");
}

#[test]
fn a_list_that_is_refused_for_its_size_is_its_own_cause() {
    let runtime = three_pods();
    let refused = CallError::TooLarge("received 17302190 vs. 16777216".into());
    let fault = Fault::Fail(refused);
    runtime.sim.fault(Rpc::ListContainers, None, fault);
    let report = doctor(&runtime, &["-o", "json"]).assert_code(1).value();
    assert_eq!(causes(&report), ["list-exceeds-grpc-limit"]);
}

#[test]
fn if_both_lists_are_slow_a_stuck_container_is_reported_and_no_list() {
    let runtime = three_pods();
    let agent = Agent::watching(&runtime.path());
    agent.wait_healthy();
    for (list, takes) in [(Rpc::ListContainers, 7), (Rpc::ListPodSandbox, 8)] {
        let slow = Fault::Slow(Duration::from_secs(takes));
        runtime.sim.fault(list, None, slow);
    }
    std::thread::sleep(Duration::from_secs(9));
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some("b/x.0"), Fault::Hang);
    runtime.sim.exit("b", "x", 1);
    std::thread::sleep(Duration::from_secs(3));
    for agent in ["off", &agent.socket] {
        let args = [
            "doctor",
            "-r",
            &runtime.path(),
            "--agent",
            agent,
            "-o",
            "json",
        ];
        let report = Pleg::new(&args).run().assert_code(1).value();
        assert_eq!(causes(&report), ["container-lock"], "{agent}: {report:#}");
        let mut hung = report["probes"].as_array().unwrap().iter();
        assert!(
            !hung.any(|probe| probe["outcome"] == "hung" && probe["id"].is_null()),
            "{agent}: {report:#}"
        );
    }
}

#[test]
fn a_short_pause_does_not_count_for_each_pod_of_a_kubelet() {
    let runtime = FakeRuntime::with_pods(&[]);
    for pod in 0..110 {
        runtime.sim.run(&format!("pod-{pod}"), &["x"]);
    }
    make_lists_slow(&runtime.sim);
    let sim = runtime.sim.clone();
    let passes = std::thread::spawn(move || {
        for list in LISTS {
            once_made(&sim, list, 1, |_| {});
        }
        for list in LISTS {
            sim.lift(list, None);
        }
    });
    let report = doctor(&runtime, &["-o", "json"]).assert_code(0).value();
    passes.join().unwrap();
    assert_eq!(causes(&report), Vec::<&str>::new(), "{report:#}");
}
