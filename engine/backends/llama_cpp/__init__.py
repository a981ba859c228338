"""The llama.cpp backend, through the low-level C API of llama-cpp-python.

Importing this package imports nothing native; `loader`, `backend` and `tuning` do.
"""
