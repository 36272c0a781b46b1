"""How well parts and codes separate the materials of mixed spectra."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from deepnmf.arrays import Array
from deepnmf.arrays.tensors import to_numpy
from deepnmf.evaluation.matching import matched, unit_rows


@dataclass(frozen=True)
class Unmixing:
    """Parts compared with the spectra of the materials, and their shares with the true ones."""

    match: tuple[int, ...]
    """The part of each material."""
    angles: tuple[float, ...]
    """The angle between the spectrum of each material and its part, in radians."""
    abundance_rmse: float
    """The root of the mean squared error of the shares."""

    @property
    def spectral_angle(self) -> float:
        """The mean of the angles."""
        return float(np.mean(self.angles))


def abundances(parts: Array, codes: Array) -> np.ndarray:
    """a_j = z_j ‖w_j‖ / Σ_i z_i ‖w_i‖: codes (n, k) as shares of parts (k, m) that add up to 1.

    As if all parts were equally bright. A code of zeros stays.
    """
    norms = np.linalg.norm(np.asarray(to_numpy(parts), dtype=float), axis=1)
    weighed = np.asarray(to_numpy(codes), dtype=float) * norms
    total = weighed.sum(axis=1, keepdims=True)
    return np.asarray(weighed / np.where(total > 0, total, 1))


def unmixing_scores(parts: Array, codes: Array, spectra: ArrayLike, shares: ArrayLike) -> Unmixing:
    """Parts (k, m) and codes (n, k) against the spectra of the materials (c, m) and their shares
    (n, c). Parts and materials are matched one to one for the largest sum of cosines.
    """
    truth = np.asarray(spectra, dtype=float)
    known = np.asarray(shares, dtype=float)
    found = np.asarray(to_numpy(parts), dtype=float)
    if len(found) < len(truth):
        raise ValueError(
            f"{len(found)} parts cannot be {len(truth)} materials: fit at least as many parts."
        )
    expected = (codes.shape[0], len(truth))
    if known.shape != expected:
        raise ValueError(
            f"shares must be (n_samples, n_materials) = {expected}, got {known.shape}."
        )
    match, _ = matched(truth, found)
    ours, theirs = unit_rows(found[match]), unit_rows(truth)
    # atan2 is exact for small angles, where the arc cosine is not.
    angles = 2 * np.arctan2(
        np.linalg.norm(ours - theirs, axis=1), np.linalg.norm(ours + theirs, axis=1)
    )
    error = abundances(found, codes)[:, match] - known
    return Unmixing(
        tuple(int(part) for part in match),
        tuple(float(angle) for angle in angles),
        float(np.sqrt((error**2).mean())),
    )
