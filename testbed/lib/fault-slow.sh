# The fault of a slow containerd.
# shellcheck shell=bash

# in_seconds THOUSANDTHS MS: prints this share of MS milliseconds, in seconds.
in_seconds() { printf '%d.%06d' $(($1 * $2 / 1000000)) $(($1 * $2 % 1000000)); }

# slow_down THOUSANDTHS PERIOD: stops containerd for this share of each PERIOD (ms). Looks up the process in each period, so it continues after a restart.
slow_down() {
    local pid next stopped running never before=''
    stopped=$(in_seconds "$1" "$2")
    running=$(in_seconds $((1000 - $1)) "$2")
    # On a busy machine containerd would run for longer than its share, or get no processor while it may run. A real-time priority applies across sessions
    # and control groups; a nice value does not.
    at_once 2 "$BASHPID"
    # A pipe without a writer: waiting for it needs no process. Starting one would take longer than a short period.
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

# at_once PRIORITY PID [OPTION]: gives all threads of a process a real-time priority, so that they get a processor at once. With --reset-on-fork its children do
# not get it. If this is not permitted, changes the nice value instead.
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
        echo 'containerd is not slowed any more'
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
