# Programs that containerd starts and that do not return: runc and the CNI plugin. They are started by wrappers.
# shellcheck shell=bash

# A flag is a pipe without a writer: a process that opens it for reading sleeps in the kernel until the flag is released.
raise_flag() { [[ -p $flags/$1 ]] || mkfifo "$flags/$1"; }

# Renames the flag, so that new processes do not find it, then opens the pipe for writing, which wakes the sleeping processes. The pipe stays open for a
# moment, for a process that has found the flag and has not opened it yet.
release_flag() {
    [[ -p $flags/$1 ]] || return 0
    mv "$flags/$1" "$flags/.released"
    exec {released}<>"$flags/.released"
    sleep 0.05
    exec {released}>&-
    rm -f "$flags/.released"
}

readonly runc_verbs='checkpoint create delete events exec kill pause ps restore resume start state update'

need_runc_verb() { [[ " $runc_verbs " == *" $1 "* ]] || misuse "'$1' is not a verb of runc; the verbs are $runc_verbs"; }

fault_runc_stuck() {
    need_runc_verb "$1"
    raise_flag "runc-$1"
    echo "runc $1 hangs from now on"
}

fault_runc_stop() {
    need_runc_verb "$1"
    touch "$flags/runc-stop-$1"
    echo "runc $1 is stopped (SIGSTOP) from now on"
}

# Continues the stopped processes twice: one that had found the flag may not have been stopped at the first time.
continue_stopped() {
    local list=$flags/.continued pid
    [[ -f $flags/$1 ]] || return 0
    mv "$flags/$1" "$list"
    for _ in 1 2; do
        while read -r pid; do
            ! grep -qzxF "$lib_dir/bin/runc" "/proc/$pid/cmdline" 2>/dev/null || kill -CONT "$pid" 2>/dev/null || true
        done <"$list"
        sleep 0.05
    done
    rm -f "$list"
}

fault_runc_free() {
    local verb
    [[ -z ${1:-} ]] || need_runc_verb "$1"
    for verb in ${1:-$runc_verbs}; do
        release_flag "runc-$verb"
        continue_stopped "runc-stop-$verb"
    done
    echo "runc ${1:+$1 }continues"
}

fault_cni_hang() {
    [[ ${1:-} =~ ^(add|del)?$ ]] || misuse "'cni-hang' takes no argument, add or del"
    raise_flag "cni${1:+-${1^^}}"
    echo "the CNI plugin hangs from now on${1:+ at ${1^^}}"
}

fault_cni_free() {
    local flag
    for flag in cni cni-ADD cni-DEL; do
        release_flag "$flag"
    done
    echo 'the CNI plugin continues'
}
