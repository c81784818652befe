# Real faults, each with its way back. Each says in one line what it did.
# shellcheck shell=bash

signal_containerd() {
    local pid
    pid=$(containerd_pid) || fail "containerd of '$name_in_use' is not running"
    kill "-$1" "$pid"
    echo "$2 containerd $pid"
}

fault_stop() {
    stop_slowing # it would resume containerd
    signal_containerd STOP stopped
}
fault_cont() { signal_containerd CONT resumed; }

is_dead() { ! containerd_pid >/dev/null; }

# A process that dies loses its command line before its socket, which takes connections until then.
is_gone() { is_dead && ! grep -qF "$socket" /proc/net/unix; }

fault_crash() {
    lock_testbed
    signal_containerd KILL killed
    wait_until 10 is_gone || fail 'containerd survived SIGKILL for 10 s'
}

fault_start() {
    lock_testbed
    if containerd_pid >/dev/null; then
        echo "containerd $(containerd_pid) runs already"
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

need_id() { [[ $1 =~ ^[A-Za-z0-9_.-]+$ ]] || misuse "'$1' is no id"; }

fault_shim_stop() { need_id "$1"; signal_shim STOP stopped "$1"; }
fault_shim_cont() { need_id "$1"; signal_shim CONT resumed "$1"; }

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

# A flag is a pipe that nobody writes to: whoever opens it to read sleeps in the kernel until it is released, without polling.
raise_flag() { [[ -p $flags/$1 ]] || mkfifo "$flags/$1"; }

# Takes the flag away for those who come, then opens the pipe's other end for those who sleep; held open for one who is between the two.
release_flag() {
    [[ -p $flags/$1 ]] || return 0
    mv "$flags/$1" "$flags/.released"
    exec {released}<>"$flags/.released"
    sleep 0.05
    exec {released}>&-
    rm -f "$flags/.released"
}

readonly runc_verbs='checkpoint create delete events exec kill pause ps restore resume start state update'

need_runc_verb() { [[ " $runc_verbs " == *" $1 "* ]] || misuse "'$1' is no verb of runc's: it is one of $runc_verbs"; }

fault_runc_stuck() {
    need_runc_verb "$1"
    raise_flag "runc-$1"
    echo "runc $1 hangs from now on"
}

fault_runc_free() {
    local verb
    [[ -z ${1:-} ]] || need_runc_verb "$1"
    for verb in ${1:-$runc_verbs}; do
        release_flag "runc-$verb"
    done
    echo "runc ${1:+$1 }goes on"
}

fault_cni_hang() {
    raise_flag cni
    echo 'the CNI plugin hangs from now on'
}

fault_cni_free() {
    release_flag cni
    echo 'the CNI plugin goes on'
}

# in_seconds THOUSANDTHS MS: that share of so many milliseconds.
in_seconds() { printf '%d.%06d' $(($1 * $2 / 1000000)) $(($1 * $2 % 1000000)); }

# slow_down THOUSANDTHS PERIOD: in each PERIOD (ms) containerd is stopped for so much of it; asks for the process anew each time, so it goes on after a restart.
slow_down() {
    local pid next stopped running never before=''
    stopped=$(in_seconds "$1" "$2")
    running=$(in_seconds $((1000 - $1)) "$2")
    # A busy machine would let containerd run for longer than its share, or give it no processor at all while it may run: a real-time priority counts across
    # sessions and control groups, which a nice value does not.
    at_once 2 "$BASHPID"
    # A pipe that nobody writes to: to wait for it takes no process, whose start would take longer than a short period.
    exec {never}<> <(:)
    pid=$(containerd_pid) || pid=''
    while true; do
        [[ -z $pid ]] || kill -STOP "$pid" || pid=''
        : >"$run_dir/slowed"
        read -rt "$stopped" -u "$never" || true
        next=$(containerd_pid) || next=''
        if [[ $next != "$before" ]]; then
            [[ -z $next ]] || at_once 1 "$next" --reset-on-fork
            before=$next
        fi
        [[ -z $pid ]] || kill -CONT "$pid" || true
        pid=$next
        read -rt "$running" -u "$never" || true
    done
}

# at_once PRIORITY PID [OPTION]: all threads of it get a processor as soon as they can run; with --reset-on-fork what it starts does not. Where that is not allowed
# they wait as all others do.
at_once() { chrt "${@:3}" --all-tasks --fifo --pid "$1" "$2" || renice -n -20 "$2" || true; }

slowing_processes() { processes_in "$tracking/$cgroup/slow"; }

stop_slowing() {
    local -a pids
    mapfile -t pids < <(slowing_processes)
    ((${#pids[@]})) || return 0
    kill -KILL "${pids[@]}" 2>/dev/null || true
    local containerd
    containerd=$(containerd_pid) || return 0
    chrt --all-tasks --other --pid 0 "$containerd" 2>/dev/null || true
    kill -CONT "$containerd" 2>/dev/null || true
}

fault_slow() {
    local period=${2:-100}
    [[ $1 == off || $1 =~ ^[1-9][0-9]?(\.[0-9])?$ ]] || misuse "'slow' takes a percentage from 1 to 99.9, or off"
    [[ $period =~ ^[1-9][0-9]{1,3}$ ]] || misuse "'slow' takes a period from 10 to 9999 ms"
    stop_slowing
    if [[ $1 == off ]]; then
        echo 'containerd has all of its time again'
        return
    fi
    local thousandths=$1
    [[ $1 == *.* ]] || thousandths=$1.0
    rm -f "$run_dir/slowed"
    (
        join_cgroup slow
        slow_down "${thousandths/./}" "$period"
    ) </dev/null >/dev/null 2>&1 &
    wait_until 10 test -e "$run_dir/slowed" || fail 'containerd was never stopped'
    echo "containerd is stopped for $1 % of each $period ms"
}

# One fault a line, as the verb that made it.
active_faults() {
    local flag folder pid id
    [[ $(containerd_state) != *stopped || -n $(slowing_processes) ]] || echo stop
    [[ -z $(slowing_processes) ]] || echo slow
    for flag in "$flags"/*; do
        case ${flag##*/} in
            runc-*) echo "runc-stuck ${flag##*/runc-}" ;;
            cni) echo cni-hang ;;
        esac
    done
    while read -r pid id; do
        ! grep -qs '^State:\s*T' "/proc/$pid/status" || echo "shim-stop $id"
    done < <(shims)
    for folder in $(instance_cgroups); do
        ! grep -qsx 1 "$folder/freezer.self_freezing" "$folder/cgroup.freeze" || echo "freeze ${folder##*/}"
    done
}
