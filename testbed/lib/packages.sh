# Debian's packages, downloaded and unpacked into the cache, never installed.
# shellcheck shell=bash

cache=$(realpath -m "${PLEG_TESTBED_CACHE:-$here/../target/testbed/packages}")
readonly cache
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg

check_version() { [[ $1 == 1.6 || $1 == 1.7 || $1 == 2 ]] || misuse "there is no version '$1': it is 1.6, 1.7 or 2"; }

suite_of() {
    case $1 in
        1.6) echo bookworm ;;
        1.7) echo trixie ;;
        2) echo sid ;;
    esac
}

is_fetched() { [[ -e $cache/$1/packages.txt ]]; }

# The first address in the machine's own sources that looks like the Debian archive.
mirror() {
    local found=''
    found=$(sed -n -E '/^[[:space:]]*#/d; s#.*(https?://[^] ]+/debian)/?([[:space:]].*|$)#\1#p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1) || true
    echo "${PLEG_TESTBED_MIRROR:-${found:-http://deb.debian.org/debian}}"
}

# apt with sources, lists and package states of its own, so that neither the machine's pins nor its installed versions choose for us.
private_apt() {
    local suite=$1 work=$2
    shift 2
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    echo "deb [signed-by=$keyring] $(mirror) $suite main" >"$work/sources.list"
    : >"$work/status"
    apt-get -qq \
        -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
        -o Dir::State::Lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::Retries=3 -o APT::Update::Error-Mode=any -o APT::Sandbox::User=root "$@"
}

fetch_lists() {
    private_apt "$2" "$1/$2" update || fail "Debian's package lists of $2 could not be fetched from $(mirror)"
}

# download WORK SUITE PACKAGE...
download() {
    local work=$1 suite=$2
    shift 2
    fetch_lists "$work" "$suite"
    (cd "$work" && private_apt "$suite" "$work/$suite" download "$@") || fail "$* could not be downloaded from Debian's $suite"
}

unpack() {
    local package
    for package in "$1"/*.deb; do
        dpkg-deb --show "$package" | tr '\t' ' ' | tee -a "$2/packages.txt" | sed 's/^/testbed: unpacking /' >&2
        dpkg -x "$package" "$2"
    done
}

make_containerd() {
    local version=$1 work=$2 suite
    suite=$(suite_of "$version")
    say "fetching containerd $version from Debian's $suite"
    local -a packages=(runc containernetworking-plugins busybox-static)
    [[ $suite == bookworm ]] && packages+=(containerd)
    download "$work" bookworm "${packages[@]}"
    [[ $suite == bookworm ]] || download "$work" "$suite" containerd

    unpack "$work" "$work/tree"
    build_images "$work" "$work/tree"
    chmod 755 "$work/tree"
}

# Static Go programs, which need none of the package's dependencies, and no service.
make_prometheus() {
    say "fetching Prometheus from Debian's bookworm"
    mkdir "$1/all"
    download "$1" bookworm prometheus
    unpack "$1" "$1/all"
    mv "$1/all/packages.txt" "$1/all/usr/bin/prometheus" "$1/all/usr/bin/promtool" "$1/tree"
    chmod 755 "$1/tree"
}

# Everything happens in a folder that gets its final name when it is complete, so an interrupted fetch leaves nothing half done.
fetch() {
    local what=$1
    is_fetched "$what" && return
    check_apt
    mkdir -p "$cache"
    # What an hour-old killed fetch left behind.
    find "$cache" -maxdepth 1 -name '.fetch-*' -mmin +60 -exec rm -rf {} +
    work=$(mktemp -d "$cache/.fetch-$what-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/tree"
    case $what in
        systemd | prometheus | docker) "make_$what" "$work" ;;
        *) make_containerd "$what" "$work" ;;
    esac
    # Somebody else may have been faster; theirs is as good.
    mv -T "$work/tree" "$cache/$what" 2>/dev/null || is_fetched "$what" || fail "$cache/$what is in the way"
    rm -rf "$work"
    trap - EXIT
}
