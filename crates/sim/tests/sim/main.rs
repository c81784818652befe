//! The simulated node, behind the trait in virtual time and on a socket.

mod served;

mod documented;
mod events;
mod images;
mod lifecycle;
mod malformed;
mod manners;
mod quirks;
mod restart;
mod serving;
mod statistics;
mod status_lock;
mod stream;
