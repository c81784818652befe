//! Goroutine dumps: their forms, damaged ones, and the likely holders of locks.

mod read;

use analyze::goroutines::{Goroutines, ShownGroup};
use read::{causes, text};

fn goroutines(dump: &str) -> Goroutines {
    text(dump).goroutines.expect("there are goroutines")
}

/// `count` goroutines that wait for the lock of a container's status.
fn pile(count: u64, minutes: u64) -> String {
    (0..count)
        .map(|at| {
            format!(
                "goroutine {} [sync.RWMutex.RLock, {} minutes]:\nsync.runtime_SemacquireRWMutexR(0xc0045c7be0?, 0x27?, 0x1?)\n\
                 \t/usr/local/go/src/runtime/sema.go:82 +0x25\nsync.(*RWMutex).RLock(0xc0045c7bd0)\n\t/go/src/sync/rwmutex.go:71 +0x1\n\
                 github.com/containerd/containerd/pkg/cri/store/container.(*statusStorage).Get(0xc0045c7b00)\n\t/x/status.go:205 +0x7f\n\
                 github.com/containerd/containerd/pkg/cri/server.(*criService).ListContainers(0xc0001, {{0x1, 0x2}})\n\t/x/container_list.go:47 +0x33\n\
                 created by google.golang.org/grpc.(*Server).serveStreams.func1 in goroutine 29\n\t/x/server.go:1 +0x1\n\n",
                1000 + at,
                minutes - at.min(minutes - 1)
            )
        })
        .collect()
}

const HOLDER: &str = "goroutine 777 [select, 46 minutes]:\n\
    github.com/containerd/ttrpc.(*Client).dispatch(0xc00, {0x1, 0x2})\n\t/x/client.go:1 +0x1\n\
    github.com/containerd/ttrpc.(*Client).Call(0xc00, {0x1, 0x2})\n\t/x/client.go:1 +0x1\n\
    github.com/containerd/containerd/runtime/v2.(*shimTask).Update(0xc00)\n\t/x/shim.go:1 +0x1\n\
    github.com/containerd/containerd/pkg/cri/server.(*criService).updateContainerResources(0xc00)\n\t/x/u.go:1 +0x1\n\
    github.com/containerd/containerd/pkg/cri/store/container.(*statusStorage).UpdateSync(0xc0045c7b00, 0x1)\n\t/x/status.go:1 +0x1\n\n";

const IDLE: &str = "goroutine 1 [select, 90000 minutes]:\n\
    github.com/containerd/containerd/pkg/cri/server.(*criService).Run(0x1, 0x2)\n\t/x/service.go:290 +0x7e5\n\n\
    goroutine 3 [IO wait, 90000 minutes]:\ninternal/poll.runtime_pollWait(0x1, 0x72)\n\t/x/netpoll.go:1 +0x1\n\
    net.(*netFD).accept(0xc0)\n\t/x/fd.go:1 +0x1\nnet.(*UnixListener).Accept(0xc0)\n\t/x/unix.go:1 +0x1\n\n\
    goroutine 4 [GC worker (idle), 90000 minutes]:\nruntime.gopark(0x1, 0x2)\n\t/x/proc.go:1 +0x1\n\n\
    goroutine 5 [select]:\ngithub.com/other/thing.(*Keeper).loop(0xc0)\n\t/x/k.go:1 +0x1\n\n";

#[test]
fn the_holder_of_a_pile_works_on_the_same_object() {
    let found = text(format!("{IDLE}{}{HOLDER}", pile(40, 45)));
    let goroutines = found.goroutines.as_ref().unwrap();
    assert_eq!(goroutines.total, 45);
    let group = &goroutines.groups[0];
    assert_eq!(
        (group.count, group.min_wait_minutes, group.max_wait_minutes),
        (40, Some(6), Some(45))
    );
    assert_eq!(
        (group.lock.as_deref(), group.lock_waiters),
        (Some("0xc0045c7bd0"), Some(40))
    );
    let holder = goroutines.likely_holder.as_ref().unwrap();
    assert_eq!(
        (holder.goroutine, holder.wait_minutes),
        (Some(777), Some(46)),
        "{holder:#?}"
    );
    assert!(
        holder.why.contains("on the object whose lock"),
        "{}",
        holder.why
    );
    assert_eq!(causes(&found)[0], "container-status-lock");
    assert_eq!(found.findings[0].confidence.as_str(), "certain");
}

#[test]
fn without_a_relation_the_goroutine_that_has_waited_longest_outside_is_the_holder() {
    let call = "goroutine 90 [select, 5613 minutes]:\ngoogle.golang.org/grpc/transport.(*Stream).Header(0xc0)\n\t/x/t.go:1 +0x1\n\
        google.golang.org/grpc.Invoke(0xc0)\n\t/x/c.go:1 +0x1\ngithub.com/docker/docker/libcontainerd.(*client).Create(0xc0)\n\t/x/l.go:1 +0x1\n\n";
    let store: String = (0..30)
        .map(|at| format!("goroutine {} [semacquire, {} minutes]:\nsync.runtime_Semacquire(0xc421056a74)\n\t/x/sema.go:56 +0x3b\nsync.(*RWMutex).RLock(0xc421056a68)\n\t/x/rwmutex.go:50 +0x4b\ngithub.com/docker/docker/daemon/exec.(*Store).List(0xc421056a60)\n\t/x/exec.go:140 +0x4d\n\n", 115 + at, 5611 - at))
        .collect();
    let holder = goroutines(&format!("{store}{call}")).likely_holder.unwrap();
    assert_eq!(
        (holder.goroutine, holder.wait_minutes),
        (Some(90), Some(5613))
    );
}

