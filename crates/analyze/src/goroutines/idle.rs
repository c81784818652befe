//! How goroutines of a healthy process wait, possibly for days: these stacks show no problem.

use super::Call;
use super::waits::contains;

/// States of the Go runtime's own goroutines.
const STATES: [&str; 16] = [
    "idle",
    "running",
    "runnable",
    "dead",
    "sleep",
    "timer goroutine (idle)",
    "finalizer wait",
    "cleanup wait",
    "GC worker (idle)",
    "GC sweep wait",
    "GC scavenge wait",
    "force gc (idle)",
    "trace reader (blocked)",
    "select (no cases)",
    "sync.WaitGroup.Wait",
    "sync.Cond.Wait",
];

/// Functions in which servers, watchers and workers wait for their next task.
const FUNCTIONS: [&str; 54] = [
    "sync.(*Cond).Wait",
    "sync.(*WaitGroup).Wait",
    "os/signal.",
    "signal_recv",
    "net.(*TCPListener).Accept",
    "net.(*UnixListener).Accept",
    "net.(*netFD).accept",
    "http.(*Server).Serve",
    "http.(*conn).serve",
    "http.(*connReader)",
    "http.(*persistConn).readLoop",
    "http.(*persistConn).writeLoop",
    "http2.(*clientConnReadLoop)",
    "http2.(*serverConn)",
    "http.(*http2",
    "grpc.(*Server).Serve",
    "transport.(*http2Client).reader",
    "transport.(*http2Server).HandleStreams",
    "transport.(*http2Server).keepalive",
    "transport.(*http2Client).keepalive",
    "transport.(*controlBuffer).get",
    "transport.(*loopyWriter).run",
    "transport.(*recvBufferReader).readClient",
    "grpc.(*ccBalancerWrapper).watcher",
    "grpc.(*addrConn).",
    "grpc.(*ClientConn).scWatcher",
    "grpc.(*ccResolverWrapper)",
    "grpcsync.(*CallbackSerializer)",
    "ttrpc.(*Client).run",
    "ttrpc.(*Client).receiveLoop",
    "ttrpc.(*receiver)",
    "ttrpc.(*serverConn)",
    "ttrpc.(*Server).Serve",
    "dbus.(*Conn).inWorker",
    "dbus.(*Conn).outWorker",
    "dbus.(*Conn).jobComplete",
    "glog.(*loggingT).flushDaemon",
    "klog.(*loggingT).flushDaemon",
    "klog.(*flushDaemon)",
    "fsnotify.(*Watcher).readEvents",
    "inotify.(*Watcher)",
    "fifo.openFifo",
    "events.(*Exchange).",
    "go-events.(*",
    "(*criService).Run",
    "server.(*eventMonitor)",
    "console.(*Epoller).Wait",
    "(*Daemon).execCommandGC",
    "(*Daemon).ProcessClusterNotifications",
    "(*DaemonCli).start",
    "api/server.(*Server).serveAPI",
    "remote.(*client).processEventStream",
    "overlay.(*driver).peerOpRoutine",
    // The output of a container that writes nothing.
    "fifo.(*fifo).Read",
];

/// Loops that call a worker function: they are idle only if they wait themselves.
const LOOPS: [&str; 12] = [
    "wait.JitterUntil",
    "wait.BackoffUntil",
    "wait.PollImmediateUntil",
    "cache.(*Reflector)",
    "cache.(*processorListener)",
    "cache.(*DeltaFIFO)",
    "cache.(*sharedProcessor)",
    "workqueue.(*Type)",
    "workqueue.(*delayingType)",
    "watch.(*Broadcaster)",
    "watch.(*StreamWatcher)",
    "plugin.(*Manager)",
];

/// Whether the goroutine waits for its next task. One that waits for a lock or for another daemon
/// is never idle.
pub fn is_idle(state: Option<&str>, calls: &[Call], created_by: Option<&str>) -> bool {
    let state = state.unwrap_or_default();
    if STATES.contains(&state) || state.starts_with("GC ") {
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
        .any(|call| contains(&call.function, &FUNCTIONS));
    let waits_itself = calls
        .iter()
        .find(|call| !super::call::is_library(&call.function));
    let in_loop = waits_itself.is_some_and(|call| contains(&call.function, &LOOPS));
    let is_loop =
        calls.len() <= 3 && matches!(state, "select" | "chan receive" | "IO wait" | "syscall");
    let own_loop = is_loop
        && calls.iter().all(|call| {
            let name = call
                .function
                .rsplit('.')
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase();
            super::call::is_library(&call.function)
                || contains(
                    &name,
                    &["loop", "run", "watch", "serve", "worker", "monitor", "func"],
                )
        });
    // A subscription to containerd's events is a call that never ends.
    let waits_for_events = |by: &str| by.contains("(*eventRemote).Subscribe");
    let is_made_to_wait =
        created_by.is_some_and(|by| by.starts_with("os/signal.") || waits_for_events(by));
    near && (!waits.is_outside() || of_connection(calls)) || in_loop || own_loop || is_made_to_wait
}

/// Connections always wait for the network; the calls over them are made by other goroutines.
fn of_connection(calls: &[Call]) -> bool {
    calls.iter().any(|call| {
        contains(
            &call.function,
            &[
                "http2Client).reader",
                "http2Server).HandleStreams",
                "persistConn).readLoop",
                "persistConn).writeLoop",
                "controlBuffer).get",
                "loopyWriter).run",
                "ttrpc.(*Client).run",
                "ttrpc.(*Client).receiveLoop",
                "ttrpc.(*receiver)",
                "Conn).inWorker",
                "Conn).outWorker",
                "Conn).jobComplete",
                "keepalive",
            ],
        )
    })
}
