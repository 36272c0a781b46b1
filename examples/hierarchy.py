"""Plant a hierarchy, and find it again: parts, and what they are made of."""

import numpy as np

from deepnmf import sdnmf_l

rng = np.random.default_rng(0)
W1 = np.kron(np.eye(6), np.ones((5, 1))) * rng.uniform(0.5, 1.5, (30, 6))  # 6 parts of 5 features
W2 = np.zeros((6, 2))  # two parts made of three each
W2[:3, 0], W2[3:, 1] = rng.uniform(0.5, 1.5, 3), rng.uniform(0.5, 1.5, 3)
H1 = W2 @ rng.gamma(0.5, 1, (2, 500))
H1 = H1 * rng.gamma(2, 0.5, H1.shape)  # every part also varies by itself
X = (W1 @ H1 + 0.02 * rng.random((30, 500))).T

model = sdnmf_l((6, 2), random_state=0).fit(X)
print(model.status_)
print(f"layer 1 leaves {model.layer_errors_[0]:.0%}, layer 2 {model.layer_errors_[1]:.0%}")

unit = model.weights_[0] / np.linalg.norm(model.weights_[0], axis=0)
cosines = (W1 / np.linalg.norm(W1, axis=0)).T @ unit
match = cosines.argmax(axis=1)
print("cosines of the parts of layer 1:", cosines.max(axis=1).round(3))
print("planted part of layer 2 of each:", W2.argmax(axis=1))
print("found part of layer 2 of each:  ", model.weights_[1][match].argmax(axis=1))
