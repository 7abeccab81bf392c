"""What the shell completes for the verbs that typer does not parse itself."""

import argparse
import inspect
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pool.cli import light


class LightCommand(TyperCommand):
    """A verb of `light`: its options are lent to typer while the shell completes, and only then."""

    def get_params(self, ctx: Any) -> list[Any]:
        known: list[Any] = list(super().get_params(ctx))
        if ctx.resilient_parsing and self.name in light.VERBS:
            known += _lent(light.options_of(self.name))
        return known


def _lent(actions: list[argparse.Action]) -> list[Any]:
    """The options as typer's own, made by typer from a function that has them as parameters."""

    def stand_in(**_: Any) -> None: ...

    stand_in.__signature__ = inspect.Signature([_parameter(action) for action in actions])  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False, context_settings={"help_option_names": []})
    app.command()(stand_in)
    return list(typer.main.get_command(app).params)


def _parameter(action: argparse.Action) -> inspect.Parameter:
    kind, default = (bool, False) if action.nargs == 0 else (str, "")
    option = Annotated[kind, typer.Option(action.option_strings[-1], help=action.help)]  # type: ignore[valid-type]
    return inspect.Parameter(f"lent_{action.dest}", inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option)
