#!/usr/bin/env bash
# Fails on common misspellings in sources, documents and scripts (settings: .codespellrc).
set -euo pipefail
cd "$1"
if ! command -v codespell >/dev/null; then
  echo "SKIPPED: no codespell"
  exit 77
fi
codespell --config .codespellrc client cmake common docs engine proto scripts server tests worker \
  ./*.md
