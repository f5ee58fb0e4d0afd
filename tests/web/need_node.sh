# Sourced by the tests of the page, with $source the source folder. Takes the Node that
# `scripts/setup.sh --test` unpacked, where it did. Exits 77, a visible skip, where Node is too old
# or npm is missing.
if [ -x "$source/build/tools/node/bin/node" ]; then
  PATH=$source/build/tools/node/bin:$PATH
fi
if ! command -v npm >/dev/null || ! node -e '
    const [major, minor] = process.versions.node.split(".").map(Number);
    process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' 2>/dev/null; then
  echo "SKIPPED: no npm, or no Node of 20.19 or newer"
  exit 77
fi

# Installs what a folder's lockfile names, unless it is there; one test at a time. Where no registry
# answers the test is skipped.
install_packages() { # FOLDER
  local lock code=0
  exec {lock}>"$1/.lock"
  flock "$lock"
  install_unless_there "$1" || code=$?
  exec {lock}>&-
  return "$code"
}

install_unless_there() { # FOLDER
  local stamp=$1/node_modules/.lock-sha256 sum
  sum=$(sha256sum <"$1/package-lock.json")
  [ "$(cat "$stamp" 2>/dev/null)" != "$sum" ] || return 0
  if ! (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); then
    if ! npm ping >/dev/null 2>&1; then
      echo "SKIPPED: the packages are not installed and no npm registry answers"
      exit 77
    fi
    return 1
  fi
  echo "$sum" >"$stamp"
}
