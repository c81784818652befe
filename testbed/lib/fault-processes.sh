# Faults of containers whose processes do not run, or do not end.
# shellcheck shell=bash

change_freezer() {
    local folder
    need_id "$2"
    grep -qxF "$2" < <(container_ids) || fail "'$name_in_use' has no running container $2"
    folder=$(container_cgroup "$2") || fail "no cgroup of the container $2 was found below $tracking"
    freezer "$1" "$folder"
    echo "$1 container $2 ($folder)"
}

fault_freeze() { change_freezer frozen "$1"; }
fault_thaw() { change_freezer thawed "$1"; }

# The first process of a running container.
init_pid() {
    need_id "$1"
    cat "$state_dir"/io.containerd.runtime.v2.task/*/"$1/init.pid" 2>/dev/null || fail "'$name_in_use' has no running container $1"
}

# A debugger that stops a process and does not wait for it: after SIGKILL the process stays a zombie, and its parent gets no signal.
# Every Debian has perl. The numbers are ptrace, PTRACE_SEIZE and PTRACE_INTERRUPT.
# shellcheck disable=SC2016
readonly tracer='my ($ptrace, $pid, $ready) = @ARGV;
    for my $request (0x4206, 0x4207) { syscall($ptrace + 0, $request, $pid + 0, 0, 0) == 0 or die "ptrace: $!\n" }
    open(my $file, ">", $ready) or die "$ready: $!\n";
    print $file $$; close $file;
    sleep while 1;'

fault_trace() {
    local pid call=101
    pid=$(init_pid "$1")
    [[ $(uname -m) == x86_64 ]] || call=117
    (
        join_cgroup faults
        exec perl -e "$tracer" "$call" "$pid" "$flags/trace-$1"
    ) </dev/null >>"$run_dir/faults.log" 2>&1 &
    wait_until 10 test -s "$flags/trace-$1" || fail "process $pid cannot be traced: $(tail -n 1 "$run_dir/faults.log")"
    echo "process $pid of container $1 is stopped by a debugger"
}

fault_untrace() {
    need_id "$1"
    [[ -s $flags/trace-$1 ]] || fail "no container $1 of '$name_in_use' is traced"
    kill -KILL "$(<"$flags/trace-$1")" 2>/dev/null || true
    rm -f "$flags/trace-$1"
    echo "the debugger of container $1 is killed"
}

# A process joins the container and writes to a frozen file system. It waits for that in state D, which no signal interrupts.
fault_unkillable() {
    local pid folder=$lib_dir/frozen
    local -a mounts groups
    pid=$(init_pid "$1")
    [[ ! -e $folder ]] || fail 'there is an unkillable process already: killable ends it'
    make_disk "$folder" 8
    touch "$folder/file"
    mapfile -t mounts < <(cgroup_mounts)
    mapfile -t groups < <(find "${mounts[@]}" -type d -name "$1")
    exec {file}>>"$folder/file"
    "$lib_dir/bin/busybox" fsfreeze --freeze "$folder"
    (
        join_cgroup faults
        forget_lock
        # shellcheck disable=SC2016
        exec nsenter --target "$pid" --pid -- sh -c 'busybox=$1; shift; for group in "$@"; do echo 0 >"$group/cgroup.procs"; done; exec "$busybox" echo stuck' \
            - "$lib_dir/bin/busybox" "${groups[@]}" </dev/null >&"$file" 2>>"$run_dir/faults.log"
    ) &
    touch "$flags/unkillable-$1"
    wait_until 10 has_unkillable "$1" || fail "no process of container $1 reached state D; see $run_dir/faults.log"
    echo "container $1 has a process in state D"
}

has_unkillable() {
    local pid
    for pid in $(cat "$(container_cgroup "$1")/cgroup.procs"); do
        ! grep -qs '^State:\s*D' "/proc/$pid/status" || return 0
    done
    return 1
}

thaw_disk() {
    local folder=$lib_dir/frozen
    ! mountpoint -q "$folder" || "$lib_dir/bin/busybox" fsfreeze --unfreeze "$folder" 2>/dev/null || true
}

fault_killable() {
    thaw_disk
    ! mountpoint -q "$lib_dir/frozen" || umount --lazy "$lib_dir/frozen"
    rm -rf --one-file-system "$lib_dir/frozen" "$lib_dir/frozen.disk"
    rm -f "$flags"/unkillable-*
    echo 'the process in state D continues'
}
