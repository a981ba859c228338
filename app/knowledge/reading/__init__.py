"""Readers: one file's bytes become a document. They run in a child process that can be killed."""

RULES = 2
"""Grows with every change of a reader that gives other documents: indexes are then brought up to
date.
"""
