"""`python -m netloom`: the command of this very interpreter, wherever scripts are installed."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
