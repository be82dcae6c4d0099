"""The journal: dated entries with postings that sum to zero."""
import datetime
import re

WHEN = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)


def within(account, name):
    """Is the account the named one, or one of its sub-accounts?"""
    return account == name or account.startswith(name + ":")


class Entry:
    def __init__(self, ident, date, description, postings, tags=()):
        self.id = ident
        self.date = date
        self.description = description
        self.postings = tuple((account, cents) for account, cents in postings)
        self.tags = list(dict.fromkeys(tags))

    def touches(self, account):
        return any(within(name, account) for name, _ in self.postings)


class Journal:
    def __init__(self, utc_offset=0):
        self.utc_offset = utc_offset
        self._balances = {}
        self._entries = []
        self._next = 1

    def _book_date(self, when):
        if isinstance(when, str):
            if not WHEN.fullmatch(when):
                raise ValueError(f"not a date or time: {when!r}")
            if "T" not in when:
                return datetime.date.fromisoformat(when)
            when = datetime.datetime.fromisoformat(when.replace("Z", "+00:00"))
        if isinstance(when, datetime.datetime):
            if when.utcoffset() is not None:
                when = when.astimezone(datetime.timezone(datetime.timedelta(minutes=self.utc_offset)))
            return when.date()
        return when

    def add(self, when, description, postings, tags=()):
        postings = list(postings)
        if len(postings) < 2:
            raise ValueError("an entry needs two postings at least")
        if any(type(cents) is not int for _, cents in postings):
            raise ValueError("amounts are whole cents")
        if sum(cents for _, cents in postings) != 0:
            raise ValueError("postings do not sum to zero")
        entry = Entry(self._next, self._book_date(when), description, postings, tags)
        self._entries.append(entry)
        self._next += 1
        self._balances.clear()
        return entry.id

    def get(self, ident):
        for entry in self._entries:
            if entry.id == ident:
                return entry
        raise KeyError(ident)

    def tag(self, ident, tag):
        tags = self.get(ident).tags
        if tag not in tags:
            tags.append(tag)

    def void(self, tag):
        kept = [entry for entry in self._entries if tag not in entry.tags]
        count = len(self._entries) - len(kept)
        self._entries = kept
        self._balances.clear()
        return count

    def entries(self, first=None, last=None, account=None):
        found = []
        for entry in self._entries:
            if first is not None and entry.date < first:
                continue
            if last is not None and entry.date > last:
                continue
            if account is not None and not entry.touches(account):
                continue
            found.append(entry)
        return sorted(found, key=lambda entry: (entry.date, entry.id))

    def balance(self, account, on=None):
        key = (account, on)
        if key not in self._balances:
            self._balances[key] = sum(cents for entry in self.entries(last=on, account=account) for name, cents in entry.postings if within(name, account))
        return self._balances[key]

    def accounts(self):
        return sorted({name for entry in self._entries for name, _ in entry.postings})
