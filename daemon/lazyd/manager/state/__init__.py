"""What outlives the manager in files of the state directory.

- `keeper.py` one small thing, a file that is replaced as a whole
- `database.py` one of SQLite: its shape and version, what happens if it is damaged, newer, full or locked
- `clerk.py` the same for the loop: a thread of its own, writes that gather, questions that do not wait for ever
"""
