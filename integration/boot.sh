#!/usr/bin/env bash
# Boots a systemd and checks the units there: a Debian minbase root, in namespaces of its own. It
# covers start, reload, watchdog, restart after a kill, stop, lines of fstab and the user unit. Root
# on a Debian with cgroup2 can run it. All of it is deleted at the end.
#
#   integration/boot.sh PROGRAM
#
#   TMPDIR      where the root is made (default: /var/tmp)
set -euo pipefail

here=$(dirname "$(realpath "$0")")
. "$here/minbase.sh"

# The longest wait for a state, in seconds. A busy machine takes a part of it.
patience=${PATIENCE:-120}

# outer makes the root, boots it and runs the checks.
outer() {
  need_root nsenter pivot_root
  program=$(realpath "$1")
  work=$(mktemp -d "${TMPDIR:-/var/tmp}/xetfs-boot-XXXXXX") root=$work/root
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  make_minbase "$root" "$work/log" systemd systemd-sysv dbus libpam-systemd fuse3
  install_program
  fill
  boot
  checks
  power_off
  printf '\n%s passed, %s failed\n' "$passed" "$failed"
  ((failed == 0))
}

# cleanup ends all processes in the namespaces, and deletes the root.
cleanup() {
  if [[ $init ]]; then
    kill -KILL "$init" || true # the first process of the namespaces
    wait "$unshare" || true
  fi 2>/dev/null
  [[ ! $group ]] || rmdir_group "$group"
  rm -rf --one-file-system "$work"
}

# rmdir_group deletes a control group, and those below it.
rmdir_group() {
  local i
  for ((i = 0; i < 20; i++)); do
    find "$1" -depth -type d -exec rmdir {} + 2>/dev/null && return 0
    sleep 0.2
  done
}

# install_program puts the program and its units at their places.
install_program() {
  local packaging=$here/../cmd/xetfs/packaging
  install -D "$program" "$root/usr/bin/xetfs"
  ln -s ../bin/xetfs "$root/usr/sbin/mount.xetfs"
  install -D -m 644 "$packaging/xetfs@.service" "$root/usr/lib/systemd/system/xetfs@.service"
  install -D -m 644 "$packaging/user/xetfs@.service" "$root/usr/lib/systemd/user/xetfs@.service"
}

# fill makes a store, its server, the lines of fstab, and the settings of the units.
fill() {
  mkdir -p "$root"/srv/folder "$root"/mnt/{unit,boot,auto,user} "$root"/etc/xetfs
  head -c 5000000 /dev/urandom >"$root/srv/folder/data"
  sum=$(sha256sum <"$root/srv/folder/data")
  chroot "$root" /usr/bin/env -i HOME=/root XDG_CACHE_HOME=/nowhere xetfs publish /srv/store org/model /srv/folder >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; fail "publish failed"; }
  cat >"$root/etc/systemd/system/store.service" <<'END'
[Service]
ExecStart=/usr/bin/xetfs serve --plain --listen 127.0.0.1:8000 /srv/store
[Install]
WantedBy=multi-user.target
END
  cat >"$root/etc/fstab" <<'END'
/srv/store /mnt/boot xetfs ro,nofail,_netdev 0 0
http://127.0.0.1:8000 /mnt/auto xetfs ro,nofail,noauto,_netdev,x-systemd.automount,x-systemd.idle-timeout=2 0 0
END
  printf 'SOURCE=http://127.0.0.1:8000\nDIR=/mnt/unit\nXETFS_ALLOW_OTHER=true\n' >"$root/etc/xetfs/unit.env"
  chroot "$root" useradd --create-home --uid 1000 reader
  mkdir -p "$root/home/reader/.config/xetfs" "$root/home/reader/mnt"
  printf 'SOURCE=http://127.0.0.1:8000\nDIR=/home/reader/mnt\n' >"$root/home/reader/.config/xetfs/mine.env"
  chroot "$root" chown -R reader: /home/reader
  chroot "$root" systemctl --quiet enable store.service
  mkdir -p "$root/var/lib/systemd/linger"
  touch "$root/var/lib/systemd/linger/reader"
  echo "xetfs-boot" >"$root/etc/hostname"
}

# boot starts systemd as the first process of new namespaces.
boot() {
  local cgroups
  cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
  [[ $cgroups ]] || fail "cgroup2 is not mounted"
  group=$cgroups/xetfs-boot-$$
  mkdir "$group"
  unshare --mount --propagation private --pid --fork --cgroup --ipc --uts --net \
    bash "$here/boot.sh" --inside "$root" "$group" </dev/null >"$work/console" 2>&1 &
  unshare=$!
  wait_until "systemd runs" first_process
  # A child of unshare in its namespaces: the first process.
  init=$(pgrep_child "$unshare")
  wait_until "systemd has booted" is_booted
}

