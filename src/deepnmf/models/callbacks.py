"""Who follows a fit while it runs: the user's function, the screen, scikit-learn's callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from deepnmf.arrays import Array
from deepnmf.core.decode import basis_of
from deepnmf.core.watch import Record
from deepnmf.samples.base import Samples

if TYPE_CHECKING:
    from deepnmf.models.base import MatrixFactorization

Method = TypeVar("Method", bound=Callable[..., Any])

try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks

    HAS_CALLBACKS = True
except ImportError:

    class CallbackSupport:  # type: ignore[no-redef]
        """scikit-learn before 1.9 has no callbacks."""

    def with_callbacks(method: Method) -> Method:
        """Nothing to set up or tear down."""
        return method

    HAS_CALLBACKS = False


class FitListener:
    """Passes on the records of one fit."""

    def __init__(self, model: MatrixFactorization, samples: Samples) -> None:
        self.model, self.samples = model, samples
        self.context: Any = None

    def begin(self) -> None:
        """Tell scikit-learn's callbacks that a fit begins."""
        if HAS_CALLBACKS:
            depth = len(self.model._sizes())
            alternations = getattr(self.model, "pretrain_iter", 0) if depth > 1 else 0
            self.context = self.model._init_callback_context(
                max_subtasks=depth * alternations + self.model.max_iter
            )
            self.context.call_on_fit_task_begin(estimator=self.model, X=self.samples.X)

    def end(self) -> None:
        """Tell scikit-learn's callbacks that the fit is over."""
        if self.context is not None:
            self.context.call_on_fit_task_end(
                estimator=self.model, X=self.samples.X, reconstruction_attributes=dict
            )

    def __call__(self, record: Record, weights: Sequence[Array]) -> bool:
        """Pass on a record. True if a callback asks to stop the fit."""
        stop = False
        if self.model.verbose:
            print(_line(record))
        if self.model.callback is not None:
            stop = bool(self.model.callback(record))
        if self.context is not None and "_skl_callbacks" in vars(self.model):
            task = self.context.subcontext(task_name=record["stage"])
            task.call_on_fit_task_begin(estimator=self.model, X=self.samples.X)
            stop |= task.call_on_fit_task_end(
                estimator=self.model,
                X=self.samples.X,
                reconstruction_attributes=lambda: self._fitted(record, weights),
            )
        return stop

    def _fitted(self, record: Record, weights: Sequence[Array]) -> dict[str, Any]:
        """The attributes that the model would have if the fit stopped here. There are none yet in
        pre-training, nor where a method works on another matrix than X."""
        if record["stage"] == "pretrain" or weights[0].shape[-2] != self.samples.features:
            return {}
        home = self.samples.home
        return {
            "weights_": [home(W) for W in weights],
            "components_": home(basis_of(*self.model._decoder(weights))).T,
            "code_scale_": 1.0,
            "n_features_in_": self.samples.features,
        }


def _line(record: Record) -> str:
    layer = "" if record["layer"] is None else f" {record['layer']}"
    return (
        f"{record['stage']}{layer} {record['sweep']:4d}  objective {record['objective']:.6e}  "
        f"penalty {record['penalty']:.2e}  kkt {record['kkt']:.2e}  {record['seconds']:.1f} s"
    )
