"""`python -m exfam` is `exfam`."""

import sys

from exfam.cli import main

if __name__ == "__main__":
    sys.exit(main())
