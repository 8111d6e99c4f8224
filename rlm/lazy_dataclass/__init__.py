"""A dataclass whose methods are written when they are first needed.

The standard decorator compiles six functions for a frozen class, which takes up to a millisecond. With
hundreds of classes that was a fifth of what a run does before its first request. Here the standard decorator
reads the fields at once, so `fields`, `replace` and `asdict` work. A method is written when it is first
looked up: `__init__` here, the others by the standard decorator for a twin with the same fields. Type
checkers see the standard decorator.
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


def _decorate(cls: type, *, frozen: bool, slots: bool, eq: bool) -> type:
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
    return made  # type: ignore[no-any-return]


class _Later:
    """Stands for one method of a class until it is looked up."""

    __slots__ = ("_name", "_of")

    def __init__(self, of: type, name: str) -> None:
        self._of = of
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        is_init = self._name == "__init__"
        methods = {"__init__": _initializer(self._of)} if is_init else dict(vars(_twin(self._of)))
        for name, method in list(vars(self._of).items()):
            if isinstance(method, _Later) and name in methods:
                setattr(self._of, name, methods[name])
        return methods[self._name].__get__(instance, owner)


class _Made:
    """The default of a parameter whose field has a factory."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()


def _initializer(cls: Any) -> Any:
    """Return the `__init__` of a class: it sets each field, in order, then calls `__post_init__`."""
    set_field = (
        "_set(self, {name!r}, {value})" if cls.__dataclass_params__.frozen else "self.{name} = {value}"
    )
    known: dict[str, Any] = {"_MADE": _MADE, "_set": object.__setattr__}
    parameters, lines = ["self"], []
    for number, one in enumerate(dataclasses.fields(cls)):
        name = value = one.name
        default = f"_default_{number}"
        parameter = name
        if one.default_factory is not dataclasses.MISSING:
            known[default] = one.default_factory
            parameter = f"{name}=_MADE"
            value = f"{default}() if {name} is _MADE else {name}" if one.init else f"{default}()"
        elif one.default is not dataclasses.MISSING:
            known[default] = one.default
            parameter = f"{name}={default}"
            value = name if one.init else default
        if one.init:
            parameters.append(parameter)
        if one.init or default in known:
            lines.append(set_field.format(name=name, value=value))
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "".join(f"\n    {line}" for line in lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):{body}", known)  # noqa: S102 - as the standard decorator does
    written = known["__init__"]
    written.__module__, written.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    types = {one.name: one.type for one in dataclasses.fields(cls) if one.init}
    written.__annotations__ = {**types, "return": None}
    return written


def _twin(cls: Any) -> type:
    """Return a class with the same fields that has the other methods of the standard decorator."""
    fields = dataclasses.fields(cls)
    namespace: dict[str, Any] = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__annotations__": {one.name: one.type for one in fields},
        **{one.name: dataclasses.field(repr=one.repr, hash=one.hash, compare=one.compare) for one in fields},
    }
    params = cls.__dataclass_params__
    decorate = dataclasses.dataclass(init=False, frozen=params.frozen, eq=params.eq)
    return decorate(type(cls.__name__, (), namespace))


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
