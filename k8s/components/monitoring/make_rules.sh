#!/usr/bin/env bash
# Writes prometheusrule.yaml from monitoring/rules; --check compares instead.
set -euo pipefail
cd "$(dirname "$0")"
rule() {
  echo "# Written by make_rules.sh from monitoring/rules."
  printf '%s\n' "apiVersion: monitoring.coreos.com/v1" "kind: PrometheusRule" \
    "metadata: {name: nerfd, labels: {release: kube-prometheus-stack}}" "spec:" "  groups:"
  for file in ../../../monitoring/rules/*.yaml; do
    sed -n '/^groups:/,$p' "$file" | tail -n +2 | sed 's/^\(.\)/  \1/'
  done
}
if [ "${1:-}" = --check ]; then
  rule | diff prometheusrule.yaml -
else
  rule >prometheusrule.yaml
fi
