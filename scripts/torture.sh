#!/usr/bin/env bash
# Runs the programs that try to break what nerfd promises (docs/run/proofs.md), and prints a page.
#   scripts/torture.sh HOURS [--seed N]
# HOURS may be a fraction. Without a seed it goes on where the last run stopped. What was tried is
# summed up in build/torture/.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "usage: scripts/torture.sh HOURS [--seed N]" >&2; exit 2; }
[ $# = 1 ] || { [ $# = 3 ] && [ "$2" = --seed ]; } || usage
seconds=$(awk -v hours="$1" 'BEGIN { if (hours !~ /^[0-9]*\.?[0-9]+$/) exit 1
  printf "%d", hours * 3600 }') || usage
folder=build/torture
tally=$folder/power_cuts.tally
mkdir -p "$folder"
seed=${3:-$(sed -n 's/^seed=//p' "$tally" 2>/dev/null || true)}
seed=${seed:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
[[ "$seed" =~ ^[0-9]+$ ]] || usage

cmake --preset release -DNERF_BUILD_TESTS=ON >"$folder/configure.log" 2>&1 ||
  { cat "$folder/configure.log" >&2; exit 1; }
cmake --build --preset release -j "$(nproc)" --target power_cuts >"$folder/build.log" 2>&1 ||
  { tail -50 "$folder/build.log" >&2; exit 1; }

memory=/dev/shm
[ -d "$memory" ] || memory=${TMPDIR:-/tmp}
TMPDIR=$(mktemp -d "$memory/nerf-torture-XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM

echo "torture: $1 hours, seed $seed"
code=0
nice -n 15 build/release/bench/power_cuts "$seconds" "$seed" "$tally" || code=$?
of() { sed -n "s/^$1=//p" "$tally"; }
echo "Power cuts, all runs together:"
printf '  %-42s %12s\n' \
  "cuts" "$(of cuts)" \
  "stories" "$(of stories)" \
  "jobs created in them" "$(of jobs)" \
  "operations of the disk" "$(of operations)" \
  "stories with a fault" "$(of faults)" \
  "kills and restarts" "$(of restarts)" \
  "places of the story of 300 jobs" "$(of places_of_300_jobs)" \
  "of these cut" "$(of next_place)" \
  "minutes" "$(ms=$(of milliseconds); echo $((${ms:-0} / 60000)))" \
  "violations" "$(v=$(of violations); echo "${v:-0}")"
exit "$code"
