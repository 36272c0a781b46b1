"""Parts of faces and a page to explore them: ORL, 400 faces of 40 people (downloaded once)."""

from dataclasses import replace

import numpy as np

from deepnmf import sdnmf_l
from deepnmf.data import load_orl
from deepnmf.evaluation import cluster_scores
from deepnmf.report import plots, write_report

orl = load_orl()
pixels = orl.X.reshape(400, 112, 92)[:, ::4, ::4].reshape(400, -1)  # 28 x 23, for a quick look
X = np.float32(pixels / 255)
shape = (28, 23)

model = sdnmf_l((60, 25), pretrain_iter=20, max_iter=30, random_state=0)
Z = model.fit_transform(X)
print(model.status_)
scores = cluster_scores(Z, orl.y, normalize="l2")
print(f"K-means on the codes, 40 people: NMI {scores.nmi:.2f}, AMI {scores.ami:.2f}")

plots.parts_sheet(model.basis(1), shape, "parts of layer 1").savefig("faces-layer-1.png")
plots.class_hierarchy(model, X, orl.y, 1, image_shape=shape).savefig("faces-person-1.png")
write_report(model, replace(orl, X=X, image_shape=shape), "faces.html")
print("written  faces-layer-1.png faces-person-1.png faces.html")
