"""`make fuzz`: random cases of every family, within some minutes or some number of cases."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz import verdict
from tests.fuzz.workers import Batch, Result, family_module, finding_of, results

SHARES = {
    "api": 480, "files": 280, "models": 170, "command": 50, "disks": 10, "interrupts": 5,
    "kills": 5,
}  # fmt: skip
"""How many of a thousand cases are of each family."""
LENGTHS = {"api": 50, "files": 50, "models": 50, "command": 20}
"""Cases per batch; 5 for the others."""
SHOWN = 30
"""How many more findings of one kind are listed."""
HEADINGS = {"crash": "crashes", "hang": "hangs", "traceback": "tracebacks", "nan": "silent NaN",
            "accepted": "accepted", "other": "other"}  # fmt: skip


def main() -> int:
    options = _options()
    if options.case:
        return _repeat(options.case)
    families = options.families.split(",") if options.families else _present()
    batches = _batches(
        families, options.seed, options.cases, time.monotonic() + 60 * options.minutes
    )
    tally = Tally()
    try:
        for result in results(batches, options.workers):
            tally.add(result)
    except KeyboardInterrupt:
        _say("interrupted")
    _say(tally.table(families, options.seed))
    _say(tally.list())
    return 1 if tally.findings else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", help="repeat one case: FAMILY:SEED:NUMBER")
    parser.add_argument("--families", help="only these, such as api,files")
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args()


def _present() -> list[str]:
    here = Path(__file__).parent
    return [name for name in SHARES if (here / f"{name}.py").exists()]


def _batches(families: list[str], seed: int, count: int, until: float) -> Iterator[Batch]:
    """Batches of all families in turn, each as often as its share, until the time is over."""
    whole = sum(SHARES[name] for name in families)
    wanted = {name: -(-count * SHARES[name] // whole) for name in families}
    done = dict.fromkeys(families, 0)
    while time.monotonic() < until:
        open_ones = [name for name in families if done[name] < wanted[name]]
        if not open_ones:
            return
        name = min(open_ones, key=lambda name: done[name] / wanted[name])
        end = min(wanted[name], done[name] + LENGTHS.get(name, 5))
        yield Batch(name, seed, done[name], end)
        done[name] = end


@dataclass
class Tally:
    """What has been run, and what was found."""

    cases: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: dict[tuple[str, str], list[Result]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    shown: float = 0.0

    def add(self, result: Result) -> None:
        self.cases[result.family] += 1
        self.seconds[result.family] += result.seconds  # type: ignore[assignment]
        if result.finding is not None:
            kind = result.finding.split(":")[0]
            kind = kind if kind in verdict.KINDS else "other"
            self.kinds[result.family, kind] += 1
            alike = result.family, result.finding.split(" |")[0]
            if alike not in self.findings:
                self.findings[alike] = []
                _say(f"\n{_name(result)}  {result.finding}")
            self.findings[alike].append(result)
        if time.monotonic() - self.shown > 2:
            self.shown = time.monotonic()
            total, spent = self.cases.total(), self.shown - self.began
            found = sum(map(len, self.findings.values()))
            sys.stderr.write(f"\r{total} cases in {spent:.0f} s, {found} findings ")
            sys.stderr.flush()

    def table(self, families: list[str], seed: int) -> str:
        """Family by family: cases, findings of every kind, milliseconds per case."""
        rows = [("family", "cases", *HEADINGS.values(), "ms/case")]
        for name in families:
            found = [str(self.kinds[name, kind]) for kind in HEADINGS]
            each = 1000 * self.seconds[name] / max(1, self.cases[name])
            rows.append((name, str(self.cases[name]), *found, f"{each:.0f}"))
        totals = [str(sum(self.kinds[name, kind] for name in families)) for kind in HEADINGS]
        rows.append(("all", str(self.cases.total()), *totals, ""))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ]
        spent = (time.monotonic() - self.began) / 60
        return "\n".join(["", *lines, f"seed {seed}, {spent:.1f} minutes"])

    def list(self) -> str:
        """Every kind of finding once, with the command that repeats its first case, and the names
        of the others."""
        lines = []
        for first, *others in self.findings.values():
            lines.append(f"{1 + len(others)} x  {first.finding}")
            lines.append(f"      make fuzz FUZZ_CASE={_name(first)}")
            lines.extend(f"      {_name(other)}" for other in others[:SHOWN])
        return "\n".join(lines)


def _name(result: Result) -> str:
    return f"{result.family}:{result.seed}:{result.number}"


def _repeat(name: str) -> int:
    """Run one case in this process."""
    family, seed, number = name.split(":")
    module = family_module(family)
    cases = module.cases(int(seed), int(number) + 1)
    case = next(itertools.islice(cases, int(number), None))
    verdict.show_tracebacks = True
    _say(f"{case}")
    finding = finding_of(module, case)
    _say(finding or "nothing found")
    return 1 if finding else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
