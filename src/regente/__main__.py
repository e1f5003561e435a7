"""`python -m regente` is `regente`."""

import sys

from regente.cli import main

if __name__ == "__main__":
    sys.exit(main())
