#!/bin/sh
# Pins every dependency for every supported platform and Python, with hashes and without addresses.
set -eu
uv=$(sh scripts/uv.sh "$1")
"$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
  --upgrade --group dev pyproject.toml --output-file requirements.lock
