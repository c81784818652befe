//! The simulated node on a unix socket, for CRI clients.
