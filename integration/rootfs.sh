#!/usr/bin/env bash
# Runs the recipe of the page containers for a root file system: a minimal Debian is published with
# owners, served with a delay of 25 ms, mounted, and the lower layer of an overlay. A shell in it
# starts and dpkg finds every file unchanged. Root on a Debian can run it. All of it is deleted at
# the end.
#
#   integration/rootfs.sh PROGRAM
#
#   TMPDIR      where the root is made (default: /var/tmp)
set -euo pipefail

here=$(dirname "$(realpath "$0")")
. "$here/minbase.sh"

outer() {
  need_root
  program=$(realpath "$1")
  work=$(mktemp -d "${TMPDIR:-/var/tmp}/xetfs-rootfs-XXXXXX")
  trap 'rm -rf --one-file-system "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  make_minbase "$work/debian" "$work/log"
  # The network namespace has no address but the loopback one.
  unshare --mount --propagation private --pid --fork --kill-child --mount-proc --net -- "$0" --inside "$program" "$work"
}

inside() {
  local program=$1 work=$2 started lines
  ip link set lo up 2>/dev/null || ifconfig lo up
  export HOME=$work/home XDG_CACHE_HOME=$work/cache
  mkdir -p "$HOME" "$work"/{lower,up/upper,up/work,root}
  "$program" publish --owner --xattrs "$work/store" os/debian "$work/debian" >"$work/publish" 2>&1 || fail "$(cat "$work/publish")"
  "$program" serve --plain --delay 25ms --listen 127.0.0.1:8000 "$work/store" >"$work/server" &
  until grep -q http "$work/server"; do sleep 0.1; done
  "$program" mount --allow-other --symbol os/debian http://127.0.0.1:8000 "$work/lower" >/dev/null
  mount -t overlay overlay "$work/root" -o "lowerdir=$work/lower,upperdir=$work/up/upper,workdir=$work/up/work"
  mount -t proc proc "$work/root/proc"

  started=$(date +%s%N)
  chroot "$work/root" sh -c 'true'
  echo "a shell, cold: $((($(date +%s%N) - started) / 1000000)) ms"
  started=$(date +%s%N)
  chroot "$work/root" sh -c 'true'
  echo "a shell, warm: $((($(date +%s%N) - started) / 1000000)) ms"

  lines=$(chroot "$work/root" dpkg --verify)
  [[ ! $lines ]] || fail "dpkg --verify says: $lines"
  echo "dpkg --verify: clean"
  chroot "$work/root" sh -c 'echo new >/etc/motd && rm /etc/issue && test ! -e /etc/issue'
  [[ -e $work/up/upper/etc/motd && $(cat "$work/debian/etc/issue") == "$(cat "$work/lower/etc/issue")" ]] || fail "a write left the upper folder"
  echo "writes: in the upper folder"
  umount "$work/root/proc" "$work/root" "$work/lower"
}

case ${1:-} in
--inside) inside "$2" "$3" ;;
'') fail "usage: integration/rootfs.sh PROGRAM" ;;
*) outer "$@" ;;
esac
