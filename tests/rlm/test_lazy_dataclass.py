"""The lazy decorator against the standard one: what a class does must be the same."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from rlm.lazy_dataclass import dataclass

_KINDS = [
    {"frozen": True, "slots": True},
    {"frozen": True},
    {"slots": True},
    {"slots": True, "eq": False},
    {},
]


def _given() -> tuple[Callable[..., Any], Callable[..., Any]]:
    return dataclass, dataclasses.dataclass


@pytest.fixture(params=_KINDS, ids=str)
def pair(request: pytest.FixtureRequest) -> tuple[type, type]:
    """Return the same class by both decorators."""

    def made(decorator: Any) -> type:
        @decorator(**request.param)
        class Point:
            """A point."""

            x: int
            y: int = 2
            tags: list[str] = field(default_factory=list, compare=False)
            hidden: int = field(default=0, repr=False, init=False)
            unit: str = field(default="m", kw_only=True)
            limit: ClassVar[int] = 5

        return Point

    lazy, standard = map(made, _given())
    return lazy, standard


def test_it_says_and_takes_the_same(pair: tuple[type, type]) -> None:
    lazy, standard = pair
    assert str(inspect.signature(lazy)) == str(inspect.signature(standard))
    for given in [(1,), (1, 3), (1, 3, ["a"])]:
        # The names of the two tests' classes are the same, so their texts are.
        assert repr(lazy(*given)) == repr(standard(*given))
        assert dataclasses.asdict(lazy(*given)) == dataclasses.asdict(standard(*given))
    for wrong in [(), (1, 2, [], 4)]:
        with pytest.raises(TypeError) as ours:
            lazy(*wrong)
        with pytest.raises(TypeError) as theirs:
            standard(*wrong)
        assert str(ours.value) == str(theirs.value)
    assert dataclasses.replace(lazy(1), x=9).x == 9
    assert lazy.__match_args__ == standard.__match_args__
    assert lazy.limit == 5
    assert lazy(1).tags is not lazy(1).tags


def test_it_is_equal_and_hashed_the_same(pair: tuple[type, type]) -> None:
    lazy, standard = pair
    for one in pair:
        assert (one(1) == one(1, 2)) is (standard(1) == standard(1, 2))
        assert one(1) != one(2)
    assert (lazy.__hash__ is None) is (standard.__hash__ is None)
    if standard.__hash__ is not None and standard(1) == standard(1):
        assert hash(lazy(1)) == hash(lazy(1, 2)) == hash(standard(1))


def test_it_is_frozen_the_same(pair: tuple[type, type]) -> None:
    outcomes = []
    for one in pair:
        said = []
        for name in ("x", "other"):
            point = one(1)
            for act in (lambda p, n: setattr(p, n, 7), delattr):
                try:
                    act(point, name)
                    said.append("done")
                except (AttributeError, TypeError):
                    # With slots, some versions of the standard one answer TypeError for other names.
                    said.append("refused")
        outcomes.append(said)
    assert outcomes[0] == outcomes[1]


def test_a_frozen_field_says_so() -> None:
    for act, words in (
        (lambda: setattr(Base(1), "x", 2), "assign to"),
        (lambda: delattr(Base(1), "x"), "delete"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot {words} field 'x'"):
            act()


@dataclass(frozen=True, slots=True)
class Base:
    """A base."""

    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("negative")


@dataclass(frozen=True, slots=True)
class Derived(Base):
    """One with a further field."""

    y: str = "y"


class Plain(Base):
    """A subclass without the decorator, which may have attributes of its own."""

    note: str


def test_classes_are_derived() -> None:
    assert repr(Derived(1)) == "Derived(x=1, y='y')"
    assert Derived(1) != Base(1)
    with pytest.raises(ValueError, match="negative"):
        Derived(-1)
    plain = Plain(3)
    plain.note = "kept"
    assert plain == Plain(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.__setattr__("x", 4)


def test_copies_and_pickles() -> None:
    for one in (Base(1), Derived(1, "z")):
        assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one


def test_methods_of_a_class_stay() -> None:
    methods = {"__repr__": lambda _: "mine", "__eq__": lambda *_: True}
    own = dataclass(slots=True)(
        type("Own", (), {"__doc__": "One.", "__annotations__": {"x": int}, **methods})
    )
    assert repr(own(1)) == "mine"
    assert own(1) == own(2)
    assert own.__hash__ is None


def test_methods_are_written_when_they_are_looked_up() -> None:
    @dataclass(frozen=True)
    class Unused:
        """One that nobody has made yet."""

        x: int

    assert "Later" in type(vars(Unused)["__init__"]).__name__
    assert Unused(1) == Unused(1)
    assert inspect.isfunction(vars(Unused)["__init__"])
