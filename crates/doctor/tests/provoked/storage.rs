//! A file system whose server never answers, in a mount namespace of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use causes::Cause;
use causes::finding::{Confidence, Finding};
use doctor::collect::host::Host;

use crate::local::{Mount, Running, facts, findings, skipped};

/// Mounts FUSE, reads none of the requests, and starts a process that reads a file in it. Prints the
/// number of the connection and the PID of this victim.
const SERVER: &str = "
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
requests = os.open('/dev/fuse', os.O_RDWR)
options = f'fd={requests},rootmode=40000,user_id=0,group_id=0'
if libc.mount(b'unresponsive', sys.argv[1].encode(), b'fuse', 0, options.encode()) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
table = open('/proc/self/mountinfo').read().splitlines()
device = next(row.split()[2] for row in table if row.split()[4] == sys.argv[1])
name = \"printf 'runc' > /proc/self/comm; read line < \" + sys.argv[1] + '/file'
victim = subprocess.Popen(['sh', '-c', name])
print(device.split(':')[1], victim.pid, flush=True)
sys.stdin.read()
";

#[test]
fn a_process_that_waits_for_an_unresponsive_file_system_is_named_and_so_is_the_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let mount = folder.path().join("mount");
    let connections = folder.path().join("sys/fs/fuse/connections");
    fs::create_dir_all(&mount).expect("a folder");
    fs::create_dir_all(&connections).expect("a folder");
    // The kernel's counts for each connection, even if this machine does not mount them.
    let Some(_counts) = Mount::of("fusectl", "ro", &connections) else {
        return;
    };
    let server = Command::new("unshare")
        .args(["--mount", "python3", "-c", SERVER])
        .arg(&mount)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut server) = server.map(Running) else {
        return skipped("there is no unshare");
    };
    let mut line = String::new();
    BufReader::new(server.0.stdout.as_mut().expect("a pipe"))
        .read_line(&mut line)
        .expect("to read");
    let mut numbers = line.split_ascii_whitespace();
    let (Some(connection), Some(victim)) = (numbers.next(), numbers.next()) else {
        return skipped("FUSE cannot be mounted here");
    };
    let host = Host {
        sys: folder.path().join("sys"),
        ..Host::local()
    };
    std::thread::sleep(std::time::Duration::from_millis(300));

    let seen = facts(&host);
    let victim: u32 = victim.parse().expect("a number");
    let found = findings(&seen, Cause::StorageUnresponsive);
    let waits = found.iter().find(|one| one.culprit.pid == Some(victim));
    let waits = waits.unwrap_or_else(|| panic!("{found:?}"));
    assert_eq!(waits.confidence, Confidence::High);
    assert!(waits.evidence[0].contains("waits in fuse_"), "{waits:?}");
    let abort = format!("connections/{connection}/abort");
    let gives_up = |one: &Finding| one.advice[0].contains(&abort);
    assert!(found.iter().any(gives_up), "{found:?}");

    // Once the server has ended, the waiting process gets an error.
    drop(server);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let found = findings(&facts(&host), Cause::StorageUnresponsive);
    let ours = found
        .iter()
        .find(|one| one.culprit.pid == Some(victim) || gives_up(one));
    assert_eq!(ours, None);
}
