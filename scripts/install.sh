#!/bin/sh
# Makes the virtual environment in $1 with exactly what requirements.lock pins. Brings its own uv when there is none.
set -eu
venv=$1
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Regente needs Python 3.11 or newer; $python is $("$python" --version 2>&1). Set PYTHON=..." >&2
  exit 1
}
uv=$(sh scripts/uv.sh "$venv")
[ -x "$venv/bin/python" ] || "$uv" venv --quiet --no-python-downloads --python "$python" "$venv"
VIRTUAL_ENV=$venv "$uv" pip sync --quiet --require-hashes requirements.lock
VIRTUAL_ENV=$venv "$uv" pip install --quiet --no-deps --editable .
