"""Measurements: this project beside a baseline that is measured in the same run, and the limit that follows from it.

`python -m benchmarks` runs all of them; docs/benchmarks.md says what each one means and how to read it.
"""
