"""`python -m scaler` is `headway`."""

import sys

from scaler.cli import main

sys.exit(main())
