//! One list is slow, stuck or unavailable while the other one is answered.

use crate::node::{LISTS, Node, pods};
use pleg::out::health::Reason;
use pleg::runtime::CallError;
use sim::Fault;

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_in_any_way_is_replaced_by_a_sweep() {
    for error in [
        CallError::Refused("Unavailable: ttrpc: closed".into()),
        CallError::NotFound("no such list".into()),
        CallError::Unimplemented("unknown method".into()),
        CallError::Malformed("no message".into()),
    ] {
        for list in LISTS {
            let node = Node::watch(pods).await;
            node.at(3.5).await;
            node.sim.fault(list, None, Fault::Fail(error.clone()));
            node.at(5.5).await;
            node.sim.exit("a", "app", 3);
            node.at(8.5).await;
            let status = node.status().await;
            assert_eq!(status.health.reason, Reason::ListFails, "{list}: {error}");
            let message = &status.health.message;
            assert!(
                message.contains(&format!("{list} is unavailable")),
                "{message}"
            );
            assert_eq!(node.deaths("a/app.0").len(), 1, "{list}: {error}");
            assert!(
                status.health.age_seconds < Some(3.0),
                "{list}: {error}: {:?}",
                status.health
            );
        }
    }
}
