"""What a load will need, before it happens, and what loads have taught.

`predictor.py` answers the core, `forecasts.py` puts together what is known; `learning.py` is the way to the file
`learned.db` (`learned.py`), whose rows are `peaks.py`; `lessons.py` are the shapes in which that is passed on, and
`foretold.py` is how it is shown.
"""
