"""How fast the engine is against a bare loop over the same library and the same loaded weights.

`python -m engine.bench` measures in a process of its own: a job as JSON on standard input, progress
and the report as JSON lines on standard output. Importing this package imports nothing native.
"""
