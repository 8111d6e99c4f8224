"""A dataclass whose methods are written when they are first needed.

The standard decorator compiles six functions for a frozen class, which takes up to a millisecond. With
hundreds of classes that was a fifth of what a run does before its first request. Here the standard decorator
reads the fields at once, so `fields`, `replace` and `asdict` work. When a method is first looked up, the
standard decorator writes it for a twin with the same fields. Type checkers see the standard decorator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True
    ) -> type | Callable[[type], type]:
        """Decorate a class as `dataclasses.dataclass` does."""

        def decorate(cls: type) -> type:
            # Without a docstring, the standard decorator looks up the signature at once.
            if not cls.__doc__ or any(map(dataclasses.is_dataclass, cls.__mro__[1:])):
                return dataclasses.dataclass(frozen=frozen, slots=slots, eq=eq)(cls)
            return _decorate(cls, frozen=frozen, slots=slots, eq=eq)

        return decorate if cls is None else decorate(cls)


def _decorate(cls: type, *, frozen: bool, slots: bool, eq: bool) -> Any:
    own = dict(vars(cls))
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    made.__dataclass_params__.init = made.__dataclass_params__.repr = True
    made.__dataclass_params__.eq, made.__dataclass_params__.frozen = eq, frozen
    names = ["__init__", "__repr__"]
    if eq:
        names.append("__eq__")
        # A class with an __eq__ of its own has None for its hash, which Python puts there.
        if own.get("__hash__") is None:
            own.pop("__hash__", None)
            if frozen:
                names.append("__hash__")
            else:
                made.__hash__ = None
    for name in names:
        if name not in own:
            setattr(made, name, _Later(made, name))
    if frozen:
        _freeze(made)
        if slots and "__getstate__" not in own:
            made.__getstate__, made.__setstate__ = _state_of, _restore
    return made


class _Later:
    """Stands for one method of a class until it is looked up."""

    __slots__ = ("_name", "_of")

    def __init__(self, of: type, name: str) -> None:
        self._of = of
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        methods = dict(vars(_twin(self._of, init=self._name == "__init__")))
        for name, method in list(vars(self._of).items()):
            if isinstance(method, _Later) and name in methods:
                setattr(self._of, name, methods[name])
        return methods[self._name].__get__(instance, owner)


def _twin(cls: Any, *, init: bool) -> type:
    """Return a class with the same fields that has the `__init__` of the standard decorator, or its other
    methods."""
    fields = dataclasses.fields(cls)
    namespace: dict[str, Any] = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__annotations__": {one.name: one.type for one in fields},
        **{one.name: _again(one) for one in fields},
    }
    if hasattr(cls, "__post_init__"):
        namespace["__post_init__"] = cls.__post_init__
    params = cls.__dataclass_params__
    decorate = dataclasses.dataclass(
        init=init,
        repr=not init,
        eq=params.eq and not init,
        frozen=params.frozen,
        # With slots, `__init__` also sets the defaults of fields that it does not take.
        slots="__slots__" in vars(cls) and not all(one.init for one in fields),
    )
    return decorate(type(cls.__name__, (), namespace))


def _again(one: dataclasses.Field[Any]) -> Any:
    """Return what declares the same field once more."""
    return dataclasses.field(
        default=one.default,
        default_factory=one.default_factory,
        init=one.init,
        repr=one.repr,
        hash=one.hash,
        compare=one.compare,
        kw_only=one.kw_only,
    )


def _freeze(cls: Any) -> None:
    """Let no field of the class be set or deleted, and nothing else of its direct instances."""
    names = cls.__dataclass_fields__

    def refuse_to_set(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def refuse_to_delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = refuse_to_set, refuse_to_delete


def _state_of(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
