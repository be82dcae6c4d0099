"""A small double-entry ledger; see README.md."""
from .journal import Entry, Journal
from .money import format_amount, parse_amount, split
from .reports import month_report, render, trial_balance

__all__ = ["Entry", "Journal", "format_amount", "month_report", "parse_amount", "render", "split", "trial_balance"]
