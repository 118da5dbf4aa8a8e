"""``python -m lazyctl``: the same as ``lazyctl``."""

from .main import main

main()
