# Pod networks: addresses on a bridge of the instance. The bridge has no address and no connection to other networks,
# so the host gets no routes, no forwarding and no firewall rules, and all instances can use the same subnet.
# shellcheck shell=bash

write_cni() {
    local plugin
    mkdir -p "$lib_dir/cni/bin" "$lib_dir/cni/conf"
    for plugin in bridge host-local loopback; do
        ln -s "$packages/usr/lib/cni/$plugin" "$lib_dir/cni/bin/$plugin"
    done
    install "$here/fault-wrappers/cni-gate" "$lib_dir/cni/bin/cni-gate"
    cat >"$lib_dir/cni/conf/10-pleg-testbed.conflist" <<JSON
{
  "cniVersion": "0.4.0",
  "name": "pleg-testbed-$name_in_use",
  "plugins": [{
    "type": "cni-gate",
    "bridge": "$bridge",
    "ipam": {
      "type": "host-local",
      "dataDir": "$lib_dir/cni/addresses",
      "ranges": [[{ "subnet": "10.222.0.0/16" }]]
    }
  }]
}
JSON
}

# libcni keeps the results of plugins in a directory that cannot be configured. Those of this instance name a network namespace in its state directory.
remove_cni() {
    local results=/var/lib/cni/results
    grep -lsF "$run_dir/" "$results"/* | xargs --no-run-if-empty rm -f || true
    if [[ -e /sys/class/net/$bridge && -x $lib_dir/bin/busybox ]]; then
        "$lib_dir/bin/busybox" ip link delete "$bridge"
    fi
}
