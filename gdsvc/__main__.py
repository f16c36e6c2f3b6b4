"""`python -m gdsvc` is `gdsvc`."""

import sys

from gdsvc.main import main

if __name__ == "__main__":
    sys.exit(main())