# first_process reports whether the namespaces have a first process, which is systemd.
first_process() {
  local child
  child=$(pgrep_child "$unshare")
  [[ $child && $(cat "/proc/$child/comm") == systemd ]]
}

# pgrep_child prints the child of a process.
pgrep_child() { cat "/proc/$1/task/$1/children" 2>/dev/null | tr -d ' '; }

is_booted() { [[ $(in_boot 'systemctl is-system-running' || true) =~ ^(running|degraded)$ ]]; }

# inside prepares the root and becomes systemd. It is the first process of its namespaces.
inside() {
  local root=$1 group=$2 node
  echo 0 >"$group/cgroup.procs" # the cgroup namespace of unshare began above it, so enter another
  exec unshare --cgroup --mount --propagation private bash "$here/boot.sh" --root "$root"
}

# become makes a folder the root and executes systemd there.
become() {
  local root=$1 node
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  mount -t fusectl fusectl "$root/sys/fs/fuse/connections" || true
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  mkdir "$root"/dev/{pts,shm}
  ln -s /proc/self/fd "$root/dev/fd"
  for node in null zero full random urandom tty fuse autofs; do
    [[ ! -e /dev/$node ]] || cp -a "/dev/$node" "$root/dev/$node"
  done
  chmod 666 "$root"/dev/{null,zero,full,random,urandom,tty,fuse} # as udev does
  mknod "$root/dev/console" c 1 3 # systemd changes its mode, so it is no link to null
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
  mount -t tmpfs tmpfs "$root/tmp"
  cd "$root"
  pivot_root . mnt
  umount -l /mnt
  exec env -i PATH=/usr/sbin:/usr/bin container=xetfs-boot /lib/systemd/systemd --log-target=journal
}

# in_boot runs a shell command in the booted system.
in_boot() {
  nsenter -t "$init" -m -p -n -i -u -C -- /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    XDG_RUNTIME_DIR=/run/user/1000 bash -c "$1" </dev/null 2>&1
}

# as_user runs a shell command as the user of the booted system.
as_user() { in_boot "runuser -u reader -- env XDG_RUNTIME_DIR=/run/user/1000 HOME=/home/reader bash -c '$1'"; }

# wait_until TEXT COMMAND… waits for a command that succeeds.
wait_until() {
  local text=$1 end=$((SECONDS + patience))
  shift
  until "$@"; do
    ((SECONDS < end)) || { give_details; fail "not within $patience s: $text"; }
    sleep 0.2
  done
}

give_details() {
  tail -20 "$work/console" >&2
  [[ ! $init ]] || in_boot 'systemctl --failed --no-legend; journalctl -b --no-pager -n 60' >&2 || true
}

# check TEXT COMMAND runs a shell command in the booted system until it succeeds.
check() {
  local end=$((SECONDS + patience)) out
  until out=$(in_boot "$2"); do
    if ((SECONDS >= end)); then
      echo "FAILED  $1${out:+: $out}"
      ((++failed))
      return
    fi
    sleep 0.2
  done
  echo "passed  $1${3:+: $(in_boot "$3")}"
  ((++passed))
}

# requests prints how many requests for data the server has answered.
requests() {
  in_boot 'exec 3<>/dev/tcp/127.0.0.1/8000; printf "GET /-/stats HTTP/1.0\r\n\r\n" >&3; cat <&3' |
    grep -o '"data_requests":[0-9]*' | cut -d: -f2
}

# unit_pid prints the main process of the unit.
unit_pid() { in_boot 'systemctl show -P MainPID xetfs@unit'; }

