"""The engine's own backend: a decoder in PyTorch over a paged, prefix-shared, quantized KV pool.

Importing this package imports nothing heavy; `backend` does.
"""
