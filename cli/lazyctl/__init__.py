"""The command line. Nobody imports this package but its own entry point and its tests.

`main` is the entry; `group` knows how commands are found and what they share; `commands/` has one
file per command, imported when that command is used. `units`, `terminal`, `table` and `bars` turn
figures into words and pictures; `complaints` turns an error into one line and an exit status.

It talks to the daemon through `lazyd.client` alone, so it can do nothing that another program could not.
"""
