# Words for people, waiting, and the one lock. Stdout is kept for results that scripts read.
# shellcheck shell=bash

say() { printf 'testbed: %s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

misuse() {
    say "$*; 'testbed --help' has more"
    exit 2
}

need_root() { ((EUID == 0)) || fail 'root is needed'; }

# wait_until SECONDS COMMAND...: runs COMMAND every 20 ms until it succeeds; fails when the time is over.
wait_until() {
    local deadline=$((${EPOCHREALTIME/./} + $1 * 1000000))
    shift
    until "$@"; do
        ((${EPOCHREALTIME/./} < deadline)) || return 1
        sleep 0.02
    done
}

readonly run_root=/run/pleg-testbed
readonly lib_root=/var/lib/pleg-testbed
readonly lock_file=$run_root/.lock

# One lock for all that starts or stops something; the file is removed by the last `down`, so a lock on a removed file does not count.
lock_testbed() {
    while true; do
        mkdir -p "$run_root"
        { exec {lock}>>"$lock_file"; } 2>/dev/null || continue
        flock --timeout 120 "$lock" || fail "another testbed command has held $lock_file for two minutes"
        if [[ $lock_file -ef /proc/self/fd/$lock ]]; then
            return
        fi
        exec {lock}>&-
    done
}

# What outlives the command must not take the lock along.
forget_lock() { if [[ ${lock:-} ]]; then exec {lock}>&-; fi; }
