"""Readers: one file's bytes become a document. They run in a child process that can be killed."""
