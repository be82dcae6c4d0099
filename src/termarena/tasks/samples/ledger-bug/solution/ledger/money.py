"""Amounts of money in whole cents."""
import re

AMOUNT = re.compile(r"(?:([+-]?)(\d+(?:,\d+)*)(?:\.(\d+))?|\((\d+(?:,\d+)*)(?:\.(\d+))?\))", re.ASCII)


def parse_amount(text):
    match = AMOUNT.fullmatch(text.strip(" "))
    if not match:
        raise ValueError(f"not an amount: {text!r}")
    sign, whole, decimals, bracketed_whole, bracketed_decimals = match.groups()
    decimals = (decimals or bracketed_decimals or "") + "000"
    cents = int((whole or bracketed_whole).replace(",", "") + decimals[:2])
    if decimals[2] >= "5":
        cents += 1
    return -cents if bracketed_whole or sign == "-" else cents


def format_amount(cents):
    whole, rest = divmod(abs(cents), 100)
    return f"{'-' if cents < 0 else ''}{whole:,}.{rest:02}"


def split(cents, weights):
    total = sum(weights)
    if total <= 0 or min(weights) < 0:
        raise ValueError("weights must not be negative, nor all zero")
    shares = [abs(cents) * weight // total for weight in weights]
    remainders = [abs(cents) * weight % total for weight in weights]
    left = abs(cents) - sum(shares)
    for i in sorted(range(len(weights)), key=lambda i: -remainders[i])[:left]:
        shares[i] += 1
    return shares if cents >= 0 else [-share for share in shares]
