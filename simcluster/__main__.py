"""`python -m simcluster`."""

from __future__ import annotations

import sys

from simcluster.cli import main

if __name__ == "__main__":
    sys.exit(main())
