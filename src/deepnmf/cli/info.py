"""`deepnmf info`: what is in a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepnmf.cli.agreement import choice_of, support_of
from deepnmf.cli.options import AsJson, ModelFile
from deepnmf.cli.screen import say, say_json

if TYPE_CHECKING:
    from deepnmf.models.base import MatrixFactorization


def info(
    model: ModelFile,
    as_json: AsJson = False,
) -> None:
    """Show what is in a model file."""
    from deepnmf.models.part_names import given_names
    from deepnmf.models.storage import load_stored

    stored = load_stored(model)
    fitted, notes = stored.model, stored.notes
    last = fitted.history_[-1] if fitted.history_ else None
    zeros = [float((W == 0).mean()) for W in fitted.weights_]
    vectorizer = getattr(fitted, "vectorizer_", None)
    choice, support = choice_of(fitted), support_of(fitted)
    parameters = {
        name: value if isinstance(value, int | float | str | None) else repr(value)
        for name, value in fitted.get_params(deep=False).items()
    }
    record: dict[str, object] = {
        "file": model,
        "model": notes.get("model"),
        "data": notes.get("data"),
        "normalize": notes.get("normalize", "none"),
        "reads": "numbers" if vectorizer is None else f"text ({len(vectorizer.words)} words)",
        "features": fitted.n_features_in_,
        "layers": [int(W.shape[-1]) for W in fitted.weights_],
        "named_parts": _named(fitted),
        "hidden_parts": sum(map(len, fitted.hidden_parts_)),
        "dtype": str(fitted.weights_[0].dtype),
        "zeros": zeros,
        "dead_units": last and last.get("dead"),
        "reconstruction_error": fitted.reconstruction_err_,
        "objective": last and last["objective"],
        "penalty": last and last["penalty"],
        "sweeps": fitted.n_iter_,
        "seconds": last and last["seconds"],
        "status": fitted.status_,
    }
    if as_json:
        names = [given_names(layer) for layer in fitted.part_names_]
        record |= {"part_names": names, "hidden_parts": fitted.hidden_parts_}
        say_json({**record, "parameters": parameters, **_agreement(fitted)})
        return
    record["hidden_parts"] = record["hidden_parts"] or None
    record["named_parts"] = record["named_parts"] or None
    record["zeros"] = ", ".join(f"{share:.0%}" for share in zeros)
    width = max(len(name) for name in record)
    for name, value in record.items():
        if value is not None:
            shown = f"{value:.6g}" if isinstance(value, float) else value
            say(f"{name.replace('_', ' '):<{width}}  {shown}")
    for title, lines in (("choice", choice), ("support", support)):
        for place, line in enumerate(lines):
            say(f"{'' if place else title:<{width}}  {line}")
    say("parameters")
    for name, value in parameters.items():
        if value is not None:
            say(f"  {name:<{width}}{value}")


def _named(fitted: MatrixFactorization) -> int:
    """How many parts have names of their own."""
    from deepnmf.models.part_names import given_names

    layers = [given_names(names) or [] for names in fitted.part_names_]
    return sum(name is not None for names in layers for name in names)


def _agreement(fitted: MatrixFactorization) -> dict[str, object]:
    """The choice of layers and the support of parts; null where a model has none."""
    choice = getattr(fitted, "choice_", None)
    support = getattr(fitted, "support_", None)
    return {
        "choice": None if choice is None else choice.to_dict(),
        "support": None if support is None else [values.tolist() for values in support],
    }
