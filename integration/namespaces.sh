#!/usr/bin/env bash
# Reads a store through two network namespaces while the network between them loses packets: lines
# N02, N10, N13, N14 and O33 of the reliability catalogue, which no proxy can make. Needs root and
# `ip`, and takes about three minutes.
#
#   integration/namespaces.sh bin/xetfs
set -euo pipefail

xetfs=$(realpath "$1")
work=$(mktemp -d -t xetfs-namespaces-XXXXXX)
server=xetfs-server-$$
client=xetfs-client-$$
pid=

clean_up() {
  [[ -z $pid ]] || kill "$pid" || true
  ip netns del "$server" || true
  ip netns del "$client" || true
  rm -rf "$work"
}
trap clean_up EXIT

# read_store reads the file from a host, and compares the exit status, the bytes and the message.
read_store() { # NAME HOST STATUS TEXT
  local status=0 began=$SECONDS
  ip netns exec "$client" unshare --mount bash -c 'mount --bind "$1" /etc/hosts && exec "${@:2}"' sh \
    "$work/hosts" "$xetfs" cat "http://$2:8080/" org/model file >"$work/out" 2>"$work/err" || status=$?
  echo "$1: status $status after $((SECONDS - began)) s: $(tail -n 1 "$work/err")"
  [[ $status == "$3" ]] || return 1
  [[ $status != 0 ]] || cmp "$work/out" "$work/folder/file"
  [[ -z $4 ]] || grep -q "$4" "$work/err"
}

# names makes store.test a name of addresses.
names() {
  {
    echo 127.0.0.1 localhost
    printf '%s store.test\n' "$@"
  } >"$work/hosts"
}

ip netns add "$server"
ip netns add "$client"
ip link add eth0 netns "$server" type veth peer name eth0 netns "$client"
ip -n "$server" addr add 10.99.0.1/24 dev eth0
ip -n "$client" addr add 10.99.0.2/24 dev eth0
ip -n "$client" addr add fd99::2/64 dev eth0 nodad
for ns in "$server" "$client"; do
  ip -n "$ns" link set lo up
  ip -n "$ns" link set eth0 up
done
link=$(ip -n "$server" link show eth0 | awk '/ether/ { print $2 }')

export XDG_CACHE_HOME=$work/cache
mkdir "$work/folder"
head -c 30000000 /dev/urandom >"$work/folder/file"
"$xetfs" publish "$work/store" org/model "$work/folder" >"$work/published"
ip netns exec "$server" "$xetfs" serve --plain --public --listen 0.0.0.0:8080 --bandwidth 6MB "$work/store" >"$work/served" 2>&1 &
pid=$!
for _ in {1..100}; do
  grep -q http "$work/served" && break
  sleep 0.1
done

names 10.99.0.1
read_store "no fault" store.test 0 ''

# A neighbour that has no such address drops all packets to it.
ip -n "$client" neigh add 10.99.0.77 lladdr "$link" dev eth0 nud permanent
ip -n "$client" neigh add fd99::77 lladdr "$link" dev eth0 nud permanent
names 10.99.0.77
read_store "N02 no packet arrives" store.test 4 'i/o timeout'
names fd99::77 10.99.0.1
read_store "N13 no packet arrives over IPv6" store.test 0 ''

(
  sleep 2
  ip -n "$server" link set eth0 down
  sleep 20
  ip -n "$server" link set eth0 up
) &
names 10.99.0.1
read_store "N10 the link is down for 20 s" store.test 0 ''

(
  sleep 2
  ip -n "$client" neigh replace 10.99.0.1 lladdr "$link" dev eth0 nud permanent
  names 10.99.0.3
  ip -n "$server" addr add 10.99.0.3/24 dev eth0
  ip -n "$server" addr del 10.99.0.1/24 dev eth0
  ip -n "$server" addr add 10.99.0.3/24 dev eth0 2>>"$work/ignored" || true # the second address goes with the first
) &
read_store "O33 the name moves to another address" store.test 0 ''

# The client promises large segments, which the link then drops.
ip -n "$client" route change 10.99.0.0/24 dev eth0 src 10.99.0.2 advmss 1460
ip -n "$server" link set eth0 gso_max_segs 1
ip netns exec "$server" sysctl -qw net.ipv4.tcp_mtu_probing=0
ip -n "$client" link set eth0 mtu 1280
read_store "N14 large packets are lost" store.test 4 'origin unavailable'
ip -n "$client" link set eth0 mtu 1500
read_store "no fault" store.test 0 ''