#[test]
fn idle_goroutines_support_no_cause() {
    let found = text(IDLE);
    let goroutines = found.goroutines.as_ref().unwrap();
    assert!(
        goroutines.groups.iter().all(|group| group.idle),
        "{goroutines:#?}"
    );
    assert_eq!(goroutines.likely_holder, None);
    assert!(!found.has_problem());
}

#[test]
fn a_condition_variable_is_not_a_lock_even_if_old_go_shows_the_same_state() {
    let wait = "goroutine 8 [semacquire, 700 minutes]:\nsync.runtime_Syncsemacquire(0xc8)\n\t/x/sema.go:1 +0x1\nsync.(*Cond).Wait(0xc8203)\n\t/x/cond.go:1 +0x1\ngithub.com/docker/docker/pkg/ioutils.(*BytesPipe).Read(0xc8)\n\t/x/b.go:1 +0x1\n";
    let found = goroutines(wait);
    assert!(
        found.groups[0].idle && found.likely_holder.is_none(),
        "{found:#?}"
    );
}

/// Checks that this form of the dump is read like the plain one.
#[track_caller]
fn same(carried: &str) {
    let plain = goroutines(HOLDER);
    let strip = |groups: Vec<ShownGroup>| {
        groups
            .into_iter()
            .map(|group| (group.state, group.max_wait_minutes, group.frames))
            .collect::<Vec<_>>()
    };
    let read = text(carried);
    let read = read.goroutines.unwrap_or_else(|| panic!("{carried}"));
    assert_eq!(strip(read.groups), strip(plain.groups), "{carried}");
}

#[test]
fn a_dump_is_the_same_in_every_form() {
    same(&HOLDER.replace('\n', "\r\n"));
    same(&HOLDER.replace('\n', "\n\n"));
    same(&HOLDER.trim_end().replace("\n\t", " ").replace('\n', " "));
    same(&format!("```\n{HOLDER}```\n"));
    same(
        &HOLDER
            .lines()
            .map(|line| format!("Oct 27 15:20:23 n1 containerd[17]: {line}\n"))
            .collect::<String>(),
    );
    same(
        &HOLDER
            .lines()
            .map(|line| format!("2024-05-05T13:59:56.1Z stderr F {line}\n"))
            .collect::<String>(),
    );
    same(
        &HOLDER
            .lines()
            .map(|line| format!("> {line}\n"))
            .collect::<String>(),
    );
    same(&format!("panic: oh no\n\n{HOLDER}exit status 2\n"));
    same(&format!(
        "SIGABRT: abort\nPC=0x46d0a1 m=0 sigcode=0\n\n{HOLDER}rax    0x0\nrip    0x46d0a1\n"
    ));
    let escaped = HOLDER.replace('\n', "\\n").replace('\t', "\\t");
    same(&format!(
        "time=\"2021-05-05T13:59:56Z\" level=info msg=\"=== BEGIN goroutine stack dump ===\\n{escaped}=== END goroutine stack dump ===\"\n"
    ));
    same(&format!(
        "May 5 13:59:56 n1 containerd[1]: time=\"2021-05-05T13:59:56Z\" level=info msg=\"=== BEGIN goroutine stack dump ===\\n{escaped}\\n=== END goroutine stack dump ===\"\n"
    ));
    same(&format!(
        "{{\"level\":\"info\",\"msg\":\"=== BEGIN goroutine stack dump ===\\n{escaped}=== END\",\"time\":\"2021-05-05T13:59:56Z\"}}\n"
    ));
    let json: String = HOLDER
        .lines()
        .map(|line| {
            format!(
                "{{\"log\":{},\"stream\":\"stderr\",\"time\":\"2021-05-05T13:59:56Z\"}}\n",
                serde_json::to_string(&format!("{line}\n")).unwrap()
            )
        })
        .collect();
    same(&json);
}

#[test]
fn a_dump_that_was_cut_off_is_read_as_far_as_it_goes() {
    for end in (1..HOLDER.len()).step_by(7) {
        let found = text(&HOLDER[..end]);
        if end > "goroutine 777 [select, 46 minutes".len() {
            let group = &found.goroutines.as_ref().unwrap().groups[0];
            assert_eq!(group.state.as_deref(), Some("select"), "{end}");
        }
    }
}

#[test]
fn a_profile_has_counts_but_no_states() {
    let profile = "goroutine profile: total 15003\n14990 @ 0x43a1c5 0x44ab3a\n\
        #\t0x46e2d3\tsync.runtime_SemacquireMutex+0x43\t\t/usr/local/go/src/runtime/sema.go:71\n\
        #\t0x47e2d3\tgithub.com/docker/docker/daemon.(*Daemon).ContainerInspectCurrent+0x1\t\t/x/inspect.go:40\n\n\
        13 @ 0x1\n#\t0x1\tmain.main+0x1\t/main.go:5\n";
    let found = text(profile);
    assert_eq!(found.inputs[0].kind, analyze::kind::Kind::GoroutineProfile);
    assert_eq!(found.inputs[0].unread_lines, 0);
    let goroutines = found.goroutines.as_ref().unwrap();
    assert_eq!(goroutines.total, 15003);
    let group = &goroutines.groups[0];
    assert_eq!(
        (group.count, group.state.as_deref(), group.max_wait_minutes),
        (14990, None, None)
    );
    assert!(group.function.ends_with("ContainerInspectCurrent"));
    assert_eq!(causes(&found), ["container-lock"]);
}

#[test]
fn a_block_of_code_is_not_a_dump() {
    let found = text("Look:\n```\nkubectl get pods\n```\n");
    assert_eq!(found.inputs[0].kind, analyze::kind::Kind::Unknown);
    // The fences are recognised; the line between them is not.
    assert_eq!(found.inputs[0].unread_lines, 2);
}
