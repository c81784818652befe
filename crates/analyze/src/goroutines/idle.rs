//! Recognises idle goroutines. In a healthy process they may wait for days, which is no problem.

use causes::facts::facts;

use super::call::is_library;
use super::waits::contains;
use super::{Call, Calls, Wait};

/// Whether the goroutine waits for its next task. One that waits for a lock or for space in a channel is
/// never idle.
pub fn is_idle(state: Option<&str>, calls: &Calls, created_by: Option<&str>) -> bool {
    let known = &facts().goroutines;
    let state = state.unwrap_or_default();
    if known["idle-states"].iter().any(|idle| idle == state) || state.starts_with("GC ") {
        return true;
    }
    let wait = Wait::of(Some(state), calls);
    if matches!(wait, Wait::Lock | Wait::Send) {
        return false;
    }
    // Functions further out only called the function that waits.
    let mut near = calls.iter().take(7);
    let is_near_idle = near.any(|call| contains(call.function, &known["idle-functions"]));
    let mut own = calls.iter().filter(|call| !is_library(call.function));
    let waiting = own.next();
    let in_loop = waiting.is_some_and(|call| contains(call.function, &known["idle-loops"]));
    let may_be_loop =
        calls.len() <= 3 && matches!(state, "select" | "chan receive" | "IO wait" | "syscall");
    let is_of_loop = |call: Call<'_>| {
        let name = call.function.rsplit('.').next().unwrap_or_default();
        is_library(call.function) || contains(&name.to_ascii_lowercase(), &known["own-loops"])
    };
    let is_own_loop = may_be_loop && calls.iter().all(is_of_loop);
    // A subscription to containerd's events is a call that never ends.
    let waits_for_events = |by: &str| by.contains("(*eventRemote).Subscribe");
    let is_made_to_wait =
        created_by.is_some_and(|by| by.starts_with("os/signal.") || waits_for_events(by));
    is_near_idle && (!wait.is_outside() || is_of_connection(calls))
        || in_loop
        || is_own_loop
        || is_made_to_wait
}

/// Whether the goroutine serves a connection. It always waits for the network; the calls over the
/// connection are made by other goroutines.
fn is_of_connection(calls: &Calls) -> bool {
    let known = &facts().goroutines["connections"];
    calls.iter().any(|call| contains(call.function, known))
}
