"""Gene programs of worm neurons, or of the counts in your .h5ad file, and their markers."""

import sys

import anndata
import numpy as np
from sklearn.preprocessing import normalize

from deepnmf import cells, sdnmf_rl1
from deepnmf.data import load_worm


def worm() -> anndata.AnnData:
    """4186 cells by 13488 genes, with the type of every cell."""
    data = load_worm()
    adata = anndata.AnnData(data.X.astype("float32"))
    adata.obs_names, adata.var_names = data.sample_names, data.feature_names
    adata.obs["type"] = data.y.astype(str)
    return adata


adata = anndata.read_h5ad(sys.argv[1]) if len(sys.argv) > 1 else worm()
adata.layers["counts"] = adata.X.copy()
adata.X = (1e4 * normalize(adata.X, norm="l1")).log1p()
mean = np.asarray(adata.X.mean(axis=0)).ravel()
variance = np.asarray(adata.X.power(2).mean(axis=0)).ravel() - mean**2
adata.var["highly_variable"] = np.argsort(np.argsort(-variance)) < 2000

model = cells.fit(adata, sdnmf_rl1((30, 10), random_state=0))
print(model.status_)
for part, genes in cells.markers(adata, 6).groupby("part"):
    print(f"program {part}:", ", ".join(genes["gene"]))

adata.write_h5ad("programs.h5ad")
cells.markers(adata, 50).to_csv("markers.csv", index=False)
print("written: programs.h5ad (obsm, varm, uns), markers.csv")
