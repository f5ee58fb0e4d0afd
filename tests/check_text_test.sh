#!/usr/bin/env bash
# The text check must pass on the tree and refuse, in a small repository, each thing that it is for.
set -euo pipefail
source=$(realpath "$1")
code=0
python3 "$source/tests/check_text.py" "$source" || code=$?
[ "$code" = 0 ] || exit "$code"
"$source/scripts/figures.py" --check

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
git init -q .
commit() {
  git add -A
  git -c user.name=test -c user.email=test@localhost commit -q --allow-empty -m "$1"
}
words() { printf 'word %.0s' $(seq "$1"); echo; }
pages=docs # in a variable, since the check also reads this file
mkdir -p "$pages" engine tests/e2e
echo "See [page]($pages/page.md), [below](#more)." >README.md
echo '## More' >>README.md
echo '# Page' >$pages/page.md
echo "// $pages/page.md" >engine/a.cc
words 30 >tests/e2e/old.py # from before the first commit that is looked at
commit "Begin"
first=$(git rev-parse HEAD)

check() { python3 "$source/tests/check_text.py" . "$first" >output 2>&1; }
refuses() { # WORDS
  if check || ! grep -qF "$1" output; then
    echo "expected to be refused with: $1; got:"
    cat output
    exit 1
  fi
  git reset -q --hard "$first"
  git clean -qfd
}
# What is excepted: a row of a table, a URL, a raw string, an older line of a program, a kind of
# job in its folder or outside of the queue.
mkdir -p server/queue/kinds
echo 'case JobKind::kPose:' | tee server/queue/kinds/a.cc >server/a.cc
{ echo "| $(words 30) |"; echo "see https://localhost/$(words 30 | tr ' ' /)"; } >>README.md
echo "R\"($(words 30))\"" >>engine/a.cc
echo 'print()' >>tests/e2e/old.py
commit "$(printf 'x%.0s' $(seq 72))"
check || { cat output; exit 1; }

commit "$(printf 'x%.0s' $(seq 73))"; refuses "subject of 73 characters"
echo "// $(words 20)" >>engine/a.cc; commit "Lines"; refuses "engine/a.cc:2: 10"
echo "set(a $(words 20))" >CMakeLists.txt; commit "Lines"; refuses "CMakeLists.txt:1: 10"
words 21 >>$pages/page.md; commit "Lines"; refuses "$pages/page.md:2: 105"
words 21 >tests/e2e/new.py; commit "Lines"; refuses "tests/e2e/new.py:1: 105"
echo "[gone]($pages/gone.md)" >>README.md; commit "Links"; refuses "README.md: no file"
echo "[gone]($pages/page.md#gone)" >>README.md; commit "Links"; refuses "README.md: no heading"
echo "// $pages/gone.md" >>engine/a.cc; commit "Links"; refuses "engine/a.cc: no document"
echo '`engine/b.cc`' >>$pages/page.md; commit "Links"; refuses "page.md: no source engine/b.cc"
echo '# Other' >$pages/other.md; commit "Links"; refuses "README.md: no link to $pages/other.md"
mkdir -p server/queue/state
echo 'case JobKind::kPose:' >server/queue/state/a.cc
commit "Kinds"; refuses "server/queue/state/a.cc:1: names a kind of job"
seq 151 >$pages/page.md; commit "Long"; refuses "$pages/page.md: 151 lines"
