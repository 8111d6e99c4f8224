"""Batches on a Ray cluster."""

from __future__ import annotations

from rlm.batch.ray.engine import RayEngine, ray_engine

__all__ = ["RayEngine", "ray_engine"]
