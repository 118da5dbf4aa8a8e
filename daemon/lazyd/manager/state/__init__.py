"""What outlives the manager in SQLite files of the state directory.

- `database.py` one such file: its shape and version, what happens if it is damaged, newer, full or locked
- `clerk.py` the same for the loop: a thread of its own, writes that gather, questions that do not wait for ever
"""
