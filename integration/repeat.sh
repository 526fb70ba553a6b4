#!/usr/bin/env bash
# Runs `make test` many times beside two busy processes, to find tests that fail rarely. In every
# second run another mount namespace copies all mounts, as containers do; that needs root.
#
#   integration/repeat.sh [COUNT]    20 runs by default; the status is 1 if a run failed
#
#   TMPDIR      the folder of the logs; those of failed runs remain (default: /tmp)
set -euo pipefail
cd "$(dirname "$0")/.."

count=${1:-20}
logs=$(mktemp -d -t xetfs-repeat-XXXXXX)
beside=()

# cleanup ends the processes beside the tests.
cleanup() {
  ((${#beside[@]} == 0)) || kill "${beside[@]}" 2>/dev/null || true
  rmdir "$logs" 2>/dev/null || true
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# copy_mounts has the mounts of every moment in a namespace of its own.
copy_mounts() {
  while :; do unshare --mount sleep 2; done
}

for _ in 1 2; do
  (while :; do :; done) &
  beside+=($!)
done
failed=0
for ((run = 1; run <= count; run++)); do
  copier=
  if ((run % 2 == 0 && EUID == 0)); then
    copy_mounts &
    copier=$!
    beside+=("$copier")
  fi
  log=$logs/run-$run.log
  SECONDS=0 status=0
  make test >"$log" 2>&1 || status=$?
  echo "run $run: exit $status, $SECONDS s${copier:+, beside a copying namespace}"
  if ((status == 0)); then
    rm "$log"
  else
    failed=$((failed + 1))
    grep -E '^ *--- FAIL' "$log" || true
  fi
  if [[ $copier ]]; then
    kill "$copier"
    unset 'beside[-1]'
  fi
done
echo "$failed of $count runs failed$( ((failed == 0)) || echo ": $logs")"
((failed == 0))
