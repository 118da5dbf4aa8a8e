"""One file per command (`pin` and `unpin` share one). `lazyctl.program.COMMANDS` lists them.

A module is imported when its command is used. What only some commands need (rich, the client's
data connection, `lazyd.config`) is imported where it is used, so that ``status`` stays quick.
"""
