"""A trading system of 200 strategies, before and after."""
