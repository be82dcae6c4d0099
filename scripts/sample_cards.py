"""The page of the samples' proofs, written from the proofs themselves into docs/proof-samples.md.

    .venv/bin/python scripts/sample_cards.py FOLDER   # what benchmarks/prove.py --out keeps: FOLDER/namespace

What stands above the mark in the page is left as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from termarena.proof.card import card_of
from termarena.proof.report import read_proof

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.proof.report import Proof

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "proof-samples.md"
MARK: Final = "<!-- written by scripts/sample_cards.py -->\n"
HEAD: Final = (
    "| sample | grade | solution passes | wrong solutions found out | variants pass"
    " | exploits that earn: sealed, live, live and unguarded | took |"
)


def main(words: Sequence[str]) -> int:
    """Write the page; 2 where the folder holds no proof."""
    if len(words) != 1:
        sys.stderr.write(__doc__ or "")
        return 2
    proofs = [read_proof(path) for path in sorted(Path(words[0]).glob("*/proof.json"))]
    if not proofs:
        sys.stderr.write(f"no proof.json below {words[0]}\n")
        return 2
    above, _, _ = PAGE.read_text().partition(MARK)
    PAGE.write_text(above + MARK + "\n" + "\n".join(_page(proofs)))
    return 0


def _page(proofs: Sequence[Proof]) -> Iterator[str]:
    yield HEAD
    yield "|---" * 7 + "|"
    yield from (_row(proof) for proof in proofs)
    yield "\n## Cards\n"
    for proof in proofs:
        # A level deeper, under the page's own headings, and without the set's name.
        yield "##" + card_of(proof).replace(" termarena/", " ", 1)


def _row(proof: Proof) -> str:
    if not (proof.solvable and proof.discriminating and proof.equivalent and proof.hackable):
        raise ValueError(f"{proof.task_id} was not tried to the end")
    mutants, earned = proof.discriminating, proof.hackable
    cells = (
        proof.task_id.rpartition("/")[2],
        proof.letter,
        f"{proof.solvable.passes} of {proof.solvable.attempts}",
        f"{mutants.killed} of {mutants.killed + len(mutants.survivors)}",
        f"{proof.equivalent.passes} of {proof.equivalent.variants}",
        f"{100 * earned.sealed:.0f} %, {100 * earned.live:.0f} %, {100 * earned.live_raw:.0f} %",
        f"{proof.seconds:.0f} s",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
