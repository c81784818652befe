//! How goroutines of a healthy process wait, possibly for days: these stacks show no problem.

use causes::facts::facts;

use super::Calls;
use super::waits::contains;

/// Whether the goroutine waits for its next task. One that waits for a lock or for another daemon
/// is never idle.
pub fn is_idle(state: Option<&str>, calls: &Calls, created_by: Option<&str>) -> bool {
    let known = &facts().goroutines;
    let state = state.unwrap_or_default();
    if known["idle-states"].iter().any(|idle| idle == state) || state.starts_with("GC ") {
        return true;
    }
    let waits = super::Wait::of(Some(state).filter(|state| !state.is_empty()), calls);
    if matches!(waits, super::Wait::Lock | super::Wait::Send) {
        return false;
    }
    // Functions deeper in the stack only called the function that waits.
    let near = calls
        .iter()
        .take(7)
        .any(|call| contains(call.function, &known["idle-functions"]));
    let waits_itself = calls
        .iter()
        .find(|call| !super::call::is_library(call.function));
    let in_loop = waits_itself.is_some_and(|call| contains(call.function, &known["idle-loops"]));
    let is_loop =
        calls.len() <= 3 && matches!(state, "select" | "chan receive" | "IO wait" | "syscall");
    let own_loop = is_loop
        && calls.iter().all(|call| {
            let name = call.function.rsplit('.').next().unwrap_or_default();
            super::call::is_library(call.function)
                || contains(&name.to_ascii_lowercase(), &known["own-loops"])
        });
    // A subscription to containerd's events is a call that never ends.
    let waits_for_events = |by: &str| by.contains("(*eventRemote).Subscribe");
    let is_made_to_wait =
        created_by.is_some_and(|by| by.starts_with("os/signal.") || waits_for_events(by));
    near && (!waits.is_outside() || of_connection(calls)) || in_loop || own_loop || is_made_to_wait
}

/// Connections always wait for the network; the calls over them are made by other goroutines.
fn of_connection(calls: &Calls) -> bool {
    let known = &facts().goroutines["connections"];
    calls.iter().any(|call| contains(call.function, known))
}
