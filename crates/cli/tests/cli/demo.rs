//! `pleg demo`: one container hangs, and exits of the others are reported.

use crate::support::Pleg;

#[test]
fn the_demo_names_the_hanging_container_and_reports_the_exits_of_the_others() {
    let shown = Pleg::new(&["demo"]).run().assert_code(0).out;
    let (_, during) = shown.split_once("Now one container hangs").expect(&shown);
    let (during, after) = during.split_once("The lock is released").expect(&shown);
    for container in ["cart/app.0", "web-1/nginx.0", "web-0/nginx.1"] {
        let died = during
            .lines()
            .find(|line| line.contains("ContainerDied") && line.contains(container));
        assert!(
            died.is_some_and(|line| line.ends_with("by kernel")),
            "{shown}"
        );
    }
    let named = "container postgres of default/db is stuck and blocks ListContainers";
    assert!(during.contains(named), "{shown}");
    assert!(during.contains("a kubelet: NotReady in 2m"), "{shown}");
    assert!(
        after.contains("Healthy: all pods are up to date"),
        "{shown}"
    );
    assert!(
        !after.contains("ContainerDied"),
        "nothing is reported twice: {shown}"
    );
}
