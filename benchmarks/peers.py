"""The peers: NMF of other libraries, each called as documented, from the common start.

All of them minimise ½‖X − WH‖². Data that they need in another layout or precision are converted
before the clock starts. Factors that a peer would overwrite are copied for every call.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from methods import Bound, Factors, Method
from problems import Problem


def scikit_learn(problem: Problem, _: int) -> Bound:
    """Coordinate descent, one pass over each factor per iteration."""
    from sklearn.decomposition import NMF

    def call(iterations: int) -> Factors:
        model = NMF(problem.k, init="custom", solver="cd", max_iter=iterations, tol=0)
        W = model.fit_transform(problem.X, W=problem.W.copy(), H=problem.H.copy())
        return Factors(W, model.components_)

    return Bound(call, call)


def nmf_torch(algorithm: str, problem: Problem, threads: int) -> Bound:
    """HALS, HALS repeated until the factor settles ("halsvar", its default), or BPP.

    `run_nmf` takes no start and raises below 10 iterations, so we use its model classes and replace
    their initialiser. That is to their advantage: no SVD is timed. They check the loss every 10
    iterations and stop if it has not fallen, whatever `tol` is.
    """
    import torch
    from nmf.nmf_models import NMFBatchHALS, NMFBatchNnlsBpp

    base: Any = NMFBatchNnlsBpp if algorithm == "bpp" else NMFBatchHALS
    inner = {"hals": {"hals_max_iter": 1}, "halsvar": {}, "bpp": {}}[algorithm]
    torch.set_num_threads(threads)
    X, W, H = (torch.tensor(array) for array in (problem.X, problem.W, problem.H))

    class FromGiven(base):
        def _initialize_H_W(self, eps: float = 1e-6) -> None:  # noqa: ARG002
            self.H, self.W = W.clone(), H.clone()

    def call(iterations: int) -> Factors:
        model = FromGiven(
            n_components=problem.k,
            init="nndsvda",
            beta_loss=2,
            tol=0,
            random_state=0,
            alpha_W=0.0,
            l1_ratio_W=0.0,
            alpha_H=0.0,
            l1_ratio_H=0.0,
            fp_precision="float",
            device_type="cpu",
            n_jobs=threads,
            max_iter=iterations,
            **inner,
        )
        codes = model.fit_transform(X)
        return Factors(codes.numpy(), model.W.numpy(), model.num_iters)

    return Bound(call, call)


def pyplanc(problem: Problem, threads: int) -> Bound:
    """HALS of PLANC, in double precision, the only one it takes."""
    import pyplanc as planc
    import scipy.sparse

    if problem.sparse:
        X = scipy.sparse.csc_matrix(problem.X, dtype=np.float64)
    else:
        X = np.asfortranarray(problem.X, dtype=np.float64)
    W = np.asfortranarray(problem.W, dtype=np.float64)
    H = np.asfortranarray(problem.H.T, dtype=np.float64)

    def call(iterations: int) -> Factors:
        found = planc.nmf(
            X, problem.k, niter=iterations, algo="hals", ncores=threads, Winit=W, Hinit=H
        )
        return Factors(found.W, found.H.T)

    return Bound(call, call)


def tensorly(problem: Problem, _: int) -> Bound:
    """Nonnegative CP by HALS, which for a matrix is NMF; up to 5 inner passes per iteration."""
    from tensorly.cp_tensor import CPTensor
    from tensorly.decomposition import non_negative_parafac_hals

    ones = np.ones(problem.k, dtype=problem.X.dtype)

    def call(iterations: int) -> Factors:
        start = CPTensor((ones, [problem.W.copy(), problem.H.T.copy()]))
        weights, (W, Ht) = non_negative_parafac_hals(
            problem.X, problem.k, n_iter_max=iterations, init=start, tol=0
        )
        return Factors(W * weights, Ht.T)

    return Bound(call, call)


def nmf_rs(algorithm: str, problem: Problem, threads: int) -> Bound:
    """HALS, plain or extrapolated, in double precision, the only one it takes."""
    import nmf_rs as rust

    X, W, H = (np.asarray(array, dtype=np.float64) for array in (problem.X, problem.W, problem.H))

    def call(iterations: int) -> Factors:
        found = rust.nmf(
            X,
            problem.k,
            method=algorithm,
            W0=W,
            H0=H,
            max_iter=iterations,
            num_threads=threads,
        )
        return Factors(found.W, found.H, found.n_iter)

    return Bound(call, call)


REFERENCE = Method("scikit-learn cd", ("scikit-learn",), scikit_learn, sparse=True)


def _nmf_torch(algorithm: str) -> Method:
    return Method(
        f"nmf-torch {algorithm}",
        ("nmf-torch", "torch"),
        partial(nmf_torch, algorithm),
        start="given (initialiser replaced)",
        note="takes no start: its initialiser is replaced",
    )


def _nmf_rs(algorithm: str) -> Method:
    return Method(
        f"nmf-rs {algorithm}",
        ("nmf-rs",),
        partial(nmf_rs, algorithm),
        dtype="float64",
        note="float64 only",
    )


PEERS = (
    REFERENCE,
    _nmf_torch("hals"),
    _nmf_torch("halsvar"),
    _nmf_torch("bpp"),
    Method("pyplanc hals", ("pyplanc",), pyplanc, "float64", sparse=True, note="float64 only"),
    Method("tensorly hals", ("tensorly",), tensorly, note="non_negative_parafac_hals"),
    _nmf_rs("hals"),
    _nmf_rs("ehals"),
)
