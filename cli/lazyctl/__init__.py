"""The command line. Nobody imports this package but its own entry point and its tests.

`main` is the entry, `program` the list of commands and the way of one command from the line to the
exit status; `group` knows how commands are found and what they share; `session` is the way to the daemon
and back; `commands/` has one file per command, imported when that command is used. `devices` (by `bars`) and
`models` draw what the daemon tells of them (`units`, `terminal` and `table` know how), `watching`
and `progress` a load; `child` runs a program, `answers` has a model's answer as JSON; `names` and `shells`
complete what is typed.

It talks to the daemon through `lazyd.client` alone, so it can do nothing that another program could not.
"""
