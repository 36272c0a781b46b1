"""Learn with partial_fit from batches that arrive one by one and are not kept."""

import numpy as np
from sklearn.datasets import load_digits

from deepnmf import sdnmf_l

X = load_digits().data / 16
train, held_out = X[:1500], X[1500:]
rng = np.random.default_rng(0)

model = sdnmf_l((32, 16), mu=1e-3, random_state=0)
for batch in range(12):
    rows = rng.choice(len(train), 150, replace=False)
    model.partial_fit(train[rows], forget=0.9)  # the past counts 0.9 times as much
    print(f"batch {batch + 1:2}: held-out squared error {-model.score(held_out):.3f}")
print(model.status_)
