"""What waits in the batches of providers (`--slow`), as the progress shows it."""

from __future__ import annotations

from rlm.events import BatchesWaiting

__all__ = ["WaitingBatches"]


class WaitingBatches:
    """The batches of all models of a command."""

    def __init__(self) -> None:
        self._by_model: dict[str, BatchesWaiting] = {}

    def add(self, event: BatchesWaiting) -> str:
        """Take in an event and return the line to show, "" if nothing waits."""
        self._by_model[event.model] = event
        waiting = [one for one in self._by_model.values() if one.batches]
        if not waiting:
            return ""
        done, total = sum(one.done for one in waiting), sum(one.total for one in waiting)
        count = sum(len(one.batches) for one in waiting)
        noun = "batch" if count == 1 else f"{count} batches"
        since = _duration(max(one.seconds for one in waiting))
        return f"waiting for {noun}: {done:,} of {total:,} done, since {since}"

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the provider's ids of the batches that were not collected."""
        return tuple(name for one in self._by_model.values() for name in one.batches)

    def describe_left(self) -> str:
        """Say what happens to the batches when the command ends, and what can be done."""
        one = len(self.ids) == 1
        subject, is_charged, them = ("batch", "it is", "it") if one else ("batches", "they are", "them")
        return (
            f"the {subject} {', '.join(self.ids)} stay{'s' if one else ''} at the provider and {is_charged} "
            f"charged: resume to collect {them}, or cancel {them} with rlm runs waiting --cancel ID"
        )


def _duration(seconds: float) -> str:
    """Return `12 s`, `12 min` or `3 h 5 min`."""
    minutes = int(seconds // 60)
    if not minutes:
        return f"{int(seconds)} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
