"""Lists what Regente is made of, and asks whether it has known holes.

python scripts/supply_chain.py sbom     CycloneDX documents in build/sbom
python scripts/supply_chain.py audit    pip-audit and npm audit, which ask their databases
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import console

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "sbom"
CYCLONEDX = "cyclonedx-bom==7.5.0"
PIP_AUDIT = "pip-audit@2.10.1"


def main(what: str) -> int:
    uv = subprocess.run(
        ["sh", "scripts/uv.sh", ".venv"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    return sbom(uv) if what == "sbom" else audit(uv)


def sbom(uv: str) -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    python, browser = OUT / "regente-python.cdx.json", OUT / "regente-console.cdx.json"
    lister = [uv, "tool", "run", "--from", CYCLONEDX, "cyclonedx-py", "requirements"]
    given = ["requirements.lock", "--output-format", "JSON", "--output-file", str(python)]
    subprocess.run([*lister, *given], cwd=ROOT, check=True)
    npm, environment = console.npm_here()
    with browser.open("wb") as file:
        command = [*npm, "sbom", "--sbom-format", "cyclonedx", "--omit", "dev"]
        subprocess.run(command, cwd=console.SOURCE, env=environment, stdout=file, check=True)
    print(f"{python.relative_to(ROOT)}\n{browser.relative_to(ROOT)}")
    return 0


def audit(uv: str) -> int:
    given = ["--disable-pip", "--require-hashes", "--requirement", "requirements.lock"]
    python = subprocess.run([uv, "tool", "run", PIP_AUDIT, *given], cwd=ROOT, check=False)
    npm, environment = console.npm_here()
    command = [*npm, "audit", "--omit", "dev"]
    browser = subprocess.run(command, cwd=console.SOURCE, env=environment, check=False)
    return python.returncode or browser.returncode


if __name__ == "__main__":
    if sys.argv[1:] not in (["sbom"], ["audit"]):
        raise SystemExit(__doc__)
    raise SystemExit(main(sys.argv[1]))
