#!/bin/sh
# Runs the stories and a sample of the audit on a GPU and on the CPU beside it, and prints what came out as Markdown.
#
#   tests/device/run_cuda.sh [-o docs/measured/NAME.md] [--device cuda] [--seconds 330]
#
# Needs Python with torch and transformers, and no network. What mlxdiag itself needs and the machine lacks
# (msgspec, pyyaml, typer, rich, numpy, safetensors) may lie as wheels in a folder: WHEELS=folder.
set -eu
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
if [ -n "${WHEELS:-}" ]; then
  site=$(mktemp -d)
  trap 'rm -rf "$site"' EXIT
  "$PYTHON" -m pip install --quiet --no-index --no-deps --no-compile --target "$site" "$WHEELS"/*.whl
  PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
fi
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" HF_HUB_OFFLINE=1 OMP_NUM_THREADS="${OMP_NUM_THREADS:-4}"
"$PYTHON" -m tests.device.measure "$@"
