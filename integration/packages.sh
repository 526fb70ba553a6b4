#!/usr/bin/env bash
# Installs the deb and the rpm of this commit into fresh minimal roots, mounts with them, upgrades
# under a running mount, and removes them. lintian and rpmlint check both. Root on a Debian can run
# it. All of it is deleted at the end.
#
#   integration/packages.sh
#
#   TMPDIR      where the roots are made, about 2 GiB (default: /var/tmp)
set -euo pipefail

here=$(dirname "$(realpath "$0")")
. "$here/minbase.sh"

outer() {
  need_root git go make lintian rpm rpmlint
  work=$(mktemp -d "${TMPDIR:-/var/tmp}/xetfs-packages-XXXXXX")
  trap 'rm -rf --one-file-system "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  build 0.1.0
  build 0.2.0
  lint
  local kind
  for kind in deb rpm; do
    make_minbase "$work/$kind" "$work/log"
    mkdir "$work/$kind/packages"
    cp "$work"/*."$kind" "$work/$kind/packages"
    unshare --mount --propagation private --pid --fork --kill-child --mount-proc -- "$0" --inside "$work/$kind" "$kind"
  done
  echo "all passed"
}

# build VERSION builds the packages of this commit as a release.
build() {
  echo "# build $1"
  git clone --quiet "$here/.." "$work/clone"
  git -C "$work/clone" tag "v$1"
  make -C "$work/clone" dist >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; fail "make dist failed"; }
  mv "$work"/clone/dist/*_amd64.{deb,rpm} "$work"
  rm -rf "$work/clone"
}

# lint fails for errors. Warnings are printed.
lint() {
  echo "# lintian"
  lintian --fail-on error "$work"/*_0.2.0_*.deb
  echo "# rpmlint"
  unshare --mount --propagation private -- "$0" --rpmlint "$work"
}

# rpm_lint runs rpmlint, which unpacks a package with its absolute names, over copies of the folders
# that the package has files in.
rpm_lint() {
  local work=$1 folder
  mkdir "$work/over"
  mount -t tmpfs tmpfs "$work/over"
  for folder in usr etc var; do # the last one hides the others below /var/tmp
    mkdir -p "$work/over/$folder"/{upper,work}
    mount -t overlay -o "lowerdir=/$folder,upperdir=$work/over/$folder/upper,workdir=$work/over/$folder/work" overlay "/$folder"
  done
  mkdir "$work/over/home"
  HOME=$work/over/home rpmlint --config "$here/../cmd/xetfs/packaging/release/rpmlint.toml" "$work"/*_0.2.0_*.rpm
}

# inside installs, mounts, upgrades and removes in a root. All mounts end with the namespace.
inside() {
  local root=$1 kind=$2
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/tmp"
  cp "$0" "$root/tmp/packages.sh"
  cp "$here/minbase.sh" "$root/tmp"
  if [[ $kind == rpm ]]; then
    rpm --root "$root" --initdb
    mkdir -p "$root/usr/share/licenses" # of the package filesystem
  fi
  echo "# $kind: install"
  list "$root" >"$work/before"
  package "$root" "$kind" install 0.1.0
  chroot "$root" /usr/bin/env -i HOME=/tmp/home PATH=/usr/sbin:/usr/bin LANG=C.UTF-8 bash /tmp/packages.sh --mount
  chroot "$root" /usr/bin/env -i HOME=/tmp/home PATH=/usr/sbin:/usr/bin LANG=C.UTF-8 bash /tmp/packages.sh --read &
  local reader=$!
  echo "# $kind: upgrade under the mount"
  package "$root" "$kind" upgrade 0.2.0
  touch "$root/tmp/upgraded"
  wait "$reader"
  chroot "$root" /usr/bin/env -i HOME=/tmp/home PATH=/usr/sbin:/usr/bin LANG=C.UTF-8 bash /tmp/packages.sh --unmount
  echo "# $kind: remove"
  mkdir -p "$root/var/cache/xetfs/models" # as a unit makes it
  package "$root" "$kind" remove
  list "$root" >"$work/after"
  diff "$work/before" "$work/after" || fail "$kind: the root is not the same after the removal"
}

# list prints all files of a root, without those of the package managers.
list() {
  (cd "$1" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./root/.rpmdb -o -path ./var/log -o -path ./var/cache/ldconfig \) -prune \
    -o \( -type d -printf '%p\n' -o -printf '%p %s\n' \) | LC_ALL=C sort)
}

# package ROOT KIND ACTION [VERSION] calls the package manager.
package() {
  case $2-$3 in
  deb-install | deb-upgrade)
    chroot "$1" dpkg --install "/packages/xetfs_$4_linux_amd64.deb"
    [[ $(chroot "$1" dpkg-query -W -f '${Version}' xetfs) == "$4" ]]
    ;;
  deb-remove)
    chroot "$1" dpkg --purge xetfs
    ;;
  rpm-install | rpm-upgrade)
    rpm --root "$1" --upgrade "$1/packages/xetfs_$4_linux_amd64.rpm"
    [[ $(rpm --root "$1" -q --qf '%{VERSION}' xetfs) == "$4" ]]
    ;;
  rpm-remove)
    rpm --root "$1" --erase xetfs
    ;;
  esac
}

# In the root: a store, a line of fstab, and the mount of it.
mount_store() {
  xetfs --version | grep -q 0.1.0
  head -c 3000000 /dev/urandom >/tmp/data
  mkdir -p /tmp/folder /tmp/mnt
  cp /tmp/data /tmp/folder
  xetfs publish /tmp/store org/model /tmp/folder >/dev/null
  echo "/tmp/store /tmp/mnt xetfs ro,nofail,cache-dir=off,log-file=/tmp/log 0 0" >/tmp/fstab
  mount -a -T /tmp/fstab
  mountpoint -q /tmp/mnt
  local page
  for page in man1/xetfs-mount.1 man7/xetfs-fstab.7 man8/mount.xetfs.8; do
    zcat "/usr/share/man/$page.gz" | grep -q '^\.TH' || fail "no man page $page"
  done
  [[ -s /usr/share/bash-completion/completions/xetfs && -s /usr/lib/systemd/system/xetfs@.service ]]
}

# In the root: reads the mount until after the upgrade.
read_mount() {
  local rounds=0 last=
  until [[ $last ]]; do
    [[ ! -e /tmp/upgraded ]] || last=yes
    cmp /tmp/mnt/org/model/data /tmp/data || fail "the mount did not continue"
    ((++rounds))
    sleep 0.02
  done
  echo "$rounds reads during the upgrade"
}

# In the root: the old program of the mount ends, and the new one mounts.
unmount_store() {
  umount /tmp/mnt
  xetfs --version | grep -q 0.2.0
  mount /tmp/mnt -T /tmp/fstab
  cmp /tmp/mnt/org/model/data /tmp/data
  umount /tmp/mnt
  local end=$((SECONDS + 60))
  while cat /proc/[0-9]*/comm | grep -qx xetfs; do
    ((SECONDS < end)) || fail "a process is left"
    sleep 0.1
  done
}

case ${1:-} in
--inside)
  work=$(dirname "$2")
  inside "$2" "$3"
  ;;
--rpmlint) rpm_lint "$2" ;;
--mount) mount_store ;;
--read) read_mount ;;
--unmount) unmount_store ;;
*) outer ;;
esac
