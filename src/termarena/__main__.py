"""`python -m termarena`, for where the command itself is not on the PATH."""

import sys

from termarena.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
