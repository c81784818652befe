//! Dumps of several daemons: which daemon waits for which.

mod read;

use analyze::analysis::Analysis;
use read::{causes, texts};

const KUBELET: &str = "goroutine 386 [select, 45 minutes]:\n\
    google.golang.org/grpc/internal/transport.(*Stream).waitOnHeader(0xc0)\n\t/x/t.go:1 +0x1\n\
    google.golang.org/grpc.(*ClientConn).Invoke(0xc0)\n\t/x/c.go:1 +0x1\n\
    k8s.io/cri-api/pkg/apis/runtime/v1.(*runtimeServiceClient).ListContainers(0xc0)\n\t/x/api.go:1 +0x1\n\
    k8s.io/cri-client/pkg.(*remoteRuntimeService).ListContainers(0xc0)\n\t/x/r.go:1 +0x1\n\
    k8s.io/kubernetes/pkg/kubelet/kuberuntime.(*kubeGenericRuntimeManager).GetPods(0xc0)\n\t/x/k.go:1 +0x1\n\
    k8s.io/kubernetes/pkg/kubelet/pleg.(*GenericPLEG).Relist(0xc0)\n\t/x/g.go:1 +0x1\n";

const CONTAINERD: &str = "goroutine 45150 [sync.RWMutex.RLock, 44 minutes]:\n\
    sync.runtime_SemacquireRWMutexR(0x0?, 0x27?)\n\t/x/sema.go:82 +0x25\n\
    sync.(*RWMutex).RLock(...)\n\t/x/rwmutex.go:71\n\
    github.com/containerd/containerd/pkg/cri/store/container.(*statusStorage).Get(0xc004000c00)\n\t/x/status.go:205 +0x7f\n\
    github.com/containerd/containerd/pkg/cri/server.(*criService).ListContainers(0xc0)\n\t/x/l.go:1 +0x1\n\
    k8s.io/cri-api/pkg/apis/runtime/v1._RuntimeService_ListContainers_Handler(0xc0)\n\t/x/api.go:1 +0x1\n\n\
    goroutine 777 [select, 46 minutes]:\n\
    github.com/containerd/ttrpc.(*Client).dispatch(0xc0)\n\t/x/client.go:1 +0x1\n\
    github.com/containerd/containerd/pkg/cri/server.(*criService).updateContainerResources(0xc0)\n\t/x/u.go:1 +0x1\n\
    github.com/containerd/containerd/pkg/cri/store/container.(*statusStorage).UpdateSync(0xc004000c00)\n\t/x/status.go:1 +0x1\n";

const SHIM: &str = "goroutine 12 [semacquire, 46 minutes]:\nsync.runtime_SemacquireMutex(0xc0, 0x0)\n\t/x/sema.go:71 +0x1\n\
    sync.(*Mutex).Lock(0xc000123450)\n\t/x/mutex.go:81 +0x1\n\
    github.com/containerd/containerd/runtime/v2/runc.(*Container).Update(0xc000123400)\n\t/x/c.go:1 +0x1\n\n\
    goroutine 9 [syscall, 47 minutes]:\nsyscall.Syscall(0xa6, 0xc0, 0x2)\n\t/x/asm.s:1 +0x1\n\
    golang.org/x/sys/unix.Unmount(0xc0, 0x2)\n\t/x/z.go:1 +0x1\n\
    github.com/containerd/containerd/runtime/v2/runc.(*Container).Delete(0xc000123400)\n\t/x/c.go:1 +0x1\n";

#[track_caller]
fn programs(found: &Analysis) -> Vec<&str> {
    let chain = found.chain.as_ref().expect("there is a chain");
    let programs = chain.links.iter().map(|link| link.program.as_deref());
    programs.map(|program| program.unwrap_or("?")).collect()
}

#[test]
fn a_status_lock_is_followed_from_the_relist_to_the_unmount() {
    // The order of the inputs does not matter.
    let found = texts(&[SHIM.as_bytes(), CONTAINERD.as_bytes(), KUBELET.as_bytes()]);
    assert_eq!(
        programs(&found),
        [
            "kubelet",
            "containerd",
            "containerd",
            "containerd-shim",
            "containerd-shim"
        ],
        "{}",
        found.summary
    );
    assert_eq!(
        found.summary,
        "The kubelet's relist waits in ListContainers for the shim, in runc.(*Container).Delete."
    );
    let sentence = &found.chain.as_ref().expect("there is a chain").sentence;
    let begin = "The kubelet's relist has been waiting for 45 minutes in ListContainers; ";
    assert!(sentence.starts_with(begin), "{sentence}");
    let held = "that lock is held by goroutine 9 in runc.(*Container).Delete";
    assert!(sentence.contains(held), "{sentence}");
    let holder = found
        .goroutines
        .as_ref()
        .unwrap()
        .likely_holder
        .as_ref()
        .unwrap();
    assert_eq!(holder.goroutine, Some(9));
    assert!(causes(&found).contains(&"container-status-lock"));
}

#[test]
fn a_chain_ends_where_the_next_dump_is_missing() {
    let found = texts(&[KUBELET.as_bytes(), CONTAINERD.as_bytes()]);
    assert_eq!(programs(&found), ["kubelet", "containerd", "containerd"]);
    assert_eq!(causes(&found)[0], "container-status-lock");
    assert_eq!(texts(&[KUBELET.as_bytes()]).chain, None);
}
