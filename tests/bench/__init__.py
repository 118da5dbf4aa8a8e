"""`make bench`: what lazyd costs, each figure beside its floor, measured in the same run.

A floor is the same work with nothing of ours in the way. `figure` says what a figure is and how pairs
are measured, `report` draws and writes, every other module measures one thing and offers `figures()`.
Goals are goals: a slow day is shown, not failed.
"""
