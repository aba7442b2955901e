"""`python -m perdure` is the `perdure` command."""

import sys

from perdure.cli import main

sys.exit(main())
