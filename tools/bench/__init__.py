"""Benchmarks: figures as ratios of one run, never asserted."""

from pathlib import Path

# Every bench, with what it is about.
BENCHES = {
    "start": "Checking a file",
    "growth": "Many configs, launches, releases and files",
    "projects": "Public projects",
    "peers": "Other linters",
    "edit": "An edit in the editor",
    "pre_commit": "A commit",
    "smoke": "A training run",
    "playground": "The playground",
}
RESULTS = Path(__file__).parent / "results.json"  # what they printed when they were last run for the documentation
