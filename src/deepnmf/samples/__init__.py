"""What X can be: arrays, sparse matrices, tensors, files, lists of blocks, Dask arrays.

`open_samples` is the only code that asks. A new kind of input is one file here, and one line in
`open.KINDS`.
"""
