"""Sparse matrices that stay in their file, as anndata stores them, and are read by rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from deepnmf.data.dataset import DataError

FORMATS = {"csr_matrix": "csr", "csc_matrix": "csc"}
INDEX = 4
"""Bytes of one index of an entry in memory."""


class StoredSparse:
    """A CSR or CSC matrix in a group of an HDF5 or zarr file: data, indices and indptr.

    Only indptr is in memory. Rows of a CSR matrix are read when they are asked for. Those of a CSC
    matrix lie all over the file, so it can only be read as a whole.
    """

    chunks = None

    def __init__(self, group: Any, where: str) -> None:
        self.group, self.where = group, where
        form = FORMATS.get(str(group.attrs.get("encoding-type", "csr_matrix")))
        if form is None or any(name not in group for name in ("data", "indices", "indptr")):
            raise DataError(f"{where}: is not a sparse matrix of anndata.")
        self.by_rows = form == "csr"
        self.shape = tuple(int(size) for size in group.attrs["shape"])
        self.dtype = np.dtype(group["data"].dtype)
        self.indptr = np.asarray(group["indptr"][:])
        self._check(self.shape[0 if self.by_rows else 1])

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        return int(self.indptr[-1])

    @property
    def sample_bytes(self) -> int:
        """About how much memory one row takes."""
        return int(self.nnz * (self.dtype.itemsize + INDEX) / max(1, self.shape[0])) + INDEX

    def __getitem__(self, rows: slice) -> Any:
        """Rows as a sparse array in memory."""
        first, last, step = rows.indices(self.shape[0])
        whole = (first, last, step) == (0, self.shape[0], 1)
        if not whole:
            self.check_rows()
        if step != 1:
            raise IndexError("only rows that follow each other can be read")
        last = max(first, last)
        starts = self.indptr[first : last + 1] if self.by_rows else self.indptr
        low, high = int(starts[0]), int(starts[-1])
        data, indices = (np.asarray(self.group[name][low:high]) for name in ("data", "indices"))
        kind = scipy.sparse.csr_array if self.by_rows else scipy.sparse.csc_array
        return kind((data, indices, starts - low), shape=(last - first, self.shape[1]))

    def check_rows(self) -> None:
        """Refuse a matrix whose rows cannot be read one by one."""
        if not self.by_rows:
            raise DataError(
                f"{self.where}: is stored by columns (CSC), and cannot be read in blocks of rows. "
                "Write it by rows (adata.X = adata.X.tocsr()), or load it into memory."
            )

    def _check(self, lines: int) -> None:
        starts, stored = self.indptr, int(self.group["data"].shape[0])
        sound = (
            starts.ndim == 1 and starts.dtype.kind in "iu" and len(starts) == lines + 1
            and starts[0] == 0 and (starts[1:] >= starts[:-1]).all() and starts[-1] <= stored
            and self.group["indices"].shape[0] == stored
        )  # fmt: skip
        if not sound:
            raise DataError(f"{self.where}: the sparse matrix is damaged. Write it again.")
