//! A node with thousands of containers: every list is answered, although not every id can be confirmed
//! within a second.

use std::time::Duration;

use crate::node::{Node, container_id};
use cri::{Rpc, v1};
use prost::Message;

const SANDBOXES: usize = 2000;
const CONTAINERS: usize = 4000;

#[test]
fn lists_of_both_kinds_are_answered_on_a_node_with_thousands_of_containers() {
    let mut node = Node::new(SANDBOXES, CONTAINERS);
    node.hangs = |rpc, id| match rpc {
        Rpc::ListPodSandbox | Rpc::ListContainers => true,
        rpc => rpc == Rpc::ContainerStatus && id == container_id(7),
    };
    for _ in 0..5 {
        let (list, took) = node.call(Rpc::ListPodSandbox, "");
        let list = v1::ListPodSandboxResponse::decode(list.unwrap()).unwrap();
        assert_eq!(list.items.len(), SANDBOXES);
        assert!(took < Duration::from_secs(6), "sandboxes took {took:?}");
        let (list, took) = node.call(Rpc::ListContainers, "");
        let list = v1::ListContainersResponse::decode(list.unwrap()).unwrap();
        assert_eq!(list.containers.len(), CONTAINERS);
        assert!(took < Duration::from_secs(6), "containers took {took:?}");
        node.pass(Duration::from_millis(700));
    }
}
