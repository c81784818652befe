# A root directory from which systemd boots in a container, with D-Bus, and with the systemd-nspawn that boots it.
# shellcheck shell=bash

# Creates files that maintainer scripts would create. Without a machine id systemd would prompt for settings at its first boot.
write_accounts() {
    local tree=$1
    cat >"$tree/etc/passwd" <<'PASSWD'
root:x:0:0:root:/root:/bin/sh
messagebus:x:100:100::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
PASSWD
    printf '%s:x:%s:\n' root 0 messagebus 100 nogroup 65534 >"$tree/etc/group"
    : >"$tree/etc/machine-id"
}

# Unpacks into a tree with a merged /usr, which systemd needs. `dpkg -x` would replace its links by directories.
unpack_root() {
    local tree=$2 name package
    for name in bin sbin lib lib64; do
        mkdir -p "$tree/usr/$name"
        ln -s "usr/$name" "$tree/$name"
    done
    for package in "$1"/*.deb; do
        dpkg-deb --show "$package" | tr '\t' ' ' >>"$tree/packages.txt"
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$tree" --keep-directory-symlink --exclude='./usr/share/'{doc,locale,man}'/*'
    done
    say "unpacked $(wc -l <"$tree/packages.txt") packages, $(du -sm "$tree" | cut -f 1) MB"
}

make_systemd() {
    need_root
    local work=$1 apt=$1/bookworm
    say "fetching systemd, D-Bus and systemd-nspawn from Debian's bookworm"
    fetch_lists "$work" bookworm
    # systemd-container is downloaded without its dependencies: only its downloader needs them.
    { private_apt bookworm "$apt" install --yes --no-install-recommends --download-only \
        systemd dbus usr-is-merged base-files dash coreutils &&
        (cd "$apt/cache/archives" && private_apt bookworm "$apt" download systemd-container); } ||
        fail "systemd could not be downloaded from Debian's bookworm"
    unpack_root "$apt/cache/archives" "$work/tree"
    write_accounts "$work/tree"
}
