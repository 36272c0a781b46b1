"""What X can be: arrays, sparse matrices, tensors, files, lists of blocks, Dask arrays.

`open_samples` is the only code that asks which. To add a kind of input, write one file here and add
one line to `open.KINDS`.
"""
