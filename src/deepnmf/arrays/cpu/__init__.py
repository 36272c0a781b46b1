"""Compiled kernels for NumPy arrays, and the threads that run them."""
