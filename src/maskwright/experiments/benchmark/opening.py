"""Loads a model that a benchmark has fine-tuned."""

from __future__ import annotations

from pathlib import Path

from ...hub.folders import load_model, read_facts
from ...inference.predict import Predictor
from ...inference.ready import place
from ...tasks.of_model import task_of_model
from .config import BenchmarkConfig


def open_model(folder: Path, config: BenchmarkConfig) -> Predictor:
    """Load the model folder of a run, on the benchmark's device and in its precision."""
    model, facts = load_model(folder)[0], read_facts(folder)
    return Predictor(place(model, config.device, config.precision), task_of_model(model, facts))
