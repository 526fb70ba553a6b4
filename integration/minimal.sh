#!/usr/bin/env bash
# Runs `make demo` and `make test` on a minimal Debian: a debootstrap minbase root with make and
# ca-certificates, in mount and process namespaces of its own; first without /etc/mtab, then
# with it. Root on a Debian can run it. All of it is deleted at the end.
#
#   integration/minimal.sh                 make demo, make test
#   integration/minimal.sh COMMAND…        other shell commands, in a copy of the source
#
# Go, its modules and its build cache are those of this machine; what the commands change of them
# is deleted, too.
#
#   TMPDIR      where the root is made, several GiB (default: /var/tmp)
set -euo pipefail

source=$(dirname "$(dirname "$(realpath "$0")")")
. "$source/integration/minbase.sh"

# outer makes the root, and deletes it when all processes in it have ended.
outer() {
  need_root go
  work=$(mktemp -d "${TMPDIR:-/var/tmp}/xetfs-minimal-XXXXXX")
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  make_minbase "$work/root" "$work/log" make ca-certificates

  mkdir -p "$work/root/src"
  (cd "$source" && find . -path ./.git -prune -o -path ./bin -prune -o -print0) |
    tar -C "$source" --null --no-recursion -T - -cf - | tar -C "$work/root/src" -xf -
  unshare --mount --propagation private --pid --fork --kill-child --mount-proc -- \
    "$0" --inside "$work" "$(go env GOROOT)" "$(go env GOMODCACHE)" "$(go env GOCACHE)" "$@" &
  namespaces=$!
  local status=0
  wait "$namespaces" || status=$?
  namespaces=
  exit "$status"
}

# cleanup ends all processes in the namespaces, and deletes the root.
cleanup() {
  if [[ $namespaces ]]; then
    kill -KILL "$namespaces" # and so its child, the first process of the namespaces
    wait "$namespaces" || true
  fi 2>/dev/null
  rm -rf --one-file-system "$work"
}

# lay puts a folder of the machine into the root; what is written there goes elsewhere.
lay() {
  local name=${2//\//_}
  mkdir -p "$root$2" "$work/upper$name" "$work/work$name" "$1"
  mount -t overlay overlay -o "lowerdir=$1,upperdir=$work/upper$name,workdir=$work/work$name" "$root$2" 2>/dev/null ||
    cp -a "$1/." "$root$2/"
}

# inside prepares the root and runs the commands there. All mounts end with the namespace.
inside() {
  work=$1 root=$1/root
  mount --bind "$root" "$root" # the root of a namespace is a mount
  lay "$2" /usr/local/go
  lay "$3" /root/go/pkg/mod
  lay "$4" /root/.cache/go-build
  shift 4
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # a proxy of the machine may have its own authority
  local failed=0 mtab command
  for mtab in without with; do
    rm -f "$root/etc/mtab"
    [[ $mtab == without ]] || ln -s /proc/self/mounts "$root/etc/mtab"
    for command; do
      printf '\n# %s /etc/mtab: %s\n' "$mtab" "$command"
      if in_root "$command"; then
        results+=("passed  $mtab /etc/mtab: $command")
      else
        results+=("FAILED  $mtab /etc/mtab: $command (exit status $?)")
        failed=1
      fi
    done
  done
  printf '\n# On a minimal Debian\n'
  printf '%s\n' "${results[@]}"
  exit "$failed"
}

# in_root runs a shell command in the root, with nothing of the environment but proxies.
in_root() {
  local name kept=()
  for name in http_proxy https_proxy no_proxy GOPROXY GOFLAGS; do
    [[ ! ${!name:-} ]] || kept+=("$name=${!name}")
  done
  chroot "$root" /usr/bin/env -i -C /src HOME=/root LANG=C.UTF-8 \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin "${kept[@]}" /bin/bash -c "$1" </dev/null
}

results=()
namespaces=
if [[ ${1:-} == --inside ]]; then
  shift
  inside "$@"
fi
(($#)) || set -- 'make demo' 'make test'
outer "$@"
