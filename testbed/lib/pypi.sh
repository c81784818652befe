# Installs prebuilt tools from PyPI, each in its own virtual environment below target/tools.
# shellcheck shell=bash

# Puts a tool on PATH. Fails if it cannot be installed.
#
#   pypi_tool PACKAGE VERSION PROGRAM
pypi_tool() {
    local venv=target/tools/$3-$2
    if [ ! -x "$venv/bin/$3" ]; then
        rm -rf "$venv"
        { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet "$1==$2"; } >/dev/null 2>&1 ||
            rm -rf "$venv"
    fi
    [ -x "$venv/bin/$3" ] && PATH="$PWD/$venv/bin:$PATH"
}
