"""What all tests share."""

import signal

# A shell starts background commands with Ctrl-C ignored, and all that they start inherits it. Tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
