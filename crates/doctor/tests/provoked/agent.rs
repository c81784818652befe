//! An agent that must permit every open on a file system, and does not answer.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use causes::Cause;
use causes::finding::Confidence;
use doctor::collect::host::Host;

use crate::local::{Mount, Running, about, await_ready, facts, skipped};

/// Registers to permit opens below one mount, and then reads no request.
const AGENT: &str = "
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
FAN_CLASS_CONTENT, FAN_MARK_ADD, FAN_MARK_MOUNT, FAN_OPEN_PERM, AT_FDCWD = 4, 1, 16, 0x10000, -100
group = libc.fanotify_init(FAN_CLASS_CONTENT, 0)
marked = libc.fanotify_mark(
    group, FAN_MARK_ADD | FAN_MARK_MOUNT, ctypes.c_uint64(FAN_OPEN_PERM), AT_FDCWD,
    sys.argv[1].encode())
print('ready' if group >= 0 and marked == 0 else 'impossible', flush=True)
sys.stdin.read()
";

#[test]
fn the_agent_that_permits_no_access_is_named_while_its_victim_waits() {
    let Some(mount) = Mount::small() else {
        return;
    };
    let file = mount.path().join("file");
    std::fs::write(&file, "text").expect("to write");
    let agent = Command::new("python3")
        .args(["-c", AGENT])
        .arg(mount.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut agent) = agent.map(Running) else {
        return skipped("there is no python3 to listen to fanotify with");
    };
    await_ready(agent.0.stdout.as_mut().expect("a pipe"));
    let mut victim = Command::new("cat")
        .arg(&file)
        .stdout(Stdio::null())
        .spawn()
        .expect("cat");
    sleep(Duration::from_millis(300));

    let seen = facts(&Host::local());
    let found = about(&seen, Cause::FanotifyBlocked, agent.pid()).expect("a finding");
    assert_eq!(found.confidence, Confidence::Certain);
    let says = |text: &str| found.evidence.iter().any(|line| line.contains(text));
    assert!(
        says(&format!("cat ({}) waits in fanotify_", victim.id())),
        "{found:?}"
    );
    assert!(
        says("1 fanotify marks, 1 of which require its permission"),
        "{found:?}"
    );

    // As the advice says, all victims continue once the agent ends.
    drop(agent);
    assert!(victim.wait().expect("to end").success());
    let seen = facts(&Host::local());
    let waits = doctor::diagnosis::diagnose(&seen, |cause| cause == Cause::FanotifyBlocked);
    assert_eq!(waits.findings, []);
}
