#!/usr/bin/env bash
# Installs the programs that `make test` calls beside Go, once. A second run is quick.
#
#   integration/setup.sh            test programs, and Python packages in a folder of their own
#   integration/setup.sh --python   only prints where that Python is
#
# As root on a Debian it installs by itself. Otherwise it says what is missing and goes
# on, since tests that need an absent program skip themselves; with CI=true that is an
# error.
set -euo pipefail

cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/xetfs-test
venv=$cache/venv
python=$venv/bin/python3
versitygw_version=v1.8.0

if [[ ${1:-} == --python ]]; then
  echo "$python"
  exit
fi

# A row is a program and the Debian package that has it.
needed=(
  "apache2 apache2-bin"
  "cc gcc"
  "cmp diffutils"
  "fish fish"
  "fusermount3 fuse3"
  "getfattr attr"
  "git git"
  "mandoc mandoc"
  "ip iproute2"
  "nginx nginx-light"
  "python3 python3"
  "rclone rclone"
  "readelf binutils"
  "rsync rsync"
  "sqlite3 sqlite3"
  "ssh-agent openssh-client"
  "strace strace"
  "systemd-analyze systemd"
  "zip zip"
  "unzip unzip"
  "zsh zsh"
)
missing=()
for row in "${needed[@]}"; do
  read -r program package <<<"$row"
  command -v "$program" >/dev/null || missing+=("$package")
done
if [[ ! -e /usr/include/stdlib.h ]]; then
  missing+=(libc6-dev) # a compiler alone compiles nothing
fi
if [[ ! -e /usr/share/bash-completion/bash_completion ]]; then
  missing+=(bash-completion)
fi
if [[ $(command -v python3) ]] && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  missing+=(python3-venv)
elif [[ ! $(command -v python3) ]]; then
  missing+=(python3-venv)
fi

# give_up says what could not be had: an error in CI, a note elsewhere.
give_up() {
  echo "integration/setup.sh: $1" >&2
  [[ ${CI:-} != true ]] || exit 1
}

if ((${#missing[@]} > 0)); then
  if ((EUID == 0)) && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 # invoke-rc.d starts no server
    { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >/dev/null ||
      give_up "apt-get could not install: ${missing[*]}"
  else
    give_up "tests that need these packages will be skipped; install them as root: apt-get install ${missing[*]}"
  fi
fi

if ! "$python" -c 'import numpy, safetensors' 2>/dev/null; then
  { python3 -m venv --clear "$venv" && "$venv/bin/pip" install --quiet numpy safetensors; } >/dev/null ||
    give_up "Python's numpy and safetensors could not be installed in $venv"
fi

# The S3 server of the tests. A pinned program, so that none of its modules enters go.mod.
# The first build takes about two minutes.
if ! go version -m "$cache/bin/versitygw" 2>/dev/null | grep -q "versitygw[[:space:]]*$versitygw_version"; then
  GOBIN=$cache/bin GOFLAGS= go install "github.com/versity/versitygw/cmd/versitygw@$versitygw_version" ||
    give_up "versitygw $versitygw_version could not be built; tests of buckets will be skipped"
fi
