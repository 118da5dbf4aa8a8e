"""Histories are played through the core, in virtual time."""