checks() {
  local pid before
  check "a line of fstab is mounted at boot" 'mountpoint -q /mnt/boot && cmp /mnt/boot/org/model/data /srv/folder/data'
  check "an automount line is not mounted at boot" 'grep -q " /mnt/auto autofs " /proc/mounts && ! grep -q " /mnt/auto fuse.xetfs " /proc/mounts'
  check "its first access mounts" 'cmp /mnt/auto/org/model/data /srv/folder/data && grep -q " /mnt/auto fuse.xetfs " /proc/mounts'
  check "it ends when it is idle, with its process" '! grep -q " /mnt/auto fuse.xetfs " /proc/mounts && [[ $(systemctl show -P ActiveState mnt-auto.mount) == inactive ]] && ! cat /proc/[0-9]*/cmdline | tr "\0" " " | grep -q "xetf[s] mount.*/mnt/auto"'
  check "the next access mounts again" 'cmp /mnt/auto/org/model/data /srv/folder/data'

  check "the unit starts" 'systemctl start xetfs@unit && systemctl is-active -q xetfs@unit' 'systemctl show -P StatusText xetfs@unit'
  check "its files are readable when start returns" '[[ $(stat -c %s /mnt/unit/org/model/data) == 5000000 ]]'
  check "a user reads them" "runuser -u reader -- cmp /mnt/unit/org/model/data /srv/folder/data"
  check "its lines in the journal have a priority, and no time" 'journalctl -u xetfs@unit -o json --no-pager | grep "\"SYSLOG_IDENTIFIER\":\"xetfs\"" | grep -q "\"PRIORITY\":\"6\"" && ! journalctl -u xetfs@unit -o cat --no-pager | grep -q "time="'
  check "the cache is in CacheDirectory" '[[ -d /var/cache/xetfs/unit && $(stat -c %a /var/cache/xetfs/unit) == 700 ]]'

  pid=$(unit_pid)
  check "reload succeeds and does not unmount" "systemctl reload xetfs@unit && [[ \$(systemctl show -P MainPID xetfs@unit) == $pid ]] && cmp /mnt/unit/org/model/data /srv/folder/data"

  before=$(requests)
  check "kill -9 restarts it" "kill -KILL $pid; sleep 1; systemctl is-active -q xetfs@unit && ! [[ \$(systemctl show -P MainPID xetfs@unit) == $pid ]]" 'systemctl show -P NRestarts xetfs@unit'
  check "no stale mount is left" '[[ $(grep -c " /mnt/unit " /proc/mounts) == 1 ]] && cmp /mnt/unit/org/model/data /srv/folder/data'
  if ((before > 0)) && [[ $(requests) == "$before" ]]; then
    check "the cache is warm: no request for data" true
  else
    check "the cache is warm: no request for data ($before before, $(requests) now)" false
  fi

  in_boot 'mkdir -p /run/systemd/system/xetfs@unit.service.d; printf "[Service]\nWatchdogSec=3s\n" >/run/systemd/system/xetfs@unit.service.d/w.conf; systemctl daemon-reload; systemctl restart xetfs@unit'
  pid=$(unit_pid)
  sleep 7
  check "the watchdog leaves a working mount alone for two periods" "[[ \$(systemctl show -P MainPID xetfs@unit) == $pid ]]"
  in_boot "kill -STOP $pid"
  check "the watchdog restarts a stopped process" "systemctl is-active -q xetfs@unit && ! [[ \$(systemctl show -P MainPID xetfs@unit) == $pid ]]" 'systemctl show -P NRestarts xetfs@unit'
  check "it was the watchdog" 'journalctl -u xetfs@unit --no-pager | grep -q "Watchdog timeout"'
  check "its mount works again" '[[ $(grep -c " /mnt/unit " /proc/mounts) == 1 ]] && cmp /mnt/unit/org/model/data /srv/folder/data'

  pid=$(unit_pid)
  check "stop unmounts and ends the process" "systemctl stop xetfs@unit && ! grep -q ' /mnt/unit ' /proc/mounts && ! [[ -e /proc/$pid ]] && [[ \$(systemctl show -P Result xetfs@unit) == success ]]"

  check "the manager of the user runs" '[[ -S /run/user/1000/systemd/private ]]'
  if as_user "systemctl --user start xetfs@mine" >"$work/user"; then
    check "the user unit starts" true
  else
    check "the user unit starts: $(cat "$work/user"; in_boot 'journalctl _UID=1000 --no-pager -n 20')" false
  fi
  check "the user reads its files" 'runuser -u reader -- cmp /home/reader/mnt/org/model/data /srv/folder/data'
  check "its cache is the user's" '[[ $(stat -c %U /home/reader/.cache/xetfs/mine) == reader ]]'
  as_user "systemctl --user reload xetfs@mine" || true
  check "it works after a reload" 'runuser -u reader -- cmp /home/reader/mnt/org/model/data /srv/folder/data'
  as_user "systemctl --user stop xetfs@mine" || true
  check "its stop unmounts" '! grep -q /home/reader/mnt /proc/mounts'
  check "no unit of xetfs has failed" '! systemctl --failed --no-legend | grep -E "xetfs|mnt-"'
}

# power_off shuts the system down. Its first process then ends, and no mount delays it.
power_off() {
  local since=$SECONDS
  in_boot 'systemctl poweroff --no-block' || true
  while [[ -e /proc/$init ]]; do
    ((SECONDS < since + patience)) || break
    sleep 0.2
  done
  if [[ -e /proc/$init ]]; then
    echo "FAILED  the system does not end"
    ((++failed))
  else
    echo "passed  the system ends with its mounts, after $((SECONDS - since)) s"
    ((++passed))
    init=
  fi
}

passed=0 failed=0 init='' group='' unshare=''
case ${1:-} in
--inside)
  inside "$2" "$3"
  ;;
--root)
  become "$2"
  ;;
'')
  fail "usage: integration/boot.sh PROGRAM"
  ;;
*)
  outer "$@"
  ;;
esac
