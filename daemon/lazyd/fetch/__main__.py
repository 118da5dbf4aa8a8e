"""``python -m lazyd.fetch``."""

from .main import main

raise SystemExit(main())
