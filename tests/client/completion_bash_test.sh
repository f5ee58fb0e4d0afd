#!/usr/bin/env bash
# Loads the completion script of bash and completes lines with it, as readline would.
#   completion_bash_test.sh BIN_DIR
set -euo pipefail
PATH="$(cd "$1" && pwd):$PATH"
export PATH NERFCTL_SERVER=127.0.0.1:1
source <(nerfctl completion bash)
compopt() { :; }  # works only inside a completion by readline

expect() { # LINE CANDIDATES
  COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
  _nerfctl
  if [ "${COMPREPLY[*]-}" != "$2" ]; then
    echo "'$1' gave '${COMPREPLY[*]-}', not '$2'" >&2
    exit 1
  fi
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
mkdir "my photos" film
touch camera.json
expect "nerfctl jo" "job"
expect "nerfctl job w" "watch"
expect "nerfctl job ls --output j" "json jsonl"
expect "nerfctl job ls --output=j" "json jsonl"
expect "nerfctl train film --set warmup" "warmup_steps="
expect "nerfctl train fi" "film"
expect "nerfctl train m" "my photos"
expect "nerfctl render --camera cam" "camera.json"
expect "nerfctl nothing " ""
expect "nerfctl job show " ""
