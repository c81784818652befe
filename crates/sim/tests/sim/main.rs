//! The simulated node, behind the trait in virtual time and on a socket.

mod served;

mod events;
mod images;
mod lifecycle;
mod locked;
mod manners;
mod odd;
mod restart;
mod serving;
mod spoilt;
mod statistics;
mod stream;
mod taught;
