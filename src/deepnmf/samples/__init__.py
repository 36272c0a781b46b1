"""What X can be: arrays, sparse matrices, tensors, files, lists of blocks, Dask arrays."""
