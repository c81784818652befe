# Messages, waiting, and the lock. Messages go to stderr; stdout has only results that scripts read.
# shellcheck shell=bash

say() { printf 'testbed: %s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

misuse() {
    say "$*; see 'testbed --help'"
    exit 2
}

need_root() { ((EUID == 0)) || fail 'root is needed'; }

# wait_until SECONDS COMMAND...: runs COMMAND every 20 ms until it succeeds. Fails after SECONDS.
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

# Takes the lock that everything which starts or stops an instance needs. The last `down` removes the file, so a lock of a removed file is not valid.
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

# Closes the lock in a process that outlives the command.
forget_lock() { if [[ ${lock:-} ]]; then exec {lock}>&-; fi; }
