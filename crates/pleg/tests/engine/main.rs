//! The engine on simulated nodes, in virtual time: one module for each kind of trouble.

#[path = "../node/mod.rs"]
mod node;
#[path = "../odd/mod.rs"]
mod odd;

mod agreement;
mod as_of;
mod bad_days;
mod births;
mod bounds;
mod claims;
mod comes_back;
mod contradicted;
mod figures;
mod goes_away;
mod health;
mod inspection;
mod kernel;
mod manners;
mod naming;
mod not_vouched;
mod odd_runtimes;
mod records_model;
mod relist;
mod runtimes;
mod slow_as_a_whole;
mod stream;
mod stream_doubts;
mod subscribers;
mod sweep;
mod trouble;
mod versions;
