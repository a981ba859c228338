"""Kernels for NVIDIA devices, one op a file. Their plain torch references lie one folder up."""
