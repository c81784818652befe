//! `pleg demo` keeps its promise: one container hangs, and the others are reported.

use crate::support::Pleg;

#[test]
fn the_demo_names_the_hanging_container_and_reports_the_exits_of_the_others() {
    let shown = Pleg::new(&["demo"]).run().assert_code(0).out;
    let (_, wedged) = shown.split_once("Now one container hangs").expect(&shown);
    let (wedged, healed) = wedged.split_once("The lock is released").expect(&shown);
    for container in ["cart/app.0", "web-1/nginx.0", "web-0/nginx.1"] {
        let died = wedged
            .lines()
            .find(|line| line.contains("ContainerDied") && line.contains(container));
        assert!(
            died.is_some_and(|line| line.ends_with("by kernel")),
            "{shown}"
        );
    }
    let named = "container postgres of default/db is stuck and blocks ListContainers";
    assert!(wedged.contains(named), "{shown}");
    assert!(wedged.contains("a kubelet: NotReady in 2m"), "{shown}");
    assert!(
        healed.contains("Healthy: all pods are up to date"),
        "{shown}"
    );
    assert!(
        !healed.contains("ContainerDied"),
        "nothing is told twice: {shown}"
    );
}
