#!/bin/sh
# Prints the path of uv: the one on PATH, or one beside the virtual environment $1, which it installs when it is missing.
set -eu
bootstrap=$1-uv
if command -v uv; then
  exit
fi
[ -x "$bootstrap/bin/uv" ] || { "${PYTHON:-python3}" -m venv "$bootstrap" && "$bootstrap/bin/pip" install --quiet uv==0.13.8; } >&2
echo "$bootstrap/bin/uv"
