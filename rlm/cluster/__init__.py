"""Batches on a Ray cluster."""

from __future__ import annotations

from rlm.cluster.ray_engine import RayCluster

__all__ = ["RayCluster"]
