//! Runtimes that answer late, of the past, or for once not at all: nothing false is said of it.

mod node;
mod odd;

use node::{Node, generic, many};
use odd::Odd;
use pleg::Config;
use pleg::model::id::Id;
use pleg::runtime::Rpc;
use sim::{Fault, Sim};

/// A node whose runtime may be odd.
async fn watch_odd(config: Config, prepare: impl FnOnce(&Sim, &Odd)) -> (Node, Odd) {
    let sim = Sim::new();
    let odd = Odd::new(sim.clone());
    let prepare = |sim: &Sim| prepare(sim, &odd);
    let node = Node::watch_through(sim, odd.clone(), config, prepare).await;
    (node, odd)
}

#[tokio::test(start_paused = true)]
async fn nobody_dies_of_not_being_found_once_however_many_are_not() {
    let (node, odd) = watch_odd(generic(), |sim, _| many(sim, 300, &["app"])).await;
    node.at(8.4).await;
    node.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let ids = (0..300).map(|pod| Id::from(format!("p{pod}/app.0").as_str()));
    odd.oddities().not_found_once = ids.collect();
    node.told();
    node.pass(20.0).await;
    assert!(odd.oddities().not_found_once.is_empty());
    node.assert_told_no_event();
}
