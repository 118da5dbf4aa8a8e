"""``python -m lazyctl``: the same as ``lazyctl``."""

import sys

from .main import main

sys.exit(main())
