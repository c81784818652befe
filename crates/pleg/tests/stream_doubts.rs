//! What a stream says before the first list, and what it once said of somebody who died
//! since: neither may be taken for more than it is.

mod node;

use node::{Node, seconds};
use pleg::listed::SandboxState;
use pleg::runtime::Call;
use sim::{Fault, StreamFault};

#[tokio::test(start_paused = true)]
async fn a_hint_that_comes_before_the_first_list_hides_nothing_of_it() {
    // containerd 1.7 keeps events while nobody reads, and brings them as soon as somebody
    // does: before its list, and about a part of a pod.
    let node = Node::watch_stream(|sim| {
        sim.run("a", &["app"]);
        sim.fault(Call::ListContainers, None, Fault::Slow(seconds(0.5)));
    })
    .await;
    node.at(0.1).await;
    node.sim.world().pod("a").sandboxes[0].state = SandboxState::NotReady;
    node.at(2.0).await;
    let told = node.told();
    assert!(told.contains("Started a/app.0 (initial)"), "{told}");
    assert!(told.contains("synced 1 pods, 1 containers"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn the_announcement_of_a_start_does_not_speak_for_the_death_that_follows() {
    let node = Node::watch_stream(|sim| sim.run("a", &["app"])).await;
    node.at(1.5).await;
    let now = node.sim.now();
    node.sim.world().pod("a").restart("app", 1, now);
    // A crash loop: lists have shown that it runs, and now its stream has another reader.
    node.at(6.5).await;
    node.sim.disturb_stream(StreamFault::Silent);
    node.sim.exit("a", "app", 1);
    node.at(12.0).await;
    assert!(node.told().contains("Died a/app.1 with 1"));
    assert_eq!(node.status().await.stream.missed, 1);
}
