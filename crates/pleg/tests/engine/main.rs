//! The engine on simulated nodes, in virtual time: one module for each kind of trouble.

#[path = "../node/mod.rs"]
mod node;
#[path = "../odd/mod.rs"]
mod odd;

mod agreement;
mod as_of;
mod births;
mod bounds;
mod complete;
mod contradicted;
mod crashes;
mod culprits;
mod failing;
mod figures;
mod first_sweep;
mod health;
mod identities;
mod inspection;
mod interrupted;
mod kernel;
mod kubelet_view;
mod last_seen;
mod not_confirmed;
mod odd_runtimes;
mod one_list;
mod pauses;
mod real_runtimes;
mod records_model;
mod relist;
mod restarts;
mod runtimes;
mod slow_as_a_whole;
mod slow_lists;
mod slow_pods;
mod stream;
mod stream_doubts;
mod stuck_version;
mod subscribers;
mod sweep;
mod sweep_pace;
mod unresponsive;
mod unseen;
mod versions;
