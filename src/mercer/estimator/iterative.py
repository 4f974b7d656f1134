"""Fits in steps: targets by name, progress for callbacks, and what an interrupt leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from sklearn import callback
from sklearn.callback import CallbackSupportMixin

from mercer.estimator.base import KernelEstimator
from mercer.streams.sources import Given, named_columns

Attributes = Callable[[], dict[str, Any]]
Report = Callable[[Attributes], bool]
Method = TypeVar("Method", bound=Callable[..., Any])


def with_callbacks(fit: Method) -> Method:
    """Run ``fit`` as `sklearn.callback.with_callbacks` does, with targets that may be named."""
    return cast("Method", callback.with_callbacks(with_named_columns(fit)))


def with_named_columns(fit: Method) -> Method:
    """Let ``fit(frame, "price")`` take targets and weights from columns of a data frame."""

    @wraps(fit)
    def applied(self: Any, X: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        names: list[str] = []
        weight = kwargs.get("sample_weight", args[0] if args else None)
        if isinstance(y, str | list) or isinstance(weight, str):
            arguments = signature(fit).bind(self, X, y, *args, **kwargs).arguments
            given = Given(X, y, arguments.get("sample_weight"))
            given, names = named_columns(type(self).__name__, given)
            fitted = fit(**arguments | given._asdict())
        else:
            fitted = fit(self, X, y, *args, **kwargs)
        # Predictions take frames with these columns, and without them.
        self._named_columns = tuple(names)
        return fitted

    return cast("Method", applied)


class IterativeEstimator(CallbackSupportMixin, KernelEstimator):
    """Base of estimators that are fitted in steps.

    A subclass decorates ``fit`` with `with_callbacks` and, inside ``_fitting``,
    runs its loop in ``_iterations``. After Ctrl-C the attributes of the last step that was reported
    stay, with ``converged_`` False.
    """

    converged_: bool

    @contextmanager
    def _iterations(
        self, X: Any, y: Any, max_iter: int | None, name: str = "iteration"
    ) -> Iterator[Report]:
        """Give the loop a function to call after every step.

        It takes a function that returns the fitted attributes as they are after this step, which is
        called only if somebody wants them, and returns whether a callback asks to stop. `max_iter`
        is None if the number of steps has no bound known in advance.
        """
        context = self._init_callback_context(max_subtasks=max_iter)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        latest: Attributes | None = None

        def report(fitted: Attributes) -> bool:
            nonlocal latest
            latest = fitted
            step = context.subcontext(task_name=name)
            step.call_on_fit_task_begin(estimator=self, X=X, y=y)
            stop: bool = step.call_on_fit_task_end(
                estimator=self, X=X, y=y, reconstruction_attributes=fitted
            )
            return stop

        try:
            yield report
            context.call_on_fit_task_end(
                estimator=self, X=X, y=y, reconstruction_attributes=latest or dict
            )
        except KeyboardInterrupt:
            if latest is not None:
                self.__dict__.update(latest())
                self.converged_ = False
            raise

    def _keeps_partial_fit(self) -> bool:
        return getattr(self, "converged_", True) is False
