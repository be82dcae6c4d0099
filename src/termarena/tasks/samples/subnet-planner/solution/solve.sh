#!/bin/sh
set -eu
cat >/app/subnet-plan <<'PY'
#!/usr/bin/env python3
import json
import os
import sys
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError, collapse_addresses, summarize_address_range


def fail(message):
    print(f"subnet-plan: {message}", file=sys.stderr)
    sys.exit(2)


def reserved_range(text):
    if "-" in text:
        first, last = (IPv4Address(part.strip()) for part in text.split("-"))
        if last < first:
            raise ValueError(f"{text} ends before it starts")
        return int(first), int(last)
    net = IPv4Network(text)
    return int(net[0]), int(net[-1])


def load(path):
    with open(path, encoding="utf-8") as file:
        request = json.load(file)
    blocks = sorted(IPv4Network(text) for text in request["blocks"])
    for a, b in zip(blocks, blocks[1:]):
        if a.overlaps(b):
            raise ValueError(f"{a} and {b} overlap")
    reserved = [reserved_range(text) for text in request["reserved"]]
    names = set()
    for site in request["sites"]:
        if site["name"] in names:
            raise ValueError(f"two sites {site['name']}")
        names.add(site["name"])
        if site["hosts"] < 1:
            raise ValueError(f"{site['name']} has no hosts")
        if "pin" in site:
            site["pin"] = IPv4Network(site["pin"])
    for flow in request["flows"]:
        for name in [flow["to"], *flow["from"]]:
            if name not in names and not (name == "*" and flow["from"] == ["*"] and flow["to"] != "*"):
                raise ValueError(f"unknown site {name}")
    return blocks, reserved, request["growth_percent"], request["sites"], request["flows"]


def free_ranges(block, reserved):
    """The maximal free CIDR ranges of a block."""
    start, end = int(block[0]), int(block[-1])
    ranges = []
    for low, high in sorted(reserved):
        if high < start or low > end:
            continue
        if low > start:
            ranges += summarize_address_range(IPv4Address(start), IPv4Address(low - 1))
        start = max(start, high + 1)
    if start <= end:
        ranges += summarize_address_range(IPv4Address(start), IPv4Address(end))
    return ranges


def take(free, subnet):
    """Splits the free range that holds subnet."""
    holder = next(net for net in free if subnet.subnet_of(net))
    free.remove(holder)
    if holder != subnet:
        free += holder.address_exclude(subnet)


def plan(blocks, reserved, growth, sites):
    free = [net for block in blocks for net in free_ranges(block, reserved)]
    placed, unplaced = {}, {}
    for site in sites:
        need = -(-site["hosts"] * (100 + growth) // 100) + 3
        site["prefix"] = 32 - (need - 1).bit_length()  # /30 at most, since need is 4 at least
    for site in sites:
        pin = site.get("pin")
        if pin is None:
            continue
        if pin.prefixlen > site["prefix"]:
            unplaced[site["name"]] = "pin-too-small"
        elif not any(pin.subnet_of(block) for block in blocks):
            unplaced[site["name"]] = "pin-outside"
        elif not any(pin.subnet_of(net) for net in free):
            unplaced[site["name"]] = "pin-taken"
        else:
            take(free, pin)
            placed[site["name"]] = pin
    for site in sorted((s for s in sites if "pin" not in s), key=lambda s: (s["prefix"], s["name"])):
        fitting = [net for net in free if net.prefixlen <= site["prefix"]]
        if not fitting:
            unplaced[site["name"]] = "no-space"
            continue
        best = max(fitting, key=lambda net: (net.prefixlen, -int(net[0])))
        subnet = IPv4Network((int(best[0]), site["prefix"]))
        take(free, subnet)
        placed[site["name"]] = subnet
    return placed, unplaced


def rules(placed, flows):
    reach = {}
    for flow in flows:
        sources = set(placed) if flow["from"] == ["*"] else set(flow["from"]) & set(placed)
        if flow["to"] in placed:
            for port in flow["ports"]:
                reach.setdefault((placed[flow["to"]], flow["proto"], port), set()).update(sources - {flow["to"]})
    lines = []
    for (target, proto, port), sources in sorted(reach.items(), key=lambda item: item[0]):
        for net in sorted(collapse_addresses(placed[name] for name in sources)):
            lines.append(f"allow {proto} from {net} to {target} port {port}\n")
    return lines + ["deny any\n"]


def main():
    if len(sys.argv) != 3:
        fail("usage: subnet-plan REQUEST OUTDIR")
    try:
        blocks, reserved, growth, sites, flows = load(sys.argv[1])
    except (OSError, ValueError, AddressValueError, NetmaskValueError) as error:
        fail(error)
    placed, unplaced = plan(blocks, reserved, growth, sites)
    by_name = {site["name"]: site for site in sites}
    table = ["site,subnet,gateway,first_host,last_host,broadcast,spare\n"]
    for name, net in sorted(placed.items(), key=lambda item: item[1]):
        table.append(f"{name},{net},{net[1]},{net[2]},{net[-2]},{net[-1]},{net.num_addresses - 3 - by_name[name]['hosts']}\n")
    left = ["site,prefix,reason\n"] + [f"{name},{by_name[name]['prefix']},{unplaced[name]}\n" for name in sorted(unplaced)]
    os.makedirs(sys.argv[2], exist_ok=True)
    for name, lines in (("plan.csv", table), ("unplaced.csv", left), ("firewall.rules", rules(placed, flows))):
        with open(os.path.join(sys.argv[2], name), "w", encoding="ascii", newline="\n") as file:
            file.writelines(lines)
    sys.exit(3 if unplaced else 0)


main()
PY
chmod 755 /app/subnet-plan
/app/subnet-plan /app/request.json /app/out || [ $? -eq 3 ]
