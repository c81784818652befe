//! What a kubelet on this node is predicted to report.

use crate::node::{Node, STATUSES, pods};
use pleg::out::coverage::PassKind;
use pleg::runtime::Rpc;
use sim::Fault;

#[tokio::test(start_paused = true)]
async fn a_sweep_does_not_count_as_a_kubelets_relist() {
    let node = Node::watch(pods).await;
    node.at(1.5).await;
    node.sim.status_lock("locked", "app");
    node.at(6.0).await;
    let relists = *node.counter.relists.lock().unwrap();
    let count = node.status().await.relist.count;
    node.at(30.0).await;
    assert_eq!(*node.counter.relists.lock().unwrap(), relists);
    assert!(node.status().await.relist.count > count + 10, "but a look");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_id_from_the_host_threatens_no_kubelet_once_lists_are_answered() {
    let node = Node::watch_knowing_also(&["ghost"], pods).await;
    node.at(1.5).await;
    for call in STATUSES {
        node.sim.fault(call, Some("ghost"), Fault::Hang);
    }
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    node.at(12.0).await;
    let threatened = node.status().await.kubelet_view;
    assert!(threatened.not_ready_in_seconds.is_some());
    node.sim.lift(Rpc::ListContainers, None);
    node.at(20.0).await;
    let status = node.status().await;
    assert_eq!(status.relist.last_kind, Some(PassKind::List));
    assert_eq!(status.kubelet_view.not_ready_in_seconds, None);
    assert!(status.kubelet_view.ready);
}
