"""`deepnmf demo`: sparse deep NMF at work on handwritten digits."""

from __future__ import annotations

import csv
import time
from dataclasses import replace
from typing import Any

import typer

from deepnmf.cli.screen import check_writable, output_folder, progress, say, table

LAYERS = (32, 16)


def demo(
    output: str = typer.Option("demo", "-o", "--output", help="The folder to write to."),
    seed: int = typer.Option(0, help="The same seed gives the same pictures."),
) -> None:
    """Fit SDNMF/L to handwritten digits, score it against plain NMF, show the parts it found."""
    from sklearn.decomposition import NMF
    from sklearn.preprocessing import normalize as to_unit_norm

    from deepnmf.data import load_digits
    from deepnmf.evaluation import cluster_scores
    from deepnmf.evaluation.metrics import SCORES
    from deepnmf.files.models import save
    from deepnmf.models.presets import sdnmf_l

    folder = output_folder(output)
    check_writable(str(folder / "report.html"))
    digits = load_digits()
    X = to_unit_norm(digits.X)
    say(f"{X.shape[0]} handwritten digits of 8 x 8 pixels, 10 classes")
    say(f"SDNMF/L with layers {LAYERS}: {LAYERS[0]} parts, combined into {LAYERS[1]}")

    model = sdnmf_l(LAYERS, mu=1e-3, scaling="fixed", random_state=seed)
    root = sdnmf_l(LAYERS, mu=1e-3, scaling="fixed", link="root", random_state=seed)
    codes, seconds = _fitted(model, X)
    root_codes, root_seconds = _fitted(root, X)
    began = time.perf_counter()
    plain = NMF(LAYERS[-1], init="nndsvda", max_iter=500, random_state=seed)
    plain_codes = plain.fit_transform(X)
    plain_seconds = time.perf_counter() - began

    fits: list[tuple[str, Any, float, float]] = [
        (f"SDNMF/L {list(LAYERS)}", codes, model.reconstruction_err_, seconds),
        (f"SDNMF/L root {list(LAYERS)}", root_codes, root.reconstruction_err_, root_seconds),
        (f"plain NMF [{LAYERS[-1]}]", plain_codes, plain.reconstruction_err_, plain_seconds),
        (
            f"plain NMF [{LAYERS[-1]}], codes rescaled",
            plain_codes / (plain_codes**2).mean(axis=0) ** 0.5,
            plain.reconstruction_err_,
            plain_seconds,
        ),
    ]
    norm = float((X**2).sum() ** 0.5)
    scored = []
    for name, Z, error, took in fits:
        scores = cluster_scores(Z, digits.y, random_state=seed)
        row: dict[str, Any] = {label: scores[key] for key, label in SCORES.items()}
        scored.append({"model": name, **row, "relative error": error / norm, "seconds": took})
    shown = ("model", "NMI", "NP", "ER", "AMI", "relative error")
    rows = [[row[key] if key == "model" else f"{row[key]:.3f}" for key in shown] for row in scored]
    say()
    say(table(shown, rows))
    say("(K-means on the codes, means of 10 runs; ER: lower is better. Rescaled: every part's")
    say(" codes to unit RMS, which SDNMF/L with scaling=fixed has by itself)")
    say()
    for layer, W in enumerate(model.weights_, 1):
        say(f"zeros in W_{layer}: {(W <= 0).mean():.0%}")
    say(f"fitted in {seconds:.1f} s; {model.status_}")

    with (folder / "scores.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(scored[0]))
        writer.writeheader()
        writer.writerows(scored)
    notes = {
        "model": "sdnmf/l",
        "data": "digits",
        "normalize": "l2",
        "image_shape": digits.image_shape,
    }
    save(model, folder / "digits.safetensors", notes)
    written = [folder / "scores.csv", folder / "digits.safetensors"]
    try:
        from deepnmf.report import write_pictures, write_report
    except ImportError as problem:
        say(f"no pictures: {problem.name} is missing; pip install 'deepnmf[report]'")
    else:
        written += write_pictures(model, digits, folder)
        scaled = replace(digits, X=X)
        written.append(write_report(model, scaled, folder / "report.html", notes, scored))
    say()
    for path in written:
        say(f"written  {path}")


def _fitted(model: Any, X: Any) -> tuple[Any, float]:
    """The codes, and the seconds the fit took."""
    from deepnmf.models.advice import whole

    began = time.perf_counter()
    with progress(2 * model.pretrain_iter + model.max_iter) as callback:
        codes = model.set_params(callback=callback).fit_transform(X)
    whole(model).set_params(callback=None)
    return codes, time.perf_counter() - began
