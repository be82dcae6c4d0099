"""Amounts of money in whole cents."""
import re

AMOUNT = re.compile(r"(?:([+-]?)(\d+(?:,\d+)*(?:\.\d+)?)|\((\d+(?:,\d+)*(?:\.\d+)?)\))", re.ASCII)


def parse_amount(text):
    match = AMOUNT.fullmatch(text.strip(" "))
    if not match:
        raise ValueError(f"not an amount: {text!r}")
    sign, plain, bracketed = match.groups()
    cents = int(float((plain or bracketed).replace(",", "")) * 100)
    return -cents if bracketed or sign == "-" else cents


def format_amount(cents):
    return f"{cents / 100:,.2f}"


def split(cents, weights):
    total = sum(weights)
    if total <= 0 or min(weights) < 0:
        raise ValueError("weights must not be negative, nor all zero")
    shares = [round(cents * weight / total) for weight in weights]
    shares[-1] += cents - sum(shares)
    return shares
