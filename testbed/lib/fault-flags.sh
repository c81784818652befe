# Programs that containerd starts and that do not return: runc and the CNI plugin, which wrappers of ours stand in front of.
# shellcheck shell=bash

# A flag is a pipe without a writer: a process that opens it to read sleeps in the kernel until it is released.
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

fault_runc_stop() {
    need_runc_verb "$1"
    touch "$flags/runc-stop-$1"
    echo "runc $1 is stopped (SIGSTOP) from now on"
}

# Twice, for one that had seen the flag and was not stopped yet.
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
    echo "runc ${1:+$1 }goes on"
}

fault_cni_hang() {
    [[ ${1:-} =~ ^(add|del)?$ ]] || misuse "'cni-hang' takes nothing, add or del"
    raise_flag "cni${1:+-${1^^}}"
    echo "the CNI plugin hangs from now on${1:+ at ${1^^}}"
}

fault_cni_free() {
    local flag
    for flag in cni cni-ADD cni-DEL; do
        release_flag "$flag"
    done
    echo 'the CNI plugin goes on'
}
