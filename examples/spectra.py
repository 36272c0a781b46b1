"""Materials of a scene: their spectra, maps and a page. Samson, 95 x 95 pixels (fetched once)."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
from sklearn.preprocessing import normalize

from deepnmf import sdnmf_r
from deepnmf.data import load_samson
from deepnmf.evaluation import abundances, unmixing_scores
from deepnmf.report import plots, write_report

try:
    samson = load_samson()
except (ValueError, OSError) as problem:
    print("skipped:", problem)
    sys.exit()
X = normalize(samson.X)  # how bright a pixel is does not say what it is
model = sdnmf_r(3, lam=1e-2, random_state=0).fit(X)
Z = model.transform(X)
print(model.status_)

spectra, shares = np.stack([*samson.references.values()]), pd.DataFrame(samson.columns)
scores = unmixing_scores(model.components_, Z, spectra, shares)
print(f"mean spectral angle {scores.spectral_angle:.3f}, RMSE {scores.abundance_rmse:.3f}")
names = [name for _, name in sorted(zip(scores.match, samson.references, strict=True))]
found = abundances(model.components_, Z)
pd.DataFrame(model.components_.T, samson.axis, names).to_csv("samson-spectra.csv")
pd.DataFrame(found, columns=names).to_csv("samson-abundances.csv", index=False)
lines = plots.part_lines(model.components_, samson.axis, samson.axis_label, samson.references)
lines.savefig("samson-spectra.png", dpi=110)
plots.code_maps(found, samson.grid, names).savefig("samson-maps.png", dpi=110)
write_report(model, replace(samson, X=X), "samson.html", {"model": "sdnmf/r", "normalize": "l2"})
print("written  samson-spectra.csv .png samson-abundances.csv samson-maps.png samson.html")
