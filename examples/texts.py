"""Topics of the help of NumPy, SciPy and scikit-learn; or pass a folder of texts, or a table."""

import importlib
import inspect
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from deepnmf import load, sdnmf_l
from deepnmf.data import read_texts
from deepnmf.evaluation import cluster_scores
from deepnmf.report import write_report

MODULES = "numpy scipy.stats scipy.signal scipy.optimize scipy.sparse scipy.special sklearn.metrics"
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "help")
for name in MODULES.split() if len(sys.argv) == 1 else ():
    (folder / name).mkdir(parents=True, exist_ok=True)
    for member, value in inspect.getmembers(importlib.import_module(name), callable):
        if not member.startswith("_") and len(inspect.getdoc(value) or "") > 300:
            (folder / name / f"{member}.txt").write_text(inspect.getdoc(value), "utf-8")

texts, vectorizer = read_texts(folder)
model = sdnmf_l((20, 8), random_state=0).fit(texts.X)
model.vectorizer_ = vectorizer  # saved with the model, so that further texts need nothing else
model.save("topics.safetensors")
words = np.array(vectorizer.words)
print(f"{texts.X.shape[0]} texts, {len(words)} words; {model.status_}")
best = pd.DataFrame([words[row.argsort()[::-1][:10]] for row in model.components_])
best.to_csv("topics.csv", index_label="topic")
write_report(model, texts, "topics.html", {"model": "sdnmf/l"})
print(best.iloc[:, :6].to_string(header=False))
if texts.y is not None:
    scores = cluster_scores(model.transform(texts.X), texts.y, normalize="l2")
    print(f"K-means on the codes against the folders: NMI {scores.nmi:.2f}, AMI {scores.ami:.2f}")
new = load("topics.safetensors")
print(new.transform(new.vectorizer_.transform(["the area under the ROC curve"])).argmax())
