"""Reports over a journal."""
import calendar
import datetime

from .journal import within
from .money import format_amount


def month_report(journal, account, month):
    first = datetime.date.fromisoformat(month + "-01")
    last = first.replace(day=calendar.monthrange(first.year, first.month)[1])
    debits = credits = 0
    entries = journal.entries(first, last, account)
    for entry in entries:
        for name, cents in entry.postings:
            if within(name, account):
                if cents > 0:
                    debits += cents
                else:
                    credits += cents
    return {
        "account": account,
        "month": month,
        "opening": journal.balance(account, first - datetime.timedelta(days=1)),
        "debits": debits,
        "credits": credits,
        "closing": journal.balance(account, last),
        "entries": len(entries),
    }


def trial_balance(journal, on=None):
    totals = {}
    for entry in journal.entries(last=on):
        for name, cents in entry.postings:
            totals[name] = totals.get(name, 0) + cents
    return sorted((name, cents) for name, cents in totals.items() if cents)


def render(report):
    lines = [f"{report['account']} {report['month']} ({report['entries']} entries)"]
    for key in ("opening", "debits", "credits", "closing"):
        lines.append(f"  {key:<8} {format_amount(report[key]):>16}")
    return "\n".join(lines) + "\n"
