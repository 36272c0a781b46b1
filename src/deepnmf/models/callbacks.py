"""Who hears of a fit while it runs: the user's function, the screen, scikit-learn's callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from deepnmf.arrays import Array
from deepnmf.core.training import Plan, basis_of
from deepnmf.core.watch import Record
from deepnmf.samples.checks import to_home

if TYPE_CHECKING:
    from deepnmf.models.deep import DeepNMF

Method = TypeVar("Method", bound=Callable[..., Any])

try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks

    HAS_CALLBACKS = True
except ImportError:

    class CallbackSupport:  # type: ignore[no-redef]
        """scikit-learn before 1.9 has no callbacks of its own."""

    def with_callbacks(method: Method) -> Method:
        """Nothing to set up or tear down."""
        return method

    HAS_CALLBACKS = False


class FitWatch:
    """Passes the records of one fit on."""

    def __init__(self, model: DeepNMF, X: Array, plan: Plan) -> None:
        self.model, self.X, self.plan = model, X, plan
        self.context: Any = None

    def begin(self) -> None:
        """Tell scikit-learn's callbacks that a fit begins."""
        if HAS_CALLBACKS:
            depth = len(self.plan.sizes)
            pretraining = depth * self.plan.pretrain_iter if depth > 1 else 0
            self.context = self.model._init_callback_context(
                max_subtasks=pretraining + self.plan.max_iter
            )
            self.context.call_on_fit_task_begin(estimator=self.model, X=self.X)

    def end(self) -> None:
        """Tell scikit-learn's callbacks that the fit is over."""
        if self.context is not None:
            self.context.call_on_fit_task_end(
                estimator=self.model, X=self.X, reconstruction_attributes=dict
            )

    def report(self, record: Record, weights: Sequence[Array]) -> bool:
        """Whether anybody wants the fit stopped."""
        stop = False
        if self.model.verbose:
            print(_line(record))
        if self.model.callback is not None:
            stop = bool(self.model.callback(record))
        if self.context is not None and "_skl_callbacks" in vars(self.model):
            task = self.context.subcontext(task_name=record["stage"])
            task.call_on_fit_task_begin(estimator=self.model, X=self.X)
            stop |= task.call_on_fit_task_end(
                estimator=self.model,
                X=self.X,
                reconstruction_attributes=lambda: self._fitted(record, weights),
            )
        return stop

    def _fitted(self, record: Record, weights: Sequence[Array]) -> dict[str, Any]:
        """What a model needs to be usable as if the fit had stopped here."""
        if record["stage"] == "pretrain":
            return {}
        basis = basis_of(weights, self.plan.link)
        return {
            "weights_": [to_home(W, self.X) for W in weights],
            "components_": to_home(basis, self.X).T,
            "code_scale_": 1.0,
            "n_features_in_": self.X.shape[1],
        }


def _line(record: Record) -> str:
    layer = "" if record["layer"] is None else f" {record['layer']}"
    return (
        f"{record['stage']}{layer} {record['sweep']:4d}  objective {record['objective']:.6e}  "
        f"penalty {record['penalty']:.2e}  kkt {record['kkt']:.2e}  {record['seconds']:.1f} s"
    )
