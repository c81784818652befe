# Faults of containerd and its shims, and their ends. Each prints one line. The other faults are in the files fault-*.sh.
# shellcheck shell=bash

signal_containerd() {
    local pid
    pid=$(containerd_pid) || fail "containerd of '$name_in_use' is not running"
    kill "-$1" "$pid"
    echo "$2 containerd $pid"
}

fault_stop() {
    stop_slowing # it would continue containerd
    signal_containerd STOP stopped
}
fault_cont() { signal_containerd CONT resumed; }

is_dead() { ! containerd_pid >/dev/null; }

# A dying process loses its command line before its socket, which accepts connections until then.
is_gone() { is_dead && ! grep -qF "$socket" /proc/net/unix; }

fault_crash() {
    lock_testbed
    signal_containerd KILL killed
    wait_until 10 is_gone || fail 'containerd survived SIGKILL for 10 s'
}

# `start now` does not wait for containerd, which may never be ready.
fault_start() {
    [[ -z ${1:-} || $1 == now ]] || misuse "'start' takes no argument, or now"
    lock_testbed
    if containerd_pid >/dev/null; then
        echo "containerd $(containerd_pid) is already running"
        return
    fi
    if [[ ${1:-} ]]; then
        launch_containerd
        echo "started containerd $started with the same root and state; it may not listen yet"
        return
    fi
    start_containerd
    echo "started containerd $(containerd_pid) with the same root and state"
}

fault_restart() {
    lock_testbed
    if ! is_dead; then
        signal_containerd KILL killed >/dev/null
        wait_until 10 is_gone || fail 'containerd survived SIGKILL for 10 s'
    fi
    start_containerd
    echo "killed containerd and started it again as $(containerd_pid)"
}

# Prints "PID SANDBOX_ID" of each shim of this instance.
shims() {
    local pid i id address
    local -a command
    for pid in $(processes_in "$tracking/$cgroup/runtime"); do
        mapfile -d '' command 2>/dev/null <"/proc/$pid/cmdline" || continue
        [[ ${command[0]:-} == *containerd-shim-runc-v2 ]] || continue
        id='' address=''
        for i in "${!command[@]}"; do
            case ${command[i]} in
                -id) id=${command[i + 1]:-} ;;
                -address) address=${command[i + 1]:-} ;;
            esac
        done
        [[ $address != "$socket" ]] || echo "$pid $id"
    done
}

signal_shim() {
    local pid
    pid=$(shims | sed -n "s/ $3\$//p")
    [[ $pid ]] || fail "no shim of '$name_in_use' serves the sandbox $3"
    kill "-$1" "$pid"
    echo "$2 shim $pid of sandbox $3"
}

need_id() { [[ $1 =~ ^[A-Za-z0-9_.-]+$ ]] || misuse "'$1' is not an id"; }

fault_shim_stop() { need_id "$1"; signal_shim STOP stopped "$1"; }
fault_shim_cont() { need_id "$1"; signal_shim CONT resumed "$1"; }

# Prints one active fault per line, as the verb that caused it.
active_faults() {
    local flag folder pid id
    [[ $(containerd_state) != *stopped || -n $(slowing_processes) ]] || echo stop
    [[ -z $(slowing_processes) ]] || echo slow
    for flag in "$flags"/*; do
        case ${flag##*/} in
            runc-stop-*) echo "runc-stop ${flag##*/runc-stop-}" ;;
            runc-*) echo "runc-stuck ${flag##*/runc-}" ;;
            cni) echo cni-hang ;;
            cni-*) echo "cni-hang $(tr '[:upper:]' '[:lower:]' <<<"${flag##*/cni-}")" ;;
            disk-slow | disk-full) echo "${flag##*/}" ;;
            trace-* | unkillable-*) echo "${flag##*/}" | sed 's/-/ /' ;;
        esac
    done
    while read -r pid id; do
        ! grep -qs '^State:\s*T' "/proc/$pid/status" || echo "shim-stop $id"
    done < <(shims)
    for folder in $(instance_cgroups); do
        ! grep -qsx 1 "$folder/freezer.self_freezing" "$folder/cgroup.freeze" || echo "freeze ${folder##*/}"
    done
}
