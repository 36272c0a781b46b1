"""Triton kernels and CUDA graphs for tensors on a CUDA device."""
