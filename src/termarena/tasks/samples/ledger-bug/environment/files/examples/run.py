#!/usr/bin/env python3
"""Imports bank.csv into books kept in central European winter time and prints some reports; february.txt is what it should print."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from ledger import Journal, month_report, render  # noqa: E402
from ledger.importer import load  # noqa: E402


def main():
    journal = Journal(utc_offset=60)
    journal.add("2023-12-31", "Opening", [("assets:bank", 500000), ("equity", -500000)])
    journal.add("2024-02-10", "Cash withdrawal", [("assets:cash", 10000), ("assets:bank", -10000)])
    journal.add("2024-02-20", "Draft", [("assets:bank", 7700), ("income:services", -7700)], ["draft"])
    journal.add("2024-02-20", "Draft", [("assets:bank", 8800), ("income:services", -8800)], ["draft"])
    with open(os.path.join(here, "bank.csv"), newline="") as file:
        count = load(file, journal, tag="bank.csv")
    print(f"{count} entries imported")
    print(render(month_report(journal, "assets", "2024-02")), end="")
    print(f"{journal.void('draft')} drafts removed")
    for account in ("assets:bank", "costs"):
        print(render(month_report(journal, account, "2024-02")), end="")
    print(f"{journal.void('bank.csv')} imported entries removed")
    print(render(month_report(journal, "assets:bank", "2024-02")), end="")


main()
