#!/usr/bin/env bash
# Line coverage of .py and .pyx by the default suite: tests/coverage.sh [DIRECTORY [PYTHON]]
#
# Builds with line tracing in a fresh copy of the tree, since a traced module is too slow to share a folder with any
# other build. DIRECTORY is made for it and stays; without one, a temporary directory is used and removed. Fails where a
# test fails and where a .pyx does not appear in the report.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${2:-python3}
if (($#)); then
  work=$1
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work/tree"
tar --create --exclude-vcs --exclude='.venv*' --exclude='./build' --exclude='./dist' --exclude='*.egg-info' \
  --exclude='__pycache__' --exclude='*.so' --exclude='./pyx/gdsvc/*.c' --exclude='.*_cache' --exclude='.hypothesis' \
  --exclude='.coverage*' . | tar --extract --directory="$work/tree"
cd "$work/tree"

"$python" -m venv "$work/venv"
GDSVC_TRACE=1 "$work/venv/bin/pip" install -q -e '.[test,lint]' --config-settings editable_mode=compat
test -n "$(find pyx/gdsvc -name '*.c' -print -quit)"  # beside the .pyx, where the plugin looks for it

PATH="$work/venv/bin:$PATH"
# Left out by name. A traced module runs Python, the tracer, between two lines of C: what the interpreter lock makes one
# step elsewhere is many here, and threads that share an object tear it apart. And the others bound time at full
# speed, or memory without the tracer's own.
untraceable=(
  tests/unit/test_picker.py::test_threads_that_pick_while_another_swaps_see_only_pairs_of_a_snapshot
  tests/unit/frontend/test_selection.py::test_a_pool_that_replaces_another_causes_no_false_refusal_under_200_catalogs_and_concurrent_selects
  tests/e2e/test_scale.py::test_100_000_pools_register_are_listed_and_expire_at_once_without_delaying_a_heartbeat
  tests/e2e/test_start_stop.py::test_the_service_is_live_within_half_a_second
  tests/e2e/frontend/test_changes_of_pools.py::test_a_pool_is_used_moved_and_unused_within_100_ms_and_streams_in_hand_go_on
  tests/unit/test_pool_index.py::test_pools_that_come_and_go_while_nobody_lists_leave_nothing_behind
)
for test in "${untraceable[@]}"; do # pytest would say nothing of a name that is no more
  grep -q "def ${test##*::}(" "${test%%::*}"
done
printf 'not run with tracing: %s\n' "${untraceable[@]}"
code=0
coverage run -m pytest -o timeout=600 "${untraceable[@]/#/--deselect=}" || code=$?
coverage combine -q
coverage report --skip-empty --fail-under=95 | tee "$work/report.txt" || code=$?
for source in pyx/gdsvc/*.pyx; do
  if ! grep -qE "^$source +[1-9]" "$work/report.txt"; then
    echo "$source is not in the report"
    code=1
  fi
done
exit "$code"
