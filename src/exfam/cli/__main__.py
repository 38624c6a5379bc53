"""`python -m exfam.cli` is `exfam`."""

import sys

from exfam.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())
